#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "graph/candidates.h"
#include "graph/edge_lists.h"
#include "graph/ordered_rows.h"
#include "smartmine/graph/fanng.h"

namespace smartmine {

/// The inside of a graph, open to the build alone.
struct FanngParts {
  /// The points in the order of the build; empty: the graph cannot be refreshed.
  static const std::vector<std::uint32_t>& order(const Fanng& graph) { return graph.order_; }
  /// For each place of that order so many candidates, as places, the nearest first.
  static std::size_t candidates_per_point(const Fanng& graph) { return graph.candidates_per_point_; }
  static const std::vector<std::uint32_t>& candidates(const Fanng& graph) { return graph.candidates_; }
  static std::size_t edge_count(const Fanng& graph) { return graph.edges_.size(); }

  /// A graph of these edges, which go by place; with what a refresh starts from where the task asks for it.
  static Fanng assemble(const BuildTask& task, OrderedRows ordered, const EdgeLists& edges, Candidates candidates);
};

}  // namespace smartmine
