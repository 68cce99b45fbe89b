#pragma once

#include <memory>
#include <string>

#include "smartmine/run/run_directory.h"
#include "train/epoch.h"
#include "train/report_files.h"

namespace smartmine {

/// Writes what lasts of a run: log, embeddings, triplets, pictures for a report, checkpoints.
class Recorder {
 public:
  /// Keeps others from writing there as long as it lives. Throws IoError if somebody does already.
  Recorder(RunDirectory& run, const RunConfig& config);

  /// Names and small images of the evaluated half, for a report.
  void keep_images(const LoadedData& data);
  /// Triplets of epochs whose triplets are to be kept or shown.
  void keep_triplets(const Epoch& epoch, const EpochUnderWay& planned);
  /// Evaluates, if there is something to measure on, and keeps the embeddings.
  void measure(const Epoch& epoch, Optimizer& optimizer, EpochRecord& record);
  /// Adds a note of a kind that is told once in a run.
  static void tell_once(TrainState& state, const std::string& kind, const std::string& note, EpochRecord& record);
  /// Into the log.
  void add(const EpochRecord& record) { run_.append(record); }
  /// The weights that the run starts from.
  void save_start(const Epoch& epoch) const;
  void save_checkpoint(const Epoch& epoch, Persistent& kept) const;
  /// Waits for what is written beside the training: all of it, or only triplets.
  void finish() { files_.finish(); }
  void finish_triplets() { files_.finish_triplets(); }

  RunDirectory& run() { return run_; }

 private:
  RunDirectory& run_;
  const RunConfig& config_;
  std::shared_ptr<void> lock_;
  ReportFiles files_;
};

/// Files of a checkpoint that only some have.
inline constexpr const char* kGraphFile = "graph.fanng";
inline constexpr const char* kMemoryFile = "memory.safetensors";

/// The state as a checkpoint has it: with kappa and an epoch under way.
TrainState full_state(const Persistent& kept);

/// Takes up what a checkpoint holds: weights, optimiser, kappa, graph, state and an epoch under way. `kept` is what a new run of the same
/// data begins with. Throws IoError for a damaged one or one of other data.
void load_checkpoint(const std::filesystem::path& folder, const Network& network, const LabelIndex& labels, Persistent& kept);

}  // namespace smartmine
