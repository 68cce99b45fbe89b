#include <algorithm>
#include <utility>

#include "smartmine/core/random.h"
#include "smartmine/loss/global_loss.h"
#include "smartmine/loss/multisimilarity_loss.h"
#include "smartmine/loss/pairs_loss.h"
#include "smartmine/loss/triplet_loss.h"
#include "smartmine/mining/selections.h"
#include "smartmine/mining/smart_miner.h"
#include "train/systems.h"

// Systems made of triplets, random or mined, and of mined pairs.
namespace smartmine {
namespace {

constexpr std::int64_t kLongestLists = 16;  // times the others

enum Purpose : std::uint64_t { kRandomTriplets = 0x7401, kMinedTriplets, kOrder, kPairs };

/// Triplets in random order; a batch is its anchors, then its positives, then its negatives.
EpochPlan plan_of(MinedTriplets mined, const PlanInput& input) {
  EpochPlan plan;
  const std::uint64_t seed = epoch_seed(input.config.compute.seed, kOrder, input.epoch);
  Random of_triplets(seed), of_origins(seed);  // in the same way
  shuffle(mined.triplets, of_triplets);
  shuffle(mined.origins, of_origins);
  const auto batch = static_cast<std::size_t>(input.config.system.batch_size);
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

}  // namespace

EpochPlan random_plan(const PlanInput& input) {
  const RunConfig& config = input.config;
  const std::size_t anchors = input.labels.anchors().size();
  return plan_of(RandomMiner({.count = anchors * static_cast<std::size_t>(config.system.triplets_per_anchor),
                              .seed = epoch_seed(config.compute.seed, kRandomTriplets, input.epoch),
                              .threads = static_cast<unsigned>(config.compute.threads)})
                     .select(input.labels),
                 input);
}

EpochPlan smart_plan(const PlanInput& input) {
  if (input.lists == nullptr) return random_plan(input);
  const RunConfig& config = input.config;
  EpochPlan plan = plan_of(SmartMiner({.kappa = input.kappa,
                                       .triplets_per_anchor = static_cast<std::size_t>(config.system.triplets_per_anchor),
                                       .mined_fraction = config.mining.mined_fraction,
                                       .seed = epoch_seed(config.compute.seed, kMinedTriplets, input.epoch),
                                       .threads = static_cast<unsigned>(config.compute.threads),
                                       .margin = config.system.margin,
                                       .nearer_positives = config.mining.nearer_positives,
                                       .duplicate_distance = config.mining.duplicate_distance,
                                       .hub_limit = config.mining.hub_limit,
                                       .longer_lists = input.longer_lists,
                                       .longest_list = static_cast<std::size_t>(config.mining.longest_list.value_or(
                                           kLongestLists * static_cast<std::int64_t>(input.lists->neighbors())))})
                               .select(*input.lists, input.labels, input.embeddings),
                           input);
  plan.observe_kappa = config.mining.mined_fraction > 0;
  return plan;
}

/// As many pairs of either kind as make an epoch of triplets' worth of images, the hardest tenth of a sample. A batch is the first images
/// of its pairs, then the second ones.
EpochPlan hard_pairs_plan(const PlanInput& input) {
  const RunConfig& config = input.config;
  const std::size_t images = 3 * input.labels.anchors().size() * static_cast<std::size_t>(config.system.triplets_per_anchor);
  const std::size_t kept = std::max<std::size_t>(1, images / 4);
  HardPairs hard = hard_pairs(*input.embeddings, input.labels,
                              {.sampled = 10 * kept,
                               .kept = kept,
                               .seed = epoch_seed(config.compute.seed, kPairs, input.epoch),
                               .threads = static_cast<unsigned>(config.compute.threads)});
  std::vector<Pair> pairs = std::move(hard.positives);
  pairs.insert(pairs.end(), hard.negatives.begin(), hard.negatives.end());
  Random random(epoch_seed(config.compute.seed, kOrder, input.epoch));
  shuffle(pairs, random);
  EpochPlan plan;
  const std::size_t batch = std::max<std::size_t>(1, 3 * static_cast<std::size_t>(config.system.batch_size) / 2);
  plan.batch_items = 2 * batch;
  for (std::size_t begin = 0; begin < pairs.size(); begin += batch) {
    const auto of_batch = std::span(pairs).subspan(begin, std::min(batch, pairs.size() - begin));
    for (const Pair& pair : of_batch) plan.items.push_back(pair.first);
    for (const Pair& pair : of_batch) plan.items.push_back(pair.second);
  }
  return plan;
}

BatchLoss triplets(const torch::Tensor& embeddings, const BatchLabels& /*labels*/, const SystemOptions& options) {
  const auto parts = embeddings.chunk(3);
  BatchLoss loss = triplet_loss(parts[0], parts[1], parts[2], {.margin = options.margin});
  loss.parts = {{"triplet", loss.value.detach()}};
  return loss;
}

BatchLoss triplets_and_global(const torch::Tensor& embeddings, const BatchLabels& labels, const SystemOptions& options) {
  const auto parts = embeddings.chunk(3);
  BatchLoss loss = triplets(embeddings, labels, options);
  const BatchLoss global = global_loss(parts[0], parts[1], parts[2], {.lambda = options.global_lambda, .margin = options.global_margin});
  const torch::Tensor weighted = options.global_weight * global.value;
  loss.value = loss.value + weighted;
  loss.parts["global"] = weighted.detach();
  return loss;
}

/// All pairs of the batch in the loss, but the error is that of the triplets, which is what the controller holds.
BatchLoss triplets_all_pairs(const torch::Tensor& embeddings, const BatchLabels& labels, const SystemOptions& options) {
  const auto parts = embeddings.detach().chunk(3);
  BatchLoss loss = triplet_loss(parts[0], parts[1], parts[2], {.margin = options.margin});
  loss.value = multisimilarity_loss(
                   embeddings, labels.device, labels.items,
                   {.alpha = options.multisimilarity_alpha, .beta = options.multisimilarity_beta, .base = options.multisimilarity_base})
                   .value;
  loss.parts = {{"multisimilarity", loss.value.detach()}};
  return loss;
}

BatchLoss mined_pairs(const torch::Tensor& embeddings, const BatchLabels& labels, const SystemOptions& options) {
  const auto parts = embeddings.chunk(2);
  const auto sides = labels.device.chunk(2);
  return pairs_loss(parts[0], parts[1], sides[0] == sides[1], {.margin = options.pairs_margin});
}

}  // namespace smartmine
