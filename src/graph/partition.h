#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "graph/kernels/kernels.h"
#include "smartmine/core/progress.h"
#include "smartmine/core/rows.h"
#include "smartmine/graph/team.h"

namespace smartmine {

/// The points in an order that keeps near ones together, cut into cells, and each cell from its start into blocks of kernels::kPanelWidth
/// near points.
struct Partition {
  std::vector<std::uint32_t> order;        ///< The point that stands at each position.
  std::vector<std::uint32_t> cell_begins;  ///< Position of each cell's first point, and one past the last cell's end.
  std::size_t cells() const { return cell_begins.size() - 1; }
};

/// Groups the rows around centroids found by k-means on a sample: cells of about `cell_size` points, none over three times that. More cells
/// than `most_at_once` are found in two levels, regions first, so that a point does not meet all centroids.
/// Deterministic for a seed at any number of threads and of members of a team (null: none). Adds what all compute to
/// `distance_computations`.
Partition partition_rows(const Rows& rows, std::size_t cell_size, std::uint64_t seed, unsigned threads, const kernels::Kernels& kernels,
                         std::uint64_t& distance_computations, const Progress& progress, const Team* team = nullptr,
                         std::size_t most_at_once = 6000);

}  // namespace smartmine
