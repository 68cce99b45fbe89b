#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <functional>
#include <set>
#include <vector>

#include "loss/facility_location.h"
#include "smartmine/core/error.h"
#include "smartmine/core/random.h"
#include "smartmine/loss/clustering_loss.h"
#include "smartmine/loss/global_loss.h"
#include "smartmine/loss/lifted_loss.h"
#include "smartmine/loss/multisimilarity_loss.h"
#include "smartmine/loss/npairs_loss.h"
#include "smartmine/loss/pairs_loss.h"
#include "smartmine/loss/semihard_loss.h"
#include "smartmine/loss/triplet_loss.h"
#include "smartmine/mining/labels.h"
#include "smartmine/mining/selections.h"

namespace smartmine {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

/// Rows as they are written.
torch::Tensor rows(const std::vector<std::vector<double>>& values) {
  std::vector<torch::Tensor> out;
  for (const auto& row : values) out.push_back(torch::tensor(row, torch::kFloat64));
  return torch::stack(out);
}

torch::Tensor unit_rows(std::int64_t count, std::int64_t dimension, std::uint64_t seed) {
  torch::Tensor values = torch::empty({count, dimension}, torch::kFloat64);
  Random random(seed);
  for (std::int64_t i = 0; i < values.numel(); ++i) values.data_ptr<double>()[i] = random.normal();
  return values / values.norm(2, 1, true);
}

torch::Tensor labels_of(const std::vector<std::int64_t>& values) { return torch::tensor(values, torch::kInt64); }

/// A loss of all embeddings of a batch, so that every one can be checked alike.
struct Case {
  const char* name;
  std::function<BatchLoss(const torch::Tensor&)> loss;
};

/// 12 rows: as triplets and pairs, rows 0-3 against 4-7 against 8-11; as a labelled batch, 4 classes of 3.
std::vector<Case> all_losses() {
  const torch::Tensor labels = labels_of({5, 1, 1, 7, 5, 1, 7, 7, 5, 2, 2, 2});
  const auto part = [](const torch::Tensor& x, std::int64_t third) { return x.narrow(0, third * (x.size(0) / 3), x.size(0) / 3); };
  return {
      {"triplet", [=](const torch::Tensor& x) { return triplet_loss(part(x, 0), part(x, 1), part(x, 2)); }},
      {"global", [=](const torch::Tensor& x) { return global_loss(part(x, 0), part(x, 1), part(x, 2), {.lambda = 1.5, .margin = 0.5}); }},
      {"npairs", [=](const torch::Tensor& x) { return npairs_loss(part(x, 0) * 3, part(x, 1) * 2, {.norm_weight = 0.1}); }},
      {"pairs", [=](const torch::Tensor& x) { return pairs_loss(part(x, 0), part(x, 1), torch::arange(4) < 2, {.margin = 1.5}); }},
      {"semihard", [=](const torch::Tensor& x) { return semihard_loss(x, labels.narrow(0, 0, x.size(0))); }},
      {"lifted", [=](const torch::Tensor& x) { return lifted_loss(x, labels.narrow(0, 0, x.size(0))); }},
      {"clustering", [=](const torch::Tensor& x) { return clustering_loss(x, labels.narrow(0, 0, x.size(0)), {.gamma = 3}); }},
      {"multisimilarity", [=](const torch::Tensor& x) { return multisimilarity_loss(x, labels.narrow(0, 0, x.size(0))); }}};
}

TEST(Losses, HaveTheGradientsOfFiniteDifferences) {
  for (const Case& each : all_losses()) {
    for (const std::uint64_t seed : {1, 2, 3}) {
      const torch::Tensor x = unit_rows(12, 5, seed).requires_grad_();
      const BatchLoss loss = each.loss(x);
      ASSERT_GT(loss.value.item<double>(), 0) << each.name;
      ASSERT_GT(loss.active.item<std::int64_t>(), 0) << each.name;
      loss.value.backward();
      ASSERT_TRUE(x.grad().defined()) << each.name;
      torch::NoGradGuard no_grad;
      constexpr double kStep = 1e-6;
      for (std::int64_t i = 0; i < x.numel(); ++i) {
        const auto moved = [&](double step) {
          torch::Tensor copy = x.detach().clone();
          copy.data_ptr<double>()[i] += step;
          return each.loss(copy).value.item<double>();
        };
        const double expected = (moved(kStep) - moved(-kStep)) / (2 * kStep);
        EXPECT_NEAR(x.grad().data_ptr<double>()[i], expected, 1e-6) << each.name << " seed " << seed << " value " << i;
      }
    }
  }
}

TEST(Losses, AreFiniteWhereAllPointsAreOne) {
  for (const Case& each : all_losses()) {
    for (const torch::ScalarType type : {torch::kFloat32, torch::kFloat64}) {
      const torch::Tensor x = torch::full({12, 4}, 0.5, type).requires_grad_();
      const BatchLoss loss = each.loss(x);
      EXPECT_TRUE(std::isfinite(loss.value.item<double>())) << each.name;
      loss.value.backward();
      EXPECT_TRUE(torch::isfinite(x.grad()).all().item<bool>()) << each.name;
    }
  }
}

TEST(Losses, OfBatchesWithNothingToLearnAreZeroWithZeroGradients) {
  const torch::Tensor no_positives = labels_of({1, 2, 3, 4});
  const torch::Tensor one_class = labels_of({1, 1, 1, 1});
  using Loss = std::function<BatchLoss(const torch::Tensor&, const torch::Tensor&)>;
  const std::vector<std::pair<const char*, Loss>> losses = {
      {"semihard", [](const torch::Tensor& x, const torch::Tensor& y) { return semihard_loss(x, y); }},
      {"lifted", [](const torch::Tensor& x, const torch::Tensor& y) { return lifted_loss(x, y); }},
      {"clustering", [](const torch::Tensor& x, const torch::Tensor& y) { return clustering_loss(x, y); }},
      {"multisimilarity", [](const torch::Tensor& x, const torch::Tensor& y) { return multisimilarity_loss(x, y); }}};
  for (const auto& [name, loss] : losses) {
    for (const torch::Tensor& labels : {no_positives, one_class}) {
      const torch::Tensor x = unit_rows(4, 3, 4).requires_grad_();
      const BatchLoss result = loss(x, labels);
      EXPECT_NEAR(result.value.item<double>(), 0, 1e-12) << name;
      result.value.backward();
      EXPECT_TRUE(torch::isfinite(x.grad()).all().item<bool>()) << name;
      EXPECT_NEAR(x.grad().abs().max().item<double>(), 0, 1e-12) << name;
    }
    const torch::Tensor alone = unit_rows(1, 3, 5).requires_grad_();
    EXPECT_EQ(loss(alone, labels_of({3})).value.item<double>(), 0) << name;
  }
}

TEST(Losses, KeepSmallDistancesInFloat) {
  // Points 1e-4 apart: from products in float, 1 - x.y would be all rounding.
  const torch::Tensor a = unit_rows(6, 64, 1);
  const torch::Tensor b = a + 1e-4 * unit_rows(6, 64, 2);
  const torch::Tensor x = torch::cat({a, b});
  const torch::Tensor labels = labels_of({0, 1, 2, 3, 4, 5, 1, 2, 3, 4, 5, 0});
  for (const auto loss : {+[](const torch::Tensor&v, const torch::Tensor&y) { return lifted_loss(v, y).value.item<double>(); },
                          +[](const torch::Tensor&v, const torch::Tensor&y) { return clustering_loss(v, y).value.item<double>(); }})
    EXPECT_NEAR(loss(x.to(torch::kFloat32), labels), loss(x, labels), 2e-5);
}

TEST(TripletLoss, GivesWorkedValues) {
  // d(a, p) = 0.6, d(a, n) = 0.4: 1 - 0.4 / 0.8 = 0.5. Then d(a, p) = 0.3, d(a, n) = 1: nothing. Then 0 and 0.1: 1 - 0.1 / 0.2 = 0.5.
  const BatchLoss loss =
      triplet_loss(rows({{0, 0}, {1, 1}, {2, 2}}), rows({{0.6, 0}, {1.3, 1}, {2, 2}}), rows({{0, 0.4}, {1, 2}, {2.1, 2}}));
  EXPECT_NEAR(loss.value.item<double>(), 1.0 / 3, 1e-12);
  EXPECT_EQ(loss.active.item<std::int64_t>(), 2);
  EXPECT_EQ(loss.terms, 3);
}

TEST(TripletLoss, HasAWorkedGradient) {
  const torch::Tensor a = rows({{0, 0}}).requires_grad_();
  const torch::Tensor p = rows({{0.6, 0}}).requires_grad_();
  const torch::Tensor n = rows({{0, 0.4}}).requires_grad_();
  triplet_loss(a, p, n).value.backward();
  // With s = d(a, p) + m = 0.8: dJ/dn = -unit(n - a) / s, dJ/dp = d(a, n) / s^2 * unit(p - a).
  EXPECT_NEAR(n.grad()[0][1].item<double>(), -1 / 0.8, 1e-12);
  EXPECT_NEAR(p.grad()[0][0].item<double>(), 0.4 / 0.64, 1e-12);
  EXPECT_NEAR(a.grad()[0][0].item<double>(), -0.4 / 0.64, 1e-12);
  EXPECT_NEAR(a.grad()[0][1].item<double>(), 1 / 0.8, 1e-12);
}

TEST(GlobalLoss, GivesWorkedValues) {
  // u = d2 / 4 = {0.25, 0.75}, v = {0.5, 0.5}: variances 0.0625 and 0, means equal, so lambda * t is left of the hinge.
  const double root2 = std::sqrt(2.0), root3 = std::sqrt(3.0);
  const torch::Tensor anchors = rows({{0, 0}, {0, 0}});
  const BatchLoss loss = global_loss(anchors, rows({{1, 0}, {root3, 0}}), rows({{0, root2}, {root2, 0}}), {.lambda = 0.8, .margin = 0.01});
  EXPECT_NEAR(loss.value.item<double>(), 0.0625 + 0.8 * 0.01, 1e-12);
  EXPECT_EQ(loss.active.item<std::int64_t>(), 1);
  const BatchLoss apart = global_loss(anchors, rows({{0, 0}, {0, 0}}), rows({{0, 2}, {2, 0}}));
  EXPECT_NEAR(apart.value.item<double>(), 0, 1e-12);
  EXPECT_EQ(apart.active.item<std::int64_t>(), 0);
}

TEST(NpairsLoss, GivesWorkedValues) {
  // Scores {{2, 1}, {0, 3}}: log(1 + e^-1) and log(1 + e^-3); squared lengths 1, 1, 4, 10.
  const BatchLoss loss = npairs_loss(rows({{1, 0}, {0, 1}}), rows({{2, 0}, {1, 3}}));
  EXPECT_NEAR(loss.value.item<double>(), (std::log(1 + std::exp(-1)) + std::log(1 + std::exp(-3))) / 2 + 0.002 * 4, 1e-12);
  EXPECT_EQ(loss.active.item<std::int64_t>(), 0);
  EXPECT_EQ(npairs_loss(rows({{1, 0}, {0, 1}}), rows({{0, 3}, {1, 1}})).active.item<std::int64_t>(), 2);
}

TEST(NpairsLoss, DoesNotOverflow) {
  const torch::Tensor x = torch::tensor({{300.0F, 0.0F}, {-300.0F, 1.0F}}).requires_grad_();
  const torch::Tensor value = npairs_loss(x, -x.detach()).value;
  value.backward();
  EXPECT_TRUE(std::isfinite(value.item<double>()));
  EXPECT_TRUE(torch::isfinite(x.grad()).all().item<bool>());
}

TEST(PairsLoss, GivesWorkedValues) {
  const BatchLoss loss = pairs_loss(rows({{0, 0}, {0, 0}, {0, 0}, {1, 1}}), rows({{0.3, 0.4}, {0.6, 0.8}, {0, 0.25}, {1, 1}}),
                                    torch::tensor({true, false, false, true}), {.margin = 1});
  EXPECT_NEAR(loss.value.item<double>(), (0.5 + 0 + 0.75 + 0) / 4, 1e-12);
  EXPECT_EQ(loss.active.item<std::int64_t>(), 2);
}

TEST(LiftedLoss, GivesWorkedValues) {
  // On a line: classes at {0, 1}, {3}. One pair, D = 1; negatives of 0 at 3, of 1 at 2.
  const BatchLoss loss = lifted_loss(rows({{0}, {1}, {3}}), labels_of({4, 4, 9}));
  const double violation = std::log(std::exp(1.0 - 3) + std::exp(1.0 - 2)) + 1;
  EXPECT_NEAR(loss.value.item<double>(), violation * violation / 2, 1e-12);
  EXPECT_EQ(loss.active.item<std::int64_t>(), 1);
  // Far away: J < 0.
  EXPECT_EQ(lifted_loss(rows({{0}, {1}, {30}}), labels_of({4, 4, 9})).value.item<double>(), 0);
  // So far that the sum underflows.
  EXPECT_EQ(lifted_loss(rows({{0}, {1}, {3000}}), labels_of({4, 4, 9})).value.item<double>(), 0);
}

TEST(SemihardLoss, GivesWorkedValues) {
  // Anchor 0: positive at 1 (d2 1), negatives at 1.1 (1.21, the nearest farther one) and 0.5. Anchor 1: positive 0 (1), negatives at 0.01
  // and 0.25, none farther, so the farthest, 0.25.
  const BatchLoss loss = semihard_loss(rows({{0}, {1}, {1.1}, {0.5}}), labels_of({1, 1, 2, 3}), {.margin = 0.3});
  EXPECT_NEAR(loss.value.item<double>(), ((1 - 1.21 + 0.3) + (1 - 0.25 + 0.3)) / 2, 1e-12);
  EXPECT_EQ(loss.active.item<std::int64_t>(), 2);
}

TEST(SemihardLoss, TakesNoImageForAPositiveOfItself) {
  // Rows 0 and 1 are one image, cropped in two ways.
  const torch::Tensor x = rows({{0}, {0.4}, {1}, {1.1}}), labels = labels_of({1, 1, 1, 2});
  const BatchLoss loss = semihard_loss(x, labels, {.margin = 0.3}, labels_of({7, 7, 8, 9}));
  const double expected = (1 - 1.21 + 0.3) + (0.36 - 0.49 + 0.3) + (1 - 0.01 + 0.3) + (0.36 - 0.01 + 0.3);
  EXPECT_NEAR(loss.value.item<double>(), expected / 4, 1e-12);
  EXPECT_EQ(loss.active.item<std::int64_t>(), 4);
  EXPECT_EQ(semihard_loss(x, labels, {}, labels_of({7, 8, 9, 10})).value.item<double>(), semihard_loss(x, labels).value.item<double>());
  EXPECT_THROW(semihard_loss(x, labels, {}, labels_of({7, 8})), InvalidArgument);
}

TEST(SemihardLoss, TakesTheNegativesTheMinerTakes) {
  for (const std::uint64_t seed : {1, 2, 3, 4, 5}) {
    torch::Tensor x = unit_rows(24, 3, seed).to(torch::kFloat32);
    x = (x * 4).round() / 4;  // so that distances tie
    std::vector<std::int64_t> labels;
    for (std::int64_t i = 0; i < 24; ++i) labels.push_back(i % 5);
    const auto triplets = semihard_triplets(Rows(x.data_ptr<float>(), 24, 3), LabelIndex(labels));
    double expected = 0;
    const auto d2 = [&](std::uint32_t a, std::uint32_t b) { return (x[a] - x[b]).square().sum().item<double>(); };
    for (const Triplet& t : triplets) expected += std::max(0.0, d2(t.anchor, t.positive) - d2(t.anchor, t.negative) + 0.2);
    expected /= static_cast<double>(triplets.size());
    EXPECT_NEAR(semihard_loss(x, labels_of(labels)).value.item<double>(), expected, 1e-5) << seed;
  }
}

/// The multi-similarity loss as its paper writes it, row by row and pair by pair.
std::pair<double, std::int64_t> multisimilarity_by_loops(const torch::Tensor& x, const std::vector<std::int64_t>& labels,
                                                         const std::vector<std::int64_t>& items, const MultiSimilarityLossOptions& o) {
  const auto count = static_cast<std::size_t>(x.size(0));
  double sum = 0;
  std::int64_t active = 0;
  for (std::size_t i = 0; i < count; ++i) {
    std::vector<double> positives, negatives;
    for (std::size_t j = 0; j < count; ++j) {
      const double similar = x[static_cast<std::int64_t>(i)].dot(x[static_cast<std::int64_t>(j)]).item<double>();
      if (labels[i] != labels[j]) negatives.push_back(similar);
      if (labels[i] == labels[j] && i != j && items[i] != items[j]) positives.push_back(similar);
    }
    if (positives.empty() || negatives.empty()) continue;
    const double least = *std::min_element(positives.begin(), positives.end());
    const double most = *std::max_element(negatives.begin(), negatives.end());
    double near = 0, far = 0;
    for (const double s : positives) near += s < most + o.epsilon ? std::exp(-o.alpha * (s - o.base)) : 0;
    for (const double s : negatives) far += s > least - o.epsilon ? std::exp(o.beta * (s - o.base)) : 0;
    active += near > 0 ? 1 : 0;
    sum += std::log(1 + near) / o.alpha + std::log(1 + far) / o.beta;
  }
  return {sum / static_cast<double>(count), active};
}

TEST(MultiSimilarityLoss, IsWhatLoopsOverAllPairsGive) {
  std::set<std::int64_t> seen;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    torch::Tensor x = unit_rows(24, 4, seed);
    std::vector<std::int64_t> labels, items;
    for (std::int64_t i = 0; i < 24; ++i) {
      labels.push_back(i % (2 + static_cast<std::int64_t>(seed) % 7));
      items.push_back(i);
    }
    if (seed % 2 == 0) {  // classes that are told apart well, so that few pairs count
      for (std::int64_t i = 0; i < 24; ++i) x[i] += 3 * unit_rows(24, 4, 77)[labels[static_cast<std::size_t>(i)]];
      x = x / x.norm(2, 1, true);
    }
    for (const std::size_t i : {3, 9, 20}) {  // an image that comes again, looking a little different
      labels[i] = labels[0];
      items[i] = 0;
    }
    const MultiSimilarityLossOptions options{.alpha = 1.0 + static_cast<double>(seed % 3), .beta = 20, .base = 0.4, .epsilon = 0.05};
    const BatchLoss loss = multisimilarity_loss(x, labels_of(labels), labels_of(items), options);
    const auto [value, active] = multisimilarity_by_loops(x, labels, items, options);
    EXPECT_NEAR(loss.value.item<double>(), value, 1e-9) << seed;
    EXPECT_EQ(loss.active.item<std::int64_t>(), active) << seed;
    EXPECT_EQ(loss.terms, 24);
    seen.insert(active);
    EXPECT_NEAR(multisimilarity_loss(x.to(torch::kFloat32), labels_of(labels), labels_of(items), options).value.item<double>(), value,
                1e-4);
  }
  EXPECT_GT(seen.size(), 3U);  // the choice of pairs had something to do
}

