#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/types.h>

#include <cstdint>
#include <string>

#include "smartmine/core/error.h"

namespace smartmine {

/// The root with a gradient of zero at zero, where the true one is infinite.
inline torch::Tensor safe_sqrt(const torch::Tensor& squared) {
  const torch::Tensor positive = squared > 0;
  return torch::where(positive, torch::where(positive, squared, torch::ones_like(squared)).sqrt(), torch::zeros_like(squared));
}

inline torch::Tensor squared_distances(const torch::Tensor& first, const torch::Tensor& second) { return (first - second).square().sum(1); }

/// All distances within a batch, from differences rather than products: those lose small distances, the more so in TF32.
inline torch::Tensor distance_matrix(const torch::Tensor& embeddings) {
  return torch::cdist(embeddings, embeddings, 2, /*compute_mode, without products=*/2);
}

inline void check_option(bool holds, const char* name, double value, const char* range) {
  if (!holds) throw InvalidArgument(fmt::format("{} is {}; it must be {}", name, value, range));
}

inline void check_matrix(const torch::Tensor& rows, const char* name) {
  if (rows.dim() != 2 || rows.size(0) == 0)
    throw InvalidArgument(fmt::format("{} are [{}]; they must be [N, D] with N at least 1", name, fmt::join(rows.sizes(), ", ")));
}

inline void check_same_shape(const torch::Tensor& first, const torch::Tensor& second, const char* name) {
  if (first.sizes() != second.sizes())
    throw InvalidArgument(
        fmt::format("{} are [{}]; they must be [{}] as the others", name, fmt::join(second.sizes(), ", "), fmt::join(first.sizes(), ", ")));
}

inline void check_labels(const torch::Tensor& embeddings, const torch::Tensor& labels) {
  check_matrix(embeddings, "embeddings");
  if (labels.dim() != 1 || labels.size(0) != embeddings.size(0) || labels.scalar_type() != torch::kInt64)
    throw InvalidArgument(fmt::format("labels are [{}] of {}; they must be [{}] of Long", fmt::join(labels.sizes(), ", "),
                                      torch::toString(labels.scalar_type()), embeddings.size(0)));
}

}  // namespace smartmine
