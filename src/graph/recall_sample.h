#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "graph/build_task.h"

namespace smartmine {

/// Some points with their exact lists, to compare others with.
class RecallSample {
 public:
  /// Finds the exact lists of `points` among `rows`. Adds what it computes to `computed`.
  RecallSample(const BuildTask& task, const Rows& rows, std::vector<std::uint32_t> points, std::uint64_t& computed);

  const std::vector<std::uint32_t>& points() const { return points_; }

  /// Of the list of the `index`-th point, the entries that are right: in the exact list, or as near as its last (a tie).
  std::size_t hits(std::size_t index, std::span<const std::uint32_t> ids, std::span<const float> distances) const;

  /// Whether one entry is.
  bool is_hit(std::size_t index, const Found& entry) const;

  /// The squared distance at which the true list of the `index`-th point ends.
  float radius(std::size_t index) const { return radii_[index]; }

  double recall(const NeighborLists& lists) const;

 private:
  std::vector<std::uint32_t> points_;
  std::size_t neighbors_;
  std::vector<std::uint32_t> ids_;  // sorted, a list a point
  std::vector<float> radii_;
};

/// As many points as the options ask for, spread evenly, and their exact lists.
RecallSample sample_recall(const BuildTask& task, std::uint64_t& computed);

}  // namespace smartmine
