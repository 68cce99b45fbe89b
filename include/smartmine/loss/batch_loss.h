#pragma once

#include <torch/types.h>

#include <cstdint>
#include <map>
#include <string>

namespace smartmine {

/// What a loss says about a batch. All losses take embeddings as rows, float32 or float64, on any device, and give finite values and
/// gradients for finite embeddings, also where distances are zero (the gradient of a distance is taken as zero there) and where a batch
/// has nothing to learn from (the loss is zero then).
struct BatchLoss {
  torch::Tensor value;     ///< A scalar to call backward on.
  torch::Tensor active;    ///< How many terms have a loss, int64, left on the device so that nobody waits for it.
  std::int64_t terms = 0;  ///< How many terms there could be; see each loss.

  // For reports, without gradients and left on the device as well.
  std::map<std::string, torch::Tensor> parts = {};  ///< By name, what `value` is the sum of; empty: it is one piece.
  torch::Tensor squared_distances = {};             ///< Of triplets, [2, N]: anchors to positives, anchors to negatives; else undefined.
};

}  // namespace smartmine
