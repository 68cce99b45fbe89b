#pragma once

#include "smartmine/loss/batch_loss.h"

namespace smartmine {

/// Options of the semi-hard loss.
struct SemihardLossOptions {
  double margin = 0.2;  ///< At least 0.
  void validate() const;
};

/// FaceNet's loss: for every ordered pair of an anchor and a positive in the batch, the nearest negative that is farther from the anchor
/// than the positive, or the farthest negative if there is none (equal distances go to the lower row); the mean of max(0, d2(a, p) - d2(a,
/// n) + margin). `labels` is int64 [N] on the same device. So is `items`, if given: rows of the same item are no pair, as an image is no
/// positive of itself. Terms are N * (N - 1); pairs without a negative count for nothing.
BatchLoss semihard_loss(const torch::Tensor& embeddings, const torch::Tensor& labels, const SemihardLossOptions& options = {},
                        const torch::Tensor& items = {});

}  // namespace smartmine
