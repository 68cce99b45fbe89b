#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "graph/kernels/kernels.h"
#include "smartmine/core/error.h"
#include "smartmine/core/random.h"
#include "smartmine/core/rows.h"
#include "smartmine/graph/fanng.h"
#include "smartmine/graph/neighbors.h"

// Rows made for the tests of the graph, and plain searches through them to compare with.
namespace smartmine::test {

/// Rows that own their values.
struct MadeRows {
  std::size_t dimension = 0;
  std::vector<float> values;

  std::size_t size() const { return values.size() / dimension; }
  Rows rows() const { return Rows(values.data(), size(), dimension); }
  const float* operator[](std::size_t row) const { return values.data() + row * dimension; }
};

inline void scale_to_unit(MadeRows& made) {
  for (std::size_t i = 0; i < made.size(); ++i) {
    double squared = 0;
    for (std::size_t t = 0; t < made.dimension; ++t) squared += static_cast<double>(made[i][t]) * static_cast<double>(made[i][t]);
    const auto factor = static_cast<float>(1 / std::sqrt(squared));
    for (std::size_t t = 0; t < made.dimension; ++t) made.values[i * made.dimension + t] *= factor;
  }
}

/// Normal clouds of standard deviation `spread` a coordinate around `clusters` normal centres; not scaled.
inline MadeRows clouds_of_rows(std::size_t size, std::size_t dimension, std::size_t clusters, double spread, std::uint64_t seed = 1) {
  MadeRows made{dimension, std::vector<float>(size * dimension)};
  for (std::size_t i = 0; i < size; ++i) {
    Random own(seed, 1, i);
    Random centre(seed, 2, own.below(clusters));
    for (std::size_t t = 0; t < dimension; ++t)
      made.values[i * dimension + t] = static_cast<float>(centre.normal() + spread * own.normal());
  }
  return made;
}

/// The same, scaled to unit length: what embeddings of classes look like.
inline MadeRows clustered_unit_rows(std::size_t size, std::size_t dimension, std::size_t clusters, double spread = 0.4,
                                    std::uint64_t seed = 1) {
  MadeRows made = clouds_of_rows(size, dimension, clusters, spread, seed);
  scale_to_unit(made);
  return made;
}

/// The rows moved a little each, as by an epoch of training, at unit length again.
inline MadeRows drifted(const MadeRows& from, double step, std::uint64_t seed = 7) {
  MadeRows made = from;
  for (std::size_t i = 0; i < made.size(); ++i) {
    Random random(seed, 3, i);
    for (std::size_t t = 0; t < made.dimension; ++t)
      made.values[i * made.dimension + t] += static_cast<float>(step / std::sqrt(static_cast<double>(made.dimension)) * random.normal());
  }
  scale_to_unit(made);
  return made;
}

/// Sum of squared differences, in double.
inline double plain_distance(const float* a, const float* b, std::size_t dimension) {
  double sum = 0;
  for (std::size_t t = 0; t < dimension; ++t) {
    const double difference = static_cast<double>(a[t]) - static_cast<double>(b[t]);
    sum += difference * difference;
  }
  return sum;
}

inline constexpr std::uint32_t kNone = 0xffffffffU;

/// The rows nearest `query` but for `own`, by looking at each: distances as the library computes a single one, ties to the lower id.
inline std::vector<Found> nearest_of_all(const Rows& rows, const float* query, std::uint32_t own, std::size_t count) {
  std::vector<Found> all;
  for (std::uint32_t id = 0; id < rows.size(); ++id)
    if (id != own) all.push_back({id, kernels::active().squared_distance(query, rows[id], rows.dimension())});
  count = std::min(count, all.size());
  std::partial_sort(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count), all.end());
  all.resize(count);
  return all;
}

/// The share of entries of these points' lists that are no farther than the true last neighbour (so that ties count).
inline double recall_of(const NeighborLists& lists, const Rows& rows, std::size_t points) {
  std::size_t right = 0;
  points = std::min(points, lists.size());
  for (std::size_t s = 0; s < points; ++s) {
    const std::size_t point = s * lists.size() / points;
    std::vector<float> all;
    for (std::size_t id = 0; id < rows.size(); ++id)
      if (id != point) all.push_back(kernels::active().squared_distance(rows[point], rows[id], rows.dimension()));
    const auto last = all.begin() + static_cast<std::ptrdiff_t>(lists.neighbors() - 1);
    std::nth_element(all.begin(), last, all.end());
    for (const float squared : lists.distances(point)) right += squared <= *last;
  }
  return static_cast<double>(right) / static_cast<double>(points * lists.neighbors());
}

/// What is wrong with lists that claim to be neighbours among these rows; empty: nothing. Recall is another matter.
inline std::string fault_of(const NeighborLists& lists, const Rows& rows) {
  try {
    lists.validate();
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  for (std::size_t point = 0; point < lists.size(); ++point) {
    for (std::size_t place = 0; place < lists.neighbors(); ++place) {
      const std::uint32_t id = lists.ids(point)[place];
      const float squared = lists.distances(point)[place];
      const std::string where = "point " + std::to_string(point) + ", place " + std::to_string(place) + ": ";
      if (squared != kernels::active().squared_distance(rows[point], rows[id], rows.dimension())) return where + "the distance is another";
      if (place > 0 && squared == lists.distances(point)[place - 1] && id < lists.ids(point)[place - 1])
        return where + "ties are not by id";
    }
  }
  return "";
}

/// Whether both hold the same ids and the same distances, to the last bit.
inline bool equal_lists(const NeighborLists& a, const NeighborLists& b) {
  return std::ranges::equal(a.all_ids(), b.all_ids()) && std::ranges::equal(a.all_distances(), b.all_distances());
}

inline bool equal_edges(const Fanng& a, const Fanng& b) {
  if (a.size() != b.size() || a.dimension() != b.dimension()) return false;
  for (std::size_t vertex = 0; vertex < a.size(); ++vertex)
    if (!std::ranges::equal(a.edges(vertex), b.edges(vertex))) return false;
  return true;
}

/// What an `Expected` says when `call` throws it.
template <class Expected, class Call>
std::string message_of(const Call& call) {
  try {
    call();
  } catch (const Expected& error) {
    return error.what();
  } catch (const std::exception& error) {
    return std::string("another exception: ") + error.what();
  }
  return "nothing was thrown";
}

}  // namespace smartmine::test
