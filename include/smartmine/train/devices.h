#pragma once

#include <string>

#include "smartmine/run/config.h"
#include "smartmine/train/ranks.h"

namespace smartmine {

/// What this build can train on here, in one line: "LibTorch 2.11.0 with CUDA; trains on cpu, cuda (NVIDIA H200, 139 GiB)".
std::string devices();

/// Settles how a batch is shared out where the settings leave it open, before a run is begun: over ranks, one shard each; on a CPU without
/// ranks over two shards, each with half of the threads. Two threads that meet once a step lose less time than two that meet at every
/// layer, above all beside other programs, and one thread alone comes to the same bits.
void share_out(ComputeOptions& compute, const Ranks* ranks);

}  // namespace smartmine
