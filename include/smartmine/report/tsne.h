#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "smartmine/core/progress.h"
#include "smartmine/core/rows.h"
#include "smartmine/graph/neighbors.h"

namespace smartmine {

/// Options of a t-SNE map.
struct TsneOptions {
  double perplexity = 30;        ///< About how many neighbours a point has; 1 to 1000. Fewer points than three times as many lower it.
  std::size_t iterations = 750;  ///< Steps in all; 0 to 100000. 0: the start, which is the plane of the rows' largest variance.
  std::size_t early = 250;       ///< Of these the first, with attraction `exaggeration` times as strong.
  double exaggeration = 12;      ///< 1 to 100.
  double theta = 0.5;            ///< A cell is taken as one point if it is narrower than this times its distance. 0: exact; at most 0.7.
  double learning_rate = 0;      ///< 0: what suits the number of points (a 48th of it, but 50 for some).
  std::uint64_t seed = 1;        ///< For the start: points that lie on each other are moved apart by a hair.
  unsigned threads = 0;          ///< 0: all cores. Never changes the result.
  void validate() const;         ///< Throws InvalidArgument naming the field, its value and the allowed range.
};

/// What a map cost and what it reached.
struct TsneStats {
  double perplexity = 0;      ///< That was used.
  std::size_t neighbors = 0;  ///< Length of the lists that were used.
  double divergence = 0;      ///< Kullback-Leibler, of the map's affinities from the rows', at the end.
  double seconds = 0;         ///< Without the lists.
};

/// A place in the plane for each row, centred on 0.
struct TsneResult {
  std::vector<double> x;
  std::vector<double> y;
  TsneStats stats;
};

/// How long lists should be for a map of so many points.
std::size_t tsne_neighbors(std::size_t points, const TsneOptions& options);

/// t-SNE (van der Maaten and Hinton 2008) by the Barnes-Hut approximation (van der Maaten 2014): points near each other in `rows` come
/// near each other in the plane. `lists` are the neighbours of all rows; longer ones than needed are used as far as needed. A single row
/// needs no lists. Throws InvalidArgument for bad options, and lists that are not those of the rows by their size.
TsneResult tsne(const Rows& rows, const NeighborLists& lists, const TsneOptions& options = {}, const Progress& progress = {});

/// The same with lists of its own, exact or through a FANNG, whatever is faster.
TsneResult tsne(const Rows& rows, const TsneOptions& options = {}, const Progress& progress = {});

}  // namespace smartmine
