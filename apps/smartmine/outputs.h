#pragma once

#include <string>
#include <vector>

namespace smartmine::app {

/// Finds out before the work, not after it, whether each of `outputs` can be written: throws UsageError if one is also an
/// input or named twice, IoError if its folder is missing or read-only. Leaves nothing behind.
void check_outputs(const std::vector<std::string>& inputs, const std::vector<std::string>& outputs);

}  // namespace smartmine::app
