#pragma once

#include <string>

#include "smartmine/run/config.h"
#include "smartmine/train/ranks.h"

namespace smartmine {

/// What this build can train on here, in one line: "LibTorch 2.11.0 with CUDA; trains on cpu, cuda (NVIDIA H200, 139 GiB)".
std::string devices();

/// Settles how a batch is shared out where the settings leave it open, before a run is begun: over ranks, one shard each; without ranks one
/// shard in all, or for the small network on a CPU two, each with half of the threads. Its layers are so quick that two threads that meet
/// at every one lose more time than two that meet once per pass, above all beside other programs.
void share_out(RunConfig& config, const Ranks* ranks);

}  // namespace smartmine
