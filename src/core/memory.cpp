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

/// The least that a group leaves and those it is in, up to the first of all: a limit of any of them holds.
std::uint64_t left_up_to(const std::filesystem::path& first, const std::string& own, const char* limit, const char* used,
                         const char* cached) {
  std::filesystem::path folder = first;
  std::uint64_t bytes = left_of(folder, limit, used, cached);
  for (const std::filesystem::path& part : std::filesystem::path(own)) {
    folder /= part;
    bytes = std::min(bytes, left_of(folder, limit, used, cached));
  }
  return bytes;
}

}  // namespace

std::uint64_t available_memory_bytes(const std::filesystem::path& root) {
  std::uint64_t bytes = kUnknown;
  if (const auto kibibytes = number_after(root / "proc/meminfo", "MemAvailable:")) bytes = *kibibytes * 1024;
  const std::filesystem::path groups = root / "sys/fs/cgroup";
  std::ifstream memberships(root / "proc/self/cgroup");
  for (std::string line; std::getline(memberships, line);) {
    const std::size_t first = line.find(':'), second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string own = line.substr(std::min(line.find_first_not_of('/', second + 1), line.size()));
    // In a container the path may be as the host sees it, and the container's own group then is the first.
    if (controllers.empty())
      bytes = std::min(bytes, left_up_to(groups, own, "memory.max", "memory.current", "inactive_file"));
    else if (("," + controllers + ",").find(",memory,") != std::string::npos)
      bytes = std::min(bytes, left_up_to(groups / "memory", own, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"));
  }
  return bytes;
}

}  // namespace smartmine
