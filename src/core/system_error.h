#pragma once

#include <fmt/format.h>

#include <filesystem>
#include <string>
#include <system_error>

namespace smartmine {

/// One line for a failed system call: path, what was being done, the system's reason (an errno value), a hint.
inline std::string describe_failure(const std::filesystem::path& path, const char* doing, int reason, const char* hint) {
  return fmt::format("{}: {}: {}; {}", path.string(), doing, std::generic_category().message(reason), hint);
}

}  // namespace smartmine
