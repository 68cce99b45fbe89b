#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace smartmine {

/// A mean over runs, and how far they lie apart.
struct Spread {
  double mean = 0;
  double deviation = 0;   ///< Standard deviation of a sample (n - 1); 0 of one run.
  std::size_t count = 0;  ///< Runs that had a value.
};
Spread spread_of(std::span<const double> values);

/// A triplet that a run trained an anchor with.
struct ShownTriplet {
  std::string run;
  std::int64_t epoch = 0;
  std::optional<double> kappa;
  std::string anchor, positive, negative;  ///< Names of images.
  std::string anchor_class, negative_class;
  double positive_distance = 0, negative_distance = 0;  ///< Squared, to the anchor.
  bool mined = false;                                   ///< Or drawn at random.
};

/// Finished runs whose settings are the same but for the seed and what does not change the result. Of data set folder also the folder is.
struct RunGroup {
  std::string name;  ///< The data set or its folder, if there are several, the system, and what sets the group apart from others of it.
  std::string dataset;
  std::string system;
  std::string evaluated_on;  ///< "test" or "validation"; empty: nothing was measured.
  std::int64_t epochs = 0;
  std::vector<std::filesystem::path> runs = {};
  std::map<std::string, Spread> metrics = {};  ///< Of the last epoch, by the names of the log; fractions of 1.
  Spread mined = {};       ///< Share of triplets whose negative came from a list, over the epochs that mine; none: none does.
  std::string index = {};  ///< By which index these lists were found, and from what a graph was built; empty: no lists.
  /// What mining took and came to, of the epochs that mine: lists_seconds, longer_lists_seconds and selection_seconds of an epoch,
  /// success_rate, success_bound and mean_degree of a graph, and the shares of random triplets by their reasons, as the log names them.
  std::map<std::string, Spread> mining = {};
  Spread seconds = {};     ///< A run.
  /// By epoch and name: the metrics, training_error, validation_error and kappa.
  std::map<std::int64_t, std::map<std::string, Spread>> by_epoch = {};
  std::vector<ShownTriplet> triplets = {};  ///< As far as the runs kept some.
};

/// Runs side by side.
struct Comparison {
  std::vector<RunGroup> groups;    ///< In the order of their first runs.
  std::vector<std::string> notes;  ///< What was left out or should be known, a sentence each.
};

/// Reads run directories and groups them. Runs that are not finished, and what is no run among several paths, are left out and named.
/// Throws IoError for a path that does not exist, and if no run is finished; InvalidArgument for none, or for one given twice.
Comparison compare_runs(std::span<const std::filesystem::path> runs);

/// What to print of a comparison beside its table.
struct ComparisonOptions {
  std::string paper = {};  ///< cub200 or cars196: the paper's figures beside those measured on test classes. Empty: none.
  bool by_epoch = false;   ///< Metrics, errors and kappa by epoch.
  bool triplets = false;   ///< What the anchors were trained with.
  void validate() const;   ///< Throws InvalidArgument naming the field, its value and the allowed range.
};

/// Tables in markdown whose columns line up, figures in per cent.
std::string comparison_tables(const Comparison& comparison, const ComparisonOptions& options);
/// The same as one JSON object, fractions of 1.
std::string comparison_json(const Comparison& comparison, const ComparisonOptions& options);

}  // namespace smartmine
