#pragma once

#include <cstdint>

#include "graph/candidates.h"
#include "graph/edge_lists.h"

namespace smartmine {

/// A vertex from which no edge leads nearer to a point that it is among the nearest of, and that point. Both are places.
struct Trap {
  std::uint32_t vertex, point;
};

/// Going downhill to a point must not stop at one of the point's own nearest. Such a vertex has an edge to the point or to one that is
/// nearer to the point, and that would be among its nearest too: no distance is needed to see it.
std::vector<Trap> find_traps(const BuildTask& task, const OrderedRows& ordered, const Candidates& candidates);

/// The edges of each place to its own neighbours, those out of its traps, and a few random ones, pruned by occlusion. `packed`: the rows in
/// the same order, for quick comparisons; null where there are none. Adds what it computes to `computed`.
EdgeLists make_edges(const BuildTask& task, const OrderedRows& ordered, const ForwardEdges& forward, std::vector<Trap> traps,
                     const PackedPoints* packed, std::uint64_t& computed);

/// A few random edges of each place, pruned by occlusion: how the paper's build begins.
EdgeLists make_random_edges(const BuildTask& task, const OrderedRows& ordered);

}  // namespace smartmine
