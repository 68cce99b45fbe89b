#include "smartmine/mining/smart_miner.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>

#include "mining/draw.h"
#include "mining/points.h"
#include "smartmine/core/error.h"

namespace smartmine {
namespace {

using test::brute_lists;
using test::chi_square_excess;
using test::clouds;
using test::LabelledPoints;
using testing::HasSubstr;

template <class Call>
std::string message_of(const Call& call) {
  try {
    call();
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "nothing was thrown";
}

struct Expected {
  TripletOrigin origin = TripletOrigin::kRandomByShare;
  std::uint32_t positive = 0;       // of kMined and kMinedNearerPositive
  std::uint32_t negative = 0;       // of all mined kinds
  std::set<std::uint32_t> outside;  // allowed positives of kMinedOutsidePositive
};

/// How often a point may be a negative.
std::size_t most_uses(const LabelledPoints& points, const SmartMinerOptions& options) {
  const double triplets = static_cast<double>(LabelIndex(points.labels).anchors().size() * options.triplets_per_anchor);
  const double limit =
      options.hub_limit == 0 ? 1e18 : std::max(1.0, std::round(options.hub_limit * triplets / static_cast<double>(points.size())));
  return std::min(options.max_negative_uses == 0 ? std::size_t{1} << 60 : options.max_negative_uses, static_cast<std::size_t>(limit));
}

/// The paper's algorithm "Triplet Selection" with its lists spelled out: `count` triplets of one anchor, all mined.
std::vector<Expected> select_by_the_paper(const LabelledPoints& points, std::uint32_t anchor, std::span<const std::uint32_t> ids,
                                          std::span<const float> distances, const SmartMinerOptions& options, std::size_t count,
                                          const std::vector<std::size_t>& uses = {}) {
  struct Positive {
    std::uint32_t id;
    float distance;
    std::set<std::uint32_t> valid_range;
  };
  std::vector<std::pair<std::uint32_t, float>> negatives;
  std::vector<Positive> positives;
  std::set<std::uint32_t> outside;
  for (std::uint32_t id = 0; id < points.size(); ++id)
    if (id != anchor && points.labels[id] == points.labels[anchor]) outside.insert(id);
  std::pair<std::uint32_t, float> farthest_in_list{};
  double bound = 0;
  for (std::size_t place = 0; place < ids.size(); ++place) {
    const bool is_positive = points.labels[ids[place]] == points.labels[anchor];
    if (is_positive) {
      outside.erase(ids[place]);
      farthest_in_list = {ids[place], distances[place]};
    }
    if (positives.empty()) {
      if (!is_positive) continue;
      bound = options.kappa * static_cast<double>(distances[place]);
      positives.push_back({ids[place], distances[place], {}});
      continue;
    }
    if (static_cast<double>(distances[place]) < bound) continue;
    if (!is_positive) {
      const bool guarded = (options.skip_duplicates && distances[place] == 0) ||
                           static_cast<double>(distances[place]) < options.duplicate_distance || place < options.min_negative_rank ||
                           (!uses.empty() && uses[ids[place]] >= most_uses(points, options));
      if (!guarded) negatives.emplace_back(ids[place], distances[place]);
    } else {
      Positive positive{ids[place], distances[place], {}};
      for (const auto& negative : negatives) positive.valid_range.insert(negative.first);
      positives.push_back(positive);
    }
  }
  std::vector<Expected> result;
  for (std::size_t j = 0; j < count; ++j) {
    Expected triplet;
    if (negatives.empty()) {
      triplet.origin = positives.empty() ? TripletOrigin::kRandomNoPositive : TripletOrigin::kRandomNoNegative;
      result.push_back(triplet);
      continue;
    }
    triplet.negative = negatives[0].first;
    triplet.origin = TripletOrigin::kMinedOutsidePositive;
    triplet.outside = outside;
    if (outside.empty()) {
      triplet.origin = TripletOrigin::kMinedNearerPositive;
      triplet.positive = farthest_in_list.first;
      const double loss = 1 - std::sqrt(static_cast<double>(negatives[0].second)) /
                                  (std::sqrt(static_cast<double>(farthest_in_list.second)) + options.margin);
      if (!options.nearer_positives || loss <= 0) triplet.origin = TripletOrigin::kRandomNoFartherPositive;
    }
    for (const Positive& positive : positives) {
      if (!positive.valid_range.contains(triplet.negative)) continue;
      triplet.origin = TripletOrigin::kMined;
      triplet.positive = positive.id;
      break;
    }
    negatives.erase(negatives.begin());
    result.push_back(triplet);
  }
  return result;
}

/// Everything that must be true of a selection, against the reference. Returns what went wrong first, or nothing.
std::string compare_with_the_paper(const LabelledPoints& points, const NeighborLists& lists, const SmartMinerOptions& options,
                                   const MinedTriplets& mined) {
  const LabelIndex index(points.labels);
  const std::vector<std::uint32_t> anchors = index.anchors();
  const std::size_t per_anchor = options.triplets_per_anchor;
  if (mined.triplets.size() != anchors.size() * per_anchor || mined.origins.size() != mined.triplets.size())
    return "wrong number of triplets";
  const bool capped = options.max_negative_uses > 0 || options.hub_limit > 0;
  std::vector<std::size_t> uses(capped ? points.size() : 0, 0);
  const KeyedPermutation order(anchors.size(), options.seed, Draw::kAnchorOrder, anchors.size());
  std::size_t by_share = 0;
  for (std::size_t step = 0; step < anchors.size(); ++step) {
    const std::size_t i = capped ? order(step) : step;
    const std::uint32_t anchor = anchors[i];
    std::size_t wanted = 0;
    for (std::size_t j = 0; j < per_anchor; ++j) wanted += mined.origins[i * per_anchor + j] != TripletOrigin::kRandomByShare;
    by_share += per_anchor - wanted;
    const auto expected = select_by_the_paper(points, anchor, lists.ids(anchor), lists.distances(anchor), options, wanted, uses);
    std::set<std::uint32_t> negatives;
    std::size_t next = 0;
    for (std::size_t j = 0; j < per_anchor; ++j) {
      const Triplet& triplet = mined.triplets[i * per_anchor + j];
      const TripletOrigin origin = mined.origins[i * per_anchor + j];
      const std::string where = fmt::format("anchor {}, triplet {}: ", anchor, j);
      if (triplet.anchor != anchor) return where + "wrong anchor";
      if (triplet.positive == anchor || points.labels[triplet.positive] != points.labels[anchor]) return where + "the positive is none";
      if (points.labels[triplet.negative] == points.labels[anchor]) return where + "the negative is none";
      negatives.insert(triplet.negative);
      if (capped) ++uses[triplet.negative];
      if (origin == TripletOrigin::kRandomByShare) continue;
      const Expected& want = expected[next++];
      if (origin != want.origin)
        return where + fmt::format("origin {} instead of {}", static_cast<int>(origin), static_cast<int>(want.origin));
      if (is_mined(origin) && triplet.negative != want.negative) return where + "another negative";
      if (origin == TripletOrigin::kMinedOutsidePositive) {
        if (!want.outside.contains(triplet.positive)) return where + "the positive is in the list";
      } else if (is_mined(origin) && triplet.positive != want.positive) {
        return where + "another positive";
      }
    }
    if (negatives.size() != per_anchor && mined.stats.negatives_forced == 0)
      return fmt::format("anchor {}: a negative serves twice", anchor);
  }
  const auto mined_slots = std::llround(options.mined_fraction * static_cast<double>(mined.triplets.size()));
  if (by_share != mined.triplets.size() - static_cast<std::size_t>(mined_slots)) return "the share of mined triplets is off";
  if (capped && mined.stats.negatives_forced == 0 && *std::max_element(uses.begin(), uses.end()) > most_uses(points, options))
    return "over the cap";
  return {};
}

std::vector<TripletOrigin> all_origins() {
  return {TripletOrigin::kMined,
          TripletOrigin::kMinedOutsidePositive,
          TripletOrigin::kMinedNearerPositive,
          TripletOrigin::kRandomNoPositive,
          TripletOrigin::kRandomNoNegative,
          TripletOrigin::kRandomNoFartherPositive,
          TripletOrigin::kRandomByShare};
}

TEST(SmartMiner, SelectsWhatThePaperSelectsOverManySeedsAndOptions) {
  std::map<TripletOrigin, std::size_t> seen;
  std::size_t runs = 0;
  for (std::uint64_t seed = 1; seed <= 30; ++seed)
    for (const double kappa : {0.3, 1.0, 1.5, 4.0, 30.0})
      for (const std::size_t per_anchor : {1, 2, 5}) {
        Random random(seed, 99, runs++);
        const LabelledPoints points = clouds(60 + random.below(60), 3 + random.below(15), 0.3 + 1.5 * random.uniform(), seed);
        const NeighborLists lists = brute_lists(points, 5 + random.below(35));
        const SmartMinerOptions options{.kappa = kappa,
                                        .triplets_per_anchor = per_anchor,
                                        .mined_fraction = random.below(2) == 0 ? 1.0 : random.uniform(),
                                        .seed = seed,
                                        .threads = 2,
                                        .nearer_positives = seed % 2 == 0,
                                        .skip_duplicates = random.below(2) == 0,
                                        .min_negative_rank = random.below(3) == 0 ? random.below(10) : 0,
                                        .duplicate_distance = random.below(3) == 0 ? random.uniform() : 0,
                                        .max_negative_uses = random.below(3) == 0 ? 1 + random.below(8) : 0,
                                        .hub_limit = random.below(3) == 0 ? 1 + 4 * random.uniform() : 0};
        const MinedTriplets mined = SmartMiner(options).select(lists, points.labels);
        ASSERT_EQ(compare_with_the_paper(points, lists, options, mined), "")
            << "seed " << seed << ", kappa " << kappa << ", per anchor " << per_anchor;
        for (const TripletOrigin origin : mined.origins) ++seen[origin];
      }
  for (const TripletOrigin origin : all_origins()) EXPECT_GT(seen[origin], 100U) << static_cast<int>(origin);
}

TEST(SmartMiner, SelectsWhatThePaperSelectsAmongDuplicatesAndTies) {
  // Points on a small grid: many distances are equal and many are 0.
  std::size_t duplicates = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    LabelledPoints points = clouds(80, 6, 1.0, seed, 2);
    for (float& value : points.values) value = std::round(value);
    const NeighborLists lists = brute_lists(points, 30);
    for (const bool skip : {false, true}) {
      const SmartMinerOptions options{.kappa = 1.0, .triplets_per_anchor = 3, .seed = seed, .threads = 2, .skip_duplicates = skip};
      const MinedTriplets mined = SmartMiner(options).select(lists, points.labels);
      ASSERT_EQ(compare_with_the_paper(points, lists, options, mined), "") << "seed " << seed;
      EXPECT_EQ(mined.stats.mined_violating, mined.stats.mined);
      duplicates += mined.stats.duplicates_skipped;
      if (!skip) {
        EXPECT_EQ(mined.stats.duplicates_skipped, 0U);
      }
      for (std::size_t i = 0; i < mined.triplets.size(); ++i)
        if (skip && is_mined(mined.origins[i])) {
          EXPECT_GT(points.distance(mined.triplets[i].anchor, mined.triplets[i].negative), 0.0F);
        }
    }
  }
  EXPECT_GT(duplicates, 100U);
}

/// The dozen points of docs/mining.md: the anchor 0, its positives 1 and 2, four negatives around, five points far off.
LabelledPoints dozen() {
  return {
      2, {0, 0, 1, 0, -1, -2, 0.5, 0.5, -1, 1, 1.5, -0.5, 1, 1.5, 4, 3, 5, 1, -4, 3, -5, -1, 3, -4}, {1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 3}};
}

TEST(SmartMiner, FindsNothingInsideALargeBoundaryAndOneViolatingTripletBeyondASmallerOne) {
  const LabelledPoints points = dozen();
  const NeighborLists lists = brute_lists(points, 6);
  EXPECT_THAT(lists.ids(0), testing::ElementsAre(3, 1, 4, 5, 6, 2));
  EXPECT_THAT(lists.distances(0), testing::ElementsAre(0.5F, 1.0F, 2.0F, 2.5F, 3.25F, 5.0F));

  const MinedTriplets large = SmartMiner({.kappa = 4}).select(lists, points.labels);
  EXPECT_EQ(large.origins[0], TripletOrigin::kRandomNoNegative);

  const MinedTriplets smaller = SmartMiner({.kappa = 3}).select(lists, points.labels);
  EXPECT_EQ(smaller.origins[0], TripletOrigin::kMined);
  EXPECT_EQ(smaller.triplets[0], (Triplet{0, 2, 6}));
  const double loss = 1 - std::sqrt(3.25) / (std::sqrt(5.0) + 0.2);
  EXPECT_NEAR(loss, 0.26, 0.005);
  EXPECT_EQ(smaller.stats.mined_violating, smaller.stats.mined);
}

TEST(SmartMiner, TakesTheBoundItselfAsBeyond) {
  // Distances 1 and 2: with kappa 2 the negative lies exactly on the boundary, which is not nearer than it.
  const LabelledPoints points{1, {0, 1, -std::sqrt(2.0F), 3}, {1, 1, 2, 1}};
  NeighborLists lists = brute_lists(points, 3);
  lists.distances(0)[1] = 2.0F;
  EXPECT_EQ(SmartMiner({.kappa = 2}).select(lists, points.labels).triplets[0], (Triplet{0, 3, 2}));
  EXPECT_EQ(SmartMiner({.kappa = std::nextafter(2.0, 3.0)}).select(lists, points.labels).origins[0], TripletOrigin::kRandomNoNegative);
}

TEST(SmartMiner, TakesAPositiveNearerThanTheNegativeOnlyWhenAskedTo) {
  // The list of point 0 holds its whole class, at 1 and 1.21 (d2), and a negative behind it, at 1.44 or far off.
  for (const float negative : {1.2F, 3.0F}) {
    const LabelledPoints points{1, {0, 1, 1.1F, -negative, 20, 21}, {1, 1, 1, 2, 2, 3}};
    const NeighborLists lists = brute_lists(points, 4);
    const SmartMinerOptions strict{.kappa = 1.1};
    const MinedTriplets by_the_letter = SmartMiner(strict).select(lists, points.labels);
    EXPECT_EQ(by_the_letter.origins[0], TripletOrigin::kRandomNoFartherPositive);
    EXPECT_EQ(by_the_letter.stats.mined_nearer_positive, 0U);
    EXPECT_GT(by_the_letter.stats.random_no_farther_positive, 0U);
    EXPECT_EQ(compare_with_the_paper(points, lists, strict, by_the_letter), "");

    const SmartMinerOptions lenient{.kappa = 1.1, .nearer_positives = true};
    const MinedTriplets nearer = SmartMiner(lenient).select(lists, points.labels);
    EXPECT_EQ(compare_with_the_paper(points, lists, lenient, nearer), "");
    if (negative < 1.1F + 0.2F) {  // violates the margin
      EXPECT_EQ(nearer.origins[0], TripletOrigin::kMinedNearerPositive);
      EXPECT_EQ(nearer.triplets[0], (Triplet{0, 2, 3}));
    } else {
      EXPECT_EQ(nearer.origins[0], TripletOrigin::kRandomNoFartherPositive);
    }
  }
}

/// All of a result but the time it took.
auto contents(const MinedTriplets& mined) {
  const MiningStats& s = mined.stats;
  return std::tuple(mined.triplets, mined.origins, s.positive_distances.values, s.negative_distances.values, s.duplicates_skipped,
                    s.rank_skipped, s.cap_skipped, s.negatives_forced, s.lists_without_positive, s.lists_without_negative,
                    s.suggested_neighbors, s.extended_anchors, s.extended_neighbors, s.outside_violating, s.note);
}

TEST(SmartMiner, GivesTheSameResultAtAnyNumberOfThreads) {
  const LabelledPoints points = clouds(5000, 40, 1.2, 3, 3);
  const NeighborLists longest = brute_lists(points, 80);
  const auto part = [&](std::span<const std::uint32_t> of, std::size_t neighbors) {
    NeighborLists lists(of.size(), neighbors);
    for (std::size_t i = 0; i < of.size(); ++i) {
      std::copy_n(longest.ids(of[i]).begin(), neighbors, lists.ids(i).begin());
      std::copy_n(longest.distances(of[i]).begin(), neighbors, lists.distances(i).begin());
    }
    return lists;
  };
  std::vector<std::uint32_t> all(points.size());
  std::iota(all.begin(), all.end(), 0U);
  const NeighborLists lists = part(all, 20);
  const Rows rows = points.rows();
  for (const std::size_t cap : {0, 3, 4})
    for (const bool extend : {false, true}) {
      SmartMinerOptions options{
          .kappa = 2, .triplets_per_anchor = 3, .mined_fraction = 0.7, .seed = 11, .threads = 1, .max_negative_uses = cap == 3 ? cap : 0};
      if (cap == 4) {
        options.hub_limit = 1.5;
        options.duplicate_distance = 0.1;
      }
      if (extend) options.longer_lists = part;
      options.longest_list = 80;
      const auto one = contents(SmartMiner(options).select(lists, points.labels, &rows));
      for (const unsigned threads : {2U, 3U, 8U}) {
        options.threads = threads;
        EXPECT_TRUE(contents(SmartMiner(options).select(lists, points.labels, &rows)) == one) << threads << " threads, cap " << cap;
      }
    }
}

TEST(SmartMiner, AnotherSeedDrawsOtherRandomTripletsButMinesTheSame) {
  const LabelledPoints points = clouds(2000, 20, 1.5, 4, 3);
  const NeighborLists lists = brute_lists(points, 20);
  const MinedTriplets a = SmartMiner({.kappa = 2, .seed = 1}).select(lists, points.labels);
  const MinedTriplets b = SmartMiner({.kappa = 2, .seed = 2}).select(lists, points.labels);
  EXPECT_EQ(a.origins, b.origins);
  std::size_t same_random = 0;
  std::size_t random = 0;
  for (std::size_t i = 0; i < a.triplets.size(); ++i) {
    if (a.origins[i] == TripletOrigin::kMined) {
      EXPECT_EQ(a.triplets[i], b.triplets[i]);
    }
    if (is_mined(a.origins[i])) continue;
    ++random;
    same_random += a.triplets[i] == b.triplets[i];
  }
  EXPECT_GT(random, 100U);
  EXPECT_LT(same_random, random / 10);
}

TEST(SmartMiner, CountsEveryStatistic) {
  for (const bool with_rows : {false, true}) {
    const LabelledPoints points = clouds(600, 30, 0.9, 5, 3);
    const NeighborLists lists = brute_lists(points, 16);
    const Rows rows = points.rows();
    const SmartMinerOptions options{.kappa = 2, .triplets_per_anchor = 2, .mined_fraction = 0.9, .min_negative_rank = 3};
    const MinedTriplets mined = SmartMiner(options).select(lists, points.labels, with_rows ? &rows : nullptr);
    const MiningStats& stats = mined.stats;
    const LabelIndex index(points.labels);

    std::map<TripletOrigin, std::size_t> origins;
    std::vector<float> positives;
    std::vector<float> negatives;
    std::size_t outside_violating = 0;
    for (std::size_t i = 0; i < mined.triplets.size(); ++i) {
      const auto [a, p, n] = mined.triplets[i];
      const TripletOrigin origin = mined.origins[i];
      ++origins[origin];
      if (!is_mined(origin)) continue;
      negatives.push_back(points.distance(a, n));
      if (origin == TripletOrigin::kMinedOutsidePositive && !with_rows) continue;
      positives.push_back(points.distance(a, p));
      const double loss = 1 - std::sqrt(points.distance(a, n)) / (std::sqrt(points.distance(a, p)) + 0.2);
      if (origin == TripletOrigin::kMinedOutsidePositive) {
        outside_violating += loss > 0;
      } else {
        EXPECT_GT(loss, 0);
      }
    }
    EXPECT_EQ(stats.triplets, mined.triplets.size());
    EXPECT_EQ(stats.mined, origins[TripletOrigin::kMined]);
    EXPECT_EQ(stats.mined_violating, stats.mined);
    EXPECT_EQ(stats.mined_outside_positive, origins[TripletOrigin::kMinedOutsidePositive]);
    EXPECT_EQ(stats.mined_nearer_positive, origins[TripletOrigin::kMinedNearerPositive]);
    EXPECT_EQ(stats.random_no_positive, origins[TripletOrigin::kRandomNoPositive]);
    EXPECT_EQ(stats.random_no_negative, origins[TripletOrigin::kRandomNoNegative]);
    EXPECT_EQ(stats.random_no_farther_positive, origins[TripletOrigin::kRandomNoFartherPositive]);
    EXPECT_EQ(stats.random_by_share, origins[TripletOrigin::kRandomByShare]);
    EXPECT_GT(stats.mined_outside_positive, 20U);
    EXPECT_EQ(stats.outside_violating, outside_violating);
    EXPECT_EQ(stats.positive_distances_unknown, with_rows ? 0 : stats.mined_outside_positive);

    std::sort(positives.begin(), positives.end());
    std::sort(negatives.begin(), negatives.end());
    ASSERT_EQ(stats.positive_distances.count, positives.size());
    ASSERT_EQ(stats.negative_distances.count, negatives.size());
    const double levels[] = {0, 0.05, 0.25, 0.5, 0.75, 0.95, 1};
    for (std::size_t q = 0; q < 7; ++q) {
      EXPECT_EQ(stats.positive_distances.values[q], positives[std::llround(levels[q] * static_cast<double>(positives.size() - 1))]);
      EXPECT_EQ(stats.negative_distances.values[q], negatives[std::llround(levels[q] * static_cast<double>(negatives.size() - 1))]);
    }

    EXPECT_EQ(stats.anchors, index.anchors().size());
    EXPECT_EQ(stats.anchors_skipped, points.size() - index.anchors().size());
    EXPECT_EQ(stats.neighbors, 16U);
    std::size_t walked = 0;
    std::size_t without_positive = 0;
    std::size_t without_negative = 0;
    std::size_t rank_skipped = 0;
    for (std::size_t i = 0; i < stats.anchors; ++i) {
      const std::uint32_t anchor = mined.triplets[2 * i].anchor;
      std::size_t wanted = 0;
      for (std::size_t j = 0; j < 2; ++j) wanted += mined.origins[2 * i + j] != TripletOrigin::kRandomByShare;
      if (wanted == 0) continue;
      ++walked;
      const auto first = select_by_the_paper(points, anchor, lists.ids(anchor), lists.distances(anchor), options, 1)[0].origin;
      without_positive += first == TripletOrigin::kRandomNoPositive;
      without_negative += first == TripletOrigin::kRandomNoNegative;
      float bound = -1;
      for (std::size_t place = 0; place < 3; ++place) {
        const bool positive = points.labels[lists.ids(anchor)[place]] == points.labels[anchor];
        const float distance = lists.distances(anchor)[place];
        rank_skipped += !positive && bound >= 0 && distance >= bound;
        if (positive && bound < 0) bound = 2 * distance;
      }
    }
    EXPECT_EQ(stats.lists_walked, walked);
    EXPECT_EQ(stats.lists_without_positive, without_positive);
    EXPECT_EQ(stats.lists_without_negative, without_negative);
    EXPECT_EQ(stats.rank_skipped, rank_skipped);
    EXPECT_GT(rank_skipped, 0U);
    EXPECT_GT(without_positive, 0U);
    EXPECT_GT(without_negative, 0U);
    EXPECT_EQ(stats.extended_anchors, 0U);
    EXPECT_GT(stats.seconds, 0);
  }
}

TEST(SmartMiner, HitsTheShareExactlyAndScattersIt) {
  const LabelledPoints points = clouds(3000, 10, 0.6, 6, 2);
  const NeighborLists lists = brute_lists(points, 30);
  for (const double share : {0.0, 0.02, 0.5, 0.9, 1.0}) {
    const MinedTriplets mined = SmartMiner({.kappa = 1.5, .mined_fraction = share}).select(lists, points.labels);
    EXPECT_EQ(mined.stats.random_by_share,
              mined.stats.triplets - static_cast<std::size_t>(std::llround(share * static_cast<double>(mined.stats.triplets))));
    std::vector<int> tenths(10, 0);
    for (std::size_t i = 0; i < mined.origins.size(); ++i)
      tenths[i * 10 / mined.origins.size()] += mined.origins[i] != TripletOrigin::kRandomByShare;
    if (share > 0 && share < 1) {
      EXPECT_LT(chi_square_excess(tenths), 5) << share;
    }
  }
}

TEST(SmartMiner, DrawsOutsidePositivesUniformly) {
  // The anchor's list: a positive, then a negative beyond the bound, and no positive behind it.
  for (const std::size_t class_size : {8, 40}) {  // hardly more than the list's positives; many more
    LabelledPoints points{1, {0}, {1}};
    for (std::size_t i = 1; i < class_size; ++i) {
      points.values.push_back(i <= 6 ? 0.1F * static_cast<float>(i) : 50.0F + static_cast<float>(i));
      points.labels.push_back(1);
    }
    points.values.push_back(2);
    points.labels.push_back(2);
    const NeighborLists lists = brute_lists(points, 7);
    std::vector<int> counts(class_size - 7, 0);
    for (std::uint64_t seed = 0; seed < 20000 * counts.size() / 8; ++seed) {
      const MinedTriplets mined = SmartMiner({.kappa = 2, .seed = seed, .threads = 1}).select(lists, points.labels);
      ASSERT_EQ(mined.origins[0], TripletOrigin::kMinedOutsidePositive);
      ASSERT_GE(mined.triplets[0].positive, 7U);
      ++counts[mined.triplets[0].positive - 7];
    }
    if (counts.size() > 1) {
      EXPECT_LT(chi_square_excess(counts), 5);
    }
  }
}

TEST(SmartMiner, DrawsTheFewPositivesALongListLeavesUniformly) {
  // Point 0's list: 30 of its class, then three negatives. Five of the class are left, their ids scattered over it.
  const std::set<std::uint32_t> left{2, 9, 17, 18, 35};
  LabelledPoints points{1, {0}, {1}};
  for (std::uint32_t i = 1; i < 36; ++i) {
    points.values.push_back(left.contains(i) ? 90.0F + static_cast<float>(i) : 0.1F + 0.01F * static_cast<float>(36 - i));
    points.labels.push_back(1);
  }
  for (const float place : {5.0F, 6.0F, 7.0F}) {
    points.values.push_back(place);
    points.labels.push_back(2);
  }
  const NeighborLists lists = brute_lists(points, 33);
  std::map<std::uint32_t, int> counts;
  for (std::uint64_t seed = 0; seed < 4000; ++seed) {
    const MinedTriplets mined = SmartMiner({.kappa = 4, .triplets_per_anchor = 3, .seed = seed, .threads = 1}).select(lists, points.labels);
    for (std::size_t j = 0; j < 3; ++j) {
      ASSERT_EQ(mined.origins[j], TripletOrigin::kMinedOutsidePositive);
      ASSERT_TRUE(left.contains(mined.triplets[j].positive)) << mined.triplets[j].positive;
      ++counts[mined.triplets[j].positive];
    }
  }
  std::vector<int> all;
  for (const auto& [id, count] : counts) all.push_back(count);
  ASSERT_EQ(all.size(), left.size());
  EXPECT_LT(chi_square_excess(all), 5);
}

TEST(SmartMiner, DrawsRandomTripletsUniformly) {
  const std::vector<std::int64_t> labels{3, 1, 3, 2, 1, 3, 2, 2, 3, 9};
  LabelledPoints points{1, {}, labels};
  for (std::size_t i = 0; i < labels.size(); ++i) points.values.push_back(static_cast<float>(i));
  const NeighborLists lists = brute_lists(points, 3);
  std::map<std::uint32_t, int> positives;
  std::map<std::uint32_t, int> negatives;
  for (std::uint64_t seed = 0; seed < 20000; ++seed) {
    const MinedTriplets mined = SmartMiner({.mined_fraction = 0, .seed = seed, .threads = 1}).select(lists, labels);
    ASSERT_EQ(mined.stats.anchors_skipped, 1U);
    ASSERT_EQ(mined.triplets.size(), 9U);
    ASSERT_EQ(mined.triplets[2].anchor, 2U);
    ++positives[mined.triplets[2].positive];
    ++negatives[mined.triplets[2].negative];
  }
  const auto counts_of = [](const std::map<std::uint32_t, int>& counted) {
    std::vector<int> counts;
    for (const auto& [id, count] : counted) counts.push_back(count);
    return counts;
  };
  ASSERT_EQ(positives.size(), 3U);
  ASSERT_EQ(negatives.size(), 6U);
  EXPECT_LT(chi_square_excess(counts_of(positives)), 5);
  EXPECT_LT(chi_square_excess(counts_of(negatives)), 5);
}

TEST(SmartMiner, GivesAnAnchorEachNegativeOnceAsLongAsThereAreAny) {
  const LabelledPoints points = clouds(40, 3, 1.0, 8, 2);
  const LabelIndex index(points.labels);
  std::size_t largest = 0;
  for (std::uint32_t c = 0; c < index.classes(); ++c) largest = std::max(largest, index.class_size(c));
  std::size_t in_largest = 0;  // points, of one or more such classes
  for (std::uint32_t point = 0; point < points.size(); ++point) in_largest += index.class_size(index.class_of(point)) == largest;
  const std::size_t negatives = points.size() - largest;  // the fewest any anchor has
  const NeighborLists lists = brute_lists(points, 10);
  const MinedTriplets enough = SmartMiner({.kappa = 1, .triplets_per_anchor = negatives}).select(lists, points.labels);
  EXPECT_EQ(enough.stats.negatives_forced, 0U);
  EXPECT_EQ(compare_with_the_paper(points, lists, {.kappa = 1, .triplets_per_anchor = negatives}, enough), "");
  const MinedTriplets more = SmartMiner({.kappa = 1, .triplets_per_anchor = negatives + 1}).select(lists, points.labels);
  EXPECT_EQ(more.stats.negatives_forced, in_largest);
}

TEST(SmartMiner, TakesNegativesThatAreTooNearForCopies) {
  // Every point has a twin in its class and, a little farther, a copy that is not quite the same under another label.
  LabelledPoints points = clouds(120, 6, 1.0, 5);
  const std::size_t count = points.size(), dimension = points.rows().dimension();
  for (std::size_t i = 0; i < count; ++i) {
    for (const float offset : {1e-4F, 1e-3F})
      for (std::size_t d = 0; d < dimension; ++d) points.values.push_back(points.values[i * dimension + d] + offset);
    points.labels.insert(points.labels.end(), {points.labels[i], points.labels[i] + 100});
  }
  const double near = 2e-6 * static_cast<double>(dimension);
  const NeighborLists lists = brute_lists(points, 60);
  const auto copies = [&](const MinedTriplets& mined) {
    std::size_t found = 0;
    for (std::size_t i = 0; i < mined.triplets.size(); ++i)
      found += is_mined(mined.origins[i]) && points.distance(mined.triplets[i].anchor, mined.triplets[i].negative) < near;
    return found;
  };
  const SmartMinerOptions open{.kappa = 1};
  SmartMinerOptions guarded = open;
  guarded.duplicate_distance = near;
  const MinedTriplets with = SmartMiner(open).select(lists, points.labels), without = SmartMiner(guarded).select(lists, points.labels);
  EXPECT_EQ(with.stats.duplicates_skipped, 0U);
  EXPECT_EQ(copies(without), 0U);
  EXPECT_EQ(compare_with_the_paper(points, lists, guarded, without), "");
  EXPECT_GT(copies(with), count);
  EXPECT_GE(without.stats.duplicates_skipped, copies(with));
  EXPECT_GT(without.stats.mined, 0U);
  EXPECT_THAT(without.stats.note, HasSubstr("were taken for copies and left aside"));
}

TEST(SmartMiner, KeepsHubsUnderTheCap) {
  // Two points in the middle of a cloud of many dimensions: nearer to everyone than the cloud's points are to each
  // other. A class has two points close together and two far out, beyond the ends of the lists.
  constexpr std::size_t kDimension = 20;
  LabelledPoints points{kDimension, {}, {}};
  for (std::uint64_t c = 0; c < 50; ++c)
    for (std::uint64_t i = 0; i < 4; ++i) {
      Random centre(1, 1, c);
      Random member(1, 2, 4 * c + i);
      for (std::size_t d = 0; d < kDimension; ++d)
        points.values.push_back(static_cast<float>((i < 2 ? 1 : 3) * centre.normal() + 0.3 * member.normal()));
      points.labels.push_back(static_cast<std::int64_t>(c));
    }
  points.values.resize(points.values.size() + 2 * kDimension, 0.01F);
  points.labels.insert(points.labels.end(), {100, 100});
  const NeighborLists lists = brute_lists(points, 60);
  const auto busiest = [&](const MinedTriplets& mined) {
    std::vector<std::size_t> uses(points.size(), 0);
    for (const Triplet& triplet : mined.triplets) ++uses[triplet.negative];
    return *std::max_element(uses.begin(), uses.end());
  };
  const MinedTriplets free = SmartMiner({.kappa = 1.5}).select(lists, points.labels);
  ASSERT_GT(busiest(free), 30U);
  EXPECT_EQ(free.stats.cap_skipped, 0U);
  const MinedTriplets capped = SmartMiner({.kappa = 1.5, .max_negative_uses = 2}).select(lists, points.labels);
  EXPECT_EQ(capped.stats.negatives_forced, 0U);
  EXPECT_LE(busiest(capped), 2U);
  EXPECT_GT(capped.stats.cap_skipped, 0U);
  EXPECT_EQ(compare_with_the_paper(points, lists, {.kappa = 1.5, .max_negative_uses = 2}, capped), "");
  // As a multiple of the mean, which is 1 as every point is an anchor once.
  const MinedTriplets limited = SmartMiner({.kappa = 1.5, .hub_limit = 3}).select(lists, points.labels);
  EXPECT_EQ(limited.stats.negatives_forced, 0U);
  EXPECT_EQ(busiest(limited), 3U);
  EXPECT_GT(limited.stats.cap_skipped, 0U);
  EXPECT_THAT(limited.stats.note, HasSubstr(fmt::format("{} times a negative was left aside because it had served 3 times already",
                                                        limited.stats.cap_skipped)));
  EXPECT_EQ(compare_with_the_paper(points, lists, {.kappa = 1.5, .hub_limit = 3}, limited), "");
  // The stricter of the two holds.
  EXPECT_EQ(busiest(SmartMiner({.kappa = 1.5, .max_negative_uses = 2, .hub_limit = 3}).select(lists, points.labels)), 2U);
  EXPECT_EQ(busiest(SmartMiner({.kappa = 1.5, .max_negative_uses = 9, .hub_limit = 3}).select(lists, points.labels)), 3U);
  // More triplets than all negatives together may serve.
  const MinedTriplets impossible =
      SmartMiner({.kappa = 1.5, .triplets_per_anchor = 3, .max_negative_uses = 2}).select(lists, points.labels);
  EXPECT_GT(impossible.stats.negatives_forced, 0U);
}

TEST(SmartMiner, AsksForLongerListsForJustTheAnchorsThatNeedThem) {
  const LabelledPoints points = clouds(400, 25, 1.0, 9, 3);
  const NeighborLists lists = brute_lists(points, 5);
  const std::vector<std::uint32_t> anchors = LabelIndex(points.labels).anchors();
  for (const std::size_t longest : {0, 30}) {
    SmartMinerOptions options{.kappa = 1.5, .triplets_per_anchor = 2, .threads = 2, .longest_list = longest};
    std::vector<std::pair<std::size_t, std::vector<std::uint32_t>>> asked;
    options.longer_lists = [&](std::span<const std::uint32_t> of, std::size_t neighbors) {
      asked.emplace_back(neighbors, std::vector<std::uint32_t>(of.begin(), of.end()));
      return brute_lists(points, of, neighbors);
    };
    const MinedTriplets mined = SmartMiner(options).select(lists, points.labels);

    const std::size_t limit = longest == 0 ? points.size() - 1 : longest;
    std::map<std::size_t, std::vector<std::uint32_t>> expected_asked;
    for (std::size_t i = 0; i < anchors.size(); ++i) {
      std::size_t length = 5;
      std::vector<Expected> expected;
      while (true) {
        const std::uint32_t one[] = {anchors[i]};
        const NeighborLists list = brute_lists(points, one, length);
        expected = select_by_the_paper(points, anchors[i], list.ids(0), list.distances(0), options, 2);
        const bool short_of_one = std::any_of(expected.begin(), expected.end(), [](const Expected& e) {
          return e.origin == TripletOrigin::kRandomNoPositive || e.origin == TripletOrigin::kRandomNoNegative;
        });
        if (!short_of_one || length == limit) break;
        length = std::min(2 * length, limit);
        expected_asked[length].push_back(anchors[i]);
      }
      for (std::size_t j = 0; j < 2; ++j) {
        ASSERT_EQ(mined.origins[2 * i + j], expected[j].origin) << "anchor " << anchors[i];
        if (is_mined(expected[j].origin)) {
          EXPECT_EQ(mined.triplets[2 * i + j].negative, expected[j].negative);
        }
        if (expected[j].origin == TripletOrigin::kMined) {
          EXPECT_EQ(mined.triplets[2 * i + j].positive, expected[j].positive);
        }
      }
    }
    ASSERT_GT(expected_asked.size(), 2U);
    EXPECT_EQ(asked, decltype(asked)(expected_asked.begin(), expected_asked.end()));
    EXPECT_EQ(mined.stats.extended_anchors, expected_asked.begin()->second.size());
    EXPECT_EQ(mined.stats.extended_neighbors, expected_asked.rbegin()->first);
    EXPECT_THAT(mined.stats.note, HasSubstr(fmt::format("longer lists, up to {}, were asked for {} anchors", expected_asked.rbegin()->first,
                                                        expected_asked.begin()->second.size())));
    if (longest == 0) {
      EXPECT_EQ(mined.stats.random_no_positive, 0U);
    }
  }
}

/// Lists from a larger one, and which were asked for.
struct AskedLists {
  const LabelledPoints& points;
  std::map<std::size_t, std::vector<std::uint32_t>> asked;  // by length
  NeighborLists operator()(std::span<const std::uint32_t> of, std::size_t neighbors) {
    asked[neighbors].assign(of.begin(), of.end());
    return brute_lists(points, of, neighbors);
  }
  std::size_t anchors() const {
    std::set<std::uint32_t> all;
    for (const auto& [length, of] : asked) all.insert(of.begin(), of.end());
    return all.size();
  }
  std::size_t entries() const {
    std::size_t sum = 0;
    for (const auto& [length, of] : asked) sum += length * of.size();
    return sum;
  }
};

TEST(SmartMiner, AsksForNoListsThatCannotReachBeyondTheBound) {
  const LabelledPoints points = clouds(400, 16, 1.0, 9, 8);
  const NeighborLists lists = brute_lists(points, 6);
  const Rows rows = points.rows();
  for (const std::size_t longest : {0, 50})
    for (const std::size_t cap : {0, 2})
      for (const double kappa : {1.5, 4.0, 16.0, 1e6}) {
        const auto where = fmt::format("longest {}, cap {}, kappa {}", longest, cap, kappa);
        AskedLists blind{points, {}}, seeing{points, {}};
        SmartMinerOptions options{.kappa = kappa, .triplets_per_anchor = 2, .seed = 5, .threads = 2, .max_negative_uses = cap};
        options.longest_list = longest;
        options.longer_lists = std::ref(blind);
        const MinedTriplets without = SmartMiner(options).select(lists, points.labels);
        options.longer_lists = std::ref(seeing);
        const MinedTriplets with = SmartMiner(options).select(lists, points.labels, &rows);
        EXPECT_EQ(with.triplets, without.triplets) << where;
        EXPECT_EQ(with.origins, without.origins) << where;
        EXPECT_EQ(with.stats.cap_skipped, without.stats.cap_skipped) << where;
        EXPECT_EQ(with.stats.extended_anchors, seeing.anchors()) << where;
        EXPECT_LE(seeing.entries(), blind.entries()) << where;
        if (!seeing.asked.empty()) {
          EXPECT_EQ(with.stats.extended_neighbors, seeing.asked.rbegin()->first) << where;
        }
        for (std::size_t i = 0; i < with.origins.size(); ++i)
          ASSERT_TRUE(with.origins[i] != TripletOrigin::kRandomNoPositive || longest != 0) << where;
        // The bound of all lies beyond every point: one look shows the nearest positive, and no list is asked for again.
        if (kappa > 100) {
          EXPECT_GT(blind.asked.size(), 3U) << where;
          EXPECT_LT(seeing.entries(), blind.entries() / 3) << where;
        }
        if (kappa == 4.0 && longest == 0) {
          EXPECT_LT(seeing.entries(), blind.entries() * 9 / 10) << where;
        }
      }
}

TEST(SmartMiner, RefusesLongerListsOfAnotherShape) {
  const LabelledPoints points = clouds(100, 10, 1.0, 9, 3);
  const NeighborLists lists = brute_lists(points, 3);
  SmartMinerOptions options{.kappa = 3};
  options.longer_lists = [&](std::span<const std::uint32_t> of, std::size_t) { return brute_lists(points, of, 4); };
  EXPECT_THAT(message_of([&] { SmartMiner(options).select(lists, points.labels); }), HasSubstr("lists of 6 were asked for"));
  options.longer_lists = [&](std::span<const std::uint32_t> of, std::size_t neighbors) {
    NeighborLists longer = brute_lists(points, of, neighbors);
    longer.ids(0)[2] = of[0];
    return longer;
  };
  EXPECT_THAT(message_of([&] { SmartMiner(options).select(lists, points.labels); }), HasSubstr("place 2: the list names its own point"));
}

TEST(SmartMiner, SuggestsALengthThatDoes) {
  std::size_t suggestions = 0;
  for (std::uint64_t seed = 1; seed <= 6; ++seed)
    for (const std::size_t neighbors : {4, 8, 16}) {
      const LabelledPoints points = clouds(1500, 30, 1.1, seed, 4);
      const auto short_share = [](const MiningStats& stats) {
        return static_cast<double>(stats.lists_without_positive + stats.lists_without_negative) / static_cast<double>(stats.lists_walked);
      };
      const SmartMiner miner({.kappa = 1.2});
      const MiningStats stats = miner.select(brute_lists(points, neighbors), points.labels).stats;
      if (short_share(stats) <= 0.05) {
        EXPECT_EQ(stats.suggested_neighbors, 0U);
        continue;
      }
      ++suggestions;
      ASSERT_GT(stats.suggested_neighbors, neighbors);
      EXPECT_LE(stats.suggested_neighbors, 16 * neighbors);
      EXPECT_THAT(stats.note, HasSubstr(fmt::format("lists of about {} {}", stats.suggested_neighbors,
                                                    stats.suggested_neighbors < 16 * neighbors ? "should do" : "would help")));
      EXPECT_THAT(stats.note, HasSubstr("% hold no positive"));
      const MiningStats after = miner.select(brute_lists(points, stats.suggested_neighbors), points.labels).stats;
      // An extrapolation: it must close most of the gap, or go as far as one suggestion goes.
      if (stats.suggested_neighbors < 16 * neighbors) {
        EXPECT_LT(short_share(after), 0.15) << "from " << neighbors << " to " << stats.suggested_neighbors;
      }
      EXPECT_LT(short_share(after), short_share(stats) / 2);
    }
  EXPECT_GT(suggestions, 6U);
}

TEST(SmartMiner, SaysSoWhenNoLengthWouldDo) {
  const LabelledPoints points = clouds(60, 4, 1.0, 2, 2);
  const MiningStats stats = SmartMiner({.kappa = 1e6}).select(brute_lists(points, points.size() - 1), points.labels).stats;
  EXPECT_EQ(stats.suggested_neighbors, 0U);
  EXPECT_THAT(stats.note, HasSubstr("hold all points already; a smaller kappa would help"));
}

TEST(SmartMiner, SuggestsNoLengthWithoutGround) {
  const auto expect_none = [](const MiningStats& stats, const std::string& advice) {
    EXPECT_EQ(stats.suggested_neighbors, 0U);
    EXPECT_THAT(stats.note, testing::EndsWith(advice));
    EXPECT_THAT(stats.note, testing::Not(HasSubstr("lists of about")));
  };
  const LabelledPoints points = clouds(400, 4, 1.0, 2, 2);
  // The bound lies beyond all lists.
  expect_none(SmartMiner({.kappa = 1e9}).select(brute_lists(points, 20), points.labels).stats,
              "longer lists may not help; a smaller kappa may");
  // No list of one holds both, which says nothing about longer ones.
  expect_none(SmartMiner({.kappa = 2}).select(brute_lists(points, 1), points.labels).stats, "a list of 1 cannot hold both");
  // All points in one place: neither lists nor kappa are at fault.
  LabelledPoints one_place = points;
  std::fill(one_place.values.begin(), one_place.values.end(), 0.5F);
  expect_none(SmartMiner({.kappa = 2}).select(brute_lists(one_place, 20), one_place.labels).stats, "longer lists may not help");
  expect_none(SmartMiner({.kappa = 2}).select(brute_lists(one_place, 399), one_place.labels).stats, "the lists hold all points already");
  // A length that would do, were there as many points.
  const LabelledPoints few = clouds(30, 4, 1.0, 2, 2);
  expect_none(SmartMiner({.kappa = 8}).select(brute_lists(few, 20), few.labels).stats, "longer lists may not help; a smaller kappa may");
}

TEST(SmartMiner, NeverTakesAPointAloneInItsClassAsAnchorAndSaysSo) {
  LabelledPoints points = clouds(50, 2, 0.5, 3, 2);
  points.labels[7] = 1000;
  points.labels[20] = 2000;
  const MinedTriplets mined = SmartMiner({.kappa = 2}).select(brute_lists(points, 30), points.labels);
  EXPECT_EQ(mined.triplets.size(), 48U);
  EXPECT_EQ(mined.stats.anchors_skipped, 2U);
  EXPECT_THAT(mined.stats.note, HasSubstr("2 points are alone in their class"));
  for (const Triplet& triplet : mined.triplets) EXPECT_TRUE(triplet.anchor != 7 && triplet.anchor != 20);
}

TEST(SmartMiner, FallsBackToRandomTripletsWhenAllPointsAreInOnePlace) {
  LabelledPoints points = clouds(60, 3, 1.0, 3, 2);
  std::fill(points.values.begin(), points.values.end(), 0.5F);
  const NeighborLists lists = brute_lists(points, 59);
  const MinedTriplets mined = SmartMiner({.kappa = 2}).select(lists, points.labels);
  EXPECT_EQ(mined.stats.random_no_negative, mined.stats.triplets);
  EXPECT_GT(mined.stats.duplicates_skipped, 0U);
  EXPECT_EQ(compare_with_the_paper(points, lists, {.kappa = 2}, mined), "");
  const MinedTriplets unguarded = SmartMiner({.kappa = 2, .skip_duplicates = false}).select(lists, points.labels);
  EXPECT_GT(unguarded.stats.mined, 0U);
}

TEST(SmartMiner, MinesTiesAmongHugeDistances) {
  // A margin of 0.2 is lost beside distances of 1e16, yet a positive as far as the negative violates it.
  const LabelledPoints points{2, {0, 0, 1e15F, 0, 0, 1e16F, 1e16F, 0}, {1, 1, 2, 1}};
  const MinedTriplets mined = SmartMiner({.kappa = 2}).select(brute_lists(points, 3), points.labels);
  EXPECT_EQ(mined.triplets[0], (Triplet{0, 3, 2}));
  EXPECT_EQ(mined.stats.mined_violating, mined.stats.mined);
}

TEST(SmartMiner, NamesThePlaceThatIsWrongWithAList) {
  const LabelledPoints points = clouds(5000, 10, 1.0, 3, 2);
  const NeighborLists sound = brute_lists(points, 10);
  const auto copy = [&] {
    NeighborLists lists(sound.size(), sound.neighbors());
    for (std::size_t i = 0; i < sound.size(); ++i) {
      std::copy(sound.ids(i).begin(), sound.ids(i).end(), lists.ids(i).begin());
      std::copy(sound.distances(i).begin(), sound.distances(i).end(), lists.distances(i).begin());
    }
    return lists;
  };
  const auto message = [&](const NeighborLists& lists) {
    return message_of([&] { SmartMiner({.threads = 3}).select(lists, points.labels); });
  };
  {
    NeighborLists lists = copy();
    lists.ids(4321)[9] = 4321;
    lists.ids(4900)[0] = 5000;  // later, so not the one named
    EXPECT_EQ(message(lists), "neighbour list of point 4321, place 9: the list names its own point");
  }
  {
    NeighborLists lists = copy();
    lists.ids(17)[4] = 5000;
    EXPECT_EQ(message(lists), "neighbour list of point 17, place 4: id 5000 is out of range; there are 5000 points");
    lists.ids(17)[4] = static_cast<std::uint32_t>(-1);
    EXPECT_THAT(message(lists), HasSubstr("id -1 is out of range"));
  }
  {
    NeighborLists lists = copy();
    std::swap(lists.distances(99)[3], lists.distances(99)[4]);
    EXPECT_THAT(message(lists), HasSubstr("point 99, place 4: distance"));
    EXPECT_THAT(message(lists), HasSubstr("nearest first"));
  }
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(), -1.0F})
    for (const std::size_t place : {0, 5, 9}) {
      NeighborLists lists = copy();
      lists.distances(1234)[place] = bad;
      EXPECT_THAT(message(lists), HasSubstr("point 1234, place"));
    }
}

