#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "graph/kernels/kernels.h"
#include "smartmine/core/rows.h"
#include "smartmine/graph/fanng.h"

namespace smartmine {

/// The backtrack search: always follows the next edge of the vertex nearest to the query that has edges left. One object a thread: its
/// marks are cleared by counting up.
class Backtrack {
 public:
  explicit Backtrack(std::size_t vertices) : seen_(vertices, 0) {}

  /// Searches from `start` until `budget` distances are computed or nothing is left. `edges(vertex)` gives the ends of its edges, shortest
  /// first.
  template <class Edges>
  void run(const Rows& rows, const float* query, std::uint32_t start, std::size_t budget, const kernels::Kernels& kernels,
           const Edges& edges) {
    if (++mark_ == 0) {
      std::fill(seen_.begin(), seen_.end(), 0U);
      mark_ = 1;
    }
    found_.clear();
    queue_.clear();
    // The nearest vertex with edges left is at hand, not in the queue: nothing there is nearer until one of its edges leads to something
    // that is.
    Entry here = visit(rows, query, start, kernels);
    while (found_.size() < budget) {
      const auto ends = edges(here.vertex);
      bool nearer = false;
      while (here.edge < ends.size() && found_.size() < budget && !nearer) {
        const std::uint32_t end = ends[here.edge++];
        if (seen_[end] == mark_) continue;
        const Entry next = visit(rows, query, end, kernels);
        nearer = Later()(here, next);
        push(nearer ? here : next);
        if (nearer) here = next;
      }
      if (nearer) continue;
      if (queue_.empty()) return;
      std::pop_heap(queue_.begin(), queue_.end(), Later());
      here = queue_.back();
      queue_.pop_back();
    }
  }

  /// Every vertex whose distance was computed, in that order.
  const std::vector<Found>& found() const { return found_; }

 private:
  struct Entry {
    float distance;
    std::uint32_t vertex;
    std::uint32_t edge;  // the next one to look at
  };
  struct Later {
    bool operator()(const Entry& a, const Entry& b) const {
      return a.distance != b.distance ? a.distance > b.distance : a.vertex > b.vertex;
    }
  };

  Entry visit(const Rows& rows, const float* query, std::uint32_t vertex, const kernels::Kernels& kernels) {
    seen_[vertex] = mark_;
    const float distance = kernels.squared_distance(rows[vertex], query, rows.dimension());
    found_.push_back({vertex, distance});
    return {distance, vertex, 0};
  }
  void push(const Entry& entry) {
    queue_.push_back(entry);
    std::push_heap(queue_.begin(), queue_.end(), Later());
  }

  std::vector<std::uint32_t> seen_;
  std::uint32_t mark_ = 0;
  std::vector<Found> found_;
  std::vector<Entry> queue_;
};

}  // namespace smartmine
