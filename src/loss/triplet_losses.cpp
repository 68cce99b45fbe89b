// The losses of triplets and pairs: a row is a term.
#include <torch/types.h>

#include "loss/distances.h"
#include "smartmine/loss/global_loss.h"
#include "smartmine/loss/npairs_loss.h"
#include "smartmine/loss/pairs_loss.h"
#include "smartmine/loss/triplet_loss.h"

namespace smartmine {
namespace {

void check_triplets(const torch::Tensor& anchors, const torch::Tensor& positives, const torch::Tensor& negatives) {
  check_matrix(anchors, "anchors");
  check_same_shape(anchors, positives, "positives");
  check_same_shape(anchors, negatives, "negatives");
}

}  // namespace

void TripletLossOptions::validate() const { check_option(margin > 0 && margin <= 4, "margin", margin, "more than 0 and at most 4"); }

BatchLoss triplet_loss(const torch::Tensor& anchors, const torch::Tensor& positives, const torch::Tensor& negatives,
                       const TripletLossOptions& options) {
  options.validate();
  check_triplets(anchors, positives, negatives);
  const torch::Tensor squared_positive = squared_distances(anchors, positives);
  const torch::Tensor squared_negative = squared_distances(anchors, negatives);
  const torch::Tensor each = (1 - safe_sqrt(squared_negative) / (safe_sqrt(squared_positive) + options.margin)).relu();
  return {.value = each.mean(),
          .active = (each.detach() > 0).sum(),
          .terms = anchors.size(0),
          .squared_distances = torch::stack({squared_positive.detach(), squared_negative.detach()})};
}

void GlobalLossOptions::validate() const {
  check_option(lambda >= 0 && lambda <= 1e6, "lambda", lambda, "from 0 to 1e6");
  check_option(margin >= 0 && margin <= 1, "margin", margin, "from 0 to 1");
}

BatchLoss global_loss(const torch::Tensor& anchors, const torch::Tensor& positives, const torch::Tensor& negatives,
                      const GlobalLossOptions& options) {
  options.validate();
  check_triplets(anchors, positives, negatives);
  const torch::Tensor positive = squared_distances(anchors, positives) / 4;
  const torch::Tensor negative = squared_distances(anchors, negatives) / 4;
  const torch::Tensor violation = (positive.mean() - negative.mean() + options.margin).relu();
  return {.value = positive.var(/*unbiased=*/false) + negative.var(/*unbiased=*/false) + options.lambda * violation,
          .active = (violation.detach() > 0).to(torch::kInt64),
          .terms = 1};
}

void NpairsLossOptions::validate() const {
  check_option(norm_weight >= 0 && norm_weight <= 1e6, "norm_weight", norm_weight, "from 0 to 1e6");
}

BatchLoss npairs_loss(const torch::Tensor& anchors, const torch::Tensor& positives, const NpairsLossOptions& options) {
  options.validate();
  check_matrix(anchors, "anchors");
  check_same_shape(anchors, positives, "positives");
  // log(1 + sum over j != i of exp(s_ij - s_ii)) is minus the log-softmax of the scores at i.
  const torch::Tensor scores = anchors.matmul(positives.t());
  const torch::Tensor own = scores.diagonal();
  const torch::Tensor cross_entropy = (scores.logsumexp(1) - own).mean();
  const torch::Tensor norms = (anchors.square().sum(1).mean() + positives.square().sum(1).mean()) / 2;
  const torch::Tensor beaten = (scores.detach() >= own.detach().unsqueeze(1)).sum(1) > 1;  // its own score is always among them
  return {.value = cross_entropy + options.norm_weight * norms, .active = beaten.sum(), .terms = anchors.size(0)};
}

void PairsLossOptions::validate() const { check_option(margin > 0 && margin <= 1e6, "margin", margin, "more than 0 and at most 1e6"); }

BatchLoss pairs_loss(const torch::Tensor& first, const torch::Tensor& second, const torch::Tensor& same, const PairsLossOptions& options) {
  options.validate();
  check_matrix(first, "first");
  check_same_shape(first, second, "second");
  if (same.dim() != 1 || same.size(0) != first.size(0) || same.scalar_type() != torch::kBool)
    throw InvalidArgument(fmt::format("same is [{}] of {}; it must be [{}] of Bool", fmt::join(same.sizes(), ", "),
                                      torch::toString(same.scalar_type()), first.size(0)));
  const torch::Tensor distances = safe_sqrt(squared_distances(first, second));
  const torch::Tensor each = torch::where(same, distances, (options.margin - distances).relu());
  return {.value = each.mean(), .active = (each.detach() > 0).sum(), .terms = first.size(0)};
}

}  // namespace smartmine
