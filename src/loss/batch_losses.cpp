// The losses of labelled batches: every pair of rows may matter.
#include <torch/types.h>

#include <limits>

#include "loss/distances.h"
#include "smartmine/loss/lifted_loss.h"
#include "smartmine/loss/multisimilarity_loss.h"
#include "smartmine/loss/semihard_loss.h"

namespace smartmine {
namespace {

/// Which rows share a class; a row is no positive of itself, nor of another of the same item.
struct Relations {
  torch::Tensor positive, negative;  // bool [N, N]
};

Relations relations(const torch::Tensor& labels, const torch::Tensor& items = {}) {
  const torch::Tensor same = labels.unsqueeze(0) == labels.unsqueeze(1);
  const torch::Tensor self = torch::eye(labels.size(0), labels.options()).to(torch::kBool);
  torch::Tensor positive = same.logical_and(self.logical_not());
  if (items.defined()) {
    check_same_shape(labels, items, "items");
    positive = positive.logical_and(items.unsqueeze(0) != items.unsqueeze(1));
  }
  return {.positive = positive, .negative = same.logical_not()};
}

/// `values` where `kept`, zero elsewhere.
torch::Tensor masked(const torch::Tensor& values, const torch::Tensor& kept) {
  return torch::where(kept, values, torch::zeros_like(values));
}

}  // namespace

void SemihardLossOptions::validate() const { check_option(margin >= 0 && margin <= 1e6, "margin", margin, "from 0 to 1e6"); }

BatchLoss semihard_loss(const torch::Tensor& embeddings, const torch::Tensor& labels, const SemihardLossOptions& options,
                        const torch::Tensor& items) {
  options.validate();
  check_labels(embeddings, labels);
  const std::int64_t size = embeddings.size(0);
  const Relations related = relations(labels, items);
  const torch::Tensor distances = distance_matrix(embeddings).square();
  torch::Tensor chosen;  // [anchor, positive]: the negative
  {
    torch::NoGradGuard no_grad;
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    const torch::Tensor known = distances.detach();
    // Negatives by distance, everything else behind them; the sort is stable, so equal ones stay in order of their rows.
    const auto [sorted, order] = torch::sort(torch::where(related.negative, known, torch::full_like(known, kInfinity)), /*stable=*/true,
                                             /*dim=*/1, /*descending=*/false);
    const torch::Tensor place = torch::searchsorted(sorted.contiguous(), known.contiguous(), /*out_int32=*/false, /*right=*/true);
    const torch::Tensor negatives = related.negative.sum(1, /*keepdim=*/true);
    const torch::Tensor farthest = torch::where(related.negative, known, torch::full_like(known, -kInfinity)).argmax(1, /*keepdim=*/true);
    chosen = torch::where(place < negatives, order.gather(1, place.clamp_max(size - 1)), farthest.expand({size, size}));
  }
  const torch::Tensor counted = related.positive.logical_and(related.negative.any(1, /*keepdim=*/true));
  const torch::Tensor each = masked((distances - distances.gather(1, chosen) + options.margin).relu(), counted);
  return {.value = each.sum() / counted.sum().clamp_min(1), .active = (each.detach() > 0).sum(), .terms = size * (size - 1)};
}

void LiftedLossOptions::validate() const { check_option(margin > 0 && margin <= 20, "margin", margin, "more than 0 and at most 20"); }

BatchLoss lifted_loss(const torch::Tensor& embeddings, const torch::Tensor& labels, const LiftedLossOptions& options) {
  options.validate();
  check_labels(embeddings, labels);
  const std::int64_t size = embeddings.size(0);
  const Relations related = relations(labels);
  const torch::Tensor distances = distance_matrix(embeddings);
  // No exponent is over the margin, so plain sums cannot overflow. Where they are zero, no negative is anywhere near: no loss.
  const torch::Tensor near = masked((options.margin - distances).exp(), related.negative).sum(1);
  const torch::Tensor both = near.unsqueeze(0) + near.unsqueeze(1);
  const torch::Tensor pairs = related.positive.triu();
  const torch::Tensor counted = pairs.logical_and(both > 0);
  const torch::Tensor violations = masked((torch::where(both > 0, both, torch::ones_like(both)).log() + distances).relu(), counted);
  return {.value = violations.square().sum() / (2 * pairs.sum().clamp_min(1)),
          .active = (violations.detach() > 0).sum(),
          .terms = size * (size - 1) / 2};
}

void MultiSimilarityLossOptions::validate() const {
  check_option(alpha > 0 && alpha <= 1e6, "alpha", alpha, "more than 0 and at most 1e6");
  check_option(beta > 0 && beta <= 1e6, "beta", beta, "more than 0 and at most 1e6");
  check_option(base >= -1 && base <= 1, "base", base, "from -1 to 1");
  check_option(epsilon >= 0 && epsilon <= 2, "epsilon", epsilon, "from 0 to 2");
}

namespace {

/// The relations and similarities of a batch's rows to those of elsewhere, behind those among themselves.
void add_references(const torch::Tensor& embeddings, const torch::Tensor& labels, const torch::Tensor& items,
                    const ReferenceRows& references, Relations& related, torch::Tensor& similar) {
  check_labels(references.rows, references.labels);
  check_same_shape(references.labels, references.items, "items of references");
  if (!items.defined()) throw InvalidArgument("items are not given; with references they must be");
  const torch::Tensor rows = references.rows.detach().to(embeddings.scalar_type());
  if (rows.size(1) != embeddings.size(1))
    throw InvalidArgument(
        fmt::format("references have {} dimensions; they must have {} as the embeddings", rows.size(1), embeddings.size(1)));
  const torch::Tensor same = labels.unsqueeze(1) == references.labels.unsqueeze(0);
  const torch::Tensor other = items.unsqueeze(1) != references.items.unsqueeze(0);
  related.positive = torch::cat({related.positive, same.logical_and(other)}, 1);
  related.negative = torch::cat({related.negative, same.logical_not()}, 1);
  // There may be thousands: by products, for none of these distances is needed to its last digits.
  const torch::Tensor lengths = embeddings.square().sum(1, /*keepdim=*/true) + rows.square().sum(1).unsqueeze(0);
  similar = torch::cat({similar, 1 - lengths / 2 + embeddings.matmul(rows.t())}, 1);
}

}  // namespace

BatchLoss multisimilarity_loss(const torch::Tensor& embeddings, const torch::Tensor& labels, const torch::Tensor& items,
                               const MultiSimilarityLossOptions& options, const ReferenceRows& references) {
  options.validate();
  check_labels(embeddings, labels);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  Relations related = relations(labels, items);
  torch::Tensor similar = 1 - distance_matrix(embeddings).square() / 2;
  if (references.rows.defined()) add_references(embeddings, labels, items, references, related, similar);
  torch::Tensor positive, negative;  // the pairs that count; a row has both or neither
  {
    torch::NoGradGuard no_grad;
    const torch::Tensor known = similar.detach();
    const torch::Tensor least = torch::where(related.positive, known, torch::full_like(known, kInfinity)).amin(1, /*keepdim=*/true);
    const torch::Tensor most = torch::where(related.negative, known, torch::full_like(known, -kInfinity)).amax(1, /*keepdim=*/true);
    positive = related.positive.logical_and(known < most + options.epsilon);
    negative = related.negative.logical_and(known > least - options.epsilon);
  }
  // log(1 + sum of exp) that does not overflow: the 1 is the exponential of a column of zeros.
  const auto soft_sum = [&](double steepness, const torch::Tensor& counted) {
    const torch::Tensor exponents = torch::where(counted, steepness * (similar - options.base), torch::full_like(similar, -kInfinity));
    return torch::cat({exponents, torch::zeros_like(similar.narrow(1, 0, 1))}, 1).logsumexp(1);
  };
  const torch::Tensor each = soft_sum(-options.alpha, positive) / options.alpha + soft_sum(options.beta, negative) / options.beta;
  return {.value = each.mean(), .active = positive.any(1).sum(), .terms = embeddings.size(0)};
}

}  // namespace smartmine
