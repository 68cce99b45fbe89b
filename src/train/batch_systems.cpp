#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "smartmine/core/random.h"
#include "smartmine/loss/clustering_loss.h"
#include "smartmine/loss/lifted_loss.h"
#include "smartmine/loss/multisimilarity_loss.h"
#include "smartmine/loss/npairs_loss.h"
#include "smartmine/loss/semihard_loss.h"
#include "train/systems.h"

// Systems that draw classes for a batch and leave the choice among its images to the loss.
namespace smartmine {
namespace {

enum Purpose : std::uint64_t { kClasses = 0x6201, kNeighborBatches };

/// Classes that can give a pair.
std::vector<std::uint32_t> usable_classes(const LabelIndex& labels) {
  std::vector<std::uint32_t> usable;
  for (std::uint32_t c = 0; c < labels.classes(); ++c)
    if (labels.class_size(c) > 1) usable.push_back(c);
  return usable;
}

/// Batches of `classes` classes with `images` images each, as many as an epoch of triplets would see. Smaller classes repeat images.
EpochPlan class_batches(const PlanInput& input, std::size_t wanted_classes, std::size_t images) {
  const RunConfig& config = input.config;
  const LabelIndex& labels = input.labels;
  std::vector<std::uint32_t> usable = usable_classes(labels);
  const std::size_t classes = std::min(wanted_classes, usable.size());
  EpochPlan plan;
  plan.batch_items = classes * images;
  const std::size_t total = 3 * labels.anchors().size() * static_cast<std::size_t>(config.system.triplets_per_anchor);
  const std::size_t batches = std::max<std::size_t>(1, total / plan.batch_items);
  plan.items.reserve(batches * plan.batch_items);
  Random random(epoch_seed(config.compute.seed, kClasses, input.epoch));
  for (std::size_t b = 0; b < batches; ++b) {
    shuffle_first(usable, classes, random);
    for (std::size_t c = 0; c < classes; ++c) {
      const auto members = labels.members(usable[c]);
      std::vector<std::uint32_t> chosen(members.begin(), members.end());
      shuffle_first(chosen, std::min(images, chosen.size()), random);
      for (std::size_t i = 0; i < images; ++i) plan.items.push_back(chosen[i % chosen.size()]);
    }
  }
  return plan;
}

std::size_t batch_images(const PlanInput& input) { return 3 * static_cast<std::size_t>(input.config.system.batch_size); }

}  // namespace

EpochPlan classes_plan(const PlanInput& input) {
  const auto images = static_cast<std::size_t>(input.config.system.images_per_class);
  return class_batches(input, std::max<std::size_t>(2, batch_images(input) / images), images);
}

/// One pair from each of many classes: the first images of all pairs, then the second ones.
EpochPlan pairs_of_classes_plan(const PlanInput& input) {
  EpochPlan plan = class_batches(input, std::max<std::size_t>(2, batch_images(input) / 2), 2);
  std::vector<std::uint32_t> batch(plan.batch_items);
  for (std::size_t begin = 0; begin < plan.items.size(); begin += plan.batch_items) {
    std::copy_n(plan.items.begin() + static_cast<std::ptrdiff_t>(begin), batch.size(), batch.begin());
    for (std::size_t i = 0; i < batch.size(); ++i) plan.items[begin + i / 2 + (i % 2) * (batch.size() / 2)] = batch[i];
  }
  return plan;
}

BatchBuilderOptions neighbor_batch_options(const PlanInput& input) {
  const RunConfig& config = input.config;
  const auto images = static_cast<std::size_t>(config.system.images_per_class);
  return {.classes = std::max<std::size_t>(2, batch_images(input) / images),
          .images_per_class = images,
          .near_share = input.lists != nullptr ? std::min(1.0, config.mining.mined_fraction / std::max(1.0, input.kappa)) : 0,
          .rounds = 3 * static_cast<std::size_t>(config.system.triplets_per_anchor),
          .duplicate_distance = config.mining.duplicate_distance,
          .seed = epoch_seed(config.compute.seed, kNeighborBatches, input.epoch),
          .threads = static_cast<unsigned>(config.compute.threads)};
}

EpochPlan neighbor_plan(const PlanInput& input) {
  const bool near = input.lists != nullptr;
  const NeighborLists none;
  const BatchBuilderOptions options = neighbor_batch_options(input);
  ClassBatches batches = build_batches(near ? *input.lists : none, input.labels, options, near ? input.embeddings : nullptr);
  EpochPlan plan;
  if (near) plan.survey = survey_batches(batches, input.labels, input.embeddings);
  plan.items = std::move(batches.items);
  plan.batch_items = batches.batch_items;
  plan.grouping = batches.stats;
  plan.observe_kappa = near;
  return plan;
}

namespace {

/// Pairs of images of one class in the batch, i < j: what the losses over all pairs can at most have active.
std::int64_t positive_pairs(const BatchLabels& labels) {
  std::map<std::int64_t, std::int64_t> counts;
  for (const std::int64_t label : labels.host) ++counts[label];
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0},
                         [](std::int64_t sum, const auto& entry) { return sum + entry.second * (entry.second - 1) / 2; });
}

}  // namespace

/// The error is that of retrieval inside the batch: the share of images whose nearest other one is of another class.
BatchLoss all_pairs(const torch::Tensor& embeddings, const BatchLabels& labels, const SystemOptions& options) {
  BatchLoss loss = multisimilarity_loss(
      embeddings, labels.device, labels.items,
      {.alpha = options.multisimilarity_alpha, .beta = options.multisimilarity_beta, .base = options.multisimilarity_base}, labels.memory);
  const torch::NoGradGuard no_grad;
  const torch::Tensor rows = embeddings.detach();
  const torch::Tensor same = labels.items.unsqueeze(0) == labels.items.unsqueeze(1);
  const torch::Tensor nearest = rows.matmul(rows.t()).masked_fill(same, -2).argmax(1);
  loss.active = (labels.device.index_select(0, nearest) != labels.device).sum();
  loss.terms = rows.size(0);
  loss.parts = {{"multisimilarity", loss.value.detach()}};
  return loss;
}

BatchLoss semihard(const torch::Tensor& embeddings, const BatchLabels& labels, const SystemOptions& options) {
  BatchLoss loss = semihard_loss(embeddings, labels.device, {.margin = options.margin}, labels.items);
  loss.terms = 2 * positive_pairs(labels);
  return loss;
}

BatchLoss lifted(const torch::Tensor& embeddings, const BatchLabels& labels, const SystemOptions& options) {
  BatchLoss loss = lifted_loss(embeddings, labels.device, {.margin = options.lifted_margin});
  loss.terms = positive_pairs(labels);
  return loss;
}

BatchLoss npairs(const torch::Tensor& embeddings, const BatchLabels& /*labels*/, const SystemOptions& options) {
  const auto sides = embeddings.chunk(2);
  return npairs_loss(sides[0], sides[1], {.norm_weight = options.npairs_norm_weight});
}

BatchLoss clustering(const torch::Tensor& embeddings, const BatchLabels& labels, const SystemOptions& options) {
  BatchLoss loss = clustering_loss(embeddings, labels.device, {.gamma = options.clustering_gamma});
  // As published it is a sum; a mean lets all systems share a learning rate.
  loss.value = loss.value / static_cast<double>(labels.host.size());
  return loss;
}

}  // namespace smartmine
