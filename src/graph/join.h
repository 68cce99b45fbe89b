#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "graph/build_task.h"
#include "graph/ordered_rows.h"
#include "graph/packed_points.h"

namespace smartmine {

/// How far a join looks: at the first `entries` of the lists of the `helpers` nearest of a point.
struct Join {
  std::size_t helpers = 20;
  std::size_t entries = 50;
};

/// What a point missed its neighbours often know. Every point of a group looks at the lists of its nearest, as they were before anybody
/// did so, and takes what is nearer than the last of its own. The places of the group are those from the first of `shares` to the last;
/// member i of a team (null: none) has the lists from shares[i] on, and mends these. `packed`: the rows of the group. Adds what it computes
/// to `computed`.
void join_neighbors(const BuildTask& task, const OrderedRows& ordered, const PackedPoints& packed, const Join& join,
                    const std::vector<std::size_t>& shares, NeighborLists& lists, std::uint64_t& computed);

}  // namespace smartmine
