#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "graph/kernels/kernels.h"
#include "smartmine/core/error.h"
#include "smartmine/core/rows.h"
#include "smartmine/graph/fanng.h"

namespace smartmine {

/// Measures the candidates of a query in full and writes the nearest as its list. One object a thread: it owns scratch space only.
class ListWriter {
 public:
  explicit ListWriter(const kernels::Kernels& kernels) : kernels_(kernels) {}

  /// Writes the `count` nearest of `candidates` (at least as many, distinct), nearest first, ties in the order they stand in.
  void write(const float* query, const Rows& rows, std::span<const std::uint32_t> candidates, std::size_t count, std::uint32_t* ids,
             float* distances) {
    scores_.resize(candidates.size());
    slots_.assign(candidates.begin(), candidates.end());
    kernels_.squared_distances(query, rows.data(), candidates.data(), candidates.size(), rows.dimension(), scores_.data());
    for (float& score : scores_) score = -score;
    write_best(count, ids, distances);
  }
  /// The same of candidates that were measured before.
  void write(std::span<const Found> candidates, std::size_t count, std::uint32_t* ids, float* distances) {
    scores_.resize(candidates.size());
    slots_.resize(candidates.size());
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      scores_[i] = -candidates[i].distance;
      slots_[i] = candidates[i].id;
    }
    write_best(count, ids, distances);
  }

 private:
  // Of the candidates in slots_, with their negative distances in scores_.
  void write_best(std::size_t count, std::uint32_t* ids, float* distances) {
    require(slots_.size() >= count, "a list needs as many candidates as it is long");
    places_.resize(count);
    kernels::Reservoir best{0, static_cast<std::uint32_t>(slots_.size()), scores_.data(), slots_.data(), 0, 0, 0, false, 0};
    kernels_.finish(&best, count, 0);
    for (std::size_t i = 0; i < count; ++i) scores_[i] = -scores_[i];
    constexpr std::size_t kFewKeys = 512;  // counting ranks is quadratic
    if (count <= kFewKeys) {
      kernels_.ranks(scores_.data(), count, places_.data());
    } else {
      order_.resize(count);
      std::iota(order_.begin(), order_.end(), 0U);
      std::stable_sort(order_.begin(), order_.end(), [&](std::uint32_t a, std::uint32_t b) { return scores_[a] < scores_[b]; });
      for (std::size_t i = 0; i < count; ++i) places_[order_[i]] = static_cast<std::uint32_t>(i);
    }
    for (std::size_t i = 0; i < count; ++i) {
      ids[places_[i]] = slots_[i];
      distances[places_[i]] = scores_[i];
    }
  }

  const kernels::Kernels& kernels_;
  std::vector<float> scores_;
  std::vector<std::uint32_t> slots_;
  std::vector<std::uint32_t> places_;
  std::vector<std::uint32_t> order_;
};

/// Puts ids at equal distances into ascending order.
inline void order_ties(std::span<std::uint32_t> ids, std::span<const float> distances) {
  for (std::size_t from = 0; from + 1 < ids.size(); ++from) {
    std::size_t to = from + 1;
    while (to < ids.size() && distances[to] == distances[from]) ++to;
    if (to - from > 1) std::sort(ids.begin() + static_cast<std::ptrdiff_t>(from), ids.begin() + static_cast<std::ptrdiff_t>(to));
    from = to - 1;
  }
}

}  // namespace smartmine
