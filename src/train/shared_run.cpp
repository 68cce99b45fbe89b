#include "smartmine/train/shared_run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sstream>
#include <vector>

#include "smartmine/run/config_settings.h"

namespace smartmine {

RunDirectory open_shared(Ranks* ranks, const std::function<RunDirectory()>& open) {
  if (ranks == nullptr) return open();
  if (ranks->is_first()) {
    RunDirectory run = open();
    ranks->broadcast(run.path().string());
    ranks->broadcast(fmt::format("{}", fmt::join(run.log_lines(), "\n")));
    return run;
  }
  const std::string path = ranks->broadcast(std::string());
  std::istringstream log(ranks->broadcast(std::string()));
  std::vector<std::string> lines;
  for (std::string line; std::getline(log, line);) lines.push_back(line);
  return RunDirectory::follow(path, lines);
}

std::string settings_of_all_ranks(const RunConfig& config) {
  std::string lines;
  visit_settings(config, [&](const Setting& setting, const auto& value) {
    if (setting.changes != Changes::kNothing) lines += fmt::format("{} = {}\n", setting.name, to_toml(value));
  });
  return lines;
}

}  // namespace smartmine
