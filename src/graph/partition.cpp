#include "graph/partition.h"

#include <algorithm>
#include <cmath>
#include <cstring>
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
constexpr std::size_t kSamplesPerRegion = 512;
constexpr std::size_t kRegionsAround = 12;  // a point looks for its cell in, its own region included
constexpr std::size_t kCrowdedRegion = 4;   // times the mean is a region of too many points
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

// What is the same for all levels of a partition.
struct Ground {
  const Rows& rows;
  const Frame& frame;
  const kernels::Kernels& kernels;
  std::uint64_t seed;
  unsigned threads;
  std::uint64_t& computed;
  const Progress& progress;
  const Team* team;
};

// For each point the centroid nearest to it; the members of a team share the points.
std::vector<std::uint32_t> nearest_of(const Ground& ground, std::span<const std::uint32_t> points, const std::vector<float>& centroids) {
  const Rows centres(centroids.data(), centroids.size() / ground.rows.dimension(), ground.rows.dimension());
  std::vector<std::uint32_t> nearest(points.size());
  const std::vector<std::size_t> begins = team_shares(ground.team, points.size());
  const auto [begin, end] = own_share(ground.team, begins);
  assign_nearest(ground.rows, points.subspan(begin, end - begin), PackedRows(centres, ground.frame, ground.kernels, ground.threads),
                 std::span(nearest).subspan(begin, end - begin), ground.threads, ground.progress, "partition");
  if (ground.team != nullptr) ground.team->gather(nearest.data(), sizeof(std::uint32_t), begins);
  ground.computed += points.size() * centres.size();
  return nearest;
}

// The first of each of these rows that are the same to the bit, in the order they stand in: equal centroids would be of no use.
std::vector<std::uint32_t> leave_out_copies(const Rows& rows, std::span<const std::uint32_t> ids) {
  const std::size_t bytes = rows.dimension() * sizeof(float);
  std::vector<std::uint32_t> order(ids.size());  // of places in `ids`
  std::iota(order.begin(), order.end(), 0U);
  std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    const int less = std::memcmp(rows[ids[a]], rows[ids[b]], bytes);
    return less != 0 ? less < 0 : a < b;
  });
  std::vector<bool> copy(ids.size(), false);
  for (std::size_t i = 1; i < order.size(); ++i) copy[order[i]] = std::memcmp(rows[ids[order[i - 1]]], rows[ids[order[i]]], bytes) == 0;
  std::vector<std::uint32_t> kept;
  for (std::size_t i = 0; i < ids.size(); ++i)
    if (!copy[i]) kept.push_back(ids[i]);
  return kept;
}