TEST(MultiSimilarityLoss, DoesNotTakeAnImageForItsOwnPositive) {
  // The same image twice and another class: without a pair of two images there is nothing to learn.
  const torch::Tensor x = unit_rows(3, 4, 2);
  EXPECT_GT(multisimilarity_loss(x, labels_of({1, 1, 2})).value.item<double>(), 0);
  EXPECT_EQ(multisimilarity_loss(x, labels_of({1, 1, 2}), labels_of({5, 5, 6})).value.item<double>(), 0);
}

TEST(MultiSimilarityLoss, ComparesABatchWithReferencesAsIfTheyWereOfItButMovesOnlyTheBatch) {
  torch::manual_seed(5);
  const torch::Tensor all = torch::nn::functional::normalize(torch::randn({20, 6}, torch::kFloat64));
  const torch::Tensor labels = torch::randint(0, 4, {20}, torch::kInt64), items = torch::arange(20, torch::kInt64);
  const torch::Tensor batch = all.narrow(0, 0, 8).clone().requires_grad_();
  const torch::Tensor others = all.narrow(0, 8, 12).clone().requires_grad_();
  const BatchLoss loss = multisimilarity_loss(batch, labels.narrow(0, 0, 8), items.narrow(0, 0, 8), {.beta = 20},
                                              {.rows = others, .labels = labels.narrow(0, 8, 12), .items = items.narrow(0, 8, 12)});
  loss.value.backward();
  EXPECT_FALSE(others.grad().defined());
  EXPECT_EQ(loss.terms, 8);
  // The oracle: all twenty rows as a batch, of which the first eight count.
  const torch::Tensor whole = all.clone().requires_grad_();
  const torch::Tensor fixed = torch::cat({whole.narrow(0, 0, 8), whole.narrow(0, 8, 12).detach()});
  torch::Tensor sum = torch::zeros({}, torch::kFloat64);
  for (std::int64_t i = 0; i < 8; ++i) {
    std::vector<torch::Tensor> positives, negatives;
    for (std::int64_t j = 0; j < 20; ++j) {
      if (i == j) continue;
      auto& side = labels[i].item<std::int64_t>() == labels[j].item<std::int64_t>() ? positives : negatives;
      side.push_back(fixed[i].dot(fixed[j]));
    }
    if (positives.empty() || negatives.empty()) continue;
    const torch::Tensor near = torch::stack(positives), far = torch::stack(negatives);
    const torch::Tensor hard = near.masked_select(near < far.max() + 0.1), close = far.masked_select(far > near.min() - 0.1);
    sum = sum + (1 + (-2 * (hard - 0.5)).exp().sum()).log() / 2 + (1 + (20 * (close - 0.5)).exp().sum()).log() / 20;
  }
  (sum / 8).backward();
  EXPECT_NEAR(loss.value.item<double>(), sum.item<double>() / 8, 1e-9);
  const auto along = [&](const torch::Tensor& gradient) {  // within the sphere: the oracle's products know nothing of lengths
    const torch::Tensor rows = all.narrow(0, 0, 8);
    return gradient - (gradient * rows).sum(1, true) * rows;
  };
  EXPECT_LT((along(batch.grad()) - along(whole.grad().narrow(0, 0, 8))).abs().max().item<double>(), 1e-9);
}

