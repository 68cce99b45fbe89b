#include "train_settings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <type_traits>

#include "smartmine/core/error.h"
#include "smartmine/run/backbone_traits.h"
#include "smartmine/run/config_settings.h"

namespace smartmine::app {
namespace {

std::string option_name(const Setting& setting) { return fmt::format("--{}", setting.name); }

std::string without_quotes(const std::string& toml) {
  return toml.starts_with('"') || toml.starts_with('\'') ? toml.substr(1, toml.size() - 2) : toml;
}

bool is_path(std::string_view name, std::string_view value) {
  return name == "data-root" || name == "weights" || (name == "backbone" && is_backbone_file(value));
}

std::string absolute(const std::string& path) { return path.empty() ? path : std::filesystem::absolute(path).lexically_normal().string(); }

}  // namespace

void add_settings(CLI::App& command, RunConfig& config) {
  visit_settings(config, [&](const Setting& setting, auto& field) {
    using Field = std::decay_t<decltype(field)>;
    const std::string name = option_name(setting), help(setting.help);
    if constexpr (std::is_same_v<Field, bool>) {
      command.add_flag(name, field, help);
    } else {
      CLI::Option* option = command.add_option_function<std::vector<std::string>>(
          name,
          [setting, &field](const std::vector<std::string>& words) {
            try {
              const std::string text = fmt::format("{}", fmt::join(words, ","));
              parse_value(setting, is_path(setting.name, text) ? absolute(text) : text, field);
            } catch (const InvalidArgument& error) {
              throw CLI::ValidationError(fmt::format("--{}", error.what()), CLI::ExitCodes::ValidationError);
            }
          },
          help);
      option->type_name(kind_of(field))->default_str(without_quotes(to_toml(field)));
      if constexpr (std::is_same_v<Field, std::vector<std::int64_t>>)
        option->delimiter(',');
      else
        option->expected(1);
    }
  });
}

std::vector<GivenSetting> given_settings(const CLI::App& command) {
  std::vector<GivenSetting> given;
  const RunConfig config;
  visit_settings(config, [&](const Setting& setting, const auto&) {
    const CLI::Option* option = command.get_option(option_name(setting));
    if (option->count() == 0) return;
    const std::string text = fmt::format("{}", fmt::join(option->results(), ","));
    given.emplace_back(setting.name, is_path(setting.name, text) ? absolute(text) : text);
  });
  return given;
}

std::filesystem::path model_of(const RunDirectory& run) {
  std::filesystem::path model = run.model_path();
  if (!std::filesystem::exists(model))
    throw IoError(fmt::format("{0}: this run has no checkpoint yet; if it was stopped, smartmine train --resume {0} goes on with it",
                              run.path().string()));
  return model;
}

}  // namespace smartmine::app
