#include "smartmine/loss/clustering_loss.h"

#include <torch/types.h>

#include <map>

#include "loss/distances.h"
#include "loss/facility_location.h"

namespace smartmine {
namespace {

/// Sum of the distances of all rows to the rows given for them.
torch::Tensor cost(const torch::Tensor& distances, const std::vector<std::size_t>& medoid_of) {
  const std::vector<std::int64_t> columns(medoid_of.begin(), medoid_of.end());
  const torch::Tensor index = torch::tensor(columns, torch::kInt64).to(distances.device());
  return distances.gather(1, index.unsqueeze(1)).sum();
}

}  // namespace

void ClusteringLossOptions::validate() const {
  check_option(gamma >= 0 && gamma <= 1e6, "gamma", gamma, "from 0 to 1e6");
  check_option(swap_rounds >= 0 && swap_rounds <= 100, "swap_rounds", swap_rounds, "from 0 to 100");
}

BatchLoss clustering_loss(const torch::Tensor& embeddings, const torch::Tensor& labels, const ClusteringLossOptions& options) {
  options.validate();
  check_labels(embeddings, labels);
  const torch::Tensor distances = distance_matrix(embeddings);
  // The search is a sequence of small choices: it runs on the CPU, in double, whatever the batch is on.
  const torch::Tensor known = distances.detach().to(torch::kCPU, torch::kFloat64).contiguous();
  const torch::Tensor host_labels = labels.to(torch::kCPU).contiguous();
  std::map<std::int64_t, std::int64_t> names;
  std::vector<std::int64_t> classes;
  for (std::int64_t i = 0; i < host_labels.size(0); ++i)
    classes.push_back(names.emplace(host_labels.data_ptr<std::int64_t>()[i], static_cast<std::int64_t>(names.size())).first->second);
  const FacilityProblem problem{.distances = {known.data_ptr<double>(), static_cast<std::size_t>(known.numel())},
                                .classes = classes,
                                .class_count = names.size(),
                                .gamma = options.gamma};
  const Facilities best = best_facilities(problem, options.swap_rounds);
  const std::vector<std::int64_t> clusters(best.medoid_of.begin(), best.medoid_of.end());
  const double margin = options.gamma * (1 - geometric_nmi(classes, clusters));
  const torch::Tensor value = (cost(distances, class_medoids(problem)) - cost(distances, best.medoid_of) + margin).relu();
  return {.value = value, .active = (value.detach() > 0).to(torch::kInt64), .terms = 1};
}

}  // namespace smartmine
