#include "smartmine/run/choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "run/log_file.h"
#include "smartmine/core/error.h"
#include "smartmine/core/output_file.h"

namespace smartmine {
namespace {

using Json = nlohmann::ordered_json;
constexpr const char* kFile = "choice.json";
constexpr std::size_t kLeastClasses = 8;  // fewer leave too little on either side

Json json_of(const HeldOutScore& score) { return {{"recall@1", score.recall_at_1}, {"map@r", score.map_at_r}}; }

HeldOutScore score_of(const Json& json) { return {json.at("recall@1").get<double>(), json.at("map@r").get<double>()}; }

Json with_score(Json json, const HeldOutScore& score) {
  json.update(json_of(score));
  return json;
}

}  // namespace

std::string to_json(const Choice& choice) {
  Json trials = Json::array(), interpolations = Json::array();
  for (const Trial& trial : choice.trials)
    trials.push_back(with_score({{"name", trial.name},
                                 {"settings", {{"learning-rate", trial.learning_rate}}},
                                 {"epochs", trial.done},
                                 {"epochs_planned", trial.epochs},
                                 {"seconds", trial.seconds}},
                                trial.score));
  for (const Interpolation& each : choice.interpolations) interpolations.push_back(with_score({{"share", each.share}}, each.score));
  const Json json{{"summary", choice.reason},
                  {"decided", choice.decided},
                  {"careful", choice.careful},
                  {"held_out_classes", choice.held_out_classes},
                  {"held_out_images", choice.held_out_images},
                  {"untrained", json_of(choice.untrained)},
                  {"tolerance", choice.tolerance},
                  {"trials", std::move(trials)},
                  {"interpolations", std::move(interpolations)},
                  {"chosen", {{"learning-rate", choice.learning_rate}, {"epochs", choice.epochs}, {"share", choice.share}}},
                  {"seconds", choice.seconds}};
  return json.dump(2) + "\n";
}

Choice parse_choice(const std::string& text) try {
  const Json json = Json::parse(text);
  Choice choice;
  json.at("summary").get_to(choice.reason);
  json.at("decided").get_to(choice.decided);
  json.at("careful").get_to(choice.careful);
  json.at("held_out_classes").get_to(choice.held_out_classes);
  json.at("held_out_images").get_to(choice.held_out_images);
  choice.untrained = score_of(json.at("untrained"));
  json.at("tolerance").get_to(choice.tolerance);
  for (const Json& trial : json.at("trials"))
    choice.trials.push_back({.name = trial.at("name"),
                             .learning_rate = trial.at("settings").at("learning-rate"),
                             .epochs = trial.at("epochs_planned"),
                             .done = trial.at("epochs"),
                             .score = score_of(trial),
                             .seconds = trial.at("seconds")});
  for (const Json& each : json.at("interpolations")) choice.interpolations.push_back({each.at("share"), score_of(each)});
  json.at("chosen").at("learning-rate").get_to(choice.learning_rate);
  json.at("chosen").at("epochs").get_to(choice.epochs);
  json.at("chosen").at("share").get_to(choice.share);
  json.at("seconds").get_to(choice.seconds);
  return choice;
} catch (const nlohmann::json::exception& error) {
  throw InvalidArgument(fmt::format("not the choice of a run: {}", reason_of(error)));
}

std::optional<Choice> read_choice(const std::filesystem::path& run) {
  const std::filesystem::path path = run / kFile;
  std::error_code none;
  if (!std::filesystem::exists(path, none)) return std::nullopt;
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  try {
    if (!file) throw InvalidArgument("cannot be read");
    return parse_choice(text.str());
  } catch (const InvalidArgument& error) {
    throw IoError(fmt::format("{}: {}", path.string(), error.what()));
  }
}

void write_choice(const std::filesystem::path& run, const Choice& choice) {
  const std::string text = to_json(choice);
  OutputFile file(run / kFile);
  file.write(text.data(), text.size());
  file.commit();
}

HeldOut classes_to_hold_out(std::size_t classes) {
  constexpr std::int64_t kMost = 50;  // enough queries to tell a point
  if (classes < kLeastClasses) return {};
  const auto all = static_cast<std::int64_t>(classes);
  const std::int64_t held = std::clamp<std::int64_t>((all + 2) / 4, 3, kMost);
  // Consecutive ones: neighbours in the order of the classes are often relatives, and must not stand on both sides.
  return {.classes = held, .block = all / held};
}

double score_tolerance(std::int64_t queries) {
  constexpr double kLeast = 0.003, kOfSpread = 0.25;
  return std::max(kLeast, kOfSpread / std::sqrt(static_cast<double>(std::max<std::int64_t>(1, queries))));
}

void pick_trial(Choice& choice, std::int64_t epochs, bool pretrained) {
  const Trial* best = nullptr;
  for (const Trial& trial : choice.trials)
    if (trial.done == trial.epochs && (best == nullptr || trial.score.value() > best->score.value())) best = &trial;
  const double gain = best == nullptr ? 0 : best->score.value() - choice.untrained.value();
  if (best == nullptr || (pretrained && gain <= 0)) {
    choice.epochs = 0;
    choice.reason =
        fmt::format("no training beats the weights it starts from on {} held-out classes, so these are kept", choice.held_out_classes);
    return;
  }
  // A trial is shorter than the training it stands for, which goes farther at any rate: of equals the slowest.
  const Trial* chosen = best;
  for (const Trial& trial : choice.trials)
    if (trial.done == trial.epochs && trial.learning_rate < chosen->learning_rate &&
        trial.score.value() >= best->score.value() - choice.tolerance && (!pretrained || trial.score.value() > choice.untrained.value()))
      chosen = &trial;
  choice.learning_rate = chosen->learning_rate;
  choice.epochs = epochs;
  choice.reason = fmt::format("a learning rate of {:g} took recall@1 on {} held-out classes from {:.1f} to {:.1f} %", chosen->learning_rate,
                              choice.held_out_classes, 100 * choice.untrained.recall_at_1, 100 * chosen->score.recall_at_1);
}

}  // namespace smartmine
