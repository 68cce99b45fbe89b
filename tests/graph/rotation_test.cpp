#include "graph/rotation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "graph/made_rows.h"
#include "graph/packed_rows.h"
#include "graph/together.h"
#include "smartmine/graph/exact_knn.h"

namespace smartmine {
namespace {

using test::MadeRows;

// Normal rows, each coordinate but the first `large` a hundredth as wide.
MadeRows rows_along(std::size_t size, std::size_t dimension, std::size_t large) {
  MadeRows made = test::clouds_of_rows(size, dimension, 1, 1);
  for (std::size_t i = 0; i < made.values.size(); ++i)
    if (i % dimension >= large) made.values[i] *= 0.01F;
  return made;
}

TEST(Rotation, KeepsDistancesUpToWhatItSaysOfRounding) {
  for (const std::size_t dimension : {1, 2, 3, 7, 16, 31, 64, 100, 513}) {
    SCOPED_TRACE(dimension);
    const Rotation rotation(dimension);
    const MadeRows made = test::clouds_of_rows(20, dimension, 3, 0.5);
    MadeRows turned = made;
    for (std::size_t i = 0; i < turned.size(); ++i) rotation.turn(turned.values.data() + i * dimension);
    const auto length = [&](const float* row) {
      double sum = 0;
      for (std::size_t t = 0; t < dimension; ++t) sum += static_cast<double>(row[t]) * static_cast<double>(row[t]);
      return std::sqrt(sum);
    };
    for (std::size_t i = 0; i < made.size(); ++i)
      for (std::size_t j = 0; j < made.size(); ++j)
        EXPECT_NEAR(std::sqrt(test::plain_distance(turned[i], turned[j], dimension)),
                    std::sqrt(test::plain_distance(made[i], made[j], dimension)),
                    static_cast<double>(rotation.rounding()) * (length(made[i]) + length(made[j])));
  }
}

TEST(Rotation, SpreadsWhatOneCoordinateHolds) {
  for (const std::size_t dimension : {16, 64, 100, 512}) {
    for (const std::size_t along : {std::size_t{0}, dimension / 2, dimension - 1}) {
      std::vector<float> row(dimension, 0.0F);
      row[along] = 1;
      Rotation(dimension).turn(row.data());
      float most = 0;
      for (const float value : row) most = std::max(most, std::abs(value));
      EXPECT_LT(most, 6 / std::sqrt(static_cast<float>(dimension))) << dimension << ", coordinate " << along;
    }
  }
}

TEST(TurnedFrame, IsTakenOnlyWhereItsStepsAreFiner) {
  const MadeRows uneven = rows_along(500, 64, 2);
  const Frame plain = whole_frame(uneven.rows(), 1), turned = turned_frame(uneven.rows(), plain, 1);
  EXPECT_TRUE(turned.rotation.has_value());
  EXPECT_GT(turned.scale, 2 * plain.scale);
  MadeRows corners = uneven;  // of a cube: nothing is more even
  for (float& value : corners.values) value = value < 0 ? -1.0F : 1.0F;
  const Frame cube = whole_frame(corners.rows(), 1);
  EXPECT_FALSE(turned_frame(corners.rows(), cube, 1).rotation.has_value());
  EXPECT_EQ(turned_frame(corners.rows(), cube, 1).scale, cube.scale);
}

// The packed form of a turned row is as far from the row as it says.
TEST(TurnedFrame, TellsHowFarPackingMovesARow) {
  const MadeRows made = rows_along(200, 100, 3);
  const Frame frame = turned_frame(made.rows(), whole_frame(made.rows(), 1), 1);
  ASSERT_TRUE(frame.rotation.has_value());
  const PackedRows packed(made.rows(), frame, kernels::active(), 1);
  if (&packed.kernels() == &kernels::active().floats) GTEST_SKIP() << "no panels of bytes";
  std::vector<float> turned(100), scratch(100);
  std::vector<std::int8_t> query(packed.kernels().query_bytes(100));
  for (std::size_t i = 0; i < made.size(); ++i) {
    kernels::Reservoir norm{};
    const float told = packed.pack_query(made[i], query.data(), &norm, scratch.data());
    frame.turn(made[i], turned.data());
    double squared = 0;
    for (std::size_t t = 0; t < 100; ++t) squared += std::pow(static_cast<double>(turned[t]) * frame.scale - query[t], 2.0);
    EXPECT_LE(std::sqrt(squared), told * 1.0001);
    EXPECT_LE(told, packed.error() * 1.0001);
  }
}

TEST(ExactKnnTurned, FindsTheSameListsWithFewCandidates) {
  for (const std::size_t dimension : {33, 64, 100}) {
    const MadeRows made = rows_along(3000, dimension, 2);
    const NeighborResult found = ExactKnn({.neighbors = 20, .threads = 2}).neighbors(made.rows());
    for (std::uint32_t i = 0; i < made.size(); i += 37) {
      const auto truth = test::nearest_of_all(made.rows(), made[i], i, 20);
      for (std::size_t j = 0; j < 20; ++j) {
        ASSERT_EQ(found.lists.ids(i)[j], truth[j].id) << dimension << ", list " << i << ", place " << j;
        ASSERT_EQ(found.lists.distances(i)[j], truth[j].distance);
      }
    }
    // All pairs once, a few of them in float, and those of the 32 rows that tell how much room to make.
    const double each = static_cast<double>(found.stats.distance_computations) / 3000;
    EXPECT_LT(each, 3000 + 100 + 32) << dimension;
    for (const auto& member : test::Together(2).run(
             [&](const Team* team) { return ExactKnn({.neighbors = 20, .threads = 1}).neighbors(made.rows(), {}, team); })) {
      EXPECT_TRUE(test::equal_lists(found.lists, member->lists));
      EXPECT_EQ(found.stats.distance_computations, member->stats.distance_computations);
    }
  }
}

// More points than there is room for are within the rounding of most queries, but not of those that tell how much room there is to be.
TEST(ExactKnnTurned, FindsListsThatNeedMoreRoomThanTheOthers) {
  MadeRows made = test::clouds_of_rows(3000, 64, 1, 1);
  for (std::size_t i = 1; i < 1500; ++i)
    if (i % 93 > 1) std::copy_n(made[0], 64, made.values.begin() + static_cast<std::ptrdiff_t>(i * 64));
  for (std::size_t i = 0; i < made.values.size(); i += 7) made.values[i] += 1e-4F * static_cast<float>(i % 11);
  const NeighborResult found = ExactKnn({.neighbors = 5, .threads = 1}).neighbors(made.rows());
  for (std::uint32_t i = 0; i < made.size(); i += 41) {
    const auto truth = test::nearest_of_all(made.rows(), made[i], i, 5);
    for (std::size_t j = 0; j < 5; ++j) {
      ASSERT_EQ(found.lists.ids(i)[j], truth[j].id) << "list " << i << ", place " << j;
      ASSERT_EQ(found.lists.distances(i)[j], truth[j].distance);
    }
  }
}

}  // namespace
}  // namespace smartmine
