#include <algorithm>
#include <utility>

#include "smartmine/core/random.h"
#include "smartmine/loss/global_loss.h"
#include "smartmine/loss/multisimilarity_loss.h"
#include "smartmine/loss/pairs_loss.h"
#include "smartmine/loss/triplet_loss.h"
#include "smartmine/mining/selections.h"
#include "smartmine/mining/smart_miner.h"
#include "smartmine/train/system.h"

// Systems made of triplets, random or mined, and of mined pairs.
namespace smartmine {
namespace {

enum Purpose : std::uint64_t { kRandomTriplets = 0x7401, kMinedTriplets, kOrder, kPairs };

template <class T>
void shuffle(std::vector<T>& values, std::uint64_t seed) {
  Random random(seed);
  for (std::size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[random.below(i)]);
}

/// Triplets in random order; a batch is its anchors, then its positives, then its negatives.
EpochPlan plan_of(MinedTriplets mined, const EpochSource& source) {
  EpochPlan plan;
  const std::uint64_t seed = epoch_seed(source.config().seed, kOrder, source.epoch());
  shuffle(mined.triplets, seed);
  shuffle(mined.origins, seed);  // in the same way
  const auto batch = static_cast<std::size_t>(source.config().batch_size);
  plan.batch_items = 3 * batch;
  plan.items.reserve(3 * mined.triplets.size());
  for (std::size_t begin = 0; begin < mined.triplets.size(); begin += batch) {
    const auto of_batch = std::span(mined.triplets).subspan(begin, std::min(batch, mined.triplets.size() - begin));
    for (const auto part : {&Triplet::anchor, &Triplet::positive, &Triplet::negative})
      for (const Triplet& triplet : of_batch) plan.items.push_back(triplet.*part);
  }
  plan.mining = std::move(mined.stats);
  plan.triplets = std::move(mined.triplets);
  plan.origins = std::move(mined.origins);
  return plan;
}

EpochPlan random_plan(EpochSource& source) {
  const TrainConfig& config = source.config();
  const std::size_t anchors = source.labels().anchors().size();
  return plan_of(RandomMiner({.count = anchors * static_cast<std::size_t>(config.triplets_per_anchor),
                              .seed = epoch_seed(config.seed, kRandomTriplets, source.epoch()),
                              .threads = static_cast<unsigned>(config.threads)})
                     .select(source.labels()),
                 source);
}

EpochPlan smart_plan(EpochSource& source) {
  const TrainConfig& config = source.config();
  if (source.epoch() <= config.warmup_epochs) return random_plan(source);
  const Rows rows = source.embeddings();
  const NeighborLists& lists = source.lists();
  const auto select = [&](double kappa) {
    return SmartMiner({.kappa = kappa,
                       .triplets_per_anchor = static_cast<std::size_t>(config.triplets_per_anchor),
                       .mined_fraction = config.mined_fraction,
                       .seed = epoch_seed(config.seed, kMinedTriplets, source.epoch()),
                       .threads = static_cast<unsigned>(config.threads),
                       .margin = config.margin,
                       .duplicate_distance = config.duplicate_distance,
                       .hub_limit = config.hub_limit})
        .select(lists, source.labels(), &rows);
  };
  const double kappa = source.kappa([&](double tried) { return violating_share(select(tried).triplets, rows, config.margin); });
  EpochPlan plan = plan_of(select(kappa), source);
  plan.observe_kappa = config.mined_fraction > 0;
  return plan;
}

/// As many pairs of either kind as make an epoch of triplets' worth of images, the hardest tenth of a sample. A batch is the first images
/// of its pairs, then the second ones.
EpochPlan hard_pairs_plan(EpochSource& source) {
  const TrainConfig& config = source.config();
  const std::size_t images = 3 * source.labels().anchors().size() * static_cast<std::size_t>(config.triplets_per_anchor);
  const std::size_t kept = std::max<std::size_t>(1, images / 4);
  HardPairs hard = hard_pairs(source.embeddings(), source.labels(),
                              {.sampled = 10 * kept,
                               .kept = kept,
                               .seed = epoch_seed(config.seed, kPairs, source.epoch()),
                               .threads = static_cast<unsigned>(config.threads)});
  std::vector<Pair> pairs = std::move(hard.positives);
  pairs.insert(pairs.end(), hard.negatives.begin(), hard.negatives.end());
  shuffle(pairs, epoch_seed(config.seed, kOrder, source.epoch()));
  EpochPlan plan;
  const std::size_t batch = std::max<std::size_t>(1, 3 * static_cast<std::size_t>(config.batch_size) / 2);
  plan.batch_items = 2 * batch;
  for (std::size_t begin = 0; begin < pairs.size(); begin += batch) {
    const auto of_batch = std::span(pairs).subspan(begin, std::min(batch, pairs.size() - begin));
    for (const Pair& pair : of_batch) plan.items.push_back(pair.first);
    for (const Pair& pair : of_batch) plan.items.push_back(pair.second);
  }
  return plan;
}

BatchLoss triplets(const torch::Tensor& embeddings, const BatchLabels& /*labels*/, const TrainConfig& config) {
  const auto parts = embeddings.chunk(3);
  BatchLoss loss = triplet_loss(parts[0], parts[1], parts[2], {.margin = config.margin});
  loss.parts = {{"triplet", loss.value.detach()}};
  return loss;
}

BatchLoss triplets_and_global(const torch::Tensor& embeddings, const BatchLabels& labels, const TrainConfig& config) {
  const auto parts = embeddings.chunk(3);
  BatchLoss loss = triplets(embeddings, labels, config);
  const BatchLoss global = global_loss(parts[0], parts[1], parts[2], {.lambda = config.global_lambda, .margin = config.global_margin});
  const torch::Tensor weighted = config.global_weight * global.value;
  loss.value = loss.value + weighted;
  loss.parts["global"] = weighted.detach();
  return loss;
}

/// All pairs of the batch in the loss, but the error is that of the triplets, which is what the controller holds.
BatchLoss all_pairs(const torch::Tensor& embeddings, const BatchLabels& labels, const TrainConfig& config) {
  const auto parts = embeddings.detach().chunk(3);
  BatchLoss loss = triplet_loss(parts[0], parts[1], parts[2], {.margin = config.margin});
  loss.value = multisimilarity_loss(
                   embeddings, labels.device, labels.items,
                   {.alpha = config.multisimilarity_alpha, .beta = config.multisimilarity_beta, .base = config.multisimilarity_base})
                   .value;
  loss.parts = {{"multisimilarity", loss.value.detach()}};
  return loss;
}

BatchLoss pairs(const torch::Tensor& embeddings, const BatchLabels& labels, const TrainConfig& config) {
  const auto parts = embeddings.chunk(2);
  const auto sides = labels.device.chunk(2);
  return pairs_loss(parts[0], parts[1], sides[0] == sides[1], {.margin = config.pairs_margin});
}

}  // namespace

System triplet_global_system() {
  return {.name = "triplet-global",
          .description = "random triplets, triplet and global loss",
          .plan = random_plan,
          .loss = triplets_and_global,
          .error_counts = true};
}

System triplet_fanng_system() {
  return {.name = "triplet-fanng",
          .description = "smart mining by a schedule, triplet loss",
          .plan = smart_plan,
          .loss = triplets,
          .mines = true,
          .error_counts = true};
}

System triplet_fanng_global_system() {
  return {.name = "triplet-fanng-global",
          .description = "smart mining by a schedule, triplet and global loss",
          .plan = smart_plan,
          .loss = triplets_and_global,
          .mines = true,
          .error_counts = true};
}

System triplet_fanng_global_adaptive_system() {
  return {.name = "triplet-fanng-global-adaptive",
          .description = "smart mining that holds the training error, triplet and global loss",
          .plan = smart_plan,
          .loss = triplets_and_global,
          .mines = true,
          .adaptive = true,
          .error_counts = true};
}

System hard_pairs_system() {
  return {.name = "hard-pairs",
          .description = "the hardest tenth of randomly drawn pairs, hinge on pairs",
          .plan = hard_pairs_plan,
          .loss = pairs,
          .learning_rate = 0.01};
}

System smart_batch_system() {
  return {.name = "smart-batch",
          .description =
              "smart mining that holds the training error; its triplets make a batch, the multi-similarity loss sees all pairs of it",
          .plan = smart_plan,
          .loss = all_pairs,
          .mines = true,
          .adaptive = true,
          .error_counts = true};
}

}  // namespace smartmine
