#pragma once

#include "smartmine/loss/batch_loss.h"

namespace smartmine {

/// Options of the lifted structure loss.
struct LiftedLossOptions {
  double margin = 1.0;  ///< More than 0.
  void validate() const;
};

/// The lifted structured loss (Song et al. 2016): over all positive pairs i < j of the batch,
/// J = log(sum over negatives k of i of exp(margin - D_ik) + sum over negatives l of j of exp(margin - D_jl)) + D_ij, and the loss is the
/// sum of max(0, J)^2 / (2 * pairs). `labels` is int64 [N] on the same device. Terms are N * (N - 1) / 2, active are pairs with J > 0.
BatchLoss lifted_loss(const torch::Tensor& embeddings, const torch::Tensor& labels, const LiftedLossOptions& options = {});

}  // namespace smartmine