TEST(SmartMiner, RefusesLabelsOfAnotherLength) {
  const LabelledPoints points = clouds(50, 3, 1.0, 3, 2);
  const NeighborLists lists = brute_lists(points, 10);
  std::vector<std::int64_t> labels = points.labels;
  labels.push_back(1);
  EXPECT_THAT(message_of([&] { SmartMiner({}).select(lists, labels); }), HasSubstr("51 labels but 50 neighbour lists"));
  const Rows fewer(points.values.data(), 49, 2);
  EXPECT_THAT(message_of([&] { SmartMiner({}).select(lists, points.labels, &fewer); }), HasSubstr("50 labels but 49 embeddings"));
}

TEST(SmartMiner, RefusesOneClassAndOnlyClassesOfOne) {
  const LabelledPoints points = clouds(4, 3, 1.0, 3, 2);
  const NeighborLists lists = brute_lists(points, 2);
  EXPECT_THAT(message_of([&] { SmartMiner({}).select(lists, std::vector<std::int64_t>(4, 5)); }), HasSubstr("one class only"));
  EXPECT_THAT(message_of([&] { SmartMiner({}).select(lists, std::vector<std::int64_t>{1, 2, 3, 4}); }), HasSubstr("one member only"));
}

TEST(SmartMiner, RefusesBadOptionsByName) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const double kappa : {0.0, -1.0, kNan, kInfinity})
    EXPECT_THAT(message_of([&] { SmartMiner({.kappa = kappa}); }),
                HasSubstr(fmt::format("kappa is {}; it must be positive and finite", kappa)));
  EXPECT_THAT(message_of([&] { SmartMiner({.triplets_per_anchor = 0}); }), HasSubstr("triplets_per_anchor is 0"));
  for (const double share : {-0.1, 1.1, kNan})
    EXPECT_THAT(message_of([&] { SmartMiner({.mined_fraction = share}); }), HasSubstr("mined_fraction is"));
  for (const double margin : {0.0, -0.2, kNan}) EXPECT_THAT(message_of([&] { SmartMiner({.margin = margin}); }), HasSubstr("margin is"));
  for (const double limit : {0.5, -1.0, 1e7, kNan})
    EXPECT_THAT(message_of([&] { SmartMiner({.hub_limit = limit}); }), HasSubstr("; it must be 0 or from 1 to 1e6"));
  for (const double distance : {-0.1, kNan})
    EXPECT_THAT(message_of([&] { SmartMiner({.duplicate_distance = distance}); }), HasSubstr("duplicate_distance is"));
  EXPECT_THAT(message_of([&] { SmartMiner({.short_list_tolerance = 2}); }), HasSubstr("short_list_tolerance is 2"));
}

