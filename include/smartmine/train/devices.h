#pragma once

#include <string>

namespace smartmine {

/// What this build can train on here, in one line: "LibTorch 2.11.0 with CUDA; trains on cpu, cuda (NVIDIA H200, 139 GiB)".
std::string devices();

}  // namespace smartmine
