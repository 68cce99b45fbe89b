#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "smartmine/core/rows.h"
#include "smartmine/mining/triplet.h"
#include "smartmine/run/config.h"
#include "smartmine/run/epoch_record.h"

namespace smartmine {

/// Where a run keeps what it makes: config.toml, log.jsonl (a line per epoch), metrics.csv, checkpoint/, and of chosen epochs
/// embeddings/epoch-0004.npy and triplets/epoch-0004.npy, with embeddings/labels.npy beside the former; report/ has pictures for a report.
/// Every file is whole at any moment.
class RunDirectory {
 public:
  /// Makes a new one and writes its config.toml. Throws IoError if `path` is there already, with a hint to resume; an empty folder, and one
  /// that holds nothing but the temporary files of a killed process, is taken over.
  static RunDirectory create(const std::filesystem::path& path, const RunConfig& config);
  /// Takes up one that is there. Throws IoError if it is not, or has no config.toml.
  static RunDirectory open(const std::filesystem::path& path);

  /// For a rank that others write for: the directory of `path`, which may be on another host, is never written to. `log` are the lines of
  /// its log.
  static RunDirectory follow(const std::filesystem::path& path, std::span<const std::string> log);
  /// False: it follows.
  bool writes() const { return writes_; }
  /// The lines of its log.
  std::span<const std::string> log_lines() const { return lines_; }

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path config_path() const { return path_ / "config.toml"; }
  std::filesystem::path checkpoint_path() const { return path_ / "checkpoint"; }
  std::filesystem::path backbone_path() const { return path_ / "backbone.pt"; }
  std::filesystem::path report_path() const { return path_ / "report"; }
  std::filesystem::path start_path() const { return path_ / "start.safetensors"; }
  std::filesystem::path kept_path() const { return path_ / "kept.safetensors"; }
  /// The weights to use: those kept where a choice was made among several, else of the last good checkpoint.
  std::filesystem::path model_path() const;
  /// Those of the last good checkpoint.
  std::filesystem::path last_model_path() const;

  std::span<const EpochRecord> log() const { return log_; }
  /// With the run's own copy in place of a backbone that is a file.
  RunConfig with_own_backbone(RunConfig config) const;
  /// Writes config.toml anew.
  void change_config(const RunConfig& config) const;
  /// Adds a line to the log and to metrics.csv.
  void append(const EpochRecord& record);
  /// Forgets all records after `epoch`: they will be made again.
  void forget_after(std::int64_t epoch);

  /// Keeps others from training in it as long as the result lives. Throws IoError if somebody does already.
  std::shared_ptr<void> lock() const;

  /// Takes the directory away again if there is nothing in it but settings and what was chosen without a trial.
  void remove_if_unused() const;

  void save_embeddings(std::int64_t epoch, const Rows& rows, std::span<const std::int64_t> labels) const;
  /// Of the weights that are kept, where these are not the last epoch's: embeddings/kept.npy.
  void save_kept_embeddings(const Rows& rows, std::span<const std::int64_t> labels) const;
  /// Removes the weights that are kept and their embeddings: the last epoch's are the ones to use again.
  void forget_kept() const;
  /// Which weights `model_path` has, in words: "epoch 8, 75 % of the way from the start", "epoch 3 of 8, where it stands now". Between the
  /// last epoch and what is kept of it: that this is not settled.
  std::string weights_in_words() const;
  /// Removes the embeddings of all other epochs.
  void keep_embeddings_of(std::span<const std::int64_t> epochs) const;
  void save_triplets(std::int64_t epoch, std::span<const Triplet> triplets) const;

 private:
  explicit RunDirectory(std::filesystem::path path) : path_(std::move(path)) {}
  void write_log() const;

  std::filesystem::path path_;
  std::vector<EpochRecord> log_;
  std::vector<std::string> lines_;  // as they stand in the file
  bool writes_ = true;
};

/// "runs/glyphs-1", or the first number that is free.
std::filesystem::path free_run_path(const std::filesystem::path& parent, const std::string& dataset);

}  // namespace smartmine
