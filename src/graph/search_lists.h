#pragma once

#include <cstdint>

#include "graph/candidates.h"
#include "graph/edge_lists.h"
#include "graph/recall_sample.h"

namespace smartmine {

/// How lists came about that the candidates alone did not give.
enum class Searched {
  kByGraph,     ///< By a search through the graph from each point's own vertex.
  kByAllPairs,  ///< No such search reached the recall: all pairs were looked at.
  kNot,         ///< Both would take hours: the lists are as they were.
};

/// Lists by backtrack search from each point's own vertex. How many distances that takes is settled on a part of the sample; should the
/// whole of it fall short, all points are searched again with a quarter more, as often as it takes, up to 32,768 distances. Where looking
/// at all pairs would be quicker it is done instead, other than from random edges. Adds what it computes to `computed`.
Searched search_lists(const BuildTask& task, const OrderedRows& ordered, const EdgeLists& edges, const RecallSample& truth,
                      Candidates& candidates, std::uint64_t& computed);

}  // namespace smartmine
