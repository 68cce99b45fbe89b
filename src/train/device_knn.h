#pragma once

#include <torch/types.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "smartmine/core/progress.h"
#include "smartmine/graph/neighbors.h"

namespace smartmine {

/// Exact lists of `wanted` rows among all of a float32 tensor [N, D], computed where the tensor is, a chunk of rows against all at a time.
/// Candidates come from products, the distances that are returned and ordered by from differences; equal ones go by id. What rows are
/// wanted together makes no difference. `chunk` is how many rows at a time; 0: what memory takes.
NeighborResult device_neighbors(const torch::Tensor& embeddings, RowRange wanted, std::size_t neighbors, const Progress& progress = {},
                                std::size_t chunk = 0);
/// The same of some rows alone: of `points[i]` the i-th.
NeighborResult device_lists_of_some(const torch::Tensor& embeddings, std::span<const std::uint32_t> points, std::size_t neighbors,
                                    const Progress& progress = {});

}  // namespace smartmine
