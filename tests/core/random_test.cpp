#include "smartmine/core/random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <vector>

namespace smartmine {
namespace {

TEST(Random, TheSameKeyGivesTheSameSequence) {
  Random first(1, 2, 3);
  Random second(1, 2, 3);
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(first.bits(), second.bits());
}

TEST(Random, EveryPartOfTheKeyMatters) {
  std::set<std::uint64_t> firsts;
  for (std::uint64_t seed = 0; seed < 10; ++seed)
    for (std::uint64_t stream = 0; stream < 10; ++stream)
      for (std::uint64_t index = 0; index < 10; ++index) firsts.insert(Random(seed, stream, index).bits());
  EXPECT_EQ(firsts.size(), 1000U);
}

TEST(Random, StaysBelowItsBound) {
  Random random(5);
  for (const std::uint64_t bound : {std::uint64_t{1}, std::uint64_t{2}, std::uint64_t{7}, std::uint64_t{1} << 32,
                                    (std::uint64_t{1} << 63) + 1, std::numeric_limits<std::uint64_t>::max()})
    for (int i = 0; i < 1000; ++i) ASSERT_LT(random.below(bound), bound);
}

/// Pearson's statistic of `counts` against equal shares.
template <std::size_t N>
double chi_square(const std::array<int, N>& counts, int draws) {
  const double expected = static_cast<double>(draws) / static_cast<double>(N);
  double sum = 0;
  for (const int count : counts) sum += (count - expected) * (count - expected) / expected;
  return sum;
}

TEST(Random, FavoursNoValueBelowASmallBound) {
  constexpr int kDraws = 100000;
  std::array<int, 10> counts{};
  Random random(11);
  for (int i = 0; i < kDraws; ++i) ++counts[random.below(10)];
  EXPECT_LT(chi_square(counts, kDraws), 27.9);  // 9 degrees of freedom: one in a thousand lies above
}

TEST(Random, FavoursNoValueBelowALargeBound) {
  // With this bound, four numbers of 64 bits fall on three values: without rejection every third one came up twice as often.
  constexpr std::uint64_t kBound = std::uint64_t{3} << 62;
  constexpr int kDraws = 90000;
  std::array<int, 3> counts{};
  Random random(12);
  for (int i = 0; i < kDraws; ++i) ++counts[random.below(kBound) % 3];
  EXPECT_LT(chi_square(counts, kDraws), 13.8);  // 2 degrees of freedom: one in a thousand lies above
}

TEST(Random, FirstDrawsOfNeighbouringKeysAreUniformToo) {
  constexpr int kDraws = 100000;
  std::array<int, 10> counts{};
  for (int i = 0; i < kDraws; ++i) ++counts[Random(1, 2, static_cast<std::uint64_t>(i)).below(10)];
  EXPECT_LT(chi_square(counts, kDraws), 27.9);
}

TEST(Random, UniformIsInTheUnitIntervalWithTheRightMean) {
  Random random(3);
  double sum = 0;
  for (int i = 0; i < 100000; ++i) {
    const double value = random.uniform();
    ASSERT_GE(value, 0.0);
    ASSERT_LT(value, 1.0);
    sum += value;
  }
  EXPECT_NEAR(sum / 100000, 0.5, 0.004);  // over four standard deviations
}

TEST(Random, NormalHasMeanZeroVarianceOneAndThinTails) {
  Random random(4);
  constexpr int kDraws = 200000;
  double sum = 0;
  double squares = 0;
  int beyond_two = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double value = random.normal();
    ASSERT_TRUE(std::isfinite(value));
    sum += value;
    squares += value * value;
    beyond_two += std::abs(value) > 2.0 ? 1 : 0;
  }
  EXPECT_NEAR(sum / kDraws, 0.0, 0.01);
  EXPECT_NEAR(squares / kDraws, 1.0, 0.015);
  EXPECT_NEAR(static_cast<double>(beyond_two) / kDraws, 0.0455, 0.002);
}

TEST(Shuffle, BringsEveryOrderAboutEquallyOften) {
  Random random(6);
  std::map<std::vector<int>, int> whole, chosen;
  for (int i = 0; i < 24000; ++i) {
    std::vector<int> values{1, 2, 3, 4};
    shuffle(values, random);
    ++whole[values];
    values = {1, 2, 3, 4};
    shuffle_first(values, 2, random);
    EXPECT_TRUE(std::is_permutation(values.begin(), values.end(), std::vector<int>{1, 2, 3, 4}.begin()));
    ++chosen[{values[0], values[1]}];
  }
  EXPECT_EQ(whole.size(), 24U);
  for (const auto& [order, count] : whole) EXPECT_NEAR(count, 1000, 160);  // five standard deviations
  EXPECT_EQ(chosen.size(), 12U);
  for (const auto& [pair, count] : chosen) EXPECT_NEAR(count, 2000, 220);
}

TEST(Shuffle, TakesNothingOneAndAll) {
  Random random(7);
  std::vector<int> none, one{5}, three{1, 2, 3};
  shuffle(none, random);
  shuffle_first(none, 0, random);
  shuffle(one, random);
  shuffle_first(one, 1, random);
  EXPECT_EQ(one, std::vector<int>{5});
  shuffle_first(three, 3, random);
  EXPECT_EQ(std::set<int>(three.begin(), three.end()), (std::set<int>{1, 2, 3}));
}

}  // namespace
}  // namespace smartmine
