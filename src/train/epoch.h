#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "smartmine/core/progress.h"
#include "smartmine/graph/neighbor_index.h"
#include "smartmine/mining/kappa_controller.h"
#include "smartmine/run/checkpoint.h"
#include "smartmine/run/epoch_record.h"
#include "smartmine/train/system.h"
#include "train/loaded_data.h"
#include "train/memory.h"
#include "train/network.h"
#include "train/optimizer.h"

namespace smartmine {

class Recorder;

/// What every part of an epoch is given.
struct Epoch {
  std::int64_t number = 0;
  const RunConfig& config;  ///< Resolved.
  const System& system;
  const Network& network;
  LoadedData& data;
  const Progress& progress;
  Ranks* ranks = nullptr;  ///< That share the work; null: this process does it alone.

  bool is_last() const { return number == config.schedule.epochs; }
  bool is_evaluated() const { return number % config.output.evaluate_every == 0 || is_last(); }
};

/// An epoch between two of its steps.
struct EpochUnderWay {
  EpochPlan plan;
  EpochRecord record;
  std::size_t next_step = 0;
  std::optional<Memory> memory = {};  ///< Of systems that remember, once they mine.
};

/// What lasts from one epoch to the next, beside the network's weights: exactly what a checkpoint holds.
struct Persistent {
  std::unique_ptr<Optimizer> optimizer;
  std::unique_ptr<KappaPolicy> kappa;  ///< Null: the system has none.
  NeighborIndex index;                 ///< With last epoch's graph.
  TrainState state;
  std::optional<EpochUnderWay> under_way;
};

/// One epoch: embed, index, mine, step, evaluate, observe. Takes up one that is under way. Returns what went wrong, if something did; the
/// epoch is then to be undone. Throws Cancelled between two steps, with `kept.under_way` as it stands.
std::optional<std::string> run_epoch(const Epoch& epoch, Persistent& kept, Recorder& recorder);

/// The first half of it: everything up to the first step.
EpochUnderWay plan_epoch(const Epoch& epoch, KappaPolicy* kappa, NeighborIndex& index, double rate_scale);

/// How well the network, with the average of its weights where one is kept, tells the classes of the evaluated half apart.
struct Evaluation {
  torch::Tensor embeddings;  ///< On the CPU.
  RetrievalMetrics metrics;
  double validation_error = 0;  ///< As the training error, on random triplets of that half, the same ones every epoch.
};
Evaluation evaluate(const Epoch& epoch, Optimizer& optimizer);

/// The same error on the reserved images, which are of training classes, with the weights as they are: those that mining goes on with.
/// None: no images are reserved.
std::optional<double> reserved_error(const Epoch& epoch, EpochRecord& record);

/// Embeddings of some training images with the weights as they are.
torch::Tensor embed_items(const Epoch& epoch, std::span<const std::uint32_t> items);

/// Adds the time it lives to a stage of a record, also when an exception ends it.
class Timed {
 public:
  Timed(EpochRecord& record, const char* stage);
  ~Timed();
  Timed(const Timed&) = delete;
  Timed& operator=(const Timed&) = delete;

 private:
  EpochRecord& record_;
  const char* stage_;
  double begin_;
};

}  // namespace smartmine
