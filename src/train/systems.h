#pragma once

#include "smartmine/train/system.h"

// What the table of systems is made of: plans beside those of system.h, and losses over a batch.
namespace smartmine {

EpochPlan hard_pairs_plan(const PlanInput& input);
EpochPlan pairs_of_classes_plan(const PlanInput& input);

/// What neighbor_plan makes its batches with.
BatchBuilderOptions neighbor_batch_options(const PlanInput& input);

BatchLoss triplets(const torch::Tensor& embeddings, const BatchLabels& labels, const SystemOptions& options);
BatchLoss triplets_and_global(const torch::Tensor& embeddings, const BatchLabels& labels, const SystemOptions& options);
BatchLoss triplets_all_pairs(const torch::Tensor& embeddings, const BatchLabels& labels, const SystemOptions& options);
BatchLoss mined_pairs(const torch::Tensor& embeddings, const BatchLabels& labels, const SystemOptions& options);

BatchLoss all_pairs(const torch::Tensor& embeddings, const BatchLabels& labels, const SystemOptions& options);
BatchLoss semihard(const torch::Tensor& embeddings, const BatchLabels& labels, const SystemOptions& options);
BatchLoss lifted(const torch::Tensor& embeddings, const BatchLabels& labels, const SystemOptions& options);
BatchLoss npairs(const torch::Tensor& embeddings, const BatchLabels& labels, const SystemOptions& options);
BatchLoss clustering(const torch::Tensor& embeddings, const BatchLabels& labels, const SystemOptions& options);

}  // namespace smartmine
