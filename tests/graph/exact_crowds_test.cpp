#include "graph/exact_crowds.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "graph/made_rows.h"
#include "smartmine/graph/exact_knn.h"

namespace smartmine {
namespace {

using test::clouds_of_rows;
using test::MadeRows;

// Lists of all rows are those that looking at every pair finds, to the last bit. Returns how many distances that took, by all pairs.
double check_exact(const MadeRows& made, std::size_t neighbors) {
  const NeighborResult found = ExactKnn({.neighbors = neighbors, .threads = 2}).neighbors(made.rows());
  for (std::uint32_t i = 0; i < made.size(); ++i) {
    const std::vector<Found> truth = test::nearest_of_all(made.rows(), made[i], i, neighbors);
    for (std::size_t j = 0; j < neighbors; ++j) {
      const bool same = found.lists.ids(i)[j] == truth[j].id && found.lists.distances(i)[j] == truth[j].distance;
      EXPECT_TRUE(same) << "lists of " << neighbors << ", row " << i << ", place " << j;
      if (!same) return 0;
    }
  }
  const auto size = static_cast<double>(made.size());
  return static_cast<double>(found.stats.distance_computations) / (size * size);
}

// Where there are no bytes, floats are scanned before it is known how crowded rows are.
double scanned_first() { return kernels::active().bytes == nullptr ? 1 : 0; }

// Half copies of one row, half noise: the copies are equally far from each row of noise.
MadeRows half_copies(std::size_t size) {
  MadeRows made = clouds_of_rows(size, 32, size, 0);
  for (std::size_t i = 0; i < size; i += 2) std::fill_n(made.values.begin() + static_cast<std::ptrdiff_t>(i * 32), 32, 0.0F);
  return made;
}

TEST(ExactCrowds, LeaveOutCopiesThatCanBeInNoList) {
  for (const std::size_t neighbors : {1, 10, 50}) EXPECT_LT(check_exact(half_copies(2400), neighbors), 0.8 + scanned_first());
  EXPECT_LT(check_exact({32, std::vector<float>(2400 * 32, 0.25F)}, 10), 0.1 + scanned_first());
}

TEST(ExactCrowds, AreSearchedOnTheirOwnWhereTheyLieApart) {
  for (const double width : {1e-2, 1e-4}) EXPECT_LT(check_exact(clouds_of_rows(2400, 32, 3, width), 10), 0.5 + scanned_first());
}

// Clouds of very different widths, copies inside the narrowest, zeros of either sign and a crowd too small for a list.
TEST(ExactCrowds, HoldInsideEachOther) {
  MadeRows made = clouds_of_rows(2400, 32, 5, 1);
  for (std::size_t i = 0; i < made.size(); ++i) {
    const double width = std::pow(10.0, -2.0 * static_cast<double>(i % 5));
    for (std::size_t t = 0; t < 32; ++t) {
      float& value = made.values[i * 32 + t];
      value = static_cast<float>(static_cast<double>(i % 5) + width * static_cast<double>(value));
      if (i % 10 == 4) value = i % 20 == 4 ? 0.0F : -0.0F;
      if (i % 300 == 7) value = 9;
    }
  }
  for (const std::size_t neighbors : {3, 10, 200}) check_exact(made, neighbors);
}

TEST(ExactCrowds, KeepAsManyCopiesAsAListMayHave) {
  const MadeRows made = half_copies(40);
  const std::vector<std::uint32_t> spare = spare_copies(made.rows(), 3, 1);
  // Rows 0, 2, 4 are the list of row 6, and no row has more than these and row 6 before the next.
  ASSERT_EQ(spare.size(), 16U);
  EXPECT_EQ(spare.front(), 8U);
  EXPECT_EQ(spare.back(), 38U);
  EXPECT_TRUE(spare_copies(made.rows(), 19, 1).empty());
}

}  // namespace
}  // namespace smartmine
