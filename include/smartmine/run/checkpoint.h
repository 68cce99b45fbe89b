#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace smartmine {

/// What lies between two epochs, or between two steps of one, beside the tensors and the graph. Randomness needs nothing here: it is keyed
/// by (seed, epoch, number).
struct TrainState {
  std::int64_t epochs_done = 0;
  double rate_scale = 1;  ///< What the guards have left of the learning rate.
  std::int64_t times_backed_off = 0;
  std::int64_t stuck_epochs = 0;  ///< Epochs in a row whose error did not move from 1.
  std::string kappa;              ///< KappaPolicy::save(); empty: no kappa.
  std::uint64_t images = 0;       ///< Of the training set, to notice another one.
  std::uint64_t label_hash = 0;
  std::vector<std::string> told;  ///< Kinds of notes that are told once in a run and have been.

  bool in_epoch = false;  ///< Stopped between two steps of the next epoch:
  std::size_t next_step = 0;
  std::size_t batch_items = 0;
  bool observe_kappa = false;
  std::string record;  ///< What the log will say of it, so far.
};

/// As JSON, and back. The latter throws InvalidArgument saying what is wrong.
std::string to_json(const TrainState& state);
TrainState parse_state(const std::string& text);

/// A folder whose content is replaced as a whole: filled under another name, then renamed. While the old one makes place there is a moment
/// when it has only its other name, so look for it with `find_checkpoint`.
class CheckpointWriter {
 public:
  explicit CheckpointWriter(const std::filesystem::path& destination);
  ~CheckpointWriter();  ///< Without a commit, nothing has happened.
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;
  const std::filesystem::path& folder() const { return folder_; }  ///< To write into.
  void commit();

 private:
  std::filesystem::path destination_;
  std::filesystem::path folder_;
  bool committed_ = false;
};

/// Where the last good checkpoint is: `destination`, or the name it has for a moment while it is replaced; empty if there is none.
std::filesystem::path find_checkpoint(const std::filesystem::path& destination);

inline constexpr const char* kStateFile = "state.json";  ///< In a checkpoint.
/// The state that a checkpoint has. Throws IoError if it is not there or damaged.
TrainState read_state(const std::filesystem::path& checkpoint);

}  // namespace smartmine
