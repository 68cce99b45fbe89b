#include "train/measure_weights.h"

#include "smartmine/metrics/clustering.h"
#include "smartmine/metrics/retrieval.h"
#include "smartmine/model/embed.h"
#include "smartmine/model/weights.h"

namespace smartmine {
namespace {

/// The weights come from elsewhere, so none are read.
RunConfig without_weights(RunConfig config) {
  config.model.weights.clear();
  return config;
}

}  // namespace

NamedTensors mixed(const NamedTensors& from, const NamedTensors& to, double share) {
  const torch::NoGradGuard no_grad;
  NamedTensors result;
  for (const auto& [name, tensor] : to) {
    const torch::Tensor end = tensor.detach();
    result.emplace(name, end.is_floating_point() ? from.at(name).detach().to(end.device()).lerp(end, share) : end.clone());
  }
  return result;
}

RetrievalResult retrieval_of(const Rows& rows, std::span<const std::int64_t> labels, const ComputeOptions& compute,
                             const Progress& progress, const Team* team) {
  return measure_retrieval(
      rows, labels, {.threads = static_cast<unsigned>(compute.threads), .team = team, .gpu = compute.device != "cpu"}, progress);
}

RetrievalMetrics metrics_of(const RetrievalResult& retrieval, const Rows& rows, std::span<const std::int64_t> labels,
                            const ComputeOptions& compute, const std::string& split, const Progress& progress) {
  const auto threads = static_cast<unsigned>(compute.threads);
  const KMeansResult clusters = k_means(rows, {.clusters = retrieval.stats.classes, .seed = compute.seed, .threads = threads}, progress);
  const NormalizedMutualInformation nmi = normalized_mutual_information(labels, clusters.assignments);
  return {.split = split,
          .recall_at_1 = retrieval.recall[0],
          .recall_at_2 = retrieval.recall[1],
          .recall_at_4 = retrieval.recall[2],
          .recall_at_8 = retrieval.recall[3],
          .nmi = nmi.arithmetic,
          .nmi_geometric = nmi.geometric,
          .map_at_r = retrieval.map_at_r,
          .r_precision = retrieval.r_precision};
}

WeightMeasure::WeightMeasure(const RunConfig& config, const Dataset& half, const Progress& progress)
    : config_(without_weights(config)),
      progress_(progress),
      network_(config_),
      store_(half, network_.store_options(config_)),
      images_((store_.check_all(progress_), store_), network_.device) {}

void WeightMeasure::embed(const NamedTensors& weights) {
  load_into(*network_.model, weights);
  embeddings_ = network_.embed(images_, progress_, "evaluation").cpu();
}

Rows WeightMeasure::rows() const { return rows_of(embeddings_); }

HeldOutScore WeightMeasure::score(const NamedTensors& weights) {
  embed(weights);
  const RetrievalResult found = retrieval_of(rows(), store_.dataset().labels(), config_.compute, progress_);
  return {found.recall[0], found.map_at_r};
}

std::vector<Interpolation> scores_between(WeightMeasure& measure, const NamedTensors& start, const NamedTensors& end) {
  std::vector<Interpolation> shares;
  for (const double share : {0.25, 0.5, 0.75}) shares.push_back({share, measure.score(mixed(start, end, share))});
  return shares;
}

RetrievalMetrics WeightMeasure::metrics(const NamedTensors& weights, const std::string& split) {
  embed(weights);
  const auto labels = store_.dataset().labels();
  return metrics_of(retrieval_of(rows(), labels, config_.compute, progress_), rows(), labels, config_.compute, split, progress_);
}

}  // namespace smartmine
