#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "smartmine/core/progress.h"
#include "smartmine/core/rows.h"
#include "smartmine/mining/labels.h"
#include "smartmine/mining/triplet.h"

namespace smartmine {

/// Options for random triplets.
struct RandomMinerOptions {
  std::size_t count = 0;   ///< Triplets, at most 2^40. 0: as many as there are anchors.
  std::uint64_t seed = 1;  ///< Give each epoch its own. Randomness is keyed by (seed, purpose, triplet).
  unsigned threads = 0;    ///< 0: all cores. Never changes the result.
  /// Throws InvalidArgument naming the field, its value and the allowed range.
  void validate() const;
};

/// Triplets that know nothing of distances: every point that is not alone in its class is an anchor equally often
/// (each once, in random order, before any comes again), the positive is uniform in its class, the negative uniform
/// outside it. Immutable; concurrent use is safe.
class RandomMiner {
 public:
  /// Throws InvalidArgument for bad options.
  explicit RandomMiner(const RandomMinerOptions& options) : options_(options) { options_.validate(); }
  /// All triplets are of TripletOrigin::kRandomByShare. In the order drawn, not by anchor.
  MinedTriplets select(const LabelIndex& labels) const;

 private:
  RandomMinerOptions options_;
};

/// For every point that is not alone in its class, in order: its farthest positive and its nearest negative over the
/// whole set, equal distances by the lower id. Looks at all pairs in O(N d) memory.
std::vector<Triplet> hardest_triplets(const Rows& rows, const LabelIndex& labels, unsigned threads = 0, const Progress& progress = {});

/// FaceNet's choice inside a batch: for every ordered pair of an anchor and a positive (by anchor, then by positive) the
/// nearest negative that is farther from the anchor than the positive, or the farthest negative if there is none.
/// Equal distances go to the lower id. Ids count the rows of the batch.
std::vector<Triplet> semihard_triplets(const Rows& batch, const LabelIndex& labels);

/// Two points and the squared distance between them.
struct Pair {
  std::uint32_t first = 0;
  std::uint32_t second = 0;
  float distance = 0;
  friend bool operator==(const Pair&, const Pair&) = default;
};

/// Options for hard pairs from a random sample.
struct HardPairsOptions {
  std::size_t sampled = 10000;  ///< Pairs drawn of each kind. At least 1.
  std::size_t kept = 1000;      ///< Of each kind. From 1 to `sampled`.
  std::uint64_t seed = 1;       ///< Randomness is keyed by (seed, purpose, pair).
  unsigned threads = 0;         ///< 0: all cores. Never changes the result.
  /// Throws InvalidArgument naming the field, its value and the allowed range.
  void validate() const;
};

/// The hardest of the sampled pairs.
struct HardPairs {
  std::vector<Pair> positives;  ///< Farthest first.
  std::vector<Pair> negatives;  ///< Nearest first.
};

/// The pairs a sample consists of: the first point uniform among all that are not alone in their class (for positive
/// pairs) or among all (for negative pairs), the second uniform in its class or outside it. A pair may come twice.
std::vector<Pair> sample_positive_pairs(const Rows& rows, const LabelIndex& labels, const HardPairsOptions& options);
std::vector<Pair> sample_negative_pairs(const Rows& rows, const LabelIndex& labels, const HardPairsOptions& options);

/// The hard-mining baseline: samples pairs, sorts positives by descending and negatives by ascending distance (equal
/// ones by ids) and keeps the top of both.
HardPairs hard_pairs(const Rows& rows, const LabelIndex& labels, const HardPairsOptions& options);

/// Share of triplets with d(anchor, negative) < d(anchor, positive) + margin, distances not squared: those with a loss. 0 of none.
double violating_share(std::span<const Triplet> triplets, const Rows& rows, double margin);

}  // namespace smartmine