TEST(MultiSimilarityLoss, RefusesReferencesThatDoNotFit) {
  const torch::Tensor x = torch::randn({4, 3}), labels = labels_of({0, 0, 1, 1});
  const ReferenceRows good{.rows = torch::randn({2, 3}), .labels = labels_of({0, 1}), .items = labels_of({8, 9})};
  ReferenceRows wide = good, few = good;
  wide.rows = torch::randn({2, 5});
  few.labels = labels_of({0});
  EXPECT_THAT([&] { multisimilarity_loss(x, labels, {}, {}, good); }, ThrowsMessage<InvalidArgument>(HasSubstr("items are not given")));
  EXPECT_THAT(
      [&] {
        multisimilarity_loss(x, labels, labels_of({0, 1, 2, 3}), {}, wide);
      },
      ThrowsMessage<InvalidArgument>(HasSubstr("references have 5 dimensions; they must have 3")));
  EXPECT_THAT(
      [&] {
        multisimilarity_loss(x, labels, labels_of({0, 1, 2, 3}), {}, few);
      },
      ThrowsMessage<InvalidArgument>(HasSubstr("labels are [1]")));
}

TEST(MultiSimilarityLoss, DoesNotOverflow) {
  const torch::Tensor x = unit_rows(8, 4, 3).to(torch::kFloat32).requires_grad_();
  const torch::Tensor value = multisimilarity_loss(x, labels_of({0, 1, 0, 1, 0, 1, 0, 1}), {}, {.alpha = 500, .beta = 5000}).value;
  value.backward();
  EXPECT_TRUE(std::isfinite(value.item<double>()));
  EXPECT_TRUE(torch::isfinite(x.grad()).all().item<bool>());
}

