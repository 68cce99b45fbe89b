#include "smartmine/graph/gpu_lists.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

#include "graph/made_rows.h"
#include "smartmine/core/error.h"
#include "smartmine/core/random.h"
#include "smartmine/graph/exact_knn.h"

namespace smartmine {
namespace {

using test::clustered_unit_rows;
using test::MadeRows;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class GpuLists : public ::testing::Test {
 protected:
  void SetUp() override {
    if (gpu_count() == 0) GTEST_SKIP() << "lists cannot be found on a GPU here: " << why_no_gpu();
  }
};

std::vector<float> noise(std::size_t size, std::size_t dimension, double shift = 0, double width = 1) {
  std::vector<float> values(size * dimension);
  Random random(7);
  for (float& value : values) value = static_cast<float>(shift + width * random.normal());
  return values;
}

/// The same lists as exact search on the CPU, but for the order and the choice of distances that differ by rounding alone.
void expect_exact(const Rows& rows, std::size_t neighbors) {
  SCOPED_TRACE(::testing::Message() << rows.size() << " x " << rows.dimension() << ", " << neighbors << " neighbours");
  const NeighborResult found = find_gpu_lists(rows, neighbors);
  found.lists.validate();
  EXPECT_EQ(found.stats.index, "exact-cuda");
  EXPECT_EQ(found.stats.rows_certified + found.stats.rows_again + found.stats.rows_measured, rows.size());
  const NeighborLists truth = ExactKnn({.neighbors = neighbors}).neighbors(rows).lists;
  const float rounding = 1e-6F * (4 + std::sqrt(static_cast<float>(rows.dimension())));
  std::size_t others = 0;
  for (std::size_t i = 0; i < rows.size(); ++i)
    for (std::size_t j = 0; j < neighbors; ++j) {
      const float mine = found.lists.distances(i)[j], theirs = truth.distances(i)[j];
      ASSERT_NEAR(mine, theirs, rounding * theirs) << "row " << i << ", place " << j;
      if (found.lists.ids(i)[j] == truth.ids(i)[j]) continue;
      ++others;  // another one at this place: it must be about as far as its neighbours in the true list
      const float before = j > 0 ? truth.distances(i)[j - 1] : theirs, after = j + 1 < neighbors ? truth.distances(i)[j + 1] : theirs;
      EXPECT_TRUE(j + 1 == neighbors || theirs - before <= 2 * rounding * theirs || after - theirs <= 2 * rounding * theirs)
          << "row " << i << ", place " << j;
    }
  EXPECT_LE(others, rows.size() * neighbors / 100 + 2);
}

TEST_F(GpuLists, AreThoseOfExactSearch) {
  for (const auto& [size, dimension, neighbors] : std::vector<std::array<std::size_t, 3>>{
           {2, 3, 1}, {65, 1, 64}, {1000, 64, 100}, {4097, 64, 100}, {9001, 33, 10}, {6000, 128, 200}, {5000, 300, 50}}) {
    const std::vector<float> values = noise(size, dimension);
    expect_exact(Rows(values.data(), size, dimension), neighbors);
  }
  const MadeRows made = clustered_unit_rows(20000, 64, 600);
  expect_exact(made.rows(), 100);
}

TEST_F(GpuLists, KeepTiesByIdAmongCopies) {
  for (const std::size_t distinct : {1, 7, 3000}) {
    std::vector<float> values = noise(9000, 16);
    for (std::size_t i = distinct; i < 9000; ++i) std::copy_n(&values[i % distinct * 16], 16, &values[i * 16]);
    const Rows rows(values.data(), 9000, 16);
    const NeighborLists found = find_gpu_lists(rows, 20).lists, truth = ExactKnn({.neighbors = 20}).neighbors(rows).lists;
    const std::size_t copies = std::min<std::size_t>(20, 9000 / distinct - 1);  // at distance 0, where nothing is rounded
    for (std::size_t i = 0; i < 9000; ++i)
      for (std::size_t j = 0; j < copies; ++j) ASSERT_EQ(found.ids(i)[j], truth.ids(i)[j]) << i << " " << j;
  }
}

TEST_F(GpuLists, AreRightFarFromTheMiddleAndCloseTogether) {
  // Too close for half precision, so that rows are done again.
  const std::vector<float> values = noise(6000, 16, 100, 1e-3);
  expect_exact(Rows(values.data(), 6000, 16), 20);
  std::vector<float> clusters = noise(6000, 16, 0, 1e-3);
  for (std::size_t i = 0; i < clusters.size(); ++i) clusters[i] += static_cast<float>(i / 16 % 3);
  const Rows rows(clusters.data(), 6000, 16);
  expect_exact(rows, 20);
  EXPECT_LT(find_gpu_lists(rows, 20).stats.rows_certified, 6000U);
}

TEST_F(GpuLists, AreTheSameTwice) {
  const MadeRows made = clustered_unit_rows(10000, 48, 100);
  const NeighborLists first = find_gpu_lists(made.rows(), 50).lists, second = find_gpu_lists(made.rows(), 50).lists;
  EXPECT_TRUE(test::equal_lists(first, second));
}

TEST_F(GpuLists, OfSomeRowsAreThoseOfAll) {
  const MadeRows made = clustered_unit_rows(10000, 48, 100);
  const NeighborLists all = find_gpu_lists(made.rows(), 50).lists;
  for (const RowRange wanted : {RowRange{0, 10000}, RowRange{0, 1}, RowRange{3333, 3334}, RowRange{9999, 1}}) {
    const NeighborResult some = find_gpu_lists(made.rows(), wanted, 50, {}, {.gpu = 0, .alone = true});
    EXPECT_EQ(some.stats.rows_certified + some.stats.rows_again + some.stats.rows_measured, wanted.count);
    for (std::size_t i = 0; i < wanted.count; ++i) {
      ASSERT_TRUE(std::ranges::equal(some.lists.ids(i), all.ids(wanted.first + i))) << wanted.first + i;
      ASSERT_TRUE(std::ranges::equal(some.lists.distances(i), all.distances(wanted.first + i))) << wanted.first + i;
    }
  }
  EXPECT_THAT([&] { find_gpu_lists(made.rows(), {9999, 2}, 50); }, ThrowsMessage<InvalidArgument>(HasSubstr("there are 10000")));
  EXPECT_THAT([&] { find_gpu_lists(made.rows(), {0, 1}, 50, {}, {.gpu = 99}); }, ThrowsMessage<InvalidArgument>(HasSubstr("gpu is 99")));
}

TEST_F(GpuLists, ComeThroughTheDoor) {
  const MadeRows made = clustered_unit_rows(5000, 24, 50);
  NeighborIndex index({.kind = IndexKind::kDevice, .neighbors = 30});
  const NeighborResult found = index.neighbors(made.rows(), {.seed = {}, .device = gpu_search(30, 24)});
  EXPECT_EQ(found.stats.index, "exact-cuda");
  EXPECT_EQ(found.stats.recall, 1);
}

TEST_F(GpuLists, CanBeStopped) {
  const MadeRows made = clustered_unit_rows(5000, 24, 50);
  EXPECT_THROW(find_gpu_lists(made.rows(), 30, [](const ProgressEvent&) { return false; }), Cancelled);
}

TEST(GpuListsAnywhere, SayWhyThereAreNone) {
  const std::vector<float> values = noise(10, 2);
  const Rows rows(values.data(), 10, 2);
  if (gpu_count() == 0) {
    EXPECT_THAT([&] { find_gpu_lists(rows, 3); }, ThrowsMessage<InvalidArgument>(HasSubstr(why_no_gpu())));
    EXPECT_NE(why_no_gpu(), "");
    EXPECT_FALSE(gpu_search(3, 2));
  } else {
    EXPECT_THAT([&] { find_gpu_lists(rows, 10); }, ThrowsMessage<InvalidArgument>(HasSubstr("neighbors is 10")));
    EXPECT_EQ(why_no_gpu(), "");
    EXPECT_TRUE(gpu_search(3, 2));
    const std::vector<float> wide(10 * (kMostGpuDimensions + 1));
    EXPECT_THAT([&] { find_gpu_lists(Rows(wide.data(), 10, kMostGpuDimensions + 1), 3); },
                ThrowsMessage<InvalidArgument>(HasSubstr("dimension is 8193")));
  }
  EXPECT_FALSE(gpu_search(kLongestGpuLists + 1, 2));
  EXPECT_FALSE(gpu_search(3, kMostGpuDimensions + 1));
}

}  // namespace
}  // namespace smartmine
