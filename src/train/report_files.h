#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <future>
#include <optional>
#include <span>
#include <vector>

#include "smartmine/core/rows.h"
#include "smartmine/data/dataset.h"
#include "smartmine/mining/labels.h"
#include "smartmine/run/config.h"
#include "smartmine/train/system.h"

namespace smartmine {

/// Triplets of a few anchors at an epoch, to be shown beside random ones. Numbers count `items`.
struct ShownTriplets {
  struct One {
    std::uint32_t positive = 0;
    std::uint32_t negative = 0;
    bool mined = false;
  };
  struct Anchor {
    std::uint32_t item = 0;
    std::vector<One> trained;  ///< What the epoch trains the anchor with.
    std::vector<One> random;   ///< To compare with.
  };
  std::int64_t epoch = 0;
  std::optional<double> kappa;
  std::vector<std::uint32_t> items;  ///< Images of the training set.
  std::vector<Anchor> anchors;
};

/// Whether an epoch's triplets are to be shown: those of --save-epochs, or four from the first that may be mined to the last.
bool is_report_epoch(const RunConfig& config, std::int64_t epoch);

/// Some anchors, the same in every epoch of a run, of different classes where there are as many, with some of their triplets. A report
/// shows those that were mined.
ShownTriplets choose_triplets(const EpochPlan& plan, const LabelIndex& labels, std::uint64_t seed, std::int64_t epoch);

/// Pictures and names that only a report needs, written by threads of their own so that training does not wait for them. A file appears
/// whole or not at all; docs/report-data.md describes them.
class ReportFiles {
 public:
  explicit ReportFiles(std::filesystem::path folder) : folder_(std::move(folder)) {}
  ~ReportFiles();  ///< Images not yet written are given up; the next run makes them.
  ReportFiles(const ReportFiles&) = delete;
  ReportFiles& operator=(const ReportFiles&) = delete;

  /// Starts to write names and small images of the evaluated split, unless they are there.
  void save_images(const Dataset& dataset);
  /// Starts to write triplets; `rows` are the embeddings of their items.
  void save_triplets(const ShownTriplets& shown, const Rows& rows, const Dataset& dataset);
  /// Waits until triplets are written. Throws what went wrong.
  void finish_triplets();
  /// Waits for everything. Throws what went wrong.
  void finish();

 private:
  std::filesystem::path folder_;
  std::atomic<bool> stop_ = false;
  std::future<void> images_;
  std::future<void> triplets_;
};

}  // namespace smartmine
