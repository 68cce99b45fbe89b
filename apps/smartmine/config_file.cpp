#include "config_file.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

namespace smartmine::app {
namespace {

// CLI11 wants a subcommand's options in its section; this also takes them from the top of the file.
class SubcommandConfig : public CLI::ConfigTOML {
 public:
  explicit SubcommandConfig(const CLI::App& program) : program_(program) {}

  std::vector<CLI::ConfigItem> from_config(std::istream& input) const override {
    const auto chosen = program_.get_subcommands();
    const auto all = program_.get_subcommands([](const CLI::App*) { return true; });
    std::vector<CLI::ConfigItem> kept;
    for (CLI::ConfigItem& item : CLI::ConfigTOML::from_config(input)) {
      if (item.name == "++" || item.name == "--") continue;  // a section begins or ends
      if (chosen.empty()) continue;                          // the missing subcommand is complained of elsewhere
      if (item.parents.empty()) item.parents = {chosen.front()->get_name()};
      const bool of_another = std::any_of(all.begin(), all.end(), [&](const CLI::App* command) {
        return command != chosen.front() && command->get_name() == item.parents.front();
      });
      if (!of_another) kept.push_back(std::move(item));
    }
    return kept;
  }

 private:
  const CLI::App& program_;
};

}  // namespace

void add_config_option(CLI::App& program) {
  program.set_config("--config", "", "TOML file with values for any of the options")->type_name("FILE");
  program.config_formatter(std::make_shared<SubcommandConfig>(program));
  program.allow_config_extras(CLI::config_extras_mode::error);
}

}  // namespace smartmine::app
