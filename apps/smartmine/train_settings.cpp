#include "train_settings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <fstream>
#include <limits>
#include <type_traits>

#include "console.h"
#include "option_checks.h"
#include "smartmine/data/load.h"

namespace smartmine::app {
namespace {

std::string option_name(const Setting& setting) { return fmt::format("--{}", setting.name); }

}  // namespace

void add_settings(CLI::App& command, TrainConfig& config) {
  visit_settings(config, [&](const Setting& setting, auto& field) {
    using Field = std::decay_t<decltype(field)>;
    const std::string name = option_name(setting), help(setting.help);
    if constexpr (std::is_same_v<Field, bool>) {
      command.add_flag(name, field, help);
    } else {
      CLI::Option* option = command.add_option(name, field, help);
      if constexpr (std::is_same_v<Field, std::uint64_t>) option->check(whole_number(0, std::numeric_limits<std::uint64_t>::max()));
      if constexpr (std::is_same_v<Field, std::vector<std::int64_t>>) {
        option->delimiter(',')->type_name("N,...");
      } else {
        option->type_name(std::is_same_v<Field, std::string> ? "TEXT" : std::is_same_v<Field, double> ? "X" : "N");
        option->capture_default_str();
      }
    }
  });
}

TrainConfig read_config(const RunDirectory& run) {
  TrainConfig config;
  CLI::App reader;
  add_settings(reader, config);
  reader.config_formatter(std::make_shared<CLI::ConfigTOML>());
  reader.allow_config_extras(CLI::config_extras_mode::error);
  std::ifstream file(run.config_path());
  try {
    if (!file) throw IoError("cannot be read");
    reader.parse_from_stream(file);
    config.validate();
  } catch (const std::exception& error) {
    throw IoError(fmt::format("{}: {}", run.config_path().string(), error.what()));
  }
  return config;
}

TrainConfig resume_config(const RunDirectory& run, const CLI::App& command, const TrainConfig& given) {
  TrainConfig config = read_config(run);
  std::vector<std::string> differences;
  std::vector<std::string> given_text;
  const TrainConfig wanted = given.resolved();
  visit_settings(wanted, [&](const Setting&, const auto& value) { given_text.push_back(to_toml(value)); });
  std::size_t number = 0;
  visit_settings(config, [&](const Setting& setting, auto& value) {
    const std::string& text = given_text[number++];
    if (command.count(option_name(setting)) == 0 || setting.free || text == to_toml(value)) return;
    differences.push_back(fmt::format("--{} is {}, the run has {}", setting.name, text, to_toml(value)));
  });
  if (!differences.empty())
    throw UsageError(fmt::format("{} cannot be resumed with other settings: {}", run.path().string(), fmt::join(differences, "; ")));
  if (command.count("--data-root") > 0) config.data_root = given.data_root;
  if (command.count("--cache-mebibytes") > 0) config.cache_mebibytes = given.cache_mebibytes;
  if (command.count("--threads") > 0) config.threads = given.threads;
  if (command.count("--device") > 0) config.device = given.device;
  return config;
}

DataSplits load_run_data(const TrainConfig& config) {
  DataSplits splits = load_dataset(config.dataset, config.data_root);
  if (config.validation_classes > 0)
    splits =
        hold_out_classes(std::move(splits), {.classes = config.validation_classes, .block = config.validation_block, .seed = config.seed});
  return splits;
}

std::filesystem::path model_of(const RunDirectory& run) {
  std::filesystem::path model = run.model_path();
  if (!std::filesystem::exists(model)) throw IoError(fmt::format("{}: this run has no checkpoint yet", run.path().string()));
  return model;
}

}  // namespace smartmine::app
