#include "smartmine/run/checkpoint.h"

#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <system_error>

#include "run/log_file.h"
#include "smartmine/core/error.h"

namespace smartmine {
namespace {

constexpr int kVersion = 1;

template <class State, class Visit>
void visit_state(State& s, const Visit& visit) {
  visit("epochs_done", s.epochs_done);
  visit("rate_scale", s.rate_scale);
  visit("times_backed_off", s.times_backed_off);
  visit("stuck_epochs", s.stuck_epochs);
  visit("kappa", s.kappa);
  visit("images", s.images);
  visit("label_hash", s.label_hash);
  visit("in_epoch", s.in_epoch);
  visit("next_step", s.next_step);
  visit("batch_items", s.batch_items);
  visit("observe_kappa", s.observe_kappa);
  visit("record", s.record);
}

std::filesystem::path with_ending(std::filesystem::path path, const char* ending) { return path += ending; }

void move_to(const std::filesystem::path& from, const std::filesystem::path& to) {
  std::error_code error;
  std::filesystem::rename(from, to, error);
  if (error) throw IoError(fmt::format("{}: cannot rename to {}: {}", from.string(), to.string(), error.message()));
}

}  // namespace

std::string to_json(const TrainState& state) {
  nlohmann::ordered_json json{{"version", kVersion}};
  visit_state(state, [&](const char* name, const auto& value) { json[name] = value; });
  json["told"] = state.told;
  return json.dump(2) + "\n";
}

TrainState parse_state(const std::string& text) try {
  const auto json = nlohmann::json::parse(text);
  if (json.at("version").get<int>() != kVersion)
    throw InvalidArgument(fmt::format("version is {}; this program reads version {}", json.at("version").dump(), kVersion));
  TrainState state;
  visit_state(state, [&](const char* name, auto& value) { json.at(name).get_to(value); });
  if (json.contains("told")) json["told"].get_to(state.told);  // older ones lack it
  return state;
} catch (const nlohmann::json::exception& error) {
  throw InvalidArgument(fmt::format("not the state of a run: {}", reason_of(error)));
}

CheckpointWriter::CheckpointWriter(const std::filesystem::path& destination)
    : destination_(destination), folder_(with_ending(destination, ".new")) {
  std::error_code error;
  std::filesystem::remove_all(folder_, error);  // of a run that was cut while saving
  std::filesystem::create_directory(folder_, error);
  if (error) throw IoError(fmt::format("{}: cannot make this folder: {}", folder_.string(), error.message()));
}

CheckpointWriter::~CheckpointWriter() {
  std::error_code none;
  if (!committed_) std::filesystem::remove_all(folder_, none);
}

void CheckpointWriter::commit() {
  const std::filesystem::path old = with_ending(destination_, ".old");
  std::error_code none;
  if (std::filesystem::exists(destination_, none)) {
    std::filesystem::remove_all(old, none);
    move_to(destination_, old);
  }
  move_to(folder_, destination_);
  committed_ = true;
  std::filesystem::remove_all(old, none);
}

std::filesystem::path find_checkpoint(const std::filesystem::path& destination) {
  std::error_code none;
  for (const auto& path : {destination, with_ending(destination, ".old")})
    if (std::filesystem::is_directory(path, none)) return path;
  return {};
}

TrainState read_state(const std::filesystem::path& checkpoint) {
  const std::filesystem::path path = checkpoint / kStateFile;
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) throw IoError(fmt::format("{}: cannot be read; the checkpoint is not complete", path.string()));
  try {
    return parse_state(text.str());
  } catch (const InvalidArgument& error) {
    throw IoError(fmt::format("{}: {}", path.string(), error.what()));
  }
}

}  // namespace smartmine