TEST(ClusteringLoss, GivesWorkedValues) {
  // On a line, classes {0, 4} and {1, 5}. F~ = -8. Two medoids: the pairs {0, 1} and {4, 5} cost 1 + 1, and NMI is 0: best is -2 + gamma.
  const BatchLoss loss = clustering_loss(rows({{0}, {4}, {1}, {5}}), labels_of({0, 0, 1, 1}), {.gamma = 2});
  EXPECT_NEAR(loss.value.item<double>(), -2 + 2 + 8, 1e-12);
  // Classes that are clusters: the same partition is best, and nothing is left.
  EXPECT_NEAR(clustering_loss(rows({{0}, {0.1}, {9}, {9.1}}), labels_of({0, 0, 1, 1}), {.gamma = 2}).value.item<double>(), 0, 1e-12);
}

TEST(ClusteringLoss, FindsMedoidsNearTheBestOfAllChoices) {
  double found = 0, optimum = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const torch::Tensor x = unit_rows(10, 3, seed);
    const torch::Tensor d = torch::cdist(x, x).contiguous();
    std::vector<std::int64_t> classes;
    for (std::int64_t i = 0; i < 10; ++i) classes.push_back(i % 3);
    const FacilityProblem problem{.distances = {d.data_ptr<double>(), 100}, .classes = classes, .class_count = 3, .gamma = 1.5};
    const Facilities chosen = best_facilities(problem, 5);
    ASSERT_EQ(chosen.medoids.size(), 3U);
    // What it says of itself is true, and nothing beats the best of all choices.
    const auto score = [&](const std::vector<std::size_t>& medoids) {
      double cost = 0;
      std::vector<std::int64_t> clusters;
      for (std::size_t i = 0; i < 10; ++i) {
        std::size_t best = 0;
        for (std::size_t m = 1; m < 3; ++m)
          if (problem.distances[i * 10 + medoids[m]] < problem.distances[i * 10 + medoids[best]]) best = m;
        cost += problem.distances[i * 10 + medoids[best]];
        clusters.push_back(static_cast<std::int64_t>(best));
      }
      return -cost + 1.5 * (1 - geometric_nmi(classes, clusters));
    };
    EXPECT_NEAR(chosen.score, score(chosen.medoids), 1e-12) << seed;
    double best = -1e9;
    for (std::size_t a = 0; a < 10; ++a)
      for (std::size_t b = a + 1; b < 10; ++b)
        for (std::size_t c = b + 1; c < 10; ++c) best = std::max(best, score({a, b, c}));
    EXPECT_LE(chosen.score, best + 1e-12) << seed;
    EXPECT_GE(chosen.score, best_facilities(problem, 0).score) << seed;
    found += chosen.score;
    optimum += best;
  }
  EXPECT_GE(found, optimum - 0.05 * std::abs(optimum));
}