// At most so many centroids of `points` by k-means on a sample of so many a cell. `level` keeps the random numbers of several calls apart.
std::vector<float> find_centroids(const Ground& ground, std::span<const std::uint32_t> points, std::size_t cells, std::size_t per_cell,
                                  std::uint64_t level) {
  const Rows& rows = ground.rows;
  const std::size_t dimension = rows.dimension(), sample_size = std::min(points.size(), cells * per_cell);
  std::vector<std::uint32_t> sample(points.begin(), points.end());
  Random random(ground.seed, kStream, level);
  shuffle_first(sample, sample_size, random);
  sample.resize(sample_size);

  const std::vector<std::uint32_t> begun = leave_out_copies(rows, std::span(sample).first(cells));
  cells = begun.size();
  std::vector<float> centroids(cells * dimension);
  for (std::size_t c = 0; c < cells; ++c) std::copy_n(rows[begun[c]], dimension, centroids.data() + c * dimension);
  std::sort(sample.begin(), sample.end());
  for (int iteration = 0; iteration < kIterations; ++iteration) {
    const std::vector<std::uint32_t> nearest = nearest_of(ground, sample, centroids);
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

// The same points by cell, in the order they stand in; where each cell begins is returned, and where the last ends.
std::vector<std::uint32_t> sort_by_cell(std::span<std::uint32_t> points, const std::vector<std::uint32_t>& cell_of, std::size_t cells) {
  std::vector<std::uint32_t> begins(cells + 1, 0);
  for (const std::uint32_t cell : cell_of) ++begins[cell + 1];
  std::partial_sum(begins.begin(), begins.end(), begins.begin());
  std::vector<std::uint32_t> next(begins.begin(), begins.end() - 1), sorted(points.size());
  for (std::size_t i = 0; i < points.size(); ++i) sorted[next[cell_of[i]]++] = points[i];
  std::copy(sorted.begin(), sorted.end(), points.begin());
  return begins;
}

// Splits each region of more than `most` points, and sorts these into its parts: the work inside a region grows with its square.
void split_crowded_regions(const Ground& ground, std::size_t most, std::span<std::uint32_t> order, std::vector<float>& middles,
                           std::vector<std::uint32_t>& begins) {
  constexpr std::uint64_t kParts = std::uint64_t{1} << 32;  // keeps these random numbers apart
  const std::size_t dimension = ground.rows.dimension();
  std::vector<float> all;
  std::vector<std::uint32_t> all_begins = {0};
  for (std::size_t r = 0; r + 1 < begins.size(); ++r) {
    const std::span<std::uint32_t> points = order.subspan(begins[r], begins[r + 1] - begins[r]);
    std::vector<float> parts(middles.begin() + static_cast<std::ptrdiff_t>(r * dimension),
                             middles.begin() + static_cast<std::ptrdiff_t>((r + 1) * dimension));
    std::vector<std::uint32_t> own = {0, static_cast<std::uint32_t>(points.size())};
    if (points.size() > most) {
      const std::size_t wanted = kCrowdedRegion * points.size() / most;
      parts = near_together(find_centroids(ground, points, wanted, kSamplesPerRegion, kParts + r), dimension, ground.kernels);
      own = sort_by_cell(points, nearest_of(ground, points, parts), parts.size() / dimension);
    }
    all.insert(all.end(), parts.begin(), parts.end());
    for (std::size_t i = 1; i < own.size(); ++i) all_begins.push_back(begins[r] + own[i]);
  }
  middles = std::move(all);
  begins = std::move(all_begins);
}

// The cells of all points that stand in `order`, in two levels: regions, and the cells of each region. A point then takes the nearest cell
// of its own region and of those around it. `order` is left sorted by region, and `centroids` holds those of the cells.
std::vector<std::uint32_t> find_cells_by_region(const Ground& ground, std::size_t cell_size, std::vector<std::uint32_t>& order,
                                                std::vector<float>& centroids) {
  const std::size_t dimension = ground.rows.dimension();
  // A point meets some fourteen times the root of the number of cells.
  auto regions = static_cast<std::size_t>(std::sqrt(static_cast<double>(order.size() / cell_size)));
  const std::size_t most = kCrowdedRegion * order.size() / regions;
  std::vector<float> middles = near_together(find_centroids(ground, order, regions, kSamplesPerRegion, 0), dimension, ground.kernels);
  std::vector<std::uint32_t> begins = sort_by_cell(order, nearest_of(ground, order, middles), middles.size() / dimension);
  split_crowded_regions(ground, most, order, middles, begins);
  regions = middles.size() / dimension;
  const auto points_of = [&](std::size_t r) { return std::span(order).subspan(begins[r], begins[r + 1] - begins[r]); };
  std::vector<std::size_t> firsts = {0};  // cell of each region
  for (std::size_t r = 0; r < regions; ++r) {
    if (!points_of(r).empty()) {
      // A region that could not be split is of points that cannot be told apart: its cells are cut from it anyhow.
      const std::size_t cells = std::max<std::size_t>(1, std::min(most, points_of(r).size()) / cell_size);
      const std::vector<float> own =
          near_together(find_centroids(ground, points_of(r), cells, kSamplesPerCell, r + 1), dimension, ground.kernels);
      centroids.insert(centroids.end(), own.begin(), own.end());
    }
    firsts.push_back(centroids.size() / dimension);
  }
  std::vector<std::uint32_t> cell_of(order.size()), near(regions);
  std::vector<float> distances(regions), around;
  for (std::size_t r = 0; r < regions; ++r) {
    if (points_of(r).empty()) continue;
    std::iota(near.begin(), near.end(), 0U);
    ground.kernels.squared_distances(middles.data() + r * dimension, middles.data(), near.data(), regions, dimension, distances.data());
    std::sort(near.begin(), near.end(),
              [&](std::uint32_t x, std::uint32_t y) { return distances[x] != distances[y] ? distances[x] < distances[y] : x < y; });
    around.clear();
    std::vector<std::uint32_t> cells;
    for (std::size_t i = 0; i < std::min(regions, kRegionsAround); ++i) {
      for (std::size_t c = firsts[near[i]]; c < firsts[near[i] + 1]; ++c) {
        cells.push_back(static_cast<std::uint32_t>(c));
        around.insert(around.end(), centroids.data() + c * dimension, centroids.data() + (c + 1) * dimension);
      }
    }
    const std::vector<std::uint32_t> nearest = nearest_of(ground, points_of(r), around);
    for (std::size_t i = 0; i < nearest.size(); ++i) cell_of[begins[r] + i] = cells[nearest[i]];
  }
  return cell_of;
}

}  // namespace

Partition partition_rows(const Rows& rows, std::size_t cell_size, std::uint64_t seed, unsigned threads, const kernels::Kernels& kernels,
                         std::uint64_t& distance_computations, const Progress& progress, const Team* team, std::size_t most_at_once) {
  const std::size_t size = rows.size();
  cell_size = std::max<std::size_t>(1, cell_size);
  const Frame frame = sampled_frame(rows, threads);
  const Ground ground{rows, frame, kernels, seed, threads, distance_computations, progress, team};
  Partition partition;
  partition.order.resize(size);
  std::iota(partition.order.begin(), partition.order.end(), 0U);
  std::vector<float> centroids;
  std::vector<std::uint32_t> cell_of;
  if (const std::size_t cells = std::max<std::size_t>(1, size / cell_size); cells <= most_at_once) {
    centroids = near_together(find_centroids(ground, partition.order, cells, kSamplesPerCell, 0), rows.dimension(), kernels);
    cell_of = nearest_of(ground, partition.order, centroids);
  } else {
    cell_of = find_cells_by_region(ground, cell_size, partition.order, centroids);
  }
  const std::size_t cells = centroids.size() / rows.dimension(), most = 3 * cell_size;
  const std::vector<std::uint32_t> begins = sort_by_cell(partition.order, cell_of, cells);
  // Cells that came out empty are left out, those of more than `most` cut.
  for (std::size_t c = 0; c < cells; ++c) {
    const std::size_t count = begins[c + 1] - begins[c], pieces = (count + most - 1) / most;
    for (std::size_t piece = 0; piece < pieces; ++piece)
      partition.cell_begins.push_back(static_cast<std::uint32_t>(begins[c] + count * piece / pieces));
  }
  partition.cell_begins.push_back(static_cast<std::uint32_t>(size));
  std::vector<std::size_t> shares = team_shares(team, partition.cells());
  const TeamShare own = own_share(team, shares);
  parallel_for(
      own.end - own.begin, 4, threads,
      [&](std::size_t begin, std::size_t end, unsigned) {
        std::vector<std::pair<float, std::uint32_t>> along;
        for (std::size_t c = own.begin + begin; c < own.begin + end; ++c)
          split_into_blocks(
              rows, std::span(partition.order).subspan(partition.cell_begins[c], partition.cell_begins[c + 1] - partition.cell_begins[c]),
              kernels, along);
      },
      progress, "partition");
  if (team == nullptr) return partition;
  for (std::size_t& cell : shares) cell = partition.cell_begins[cell];
  team->gather(partition.order.data(), sizeof(std::uint32_t), shares);
  return partition;
}

}  // namespace smartmine
