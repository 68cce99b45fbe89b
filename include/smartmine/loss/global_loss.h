#pragma once

#include "smartmine/loss/batch_loss.h"

namespace smartmine {

/// Options of the global loss. The weight against another loss is the caller's.
struct GlobalLossOptions {
  double lambda = 0.8;   ///< Of the means against the variances; the paper does not say, Kumar et al. (2016) used 0.8. At least 0.
  double margin = 0.01;  ///< t. At least 0.
  void validate() const;
};

/// The global loss of a batch of triplets (Kumar et al.): with u = d2(a, p) / 4 and v = d2(a, n) / 4, var(u) + var(v) + lambda * max(0,
/// mean(u) - mean(v) + t), the variances over the batch (divided by its size). One term, active when the means are too close.
BatchLoss global_loss(const torch::Tensor& anchors, const torch::Tensor& positives, const torch::Tensor& negatives,
                      const GlobalLossOptions& options = {});

}  // namespace smartmine
