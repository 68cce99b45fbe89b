#pragma once

#include "smartmine/loss/batch_loss.h"

namespace smartmine {

/// Options of the triplet loss.
struct TripletLossOptions {
  double margin = 0.2;  ///< m. More than 0.
  void validate() const;
};

/// The paper's triplet loss, the mean over triplets of max(0, 1 - d(a, n) / (d(a, p) + m)), distances not squared. Rows of the three
/// tensors belong together. Terms are triplets; active / terms is the training error.
BatchLoss triplet_loss(const torch::Tensor& anchors, const torch::Tensor& positives, const torch::Tensor& negatives,
                       const TripletLossOptions& options = {});

}  // namespace smartmine
