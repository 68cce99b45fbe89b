#include "smartmine/mining/selections.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "mining/points.h"
#include "smartmine/core/error.h"

namespace smartmine {
namespace {

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

/// Points on a grid, so that distances are often equal and sometimes 0.
LabelledPoints grid(std::size_t size, std::uint64_t seed) {
  LabelledPoints points = clouds(size, 8, 1.0, seed, 2);
  for (float& value : points.values) value = std::round(2 * value) / 2;
  return points;
}

std::vector<int> counts_of(const std::map<std::uint32_t, int>& counted) {
  std::vector<int> counts;
  for (const auto& entry : counted) counts.push_back(entry.second);
  return counts;
}

TEST(RandomMiner, DrawsEveryPartUniformly) {
  const std::vector<std::int64_t> labels{4, 4, 4, 4, 1, 1, 1, 8, 8, -5};
  const LabelIndex index(labels);
  const MinedTriplets random = RandomMiner({.count = 90000, .seed = 5, .threads = 2}).select(index);
  ASSERT_EQ(random.triplets.size(), 90000U);
  std::map<std::uint32_t, int> anchors;
  std::map<std::uint32_t, std::map<std::uint32_t, int>> positives;
  std::map<std::uint32_t, std::map<std::uint32_t, int>> negatives;
  for (const auto& [anchor, positive, negative] : random.triplets) {
    ASSERT_NE(anchor, positive);
    ASSERT_EQ(labels[anchor], labels[positive]);
    ASSERT_NE(labels[anchor], labels[negative]);
    ++anchors[anchor];
    ++positives[anchor][positive];
    ++negatives[anchor][negative];
  }
  ASSERT_EQ(anchors.size(), 9U);  // all but the one alone in its class
  for (const auto& [anchor, count] : anchors) {
    EXPECT_EQ(count, 10000);
    const std::size_t class_size = index.class_size(index.class_of(anchor));
    ASSERT_EQ(positives[anchor].size(), class_size - 1);
    ASSERT_EQ(negatives[anchor].size(), labels.size() - class_size);
    if (class_size > 2) {
      EXPECT_LT(chi_square_excess(counts_of(positives[anchor])), 5);
    }
    EXPECT_LT(chi_square_excess(counts_of(negatives[anchor])), 5);
  }
  EXPECT_EQ(random.stats.random_by_share, 90000U);
  EXPECT_EQ(random.stats.anchors, 9U);
  EXPECT_EQ(random.stats.anchors_skipped, 1U);
  EXPECT_THAT(random.stats.note, HasSubstr("1 points are alone"));
}

TEST(RandomMiner, TakesEachAnchorOnceInRandomOrderUnlessToldOtherwise) {
  const LabelledPoints points = clouds(1000, 10, 1.0, 2);
  const LabelIndex index(points.labels);
  const MinedTriplets random = RandomMiner({}).select(index);
  std::set<std::uint32_t> anchors;
  std::size_t ascending = 0;
  for (std::size_t i = 0; i < random.triplets.size(); ++i) {
    anchors.insert(random.triplets[i].anchor);
    ascending += i > 0 && random.triplets[i].anchor > random.triplets[i - 1].anchor;
  }
  EXPECT_EQ(anchors.size(), random.triplets.size());
  EXPECT_EQ(anchors.size(), index.anchors().size());
  EXPECT_NEAR(static_cast<double>(ascending), 500, 60);
}

TEST(RandomMiner, GivesTheSameTripletsAtAnyNumberOfThreadsAndOthersForAnotherSeed) {
  const LabelledPoints points = clouds(5000, 50, 1.0, 3);
  const LabelIndex index(points.labels);
  const auto one = RandomMiner({.count = 12345, .seed = 3, .threads = 1}).select(index).triplets;
  for (const unsigned threads : {2U, 3U, 8U})
    EXPECT_EQ(RandomMiner({.count = 12345, .seed = 3, .threads = threads}).select(index).triplets, one);
  EXPECT_NE(RandomMiner({.count = 12345, .seed = 4, .threads = 1}).select(index).triplets, one);
}

TEST(HardestTriplets, AreTheFarthestPositiveAndTheNearestNegativeOfAll) {
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    const LabelledPoints points = seed % 2 == 0 ? grid(150 + seed, seed) : clouds(150 + seed, 12, 1.0, seed, 7);
    const LabelIndex index(points.labels);
    std::vector<Triplet> expected;
    for (std::uint32_t a = 0; a < points.size(); ++a) {
      float farthest = -1;
      float nearest = std::numeric_limits<float>::infinity();
      Triplet triplet{a, 0, 0};
      for (std::uint32_t b = 0; b < points.size(); ++b) {
        const float distance = points.distance(a, b);
        if (b != a && points.labels[b] == points.labels[a] && distance > farthest) {
          farthest = distance;
          triplet.positive = b;
        }
        if (points.labels[b] != points.labels[a] && distance < nearest) {
          nearest = distance;
          triplet.negative = b;
        }
      }
      if (farthest >= 0) expected.push_back(triplet);
    }
    for (const unsigned threads : {1U, 3U}) EXPECT_EQ(hardest_triplets(points.rows(), index, threads), expected) << "seed " << seed;
  }
}

TEST(SemihardTriplets, AreTheNearestNegativesFartherThanThePositiveOrTheFarthestOnes) {
  std::size_t without = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const LabelledPoints points = seed % 2 == 0 ? grid(60, seed) : clouds(60, 6, 1.5, seed, 3);
    std::vector<Triplet> expected;
    for (std::uint32_t a = 0; a < points.size(); ++a)
      for (std::uint32_t p = 0; p < points.size(); ++p) {
        if (p == a || points.labels[p] != points.labels[a]) continue;
        const auto best = [&](bool farther) {
          std::uint32_t found = static_cast<std::uint32_t>(points.size());
          for (std::uint32_t n = 0; n < points.size(); ++n) {
            if (points.labels[n] == points.labels[a]) continue;
            const float distance = points.distance(a, n);
            if (farther && distance <= points.distance(a, p)) continue;
            if (found == points.size() || (farther ? distance < points.distance(a, found) : distance > points.distance(a, found)))
              found = n;
          }
          return found;
        };
        std::uint32_t n = best(true);
        if (n == points.size()) {
          n = best(false);
          ++without;
        }
        expected.push_back({a, p, n});
      }
    EXPECT_EQ(semihard_triplets(points.rows(), LabelIndex(points.labels)), expected) << "seed " << seed;
  }
  EXPECT_GT(without, 10U);
}

