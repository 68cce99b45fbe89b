#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "graph/exact_lists.h"

namespace smartmine {

/// An exact search some of whose queries have more rows around them that look alike than there is room for.
struct CrowdedSearch {
  const Rows& rows;
  const ExactLists& lists;
  const kernels::Kernels& kernels;
  unsigned threads;
  const Progress& progress;
  std::string_view stage;
};

/// Ids of the rows that can be in no list of `neighbors`: copies of more than so many others of lower ids, which come first. Ascending.
std::vector<std::uint32_t> spare_copies(const Rows& rows, std::size_t neighbors, unsigned threads);

/// Fills the lists of `queries` (places in `search.lists`) by looking at fewer rows: at those that are no spare copies where there are many
/// of these, else at balls that lie so far from all other rows that the nearest of every row in one are in it too. Leaves in `queries`
/// those it has no lists for. Returns the number of distances computed.
std::uint64_t list_crowded(const CrowdedSearch& search, std::vector<std::uint32_t>& queries);

}  // namespace smartmine
