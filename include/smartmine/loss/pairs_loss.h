#pragma once

#include "smartmine/loss/batch_loss.h"

namespace smartmine {

/// Options of the loss on pairs.
struct PairsLossOptions {
  double margin = 1.0;  ///< Distance beyond which negatives are left alone. More than 0; unit vectors are at most 2 apart.
  void validate() const;
};

/// The loss of the hard-pairs baseline. The paper takes that baseline's sampling from Simo-Serra et al. (2015), who train a siamese network
/// on pairs, so this is their hinge embedding loss: d for pairs of one class, max(0, margin - d) for others, distances not squared; the
/// mean over all pairs. `same` is bool [N]. Terms are pairs, active those with a loss.
BatchLoss pairs_loss(const torch::Tensor& first, const torch::Tensor& second, const torch::Tensor& same,
                     const PairsLossOptions& options = {});

}  // namespace smartmine
