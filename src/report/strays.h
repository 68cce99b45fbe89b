#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace smartmine {

/// The run directories among paths such as `runs/*` gives: what lies beside them is left out and named in `notes`. Throws IoError for a
/// path that does not exist, and if none of them is a run.
std::vector<std::filesystem::path> without_strays(std::span<const std::filesystem::path> paths, std::vector<std::string>& notes);

}  // namespace smartmine
