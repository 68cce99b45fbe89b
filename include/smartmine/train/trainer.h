#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "smartmine/core/error.h"
#include "smartmine/core/progress.h"
#include "smartmine/run/config.h"
#include "smartmine/run/epoch_record.h"
#include "smartmine/run/run_directory.h"
#include "smartmine/train/ranks.h"

namespace smartmine {

struct System;

/// A guard ended the training; the run's last good checkpoint is kept.
class TrainingStopped : public Error {
 public:
  using Error::Error;
};

/// Tries the network of these settings out, before anything is begun with it, if it is a TorchScript file or has weights of a file, and
/// returns how many features it makes of an image; none: not tried. Throws as Trainer's constructor.
std::optional<std::int64_t> check_network(const RunConfig& config);

/// What there is to train on.
struct TrainingData {
  std::size_t training_images = 0;
  std::size_t training_classes = 0;
  std::size_t evaluation_images = 0;  ///< 0: nothing to measure on.
  std::size_t evaluation_classes = 0;
  std::string evaluated_on;  ///< "test" or "validation".
  std::string device;        ///< "cpu" or "cuda".
};

/// Trains an embedding, epoch by epoch, and keeps everything about it in a run directory. What lasts from one epoch to the next (network,
/// optimiser, graph, kappa) is what a checkpoint holds; on a CPU with the same number of threads a resumed run is the same to the last
/// bit. Not safe for concurrent use.
class Trainer {
 public:
  /// Loads the data and makes the network, or takes up where the run's last checkpoint left off. Throws InvalidArgument for bad settings,
  /// IoError for bad files, among them a checkpoint of other data.
  /// With `ranks`, each of them makes its own, and all calls are made by all; what differs between them is a RankFailure. Rank 0 writes;
  /// the others' `run` follows.
  Trainer(const RunConfig& config, RunDirectory& run, const Progress& progress = {}, std::shared_ptr<Ranks> ranks = nullptr);
  /// With a system that is not in the table.
  Trainer(const RunConfig& config, RunDirectory& run, const System& system, const Progress& progress = {},
          std::shared_ptr<Ranks> ranks = nullptr);
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  const TrainingData& data() const;
  /// What the person who started the run should know about the data, a sentence each.
  const std::vector<std::string>& notes() const;
  std::int64_t epochs_done() const;

  /// Trains to the last epoch; `on_epoch` sees each record once it is in the log, that of the network before training (epoch 0) first.
  /// If `progress` cancels, the step under way is finished, everything is saved, and Cancelled is thrown. Throws TrainingStopped if a guard
  /// gives up.
  /// `until`: stops after that epoch instead; the next call goes on.
  void run(const std::function<void(const EpochRecord&)>& on_epoch = {}, std::optional<std::int64_t> until = std::nullopt);

 private:
  class Work;
  std::unique_ptr<Work> work_;
};

}  // namespace smartmine
