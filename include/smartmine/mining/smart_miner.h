#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "smartmine/core/progress.h"
#include "smartmine/core/rows.h"
#include "smartmine/graph/neighbors.h"
#include "smartmine/mining/labels.h"
#include "smartmine/mining/triplet.h"

namespace smartmine {

/// Computes longer lists for a few points: `anchors.size()` lists of `neighbors` each, in the order of `anchors`
/// (ascending), with ids among all points and without the anchor itself. They are exact: a first positive there is the nearest.
using LongerLists = std::function<NeighborLists(std::span<const std::uint32_t> anchors, std::size_t neighbors)>;

/// Options for selecting triplets from neighbour lists; names in brackets are the paper's.
struct SmartMinerOptions {
  double kappa = 4;                     ///< A negative must lie beyond kappa * d2(anchor, nearest positive). Positive, finite.
  std::size_t triplets_per_anchor = 1;  ///< From 1 to 65536.
  double mined_fraction = 1;            ///< Share of triplets to mine; the others are random [2 % controls, 50-100 % best]. 0 to 1.
  std::uint64_t seed = 1;               ///< Give each epoch its own. Randomness is keyed by (seed, purpose, anchor, triplet).
  unsigned threads = 0;                 ///< 0: all cores. Never changes the result.
  double margin = 0.2;                  ///< Of the triplet loss [m], to tell which triplets violate it. Positive, finite.

  bool nearer_positives = false;      ///< If the whole class is nearer than the negative, take its farthest if that violates the margin.
  bool skip_duplicates = true;        ///< Never mine a negative at distance 0: the same image under two labels.
  std::size_t min_negative_rank = 0;  ///< Never mine a negative among the first so many of the list. 0: off.
  double duplicate_distance = 0;      ///< Never mine a negative nearer (squared) than this: a copy under another label. 0: off. Finite.
  std::size_t max_negative_uses = 0;  ///< A point serves as a negative at most so often (hubs). 0: no cap. One thread if set.
  double hub_limit = 0;               ///< The same as a multiple of the mean over all points, from 1 to 1e6. 0: no cap.

  double short_list_tolerance = 0.05;  ///< Share of lists without positive or negative above which the statistics say so. 0 to 1.
  LongerLists longer_lists = {};       ///< If set, asked for anchors whose list did not yield all their triplets, doubling. Must be exact.
  std::size_t longest_list = 0;        ///< Never ask for more neighbours than this. 0: all other points.

  /// Throws InvalidArgument naming the field, its value and the allowed range.
  void validate() const;
};

/// The paper's triplet selection over the neighbour lists of the whole set. Linear in the size of the lists, parallel
/// over anchors, O(triplets) memory. Immutable; concurrent use is safe.
class SmartMiner {
 public:
  /// Throws InvalidArgument for bad options.
  explicit SmartMiner(const SmartMinerOptions& options);

  /// Triplets of every point that is not alone in its class. With `rows`, the embeddings behind the lists, distances
  /// to positives outside the lists are measured too, and no longer lists are asked for that could hold nothing beyond the
  /// bound; the triplets are the same without.
  /// Throws InvalidArgument for labels of another length than the lists, and naming the first list (and place in it)
  /// that names its own point, an id out of range, or is not in ascending order. Ids that stand in a list twice are
  /// not looked for: NeighborLists::validate does that.
  MinedTriplets select(const NeighborLists& lists, const LabelIndex& labels, const Rows* rows = nullptr,
                       const Progress& progress = {}) const;
  /// The same, indexing the labels first.
  MinedTriplets select(const NeighborLists& lists, std::span<const std::int64_t> labels, const Rows* rows = nullptr,
                       const Progress& progress = {}) const;

 private:
  SmartMinerOptions options_;
};

/// A kappa for lists and labels that nobody has one for yet.
struct FoundKappa {
  double kappa = 0;        ///< The largest of 4, 2.83, 2, 1.41, ... that mines nearly as many triplets as any of them.
  double mined_share = 0;  ///< Of its triplets; 0: none of them mines anything.
};

/// Tries kappas from 4 down to 1/256, each half a power of two below the last, with the other options as they are, but no longer lists.
/// Throws as SmartMiner does.
FoundKappa find_kappa(const NeighborLists& lists, const LabelIndex& labels, const SmartMinerOptions& options,
                      const Progress& progress = {});

}  // namespace smartmine
