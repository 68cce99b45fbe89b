#pragma once

#include "smartmine/loss/batch_loss.h"

namespace smartmine {

/// Options of the N-pairs loss.
struct NpairsLossOptions {
  double norm_weight = 0.002;  ///< Of the mean squared length of all embeddings. At least 0.
  void validate() const;
};

/// The N-pairs loss (Sohn 2016): row i of both tensors is a pair from class i, embeddings not brought to unit length; the mean over i of
/// log(1 + sum over j != i of exp(f_i . g_j - f_i . g_i)), plus the weighted mean squared length over both tensors. Terms are pairs, active
/// those for which some other positive scores at least as high as their own.
BatchLoss npairs_loss(const torch::Tensor& anchors, const torch::Tensor& positives, const NpairsLossOptions& options = {});

}  // namespace smartmine
