#pragma once

#include <cstdint>
#include <optional>

#include "smartmine/run/config.h"

namespace smartmine {

/// What a training on a CPU will take, as far as a pass of a few images tells.
struct CpuCost {
  double images_per_second = 0;  ///< In training: forward and back.
  std::int64_t images = 0;       ///< Of an epoch.
  double epoch_seconds = 0;      ///< Steps, and passes to mine and to measure.
  double start_seconds = 0;      ///< Before the first epoch: passes for the new layer and to measure.
};

/// Of a network that was trained elsewhere, which is large; nothing for others, and where it will run on a GPU. Takes seconds. Throws as a
/// Trainer does.
std::optional<CpuCost> cpu_cost(const RunConfig& config);

}  // namespace smartmine
