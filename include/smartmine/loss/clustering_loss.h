#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "smartmine/loss/batch_loss.h"

namespace smartmine {

/// Options of the clustering loss.
struct ClusteringLossOptions {
  double gamma = 1.0;   ///< Weight of the margin 1 - NMI. At least 0.
  int swap_rounds = 5;  ///< Most rounds of local swaps after the greedy choice; they end early when nothing improves. From 0 to 100.
  void validate() const;
};

/// The facility-location loss (Song et al. 2017): max(0, max over S of [F(X, S) + gamma * (1 - NMI(y, y_S))] - F~(X, y)), where F(X, S) is
/// minus the sum of the distances of all points to their nearest medoid in S, F~ the sum over classes of the score of the best medoid of
/// each, and |S| the number of classes. The maximum is sought by adding medoids greedily and then swapping each for another member of its
/// cluster. `labels` is int64 [N]. A sum over the batch, not a mean, as published. One term.
BatchLoss clustering_loss(const torch::Tensor& embeddings, const torch::Tensor& labels, const ClusteringLossOptions& options = {});

/// Mutual information over the geometric mean of the entropies, in [0, 1]. Two partitions of one block each are the same: 1.
double geometric_nmi(std::span<const std::int64_t> first, std::span<const std::int64_t> second);

}  // namespace smartmine
