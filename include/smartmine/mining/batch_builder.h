#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "smartmine/graph/neighbors.h"
#include "smartmine/mining/labels.h"

namespace smartmine {

/// Options of batches made of classes that lie near each other.
struct BatchBuilderOptions {
  std::size_t classes = 24;          ///< Of a batch; at most those there are. At least 2.
  std::size_t images_per_class = 4;  ///< At least 2.
  double near_share = 1;          ///< Of a batch's classes behind the first, those chosen by the lists; the others are drawn. From 0 to 1.
  std::size_t rounds = 1;         ///< How often every point comes round. At least 1.
  std::size_t negatives = 16;     ///< Nearest points of other classes that a point votes for. At least 1.
  double duplicate_distance = 0;  ///< Points nearer (squared) than this, or at 0, are copies and get no vote. At least 0.
  std::uint64_t seed = 1;
  /// Throws InvalidArgument naming the field, its value and the allowed range.
  void validate() const;
};

/// What batches came to.
struct BatchStats {
  std::size_t batches = 0;
  std::size_t groups = 0;         ///< Images of one class that go together.
  std::size_t near_groups = 0;    ///< Of these, chosen by the lists.
  std::size_t random_groups = 0;  ///< Drawn, because they were to be or nothing near was left.
  std::size_t repeated = 0;       ///< Points that come once more than the others, to fill the last group of a class.
  std::size_t copies_skipped = 0;
  double seconds = 0;

  /// Share of the groups behind the first of each batch that the lists chose.
  double near_share() const { return groups <= batches ? 0 : static_cast<double>(near_groups) / static_cast<double>(groups - batches); }
};

/// Batches, one after the other, as indices of points; within a batch, class after class.
struct ClassBatches {
  std::vector<std::uint32_t> items;
  std::size_t batch_items = 0;  ///< The last batch may be shorter.
  BatchStats stats;
};

/// The miner's sibling: puts classes that the lists show to be confused into one batch, so that most of its pairs are hard. In each round
/// every point comes once. A class's points are divided at random into groups; a batch begins with a group and takes in, again and again,
/// the group that the points it has vote for most, of a class that it does not have. A point votes for its nearest points of other classes,
/// the nearer the more. The same seed gives the same batches. Throws InvalidArgument for bad options or lists of other points.
ClassBatches build_batches(const NeighborLists& lists, const LabelIndex& labels, const BatchBuilderOptions& options);

}  // namespace smartmine
