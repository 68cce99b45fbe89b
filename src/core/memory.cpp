#include "smartmine/core/memory.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <string>

namespace smartmine {
namespace {

constexpr std::uint64_t kUnknown = std::numeric_limits<std::uint64_t>::max();

/// The number in a file of one number; nothing where there is none ("max", say).
std::optional<std::uint64_t> number_in(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::uint64_t number = 0;
  return file >> number ? std::optional(number) : std::nullopt;
}

/// The number that follows `name` in a file of names and numbers.
std::optional<std::uint64_t> number_after(const std::filesystem::path& path, const std::string& name) {
  std::ifstream file(path);
  for (std::string word; file >> word;)
    if (std::uint64_t number = 0; word == name && file >> number) return number;
  return std::nullopt;
}

/// What a group of processes may still have: its limit less what is in use, but for cached files, which are given up when need be.
std::uint64_t left_of(const std::filesystem::path& folder, const char* limit, const char* used, const char* cached) {
  const auto most = number_in(folder / limit), now = number_in(folder / used);
  if (!most || !now) return kUnknown;
  const std::uint64_t spare = number_after(folder / "memory.stat", cached).value_or(0);
  const std::uint64_t taken = *now - std::min(*now, spare);
  return *most - std::min(*most, taken);
}

}  // namespace

std::uint64_t available_memory_bytes() {
  std::uint64_t bytes = kUnknown;
  if (const auto kibibytes = number_after("/proc/meminfo", "MemAvailable:")) bytes = *kibibytes * 1024;
  const std::filesystem::path groups = "/sys/fs/cgroup";
  std::ifstream memberships("/proc/self/cgroup");
  for (std::string line; std::getline(memberships, line);) {
    const std::size_t first = line.find(':'), second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string own = line.substr(std::min(line.size(), second + 2));  // without its slash
    // In a container the path may be as the host sees it, and the container's own group then is the root.
    if (controllers.empty()) {
      for (const auto& folder : {groups / own, groups})
        bytes = std::min(bytes, left_of(folder, "memory.max", "memory.current", "inactive_file"));
    } else if (("," + controllers + ",").find(",memory,") != std::string::npos) {
      for (const auto& folder : {groups / "memory" / own, groups / "memory"})
        bytes = std::min(bytes, left_of(folder, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"));
    }
  }
  return bytes;
}

}  // namespace smartmine
