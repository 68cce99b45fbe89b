#include "graph/kernels/kernels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "graph/made_rows.h"
#include "smartmine/core/random.h"

namespace smartmine {
namespace {

using kernels::Kernels;
using kernels::Reservoir;

std::vector<const Kernels*> levels() {
  const Kernels* tables[16];
  return {tables, tables + kernels::available(tables, 16)};
}

// A vector of exactly this length, so that a sanitizer sees a read beyond it.
std::vector<float> random_values(std::size_t count, std::uint64_t seed, double size = 1) {
  std::vector<float> values(count);
  Random random(seed, 11);
  for (float& value : values) value = static_cast<float>(size * random.normal());
  return values;
}

std::vector<std::string> level_names() {
  std::vector<std::string> names;
  for (const Kernels* level : levels()) names.emplace_back(level->name);
  return names;
}

class KernelLevel : public testing::TestWithParam<std::string> {
 protected:
  const Kernels& kernels() const {
    for (const Kernels* level : levels())
      if (GetParam() == level->name) return *level;
    throw InternalError("a level went missing");
  }
};
INSTANTIATE_TEST_SUITE_P(Every, KernelLevel, testing::ValuesIn(level_names()), [](const auto& level) { return level.param; });

TEST(KernelLevels, BeginWithThePortableOneAndHaveDistinctNames) {
  const auto all = levels();
  ASSERT_FALSE(all.empty());
  EXPECT_STREQ(all.front()->name, "portable");
  std::set<std::string> names;
  for (const Kernels* level : all) names.insert(level->name);
  EXPECT_EQ(names.size(), all.size());
  EXPECT_TRUE(names.contains(kernels::active().name));
  const Kernels* one[1];
  EXPECT_EQ(kernels::available(one, 1), 1U);
}

std::vector<std::size_t> dimensions() {
  std::vector<std::size_t> all(70);
  std::iota(all.begin(), all.end(), 1U);
  all.insert(all.end(), {127, 128, 300, 1000});
  return all;
}

TEST_P(KernelLevel, ComputesSquaredDistancesAndProductsAsPlainLoopsDo) {
  constexpr double kEpsilon = std::numeric_limits<float>::epsilon();
  for (const std::size_t dimension : dimensions()) {
    const std::vector<float> a = random_values(dimension, dimension), b = random_values(dimension, dimension + 5000);
    double product = 0, sizes = 0;
    for (std::size_t t = 0; t < dimension; ++t) {
      const double term = static_cast<double>(a[t]) * static_cast<double>(b[t]);
      product += term;
      sizes += std::abs(term);
    }
    const double distance = test::plain_distance(a.data(), b.data(), dimension);
    const double terms = static_cast<double>(dimension) + 4;
    EXPECT_NEAR(kernels().squared_distance(a.data(), b.data(), dimension), distance, terms * kEpsilon * distance) << dimension;
    EXPECT_NEAR(kernels().dot(a.data(), b.data(), dimension), product, terms * kEpsilon * sizes) << dimension;
    EXPECT_EQ(kernels().squared_distance(a.data(), b.data(), dimension), kernels().squared_distance(b.data(), a.data(), dimension));
    EXPECT_EQ(kernels().squared_distance(a.data(), a.data(), dimension), 0.0F);
  }
}

TEST_P(KernelLevel, ReadsRowsThatStartAnywhere) {
  const std::vector<float> values = random_values(400, 3);
  for (std::size_t shift = 0; shift < 17; ++shift) {
    const float* a = values.data() + shift;
    const float* b = values.data() + 200 + 2 * shift;
    const double distance = test::plain_distance(a, b, 131);
    EXPECT_NEAR(kernels().squared_distance(a, b, 131), distance, 1e-5 * distance);
  }
}

TEST_P(KernelLevel, ComputesManyDistancesEachLikeASingleOne) {
  constexpr std::size_t kRows = 37;
  for (const std::size_t dimension : dimensions()) {
    const std::vector<float> from = random_values(dimension, dimension + 1), rows = random_values(kRows * dimension, dimension + 2);
    for (const std::size_t count : {0, 1, 5, 6, 7, 50}) {
      std::vector<std::uint32_t> ids(count);
      Random random(dimension, count);
      for (std::uint32_t& id : ids) id = static_cast<std::uint32_t>(random.below(kRows));
      std::vector<float> out(count, -1.0F);
      kernels().squared_distances(from.data(), rows.data(), ids.data(), count, dimension, out.data());
      for (std::size_t i = 0; i < count; ++i)
        ASSERT_EQ(out[i], kernels().squared_distance(from.data(), rows.data() + ids[i] * dimension, dimension)) << dimension << " " << i;
    }
  }
}

TEST_P(KernelLevel, RanksKeysAscendingAndEqualOnesInTheirOrder) {
  for (const std::size_t count : {0, 1, 2, 3, 15, 16, 17, 100, 511}) {
    for (const std::uint64_t kinds : {1, 4, 1000000}) {
      Random random(count, kinds);
      std::vector<float> keys(count);
      for (float& key : keys) key = static_cast<float>(random.below(kinds)) - 3.0F;
      std::vector<std::uint32_t> places(count);
      kernels().ranks(keys.data(), count, places.data());
      std::vector<std::uint32_t> order(count);
      std::iota(order.begin(), order.end(), 0U);
      std::stable_sort(order.begin(), order.end(), [&](std::uint32_t x, std::uint32_t y) { return keys[x] < keys[y]; });
      for (std::uint32_t place = 0; place < count; ++place) ASSERT_EQ(places[order[place]], place) << count << " of " << kinds;
    }
  }
}

// Checks what finish leaves of these scores: the best, earlier ones first among equals, in the order they stood in.
void check_finish(const Kernels& kernels, const std::vector<float>& scores, std::size_t keep, std::size_t spare) {
  std::vector<float> left = scores;
  std::vector<std::uint32_t> slots(scores.size());
  std::iota(slots.begin(), slots.end(), 100U);
  std::vector<std::uint32_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) { return scores[a] > scores[b]; });
  constexpr float kUntouched = -12345;
  Reservoir r{kUntouched, static_cast<std::uint32_t>(scores.size()), left.data(), slots.data(), 0, 0, 0, false, 0};
  kernels.finish(&r, keep, spare);
  ASSERT_GE(r.count, std::min(keep, scores.size()));
  ASSERT_LE(r.count, keep + spare);
  std::vector<std::uint32_t> expected(order.begin(), order.begin() + r.count);
  std::sort(expected.begin(), expected.end());
  for (std::size_t i = 0; i < r.count; ++i) {
    ASSERT_EQ(slots[i], expected[i] + 100) << "entry " << i;
    ASSERT_EQ(left[i], scores[expected[i]]) << "entry " << i;
  }
  if (scores.size() <= keep + spare) {
    EXPECT_EQ(r.threshold, kUntouched);
    return;
  }
  // What comes next must be let in exactly if it is better than what was kept.
  EXPECT_LE(r.threshold, scores[order[r.count - 1]]);
  EXPECT_GE(r.threshold, scores[order[r.count]]);
}

