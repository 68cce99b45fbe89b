#include "graph/partition.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>

#include "graph/packed_rows.h"
#include "smartmine/core/buffer.h"
#include "smartmine/core/parallel.h"
#include "smartmine/core/random.h"

namespace smartmine {

namespace {

constexpr std::size_t kSamplesPerCell = 24;
constexpr int kIterations = 4;
constexpr std::uint64_t kStream = 0x5041;  // keeps these random numbers apart from other uses of the seed

// Reorders `points` so that every kPanelWidth of them, counted from the start, lie close together: splits them again and again between two
// centres, always at a whole number of blocks.
void split_into_blocks(const Rows& rows, std::span<std::uint32_t> points, const kernels::Kernels& kernels,
                       std::vector<std::pair<float, std::uint32_t>>& along) {
  constexpr int kRefinements = 3;
  constexpr std::size_t kBlock = kernels::kPanelWidth;
  if (points.size() <= kBlock) return;
  const std::size_t dimension = rows.dimension();
  const std::size_t half = std::max<std::size_t>(1, points.size() / kBlock / 2) * kBlock;
  // Two points far apart to start from.
  const auto farthest_from = [&](const float* from) {
    std::uint32_t best = points[0];
    float most = -1;
    for (const std::uint32_t point : points) {
      const float squared = kernels.squared_distance(from, rows[point], dimension);
      if (squared > most) {
        most = squared;
        best = point;
      }
    }
    return rows[best];
  };
  const float* far = farthest_from(rows[points[0]]);
  const float* other = farthest_from(far);
  std::vector<float> direction(dimension);
  for (std::size_t t = 0; t < dimension; ++t) direction[t] = other[t] - far[t];
  along.resize(points.size());
  for (int round = 0; round <= kRefinements; ++round) {
    for (std::size_t i = 0; i < points.size(); ++i) along[i] = {kernels.dot(direction.data(), rows[points[i]], dimension), points[i]};
    std::nth_element(along.begin(), along.begin() + static_cast<std::ptrdiff_t>(half), along.end());
    if (round == kRefinements) break;
    std::fill(direction.begin(), direction.end(), 0.0F);
    for (std::size_t i = 0; i < points.size(); ++i) {
      const float weight = i < half ? -1.0F / static_cast<float>(half) : 1.0F / static_cast<float>(points.size() - half);
      const float* row = rows[along[i].second];
      for (std::size_t t = 0; t < dimension; ++t) direction[t] += weight * row[t];
    }
  }
  // Which points go where is settled; their order within a part is made independent of the selection's by sorting.
  for (std::size_t i = 0; i < points.size(); ++i) points[i] = along[i].second;
  std::sort(points.begin(), points.begin() + static_cast<std::ptrdiff_t>(half));
  std::sort(points.begin() + static_cast<std::ptrdiff_t>(half), points.end());
  split_into_blocks(rows, points.first(half), kernels, along);
  split_into_blocks(rows, points.subspan(half), kernels, along);
}

// Centroids by k-means on a sample.
std::vector<float> find_centroids(const Rows& rows, std::size_t cells, const Frame& frame, std::uint64_t seed, unsigned threads,
                                  const kernels::Kernels& kernels, std::uint64_t& distance_computations, const Progress& progress) {
  const std::size_t size = rows.size(), dimension = rows.dimension();
  const std::size_t sample_size = std::min(size, cells * kSamplesPerCell);
  std::vector<std::uint32_t> sample(size);
  std::iota(sample.begin(), sample.end(), 0U);
  Random random(seed, kStream);
  shuffle_first(sample, sample_size, random);
  sample.resize(sample_size);

  std::vector<float> centroids(cells * dimension);
  for (std::size_t c = 0; c < cells; ++c) std::copy_n(rows[sample[c]], dimension, centroids.data() + c * dimension);
  std::sort(sample.begin(), sample.end());
  std::vector<std::uint32_t> nearest(sample_size);
  for (int iteration = 0; iteration < kIterations; ++iteration) {
    const Rows centres(centroids.data(), cells, dimension);
    assign_nearest(rows, sample, PackedRows(centres, frame, kernels, threads), nearest, threads, progress, "partition");
    distance_computations += sample_size * cells;
    // Summed by one thread in the order of the sample, so that rounding does not depend on the threads.
    std::vector<double> sums(cells * dimension, 0.0);
    std::vector<std::uint32_t> counts(cells, 0);
    for (std::size_t i = 0; i < sample_size; ++i) {
      ++counts[nearest[i]];
      double* sum = sums.data() + nearest[i] * dimension;
      const float* row = rows[sample[i]];
      for (std::size_t t = 0; t < dimension; ++t) sum[t] += row[t];
    }
    for (std::size_t c = 0; c < cells; ++c) {
      if (counts[c] == 0) continue;
      for (std::size_t t = 0; t < dimension; ++t) centroids[c * dimension + t] = static_cast<float>(sums[c * dimension + t] / counts[c]);
    }
  }
  return centroids;
}

// The same centroids in an order that keeps near ones together.
std::vector<float> near_together(const std::vector<float>& centroids, std::size_t dimension, const kernels::Kernels& kernels) {
  const std::size_t cells = centroids.size() / dimension;
  std::vector<std::uint32_t> order(cells);
  std::iota(order.begin(), order.end(), 0U);
  std::vector<std::pair<float, std::uint32_t>> along;
  split_into_blocks(Rows(centroids.data(), cells, dimension), order, kernels, along);
  std::vector<float> sorted(centroids.size());
  for (std::size_t c = 0; c < cells; ++c) std::copy_n(centroids.data() + order[c] * dimension, dimension, sorted.data() + c * dimension);
  return sorted;
}

// Points by cell, in the order of their ids; cells that came out empty are left out, those of more than `most` cut.
Partition gather_cells(const std::vector<std::uint32_t>& cell_of, std::size_t cells, std::size_t most) {
  std::vector<std::uint32_t> begins(cells + 1, 0);
  for (const std::uint32_t cell : cell_of) ++begins[cell + 1];
  std::partial_sum(begins.begin(), begins.end(), begins.begin());
  Partition partition;
  partition.order.resize(cell_of.size());
  std::vector<std::uint32_t> next(begins.begin(), begins.end() - 1);
  for (std::size_t i = 0; i < cell_of.size(); ++i) partition.order[next[cell_of[i]]++] = static_cast<std::uint32_t>(i);
  for (std::size_t c = 0; c < cells; ++c) {
    const std::size_t count = begins[c + 1] - begins[c];
    const std::size_t pieces = (count + most - 1) / most;
    for (std::size_t piece = 0; piece < pieces; ++piece)
      partition.cell_begins.push_back(begins[c] + static_cast<std::uint32_t>(count * piece / pieces));
  }
  partition.cell_begins.push_back(static_cast<std::uint32_t>(cell_of.size()));
  return partition;
}

}  // namespace

Partition partition_rows(const Rows& rows, std::size_t cell_size, std::uint64_t seed, unsigned threads, const kernels::Kernels& kernels,
                         std::uint64_t& distance_computations, const Progress& progress) {
  const std::size_t size = rows.size(), dimension = rows.dimension();
  const std::size_t cells = std::max<std::size_t>(1, size / std::max<std::size_t>(1, cell_size));
  const Frame frame = sampled_frame(rows, threads);
  const std::vector<float> centroids =
      near_together(find_centroids(rows, cells, frame, seed, threads, kernels, distance_computations, progress), dimension, kernels);
  std::vector<std::uint32_t> all(size);
  std::iota(all.begin(), all.end(), 0U);
  std::vector<std::uint32_t> cell_of(size);
  const Rows centres(centroids.data(), cells, dimension);
  assign_nearest(rows, all, PackedRows(centres, frame, kernels, threads), cell_of, threads, progress, "partition");
  distance_computations += size * cells;
  Partition partition = gather_cells(cell_of, cells, 3 * std::max<std::size_t>(cell_size, 1));
  parallel_for(
      partition.cells(), 4, threads,
      [&](std::size_t begin, std::size_t end, unsigned) {
        std::vector<std::pair<float, std::uint32_t>> along;
        for (std::size_t c = begin; c < end; ++c)
          split_into_blocks(
              rows, std::span(partition.order).subspan(partition.cell_begins[c], partition.cell_begins[c + 1] - partition.cell_begins[c]),
              kernels, along);
      },
      progress, "partition");
  return partition;
}

}  // namespace smartmine
