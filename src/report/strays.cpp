#include "report/strays.h"

#include <fmt/format.h>

#include <system_error>

#include "smartmine/core/error.h"

namespace smartmine {

std::vector<std::filesystem::path> without_strays(std::span<const std::filesystem::path> paths, std::vector<std::string>& notes) {
  std::vector<std::filesystem::path> runs;
  std::string first;
  for (const std::filesystem::path& path : paths) {
    std::error_code none;
    if (!std::filesystem::exists(path, none)) throw IoError(fmt::format("{}: there is no such run", path.string()));
    if (std::filesystem::is_regular_file(path / "config.toml", none)) {
      runs.push_back(path);
      continue;
    }
    const std::string why = fmt::format("{}: not the folder of a run: it has no config.toml", path.string());
    if (first.empty()) first = why;
    notes.push_back(why + "; left out");
  }
  if (runs.empty()) throw IoError(first);
  return runs;
}

}  // namespace smartmine