TEST(HardPairs, AreTheTopOfTheSortedSample) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    const LabelledPoints points = seed % 2 == 0 ? grid(300, seed) : clouds(300, 20, 1.0, seed, 5);
    const LabelIndex index(points.labels);
    const HardPairsOptions options{.sampled = 4000, .kept = 300, .seed = seed, .threads = 2};
    const HardPairs hard = hard_pairs(points.rows(), index, options);
    auto positives = sample_positive_pairs(points.rows(), index, options);
    auto negatives = sample_negative_pairs(points.rows(), index, options);
    for (const Pair& pair : positives) {
      ASSERT_NE(pair.first, pair.second);
      ASSERT_EQ(points.labels[pair.first], points.labels[pair.second]);
      ASSERT_EQ(pair.distance, points.distance(pair.first, pair.second));
    }
    for (const Pair& pair : negatives) {
      ASSERT_NE(points.labels[pair.first], points.labels[pair.second]);
      ASSERT_EQ(pair.distance, points.distance(pair.first, pair.second));
    }
    const auto by_ids = [](const Pair& a, const Pair& b) { return std::pair(a.first, a.second) < std::pair(b.first, b.second); };
    std::sort(positives.begin(), positives.end(), by_ids);
    std::sort(negatives.begin(), negatives.end(), by_ids);
    std::stable_sort(positives.begin(), positives.end(), [](const Pair& a, const Pair& b) { return a.distance > b.distance; });
    std::stable_sort(negatives.begin(), negatives.end(), [](const Pair& a, const Pair& b) { return a.distance < b.distance; });
    positives.resize(300);
    negatives.resize(300);
    EXPECT_EQ(hard.positives, positives);
    EXPECT_EQ(hard.negatives, negatives);
  }
}

