#include "config_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "smartmine/run/backbone_traits.h"
#include "smartmine/run/config.h"
#include "smartmine/run/system_traits.h"

namespace smartmine::app {
namespace {

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r";
  const std::size_t begin = text.find_first_not_of(kBlank);
  return begin == std::string_view::npos ? std::string_view{} : text.substr(begin, text.find_last_not_of(kBlank) - begin + 1);
}

// CLI11 makes an option of any line at all, so lines are looked at first: `[section]` or `name = value`.
bool is_toml(std::string_view line) {
  line = trimmed(line);
  if (line.empty() || line.front() == '#') return true;
  const auto is_name = [](std::string_view name) {
    return !name.empty() && std::all_of(name.begin(), name.end(), [](unsigned char letter) {
      return std::isalnum(letter) != 0 || letter == '-' || letter == '_' || letter == '.';
    });
  };
  if (line.front() == '[') {
    const std::size_t end = line.find(']');
    if (end == std::string_view::npos || !is_name(trimmed(line.substr(1, end - 1)))) return false;
    const std::string_view rest = trimmed(line.substr(end + 1));
    return rest.empty() || rest.front() == '#';
  }
  const std::size_t equals = line.find('=');
  return equals != std::string_view::npos && is_name(trimmed(line.substr(0, equals))) && !trimmed(line.substr(equals + 1)).empty();
}

// CLI11 wants a subcommand's options in its section; this also takes them from the top of the file. A section of a system of train, such as
// [train.npairs], holds if that system is the one chosen, and goes before the rest.
class SubcommandConfig : public CLI::ConfigTOML {
 public:
  explicit SubcommandConfig(const CLI::App& program) : program_(program) {}

  std::vector<CLI::ConfigItem> from_config(std::istream& input) const override {
    const std::string file = program_.get_config_ptr()->as<std::string>();
    std::string text;
    std::string line;
    for (std::size_t number = 1; std::getline(input, line); ++number) {
      if (!is_toml(line))
        throw CLI::ConfigError(fmt::format("{}: cannot be read as TOML: line {} is neither a [section] nor a name = value", file, number));
      const std::string_view content = trimmed(line);
      if (content.starts_with('['))  // CLI11 knows neither blanks inside the brackets nor a comment behind them
        text += fmt::format("[{}]\n", trimmed(content.substr(1, content.find(']') - 1)));
      else
        text.append(content).append("\n");
    }
    if (input.bad()) throw CLI::ConfigError(fmt::format("{}: cannot be read", file));
    std::istringstream lines(text);

    const std::vector<CLI::ConfigItem> settings = CLI::ConfigTOML::from_config(lines);
    const auto chosen = program_.get_subcommands();
    const auto all = program_.get_subcommands([](const CLI::App*) { return true; });
    std::vector<CLI::ConfigItem> kept;
    std::vector<CLI::ConfigItem> of_system;
    for (CLI::ConfigItem item : settings) {
      if (item.name == "++" || item.name == "--") continue;  // a section begins or ends
      if (chosen.empty()) continue;                          // the missing subcommand is complained of elsewhere
      const std::string& command = chosen.front()->get_name();
      if (item.parents.empty()) item.parents = {command};
      const bool of_another = std::any_of(all.begin(), all.end(), [&](const CLI::App* other) {
        return other != chosen.front() && other->get_name() == item.parents.front();
      });
      if (of_another) continue;
      const bool by_system = item.parents.size() == 2 && item.parents.front() == command && is_system(item.parents.back());
      if (item.parents != std::vector<std::string>{command} && !by_system)
        throw CLI::ConfigError(fmt::format("{}: unknown section [{}]", file, fmt::join(item.parents, ".")));
      if (chosen.front()->get_option_no_throw("--" + item.name) == nullptr)
        throw CLI::ConfigError(fmt::format("{}: unknown option {} of {}", file, item.name, command));
      if (!by_system) {
        kept.push_back(std::move(item));
      } else if (item.parents.back() == system_of(*chosen.front(), settings)) {
        item.parents = {command};
        of_system.push_back(std::move(item));
      }
    }
    for (CLI::ConfigItem& item : of_system) {
      std::erase_if(kept, [&](const CLI::ConfigItem& general) { return general.name == item.name; });
      kept.push_back(std::move(item));
    }
    return kept;
  }

 private:
  static bool is_system(const std::string& name) { return known_traits(name) != nullptr; }

  // What the command line says of an option, else the file, else nothing.
  static std::string value_of(const std::string& name, const CLI::App& command, const std::vector<CLI::ConfigItem>& items) {
    const CLI::Option* option = command.get_option_no_throw("--" + name);
    if (option != nullptr && option->count() > 0) return option->results().back();
    const auto named = std::find_if(items.begin(), items.end(), [&](const CLI::ConfigItem& item) {
      return item.name == name && item.parents.size() < 2 && !item.inputs.empty();
    });
    return named == items.end() ? "" : named->inputs.front();
  }

  // The one that is named, else the usual one, which is another with pretrained weights.
  static std::string system_of(const CLI::App& command, const std::vector<CLI::ConfigItem>& items) {
    if (command.get_option_no_throw("--system") == nullptr) return "";
    const std::string named = value_of("system", command, items), backbone = value_of("backbone", command, items);
    const bool pictures = is_backbone_file(backbone) || (!value_of("weights", command, items).empty() && backbone != "small");
    SystemOptions system = pictures ? best_config().system : SystemOptions();
    if (!named.empty() && named != "auto") system.name = named;
    return system.usual_name();
  }

  const CLI::App& program_;
};

}  // namespace

void add_config_option(CLI::App& program) {
  program.set_config("--config", "", "TOML file with values for any of the options")->type_name("FILE");
  program.config_formatter(std::make_shared<SubcommandConfig>(program));
  program.allow_config_extras(CLI::config_extras_mode::error);
}

}  // namespace smartmine::app
