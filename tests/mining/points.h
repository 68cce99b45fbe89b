#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "smartmine/core/random.h"
#include "smartmine/core/rows.h"
#include "smartmine/graph/neighbors.h"

namespace smartmine::test {

/// Points with labels that own their values.
struct LabelledPoints {
  std::size_t dimension = 0;
  std::vector<float> values;
  std::vector<std::int64_t> labels;

  Rows rows() const { return Rows(values.data(), labels.size(), dimension); }
  std::size_t size() const { return labels.size(); }
  float distance(std::size_t a, std::size_t b) const {
    float sum = 0;
    for (std::size_t d = 0; d < dimension; ++d) {
      const float difference = values[a * dimension + d] - values[b * dimension + d];
      sum += difference * difference;
    }
    return sum;
  }
};

/// Normal clouds, one a class, that overlap more the larger `spread` is; class sizes differ, some classes have one member.
inline LabelledPoints clouds(std::size_t size, std::size_t classes, double spread, std::uint64_t seed, std::size_t dimension = 4) {
  LabelledPoints points;
  points.dimension = dimension;
  for (std::size_t i = 0; i < size; ++i) {
    Random random(seed, 1, i);
    // The smaller of two draws: low classes are large, high ones small.
    const auto label = static_cast<std::int64_t>(std::min(random.below(classes), random.below(classes)));
    points.labels.push_back(label * 7 - 3);
    Random centre(seed, 2, static_cast<std::uint64_t>(label));
    for (std::size_t d = 0; d < dimension; ++d) points.values.push_back(static_cast<float>(centre.normal() + spread * random.normal()));
  }
  return points;
}

/// The nearest others of the points `of` by looking at all of them, equal distances by id.
inline NeighborLists brute_lists(const LabelledPoints& points, std::span<const std::uint32_t> of, std::size_t neighbors) {
  NeighborLists lists(of.size(), neighbors);
  for (std::size_t i = 0; i < of.size(); ++i) {
    std::vector<std::pair<float, std::uint32_t>> all;
    for (std::uint32_t j = 0; j < points.size(); ++j)
      if (j != of[i]) all.emplace_back(points.distance(of[i], j), j);
    std::partial_sort(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(neighbors), all.end());
    for (std::size_t place = 0; place < neighbors; ++place) {
      lists.ids(i)[place] = all[place].second;
      lists.distances(i)[place] = all[place].first;
    }
  }
  return lists;
}

inline NeighborLists brute_lists(const LabelledPoints& points, std::size_t neighbors) {
  std::vector<std::uint32_t> all(points.size());
  std::iota(all.begin(), all.end(), 0U);
  return brute_lists(points, all, neighbors);
}

/// Pearson's statistic of counts against equal shares, in standard deviations above its mean.
inline double chi_square_excess(const std::vector<int>& counts) {
  const double draws = std::accumulate(counts.begin(), counts.end(), 0.0);
  const double expected = draws / static_cast<double>(counts.size());
  double sum = 0;
  for (const int count : counts) sum += (count - expected) * (count - expected) / expected;
  const auto freedom = static_cast<double>(counts.size() - 1);
  return (sum - freedom) / std::sqrt(2 * freedom);
}

}  // namespace smartmine::test