TEST(SmartMiner, StopsWhenProgressSaysSo) {
  const LabelledPoints points = clouds(3000, 10, 1.0, 3, 2);
  const NeighborLists lists = brute_lists(points, 5);
  std::size_t calls = 0;
  EXPECT_THROW(SmartMiner({.threads = 1})
                   .select(lists, points.labels, nullptr,
                           [&](const ProgressEvent& event) {
                             ++calls;
                             EXPECT_EQ(event.stage, "select");
                             return false;
                           }),
               Cancelled);
  EXPECT_EQ(calls, 1U);
}

TEST(KeyedPermutation, VisitsEveryPlaceOnceInAnOrderOfItsOwn) {
  for (const std::uint64_t size : {1U, 2U, 3U, 4U, 5U, 16U, 17U, 1000U}) {
    std::set<std::uint64_t> seen;
    const KeyedPermutation order(size, 7, Draw::kShare);
    for (std::uint64_t i = 0; i < size; ++i) {
      EXPECT_LT(order(i), size);
      seen.insert(order(i));
    }
    EXPECT_EQ(seen.size(), size);
  }
  std::size_t same = 0;
  const KeyedPermutation a(1000, 7, Draw::kShare);
  const KeyedPermutation b(1000, 8, Draw::kShare);
  for (std::uint64_t i = 0; i < 1000; ++i) same += a(i) == b(i);
  EXPECT_LT(same, 20U);
}

}  // namespace
}  // namespace smartmine