TEST(MutualInformation, GivesWorkedValues) {
  using Labels = std::vector<std::int64_t>;
  EXPECT_NEAR(geometric_nmi(Labels{1, 1, 2, 2}, Labels{7, 7, 3, 3}), 1, 1e-12);
  EXPECT_NEAR(geometric_nmi(Labels{1, 1, 2, 2}, Labels{1, 2, 1, 2}), 0, 1e-12);
  EXPECT_NEAR(geometric_nmi(Labels{1, 1, 1}, Labels{2, 2, 2}), 1, 1e-12);
  EXPECT_NEAR(geometric_nmi(Labels{1, 1, 1}, Labels{1, 2, 3}), 0, 1e-12);
  // Halves against quarters: information log 2, entropies log 2 and log 4.
  EXPECT_NEAR(geometric_nmi(Labels{1, 1, 2, 2}, Labels{1, 2, 3, 4}), std::log(2) / std::sqrt(std::log(2) * std::log(4)), 1e-12);
}

TEST(Losses, NameBadArguments) {
  const torch::Tensor x = unit_rows(4, 3, 1);
  const torch::Tensor labels = labels_of({1, 1, 2, 2});
  EXPECT_THAT([&] { triplet_loss(x, x, x, {.margin = 0}); }, ThrowsMessage<InvalidArgument>(HasSubstr("margin is 0")));
  EXPECT_THAT([&] { global_loss(x, x, x, {.lambda = -1}); }, ThrowsMessage<InvalidArgument>(HasSubstr("lambda is -1")));
  EXPECT_THAT([&] { semihard_loss(x, labels, {.margin = -0.5}); }, ThrowsMessage<InvalidArgument>(HasSubstr("margin is -0.5")));
  EXPECT_THAT([&] { lifted_loss(x, labels, {.margin = std::nan("")}); }, ThrowsMessage<InvalidArgument>(HasSubstr("margin is nan")));
  EXPECT_THAT([&] { npairs_loss(x, x, {.norm_weight = -1}); }, ThrowsMessage<InvalidArgument>(HasSubstr("norm_weight is -1")));
  EXPECT_THAT([&] { clustering_loss(x, labels, {.swap_rounds = -1}); }, ThrowsMessage<InvalidArgument>(HasSubstr("swap_rounds is -1")));
  EXPECT_THAT([&] { multisimilarity_loss(x, labels, {}, {.alpha = 0}); }, ThrowsMessage<InvalidArgument>(HasSubstr("alpha is 0")));
  EXPECT_THAT([&] { multisimilarity_loss(x, labels, {}, {.base = 1.5}); }, ThrowsMessage<InvalidArgument>(HasSubstr("base is 1.5")));
  EXPECT_THAT([&] { multisimilarity_loss(x, labels, labels.narrow(0, 0, 3)); }, ThrowsMessage<InvalidArgument>(HasSubstr("items are [3]")));
  EXPECT_THAT([&] { triplet_loss(x, x.narrow(0, 0, 2), x); }, ThrowsMessage<InvalidArgument>(HasSubstr("positives are [2, 3]")));
  EXPECT_THAT([&] { lifted_loss(x, labels.narrow(0, 0, 3)); }, ThrowsMessage<InvalidArgument>(HasSubstr("labels are [3]")));
  EXPECT_THAT([&] { pairs_loss(x, x, labels); }, ThrowsMessage<InvalidArgument>(HasSubstr("Bool")));
  EXPECT_THAT([&] { triplet_loss(x[0], x[0], x[0]); }, ThrowsMessage<InvalidArgument>(HasSubstr("anchors are [3]")));
}

}  // namespace
}  // namespace smartmine