TEST(HardPairs, HoldTheHardestPairsOfAllOnceTheSampleIsLargeEnough) {
  const LabelledPoints points = clouds(40, 4, 1.0, 9, 3);
  const LabelIndex index(points.labels);
  float farthest_positive = 0;
  float nearest_negative = std::numeric_limits<float>::infinity();
  for (std::uint32_t a = 0; a < points.size(); ++a)
    for (std::uint32_t b = 0; b < a; ++b) {
      if (points.labels[a] == points.labels[b])
        farthest_positive = std::max(farthest_positive, points.distance(a, b));
      else
        nearest_negative = std::min(nearest_negative, points.distance(a, b));
    }
  const HardPairs hard = hard_pairs(points.rows(), index, {.sampled = 40000, .kept = 1});
  EXPECT_EQ(hard.positives[0].distance, farthest_positive);
  EXPECT_EQ(hard.negatives[0].distance, nearest_negative);
}

TEST(HardPairs, AreSampledUniformlyAndTheSameAtAnyNumberOfThreads) {
  const std::vector<std::int64_t> labels{1, 1, 1, 2, 2, 2, 3, 3, 3};
  const std::vector<float> values{0, 1, 2, 3, 4, 5, 6, 7, 8};
  const Rows rows(values.data(), 9, 1);
  const LabelIndex index(labels);
  HardPairsOptions options{.sampled = 60000, .kept = 1, .threads = 1};
  std::map<std::uint32_t, int> positives;
  std::map<std::uint32_t, int> negatives;
  const auto sampled_positives = sample_positive_pairs(rows, index, options);
  const auto sampled_negatives = sample_negative_pairs(rows, index, options);
  for (const Pair& pair : sampled_positives) ++positives[pair.first * 9 + pair.second];
  for (const Pair& pair : sampled_negatives) ++negatives[pair.first * 9 + pair.second];
  ASSERT_EQ(positives.size(), 18U);
  ASSERT_EQ(negatives.size(), 54U);
  EXPECT_LT(chi_square_excess(counts_of(positives)), 5);
  EXPECT_LT(chi_square_excess(counts_of(negatives)), 5);
  options.threads = 3;
  EXPECT_EQ(sample_positive_pairs(rows, index, options), sampled_positives);
  EXPECT_EQ(sample_negative_pairs(rows, index, options), sampled_negatives);
}

TEST(Selections, RefuseBadInputByName) {
  const LabelledPoints points = clouds(20, 3, 1.0, 1, 2);
  const LabelIndex index(points.labels);
  const Rows fewer(points.values.data(), 19, 2);
  EXPECT_THAT(message_of([&] { hardest_triplets(fewer, index); }), HasSubstr("20 labels but 19 embeddings"));
  EXPECT_THAT(message_of([&] { semihard_triplets(fewer, index); }), HasSubstr("20 labels but 19 embeddings"));
  EXPECT_THAT(message_of([&] { hard_pairs(fewer, index, {}); }), HasSubstr("20 labels but 19 embeddings"));
  EXPECT_THAT(message_of([&] { hard_pairs(points.rows(), index, {.sampled = 5, .kept = 6}); }),
              HasSubstr("kept is 6; it must be from 1 to sampled, 5"));
  EXPECT_THAT(message_of([&] { hard_pairs(points.rows(), index, {.sampled = 0}); }), HasSubstr("sampled is 0"));
  EXPECT_THAT(message_of([&] { RandomMiner({.count = static_cast<std::size_t>(-1)}); }),
              HasSubstr("count is 18446744073709551615; it must be at most 1099511627776"));
  EXPECT_NO_THROW((RandomMinerOptions{.count = std::size_t{1} << 40}).validate());
  LabelledPoints broken = points;
  broken.values[13] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(message_of([&] { hardest_triplets(broken.rows(), index); }), HasSubstr("row 6, column 1"));
  EXPECT_THAT(message_of([&] { semihard_triplets(broken.rows(), index); }), HasSubstr("row 6, column 1"));
}

TEST(ViolatingShare, CountsTripletsWithALoss) {
  const std::vector<float> line = {0, 1, 1.1F, 1.25F, 3};
  const Rows rows(line.data(), 5, 1);
  EXPECT_EQ(violating_share({}, rows, 0.2), 0);
  // At margin 0.2, a negative at 1.1 violates beside a positive at 1, and one at 1.25 or 3 does not.
  const std::vector<Triplet> triplets = {{0, 1, 2}, {0, 1, 3}, {0, 1, 4}, {0, 4, 1}};
  EXPECT_EQ(violating_share(triplets, rows, 0.2), 0.5);
  EXPECT_EQ(violating_share(triplets, rows, 0.3), 0.75);
}

}  // namespace
}  // namespace smartmine