TEST_P(KernelLevel, FinishKeepsTheBestAndAmongEqualsTheFirst) {
  for (const std::size_t count : {1, 2, 15, 16, 17, 33, 64, 200, 1000}) {
    for (const std::uint64_t kinds : {1, 2, 7, 100, 1000000}) {
      Random random(count, kinds);
      std::vector<float> scores(count);
      for (float& score : scores) score = static_cast<float>(random.below(kinds)) * 0.37F - 5.0F;
      for (const std::size_t keep : {1, 2, 10, 16, 31, 150, 999})
        for (const std::size_t spare : {0, 1, 8}) {
          SCOPED_TRACE(testing::Message() << keep << " of " << count << " scores of " << kinds << " kinds, " << spare << " to spare");
          ASSERT_NO_FATAL_FAILURE(check_finish(kernels(), scores, keep, spare));
        }
    }
  }
}

TEST_P(KernelLevel, FinishTellsScoresApartWhateverTheirSize) {
  const float largest = std::numeric_limits<float>::max(), smallest = std::numeric_limits<float>::denorm_min();
  std::vector<std::vector<float>> cases;
  for (const double size : {1e-44, 1e-40, 1e-20, 1e-8, 1.0, 1e10, 1e37}) {
    std::vector<float> scores;
    for (int i = 0; i < 60; ++i) scores.push_back(static_cast<float>(-size * ((i * 37) % 60)));
    cases.push_back(scores);
    for (const double other : {-1.0, -1e10, -1e36}) {  // a few so bad that the good ones look the same from there
      std::vector<float> mixed = scores;
      mixed.insert(mixed.begin() + 20, 3, static_cast<float>(other));
      cases.push_back(mixed);
    }
  }
  cases.push_back({0, -smallest, -2 * smallest, -1, -0.25F * largest, -3 * smallest, 0, -smallest});
  cases.push_back({1, std::nextafter(1.0F, 2.0F), std::nextafter(1.0F, 0.0F), 1, -0.5F * largest});
  for (std::size_t c = 0; c < cases.size(); ++c) {
    for (const std::size_t keep : {1, 2, 3, 5, 30})
      for (const std::size_t spare : {0, 4}) {
        SCOPED_TRACE(testing::Message() << "case " << c << ", keep " << keep << ", spare " << spare);
        ASSERT_NO_FATAL_FAILURE(check_finish(kernels(), cases[c], keep, spare));
      }
  }
}

}  // namespace
}  // namespace smartmine
