#pragma once

#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "smartmine/core/rows.h"
#include "smartmine/graph/neighbors.h"
#include "smartmine/loss/batch_loss.h"
#include "smartmine/loss/multisimilarity_loss.h"
#include "smartmine/mining/batch_builder.h"
#include "smartmine/mining/labels.h"
#include "smartmine/mining/smart_miner.h"
#include "smartmine/mining/triplet.h"
#include "smartmine/run/config.h"
#include "smartmine/run/system_traits.h"

namespace smartmine {

/// All that a system is given to choose the images of an epoch.
struct PlanInput {
  std::int64_t epoch = 0;
  const RunConfig& config;  ///< Resolved.
  const LabelIndex& labels;
  const Rows* embeddings = nullptr;  ///< Of all training images, with the weights the epoch starts with; null unless the traits need them.
  const NeighborLists* lists = nullptr;  ///< Of those embeddings; likewise, and null in epochs before mining starts.
  double kappa = 0;                      ///< For this epoch; 0 where there are no lists.
  LongerLists longer_lists = {};         ///< Searches longer ones for some images; empty unless --longer-lists.
};

/// The images of an epoch, batch after batch, as indices into the training set.
struct EpochPlan {
  std::vector<std::uint32_t> items;
  std::size_t batch_items = 0;         ///< Images of a batch; the last may be shorter.
  std::optional<MiningStats> mining;   ///< Of systems that make triplets.
  std::vector<Triplet> triplets;       ///< Likewise, in the order of the batches.
  std::vector<TripletOrigin> origins;  ///< Of these.
  std::optional<BatchStats> grouping;  ///< Of systems that put near classes into one batch.
  std::optional<BatchSurvey> survey;   ///< Likewise, where there were lists.
  bool observe_kappa = false;          ///< Whether this epoch's error tells something about kappa.

  std::size_t batches() const { return batch_items == 0 ? 0 : (items.size() + batch_items - 1) / batch_items; }
  std::span<const std::uint32_t> batch(std::size_t number) const;
};

/// Labels of a batch's images, where the host has them and where the embeddings are.
struct BatchLabels {
  std::span<const std::int64_t> host;
  torch::Tensor device;       ///< int64.
  torch::Tensor items = {};   ///< int64, on the device too: which images they are, for one may come several times.
  ReferenceRows memory = {};  ///< Of systems that remember: embeddings of the images nearest to these, as they were last seen.
};

/// A row of the paper's tables, or one beyond them: how the images of a batch are chosen and what is made of their embeddings. Both are
/// functions of what they are given. To add one to the library, write a file with these two, add its traits to the table in
/// run/system_traits.cpp and its line to the one in system.cpp; a program of one's own hands its System to the Trainer.
struct System {
  SystemTraits traits;
  std::function<EpochPlan(const PlanInput& input)> plan;
  std::function<BatchLoss(const torch::Tensor& embeddings, const BatchLabels& labels, const SystemOptions& options)> loss;
};

/// By name. Throws InvalidArgument naming those there are.
const System& find_system(std::string_view name);

/// A seed of its own for each purpose and epoch.
std::uint64_t epoch_seed(std::uint64_t seed, std::uint64_t purpose, std::int64_t epoch);

// Plans to build on.

/// Triplets drawn at random, --triplets-per-anchor of each image.
EpochPlan random_plan(const PlanInput& input);
/// Triplets mined from the lists with the input's kappa; random ones where it has no lists.
EpochPlan smart_plan(const PlanInput& input);
/// Batches of classes drawn at random, --images-per-class of each.
EpochPlan classes_plan(const PlanInput& input);
/// Batches of classes that the lists show to be near each other, a share of 1 / kappa of them; drawn at random where it has no lists.
EpochPlan neighbor_plan(const PlanInput& input);

}  // namespace smartmine
