#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace smartmine {

/// Three points by id: `positive` has the anchor's label, `negative` another.
struct Triplet {
  std::uint32_t anchor = 0;
  std::uint32_t positive = 0;
  std::uint32_t negative = 0;
  friend bool operator==(const Triplet&, const Triplet&) = default;
};

/// How a triplet came about.
enum class TripletOrigin : std::uint8_t {
  kMined,                    ///< Negative from the list beyond the bound, and a positive of the list behind it.
  kMinedOutsidePositive,     ///< The same negative; no positive of the list lies behind it: a uniform one from outside the list.
  kMinedNearerPositive,      ///< As above, but the whole class is in the list: its farthest, which violates the margin. If asked for.
  kRandomNoPositive,         ///< Random: the list holds no positive.
  kRandomNoNegative,         ///< Random: no (further) usable negative beyond the bound.
  kRandomNoFartherPositive,  ///< Random: the whole class is in the list, none of it behind the negative (and none near enough, if asked
                             ///< for).
  kRandomByShare,            ///< Random: the share of mined triplets is below 1, or the miner draws nothing else.
};

/// Whether the triplet's negative came from a list.
constexpr bool is_mined(TripletOrigin origin) { return origin <= TripletOrigin::kMinedNearerPositive; }

/// Order statistics without interpolation: the value at place round(q * (count - 1)) of the sorted values.
struct Quantiles {
  static constexpr std::array<double, 7> kLevels{0, 0.05, 0.25, 0.5, 0.75, 0.95, 1};
  std::array<float, 7> values{};  ///< Minimum, 5, 25, 50, 75, 95 %, maximum; zeros when `count` is 0.
  std::size_t count = 0;          ///< Values they were taken from.
};

/// What an epoch's selection did. The seven origins add up to `triplets`.
struct MiningStats {
  std::size_t triplets = 0;
  std::size_t anchors = 0;          ///< Points that served as anchors.
  std::size_t anchors_skipped = 0;  ///< Points alone in their class: never an anchor.

  std::size_t mined = 0;                   ///< TripletOrigin::kMined.
  std::size_t mined_outside_positive = 0;  ///< And so on.
  std::size_t mined_nearer_positive = 0;
  std::size_t random_no_positive = 0;
  std::size_t random_no_negative = 0;
  std::size_t random_no_farther_positive = 0;
  std::size_t random_by_share = 0;

  std::size_t mined_violating = 0;             ///< Of `mined`, those with a loss in the mined embedding: all of them.
  std::size_t outside_violating = 0;           ///< Of `mined_outside_positive`, those whose distance is known and that have a loss.
  std::size_t positive_distances_unknown = 0;  ///< Outside positives left out of the quantiles: no rows were given.
  Quantiles positive_distances;                ///< d2(anchor, positive) of mined triplets, as far as known.
  Quantiles negative_distances;                ///< d2(anchor, negative) of mined triplets.

  std::size_t duplicates_skipped = 0;  ///< Negatives beyond the bound left aside because they lie on the anchor, or too near.
  std::size_t rank_skipped = 0;        ///< Negatives beyond the bound left aside by the floor on the rank.
  std::size_t cap_skipped = 0;         ///< Negatives beyond the bound left aside because they had served often enough.
  std::size_t negatives_forced = 0;    ///< Random negatives that repeat one of the anchor or exceed the cap: nothing else was found.

  std::size_t neighbors = 0;               ///< Length of the lists.
  std::size_t lists_walked = 0;            ///< Lists of anchors with at least one triplet to be mined.
  std::size_t lists_without_positive = 0;  ///< Of these, as first given.
  std::size_t lists_without_negative = 0;  ///< Of these, with a positive but no usable negative beyond the bound.
  std::size_t suggested_neighbors = 0;     ///< A list length that should do, or help much; 0: these do, or longer ones may not help.
  std::size_t extended_anchors = 0;        ///< Anchors for which longer lists were asked.
  std::size_t extended_neighbors = 0;      ///< Longest lists asked for; 0: none.

  double seconds = 0;  ///< The whole selection, with longer lists if they were asked for.
  std::string note;    ///< What an operator should know, in words; mostly empty.

  /// Share of the triplets whose negative came from a list; 0 without any.
  double mined_share() const {
    return triplets == 0 ? 0 : static_cast<double>(mined + mined_outside_positive + mined_nearer_positive) / static_cast<double>(triplets);
  }
};

/// Triplets in order of anchor, then of the anchor's own triplets, and how each came about.
struct MinedTriplets {
  std::vector<Triplet> triplets;
  std::vector<TripletOrigin> origins;  ///< One a triplet.
  MiningStats stats;
};

}  // namespace smartmine
