#pragma once

#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "smartmine/core/rows.h"
#include "smartmine/graph/neighbors.h"
#include "smartmine/loss/batch_loss.h"
#include "smartmine/mining/labels.h"
#include "smartmine/mining/triplet.h"
#include "smartmine/train/config.h"

namespace smartmine {

/// What a system may know when it chooses the images of an epoch. Embeddings and lists are computed when first asked for.
class EpochSource {
 public:
  virtual ~EpochSource() = default;
  virtual std::int64_t epoch() const = 0;
  virtual const TrainConfig& config() const = 0;
  virtual const LabelIndex& labels() const = 0;
  virtual Rows embeddings() = 0;             ///< Of all training images, with the weights the epoch starts with.
  virtual const NeighborLists& lists() = 0;  ///< Of those embeddings.
  /// For this epoch. `expected_error` is the error that triplets of a kappa have before they are trained on; a first kappa may depend on
  /// it.
  virtual double kappa(const std::function<double(double kappa)>& expected_error) = 0;
};

/// The images of an epoch, batch after batch, as indices into the training set.
struct EpochPlan {
  std::vector<std::uint32_t> items;
  std::size_t batch_items = 0;         ///< Images of a batch; the last may be shorter.
  std::optional<MiningStats> mining;   ///< Of systems that make triplets.
  std::vector<Triplet> triplets;       ///< Likewise, in the order of the batches.
  std::vector<TripletOrigin> origins;  ///< Of these.
  bool observe_kappa = false;          ///< Whether this epoch's error tells something about kappa.

  std::size_t batches() const { return batch_items == 0 ? 0 : (items.size() + batch_items - 1) / batch_items; }
  std::span<const std::uint32_t> batch(std::size_t number) const;
};

/// Labels of a batch's images, where the host has them and where the embeddings are.
struct BatchLabels {
  std::span<const std::int64_t> host;
  torch::Tensor device;      ///< int64.
  torch::Tensor items = {};  ///< int64, on the device too: which images they are, for one may come several times.
};

/// A row of the paper's tables, or one beyond them: how the images of a batch are chosen and what is made of their embeddings. To add one,
/// write a file with a function that returns a System, and add its line to the table in system.cpp.
struct System {
  std::string_view name;
  std::string_view description;
  EpochPlan (*plan)(EpochSource& source) = nullptr;
  BatchLoss (*loss)(const torch::Tensor& embeddings, const BatchLabels& labels, const TrainConfig& config) = nullptr;
  bool unit_norm = true;         ///< Whether the loss gets embeddings of length 1.
  bool mines = false;            ///< Whether there is a kappa.
  bool adaptive = false;         ///< Whether a controller sets it.
  double learning_rate = 0.1;    ///< That suits the loss and a network of random weights, unless somebody sets another.
  double pretrained_rate = 0.1;  ///< Times that, for a network that starts from trained weights.
  bool error_counts = false;     ///< Whether the training error is a share of triplets, so that an error of 1 says that nothing is learnt.
};

/// All systems, in the order of the tables.
std::span<const System> systems();
/// By name. Throws InvalidArgument naming those there are.
const System& find_system(std::string_view name);
std::vector<std::string> system_names();

// Of batch_systems.cpp and triplet_systems.cpp.
System semihard_system();
System lifted_system();
System npairs_system();
System clustering_system();
System triplet_global_system();
System triplet_fanng_system();
System triplet_fanng_global_system();
System triplet_fanng_global_adaptive_system();
System hard_pairs_system();
System smart_batch_system();

/// A seed of its own for each purpose and epoch.
std::uint64_t epoch_seed(std::uint64_t seed, std::uint64_t purpose, std::int64_t epoch);

}  // namespace smartmine
