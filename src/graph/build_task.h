#pragma once

#include <algorithm>
#include <cstddef>

#include "graph/kernels/kernels.h"
#include "smartmine/core/progress.h"
#include "smartmine/core/rows.h"
#include "smartmine/graph/fanng.h"

namespace smartmine {

/// What every stage of a build is given, and the sizes that follow from it.
struct BuildTask {
  Rows rows;
  FanngOptions options;
  const kernels::Kernels& kernels;
  const Progress& progress;
  bool makes_edges = true;     ///< False: lists alone are wanted.
  const Team* team = nullptr;  ///< That shares the stages that take longest; null: this process does all.
  ListMaker lists = {};        ///< Makes the lists.

  std::size_t size() const { return rows.size(); }
  unsigned threads() const { return options.threads; }
  std::size_t neighbors() const { return options.neighbors; }
  /// Whether the success rate is brought to its target, also where that takes longer than the lists.
  bool certifies() const { return options.certify || (options.for_search && size() <= kCertifiedUnasked); }
  /// Nearest neighbours of a vertex considered for its edges, if that is more than the list.
  std::size_t edge_candidates() const {
    if (options.edge_candidates > 0) return options.edge_candidates;
    if (!certifies()) return 0;
    // Measured (docs/results.md): with fewer, traverse-add would have to add so many edges that it takes longer.
    if (size() <= kCertifiedUnasked) return 300;
    if (size() <= 2 * kCertifiedUnasked) return 600;
    return size() <= 5 * kCertifiedUnasked ? 800 : 1000;
  }
  /// Nearest of a point that a search should find: its list, or more where they become candidates for edges. Ways out of traps are found by
  /// ranks, and among candidates full of holes they are not: walks then fail however many of them are mended.
  std::size_t searched() const {
    constexpr std::size_t kEnough = 100;
    return certifies() ? std::max(neighbors(), std::min(edge_candidates(), kEnough)) : neighbors();
  }
  /// Candidates measured in full: the list, the point itself, and some for what packing blurs.
  std::size_t scanned() const { return std::min(size(), neighbors() + 9 + neighbors() / 8); }
  /// Candidates a search brings home, the point itself included.
  std::size_t depth() const {
    return std::min(size(), std::max({edge_candidates() + 1, scanned(), options.refreshable ? 2 * neighbors() + 1 : 0}));
  }
  /// Of these, those kept besides the list: for edges, and for a refresh.
  std::size_t beyond() const { return makes_edges || options.refreshable ? depth() - 1 - neighbors() : 0; }
  /// So few points are compared all with all.
  std::size_t few() const {
    constexpr std::size_t kExactBelow = 4096;
    return std::max(kExactBelow, 8 * depth());
  }
};

}  // namespace smartmine
