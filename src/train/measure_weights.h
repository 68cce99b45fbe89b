#pragma once

#include <span>
#include <string>
#include <vector>

#include "smartmine/core/progress.h"
#include "smartmine/core/rows.h"
#include "smartmine/data/dataset.h"
#include "smartmine/metrics/retrieval.h"
#include "smartmine/model/embedding_model.h"
#include "smartmine/run/choice.h"
#include "smartmine/run/config.h"
#include "smartmine/run/epoch_record.h"
#include "train/network.h"

namespace smartmine {

/// Weights a share of the way from one set to another. What is no floating-point number is the second's.
NamedTensors mixed(const NamedTensors& from, const NamedTensors& to, double share);

/// How well embeddings are found, which a team measures together. Throws Cancelled if `progress` says so.
RetrievalResult retrieval_of(const Rows& rows, std::span<const std::int64_t> labels, const ComputeOptions& compute,
                             const Progress& progress, const Team* team = nullptr);
/// All metrics: those, and how well they fall into clusters.
RetrievalMetrics metrics_of(const RetrievalResult& retrieval, const Rows& rows, std::span<const std::int64_t> labels,
                            const ComputeOptions& compute, const std::string& split, const Progress& progress);

/// Measures one set of weights after another on the same images.
class WeightMeasure {
 public:
  /// `config` is resolved.
  WeightMeasure(const RunConfig& config, const Dataset& half, const Progress& progress);
  HeldOutScore score(const NamedTensors& weights);
  RetrievalMetrics metrics(const NamedTensors& weights, const std::string& split);
  /// Embeddings of the last call.
  Rows rows() const;

 private:
  void embed(const NamedTensors& weights);

  RunConfig config_;
  Progress progress_;
  Network network_;
  ImageStore store_;
  DeviceImages images_;
  torch::Tensor embeddings_;
};

/// What weights a quarter, half and three quarters of the way from one set to another are worth.
std::vector<Interpolation> scores_between(WeightMeasure& measure, const NamedTensors& start, const NamedTensors& end);

}  // namespace smartmine
