#pragma once

#include <cstdint>
#include <vector>

#include "graph/candidates.h"
#include "graph/partition_lists.h"

namespace smartmine {

/// Crowds are points that lie so close together that their group's packing hardly tells them apart, as `Group::crowded` says. Its search
/// finds some of those around a point, not the nearest of them. All that name each other are searched anew, packed on their own, with
/// crowds inside them, and the crowded among them are given the lists that this finds. Adds what it computes to `computed`.
void list_crowds(const BuildTask& task, const OrderedRows& ordered, const std::vector<Group>& groups, Candidates& candidates,
                 std::uint64_t& computed);

}  // namespace smartmine
