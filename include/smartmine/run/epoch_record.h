#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "smartmine/mining/batch_builder.h"
#include "smartmine/mining/triplet.h"

namespace smartmine {

/// How well an embedding tells the classes of a split apart; all fractions of 1.
struct RetrievalMetrics {
  std::string split;  ///< "test" or "validation".
  double recall_at_1 = 0;
  double recall_at_2 = 0;
  double recall_at_4 = 0;
  double recall_at_8 = 0;
  double nmi = 0;  ///< Arithmetic mean of the entropies.
  double nmi_geometric = 0;
  double map_at_r = 0;
  double r_precision = 0;
};

/// Names of the metrics in JSON and CSV, with their fields.
template <class Metrics, class Visit>
void visit_metrics(Metrics& m, const Visit& visit) {
  visit("recall@1", m.recall_at_1);
  visit("recall@2", m.recall_at_2);
  visit("recall@4", m.recall_at_4);
  visit("recall@8", m.recall_at_8);
  visit("nmi", m.nmi);
  visit("nmi_geometric", m.nmi_geometric);
  visit("map@r", m.map_at_r);
  visit("r_precision", m.r_precision);
}

/// What neighbour lists of an epoch cost and reached.
struct ListRecord {
  std::string index;  ///< "exact", "fanng" or "exact-cuda".
  double recall = 1;
  std::uint64_t distance_computations = 0;
  std::optional<double> success_rate = {};   ///< Of a graph: share of random pairs that descend to their target ...
  std::optional<double> success_bound = {};  ///< ... its lower 95 % bound ...
  std::optional<double> mean_degree = {};    ///< ... and edges per vertex.
  std::string start = {};                    ///< Of a graph: what it was built from, as --graph-start has it. Empty: no graph.
};

/// How squared distances of an epoch's triplets were spread while they were trained on: counts in equal bins from 0 to kMax.
struct DistanceCounts {
  static constexpr std::size_t kBins = 64;
  static constexpr double kMax = 4;  ///< Unit vectors are never farther apart.
  std::vector<std::uint64_t> positive = std::vector<std::uint64_t>(kBins);
  std::vector<std::uint64_t> negative = std::vector<std::uint64_t>(kBins);
  static std::size_t bin(double squared_distance);
};

/// What a look at some of an epoch's batches of near classes showed, before they were trained on; as BatchSurvey has it.
struct BatchLook {
  /// Two classes by name, and how many of the batches that were looked at hold both.
  struct Together {
    std::string first, second;
    std::size_t batches = 0;
  };
  std::size_t batches = 0;
  double error = 0;
  double positive_distance = 0;
  double negative_distance = 0;
  std::vector<Together> together = {};
};

/// The loss step by step: that of every `every`-th step, in four digits; not a number where a step was skipped.
struct StepLosses {
  static constexpr std::size_t kMost = 500;
  std::size_t every = 1;
  std::vector<double> values;
  /// For an epoch of so many steps.
  static StepLosses of(std::size_t steps) { return {.every = std::max<std::size_t>(1, (steps + kMost - 1) / kMost), .values = {}}; }
  void add(std::size_t step, double loss);
};

/// What happened in an epoch. Epoch 0 is the network before training: nothing but metrics.
struct EpochRecord {
  std::int64_t epoch = 0;
  std::string device;  ///< That it ran on: "cpu" or "cuda"; empty in older logs.
  std::int64_t steps = 0;
  std::int64_t skipped_steps = 0;  ///< Of `steps`, those whose loss was not finite.
  std::int64_t images = 0;         ///< Through the network in training.
  std::int64_t active = 0;         ///< Terms of the loss that were above 0.
  std::int64_t terms = 0;
  double loss_sum = 0;  ///< Over the steps that were not skipped.
  std::optional<StepLosses> step_losses;
  std::map<std::string, double> loss_part_sums;  ///< Likewise, of what the loss is the sum of; empty: it is one piece.
  std::optional<DistanceCounts> distances;       ///< Of systems with triplets, likewise.
  double spread = 0;                   ///< At its end, of a batch: mean squared distance of embeddings to their mean; 0: all alike.
  double learning_rate = 0;            ///< In the middle of the epoch, where it changes with every step.
  std::optional<double> kappa;         ///< Of epochs that mined.
  std::optional<double> target_error;  ///< Of epochs whose kappa a controller set: what it aimed at.
  std::string kappa_reason;            ///< How it came about, in words; empty if it was set.
  std::optional<MiningStats> mining;
  std::optional<BatchStats> grouping;  ///< Of systems that put near classes into one batch.
  std::optional<BatchLook> look;       ///< Likewise, of epochs that mined.
  std::optional<ListRecord> lists;
  std::map<std::string, double> stage_seconds;  ///< "embedding", "lists", "longer_lists", "selection", "steps", "evaluation".
  std::optional<RetrievalMetrics> metrics;      ///< On evaluation epochs.
  std::optional<double> validation_error;       ///< Likewise: share of random triplets of the evaluated split that violate the margin.
  std::optional<double> reserved_error;         ///< The same on images of training classes that are not trained on, if there are any.
  std::vector<std::string> notes;               ///< What an operator should know, a sentence each.

  double training_error() const { return terms == 0 ? 0 : static_cast<double>(active) / static_cast<double>(terms); }
  double loss() const { return steps == skipped_steps ? 0 : loss_sum / static_cast<double>(steps - skipped_steps); }
  double seconds() const;
  /// Share of the triplets whose negative came from a list, or of the groups in batches that lists chose; 0 without any.
  double mined_share() const { return mining ? mining->mined_share() : grouping ? grouping->near_share() : 0; }
  double images_per_second() const;
};

/// One line of log.jsonl, without the newline. The same numbers give the same line, and `parse_record` gives them back.
std::string to_json_line(const EpochRecord& record);
/// Throws InvalidArgument saying what is wrong.
EpochRecord parse_record(const std::string& line);

}  // namespace smartmine
