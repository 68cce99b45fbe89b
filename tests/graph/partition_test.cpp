#include "graph/partition.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "graph/kernels/kernels.h"
#include "graph/made_rows.h"

namespace smartmine {
namespace {

using test::MadeRows;

constexpr std::size_t kCellSize = 16;
constexpr std::size_t kAnyNumber = 1'000'000;

struct Made {
  Partition partition;
  std::uint64_t computed = 0;
};

Made partition_of(const MadeRows& made, std::size_t most_at_once, unsigned threads = 2, std::uint64_t seed = 1) {
  Made result;
  result.partition = partition_rows(made.rows(), kCellSize, seed, threads, kernels::active(), result.computed, {}, nullptr, most_at_once);
  return result;
}

// Mean squared distance of the points to the mean of their cell.
double spread_of(const MadeRows& made, const Partition& partition) {
  double sum = 0;
  for (std::size_t c = 0; c < partition.cells(); ++c) {
    const std::size_t begin = partition.cell_begins[c], end = partition.cell_begins[c + 1];
    for (std::size_t t = 0; t < made.dimension; ++t) {
      double mean = 0, squares = 0;
      for (std::size_t p = begin; p < end; ++p) {
        const auto value = static_cast<double>(made[partition.order[p]][t]);
        mean += value;
        squares += value * value;
      }
      sum += squares - mean * mean / static_cast<double>(end - begin);
    }
  }
  return sum / static_cast<double>(made.size());
}

void expect_whole(const Partition& partition, std::size_t size) {
  std::vector<std::uint32_t> sorted = partition.order, all(size);
  std::sort(sorted.begin(), sorted.end());
  std::iota(all.begin(), all.end(), 0U);
  EXPECT_EQ(sorted, all) << "every point stands somewhere, once";
  ASSERT_GE(partition.cell_begins.size(), 2U);
  EXPECT_EQ(partition.cell_begins.front(), 0U);
  EXPECT_EQ(partition.cell_begins.back(), size);
  for (std::size_t c = 0; c < partition.cells(); ++c) {
    EXPECT_LT(partition.cell_begins[c], partition.cell_begins[c + 1]) << "cell " << c;
    EXPECT_LE(partition.cell_begins[c + 1] - partition.cell_begins[c], 3 * kCellSize) << "cell " << c;
  }
}

TEST(Partition, InTwoLevelsMeetsFewCentroidsAndIsAboutAsTight) {
  const MadeRows made = test::clustered_unit_rows(20000, 24, 700);
  const Made whole = partition_of(made, kAnyNumber), levels = partition_of(made, 100);
  expect_whole(whole.partition, made.size());
  expect_whole(levels.partition, made.size());
  EXPECT_LT(levels.computed, whole.computed / 3);
  EXPECT_LT(spread_of(made, levels.partition), 1.2 * spread_of(made, whole.partition));
}

TEST(Partition, InTwoLevelsIsTheSameAtAnyNumberOfThreadsAndAnotherForAnotherSeed) {
  const MadeRows made = test::clustered_unit_rows(6000, 16, 200);
  const Made one = partition_of(made, 10, 1), three = partition_of(made, 10, 3), other = partition_of(made, 10, 1, 2);
  EXPECT_EQ(one.partition.order, three.partition.order);
  EXPECT_EQ(one.partition.cell_begins, three.partition.cell_begins);
  EXPECT_EQ(one.computed, three.computed);
  EXPECT_NE(one.partition.order, other.partition.order);
}

// Where most rows fall into one region, it is split or cut, lest the work grow with its square.
TEST(Partition, InTwoLevelsTakesNoLongerForRowsThatCrowd) {
  const std::size_t size = 16000;
  const MadeRows usual = test::clustered_unit_rows(size, 16, 500);
  const std::uint64_t most = 2 * partition_of(usual, 0).computed;
  MadeRows equal{16, std::vector<float>(size * 16, 0.5F)};
  MadeRows crowded = usual, close = usual;
  for (std::size_t i = 0; i < size; ++i)
    for (std::size_t t = 0; t < 16 && i % 10 != 0; ++t) {
      crowded.values[i * 16 + t] *= 0.02F;
      close.values[i * 16 + t] *= 1e-5F;
    }
  for (const MadeRows* made : {&equal, &crowded, &close}) {
    const Made result = partition_of(*made, 0);
    expect_whole(result.partition, size);
    EXPECT_LT(result.computed, most);
  }
}

TEST(Partition, InTwoLevelsTakesRowsThatAreAllEqual) {
  MadeRows made{8, std::vector<float>(3000 * 8, 0.5F)};
  expect_whole(partition_of(made, 10).partition, made.size());
}

}  // namespace
}  // namespace smartmine
