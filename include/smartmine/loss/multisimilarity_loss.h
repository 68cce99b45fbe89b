#pragma once

#include "smartmine/loss/batch_loss.h"

namespace smartmine {

/// Options of the multi-similarity loss; names in brackets are those of its paper.
struct MultiSimilarityLossOptions {
  double alpha = 2;      ///< Steepness for positives. More than 0.
  double beta = 50;      ///< Steepness for negatives. More than 0.
  double base = 0.5;     ///< Similarity about which both turn [lambda]. From -1 to 1.
  double epsilon = 0.1;  ///< Slack of the choice of pairs. From 0 to 2.
  void validate() const;
};

/// Rows to compare a batch with beside its own: embeddings of other images from a while ago, which get no gradient.
struct ReferenceRows {
  torch::Tensor rows = {};    ///< [M, D]; undefined: none.
  torch::Tensor labels = {};  ///< int64 [M].
  torch::Tensor items = {};   ///< int64 [M].
};

/// The multi-similarity loss (Wang et al. 2019) over all pairs of rows of a batch, with the similarity S = 1 - d2 / 2, the cosine of unit
/// rows. Of row i, a negative counts if its S is more than that of the least similar positive less epsilon, a positive if it is less than
/// that of the most similar negative plus epsilon. The loss is the mean over rows of
/// log(1 + sum over positives of exp(-alpha * (S - base))) / alpha + log(1 + sum over negatives of exp(beta * (S - base))) / beta.
/// `labels` is int64 [N] on the same device. So is `items`, if given: rows of the same item are no pair, as an image is no positive of
/// itself. With `references` a row's positives and negatives are those of the batch and those among the references; `items` must be given
/// then, and no item should be in both. Terms are rows, active are those with a pair that counts.
BatchLoss multisimilarity_loss(const torch::Tensor& embeddings, const torch::Tensor& labels, const torch::Tensor& items = {},
                               const MultiSimilarityLossOptions& options = {}, const ReferenceRows& references = {});

}  // namespace smartmine
