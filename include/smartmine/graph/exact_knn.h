#pragma once

#include <cstddef>

#include "smartmine/core/progress.h"
#include "smartmine/core/rows.h"
#include "smartmine/graph/neighbors.h"
#include "smartmine/graph/team.h"

namespace smartmine {

/// Options for exact search.
struct ExactKnnOptions {
  std::size_t neighbors = 100;  ///< Length of each list (k); from 1 to the number of rows minus 1.
  unsigned threads = 0;         ///< 0: all cores. Never changes the result.
};

/// The k nearest neighbours of every row by looking at all of them, in O(N k) memory. Distances are sums of squared
/// differences in float, ties go to the lower id, so the result is unique: the oracle for everything approximate.
class ExactKnn {
 public:
  explicit ExactKnn(const ExactKnnOptions& options) : options_(options) {}

  /// Lists of all rows, each without itself. Throws InvalidArgument if there are too few rows or one is not finite.
  /// With a `team`, all members call it. `lists` makes the lists.
  NeighborResult neighbors(const Rows& rows, const Progress& progress = {}, const Team* team = nullptr, const ListMaker& lists = {}) const;

  /// Lists of `queries` (of the same dimension) among `rows`; a row equal to a query is a neighbour like any other.
  NeighborResult search(const Rows& rows, const Rows& queries, const Progress& progress = {}) const;

 private:
  ExactKnnOptions options_;
};

}  // namespace smartmine
