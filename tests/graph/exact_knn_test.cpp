#include "smartmine/graph/exact_knn.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "graph/made_rows.h"

namespace smartmine {
namespace {

using test::clouds_of_rows;
using test::clustered_unit_rows;
using test::kNone;
using test::MadeRows;
using test::message_of;
using test::nearest_of_all;
using testing::HasSubstr;

// What a search that looks at every pair finds: whole lists in float, as the library computes a distance, and the distances in double.
struct Truth {
  std::vector<std::vector<Found>> lists;
  std::vector<std::vector<double>> plain;

  Truth(const Rows& rows, const Rows& queries, bool own, std::size_t longest) {
    for (std::uint32_t i = 0; i < queries.size(); ++i) {
      lists.push_back(nearest_of_all(rows, queries[i], own ? i : kNone, longest));
      std::vector<double>& distances = plain.emplace_back();
      for (std::uint32_t j = 0; j < rows.size(); ++j)
        if (!own || j != i) distances.push_back(test::plain_distance(queries[i], rows[j], rows.dimension()));
      std::partial_sort(distances.begin(), distances.begin() + static_cast<std::ptrdiff_t>(lists.back().size()), distances.end());
    }
  }

  // Whether the lists are these to the last bit, and right in double too as far as float can tell.
  void check(const NeighborLists& found, std::size_t dimension) const {
    ASSERT_EQ(found.size(), lists.size());
    for (std::uint32_t i = 0; i < found.size(); ++i) {
      for (std::size_t place = 0; place < found.neighbors(); ++place) {
        const Found& expected = lists[i][place];
        const float distance = found.distances(i)[place];
        ASSERT_EQ(found.ids(i)[place], expected.id)
            << "list " << i << ", place " << place << ": distance " << distance << " for " << expected.distance;
        ASSERT_EQ(distance, expected.distance) << "list " << i << ", place " << place;
        ASSERT_NEAR(distance, plain[i][place], (1e-6 + 2e-7 * static_cast<double>(dimension)) * plain[i][place] + 1e-43);
      }
    }
  }
};

void check_lengths(const MadeRows& made, const std::set<std::size_t>& lengths) {
  const Truth truth(made.rows(), made.rows(), true, *lengths.rbegin());
  for (const std::size_t neighbors : lengths) {
    SCOPED_TRACE(fmt::format("{} rows of dimension {}, lists of {}", made.size(), made.dimension, neighbors));
    const NeighborResult result = ExactKnn({.neighbors = neighbors, .threads = 1}).neighbors(made.rows());
    ASSERT_EQ(result.lists.neighbors(), neighbors);
    ASSERT_NO_FATAL_FAILURE(truth.check(result.lists, made.dimension));
    EXPECT_NO_THROW(result.lists.validate());
  }
}

void check_some_lengths(const MadeRows& made) {
  std::set<std::size_t> lengths;
  for (const std::size_t neighbors : {std::size_t{1}, std::size_t{2}, std::size_t{10}, std::size_t{33}, made.size() / 2, made.size() - 1})
    if (neighbors >= 1 && neighbors < made.size()) lengths.insert(neighbors);
  check_lengths(made, lengths);
}

TEST(ExactKnn, FindsWhatLookingAtEveryPairFinds) {
  for (const std::size_t dimension : {1, 3, 64, 130})
    for (const std::size_t size : {2, 3, 15, 16, 17, 48, 49, 100, 333, 500})
      ASSERT_NO_FATAL_FAILURE(check_some_lengths(clustered_unit_rows(size, dimension, 7, 0.5, size)));
}

TEST(ExactKnn, TakesListsOfEveryLength) {
  const MadeRows made = clouds_of_rows(70, 3, 4, 0.5);
  std::set<std::size_t> all;
  for (std::size_t neighbors = 1; neighbors < made.size(); ++neighbors) all.insert(neighbors);
  ASSERT_NO_FATAL_FAILURE(check_lengths(made, all));
}

TEST(ExactKnn, TakesListsLongerThanItSortsByCounting) {
  ASSERT_NO_FATAL_FAILURE(check_lengths(clouds_of_rows(600, 8, 4, 0.5), {511, 512, 513, 550}));
}

TEST(ExactKnn, GivesTiesToTheLowerId) {
  for (const std::size_t dimension : {1, 2, 3, 8}) {
    MadeRows grid{dimension, std::vector<float>(400 * dimension)};
    Random random(dimension);
    for (float& value : grid.values) value = static_cast<float>(random.below(4));  // few places, many duplicates
    ASSERT_NO_FATAL_FAILURE(check_some_lengths(grid));
  }
}

TEST(ExactKnn, ListsTheFirstRowsWhenAllAreIdentical) {
  for (const float value : {0.0F, 0.125F, -1e18F, 1e-30F}) {
    const MadeRows made{5, std::vector<float>(1500, value)};
    const NeighborResult result = ExactKnn({.neighbors = 3, .threads = 1}).neighbors(made.rows());
    for (std::uint32_t i = 0; i < made.size(); ++i)
      for (std::uint32_t place = 0; place < 3; ++place) {
        ASSERT_EQ(result.lists.ids(i)[place], place + (i <= place ? 1 : 0));
        ASSERT_EQ(result.lists.distances(i)[place], 0.0F);
      }
    ASSERT_NO_FATAL_FAILURE(check_some_lengths(made));
  }
}

TEST(ExactKnn, TakesRowsOfAnyLengthAndSaysSo) {
  MadeRows made = clouds_of_rows(200, 16, 5, 0.5);
  for (std::size_t i = 0; i < made.values.size(); ++i) made.values[i] *= static_cast<float>(1 + i / 16 % 9);
  ASSERT_NO_FATAL_FAILURE(check_some_lengths(made));
  EXPECT_FALSE(ExactKnn({.neighbors = 5}).neighbors(made.rows()).stats.unit_norm);
  EXPECT_TRUE(ExactKnn({.neighbors = 5}).neighbors(clustered_unit_rows(50, 4, 3).rows()).stats.unit_norm);
}

TEST(ExactKnn, HoldsAtHugeMagnitudes) {
  for (const float size : {1e6F, 1e12F, 5e17F}) {
    MadeRows made = clustered_unit_rows(300, 12, 6);
    for (float& value : made.values) value *= size;
    SCOPED_TRACE(size);
    ASSERT_NO_FATAL_FAILURE(check_some_lengths(made));
  }
}

TEST(ExactKnn, HoldsAtTinyMagnitudes) {
  // From 1e-20 on squares are subnormal, from 1e-23 on they are nothing: ties, which go by id.
  for (const float size : {1e-6F, 1e-12F, 1e-17F, 1e-20F, 1e-23F, 1e-30F, 1e-38F, 1e-44F}) {
    MadeRows made = clustered_unit_rows(300, 12, 6);
    for (float& value : made.values) value *= size;
    SCOPED_TRACE(size);
    ASSERT_NO_FATAL_FAILURE(check_some_lengths(made));
  }
}

TEST(ExactKnn, HoldsWhereTinyAndHugeStandTogether) {
  for (const float far : {1.0F, 1e6F, 1e12F, 1e18F}) {
    for (const float near : {1e-3F, 1e-6F, 1e-12F}) {
      MadeRows made = clouds_of_rows(200, 3, 6, 0.5);
      for (std::size_t i = 0; i < made.values.size(); ++i) made.values[i] *= i < 30 ? far : near;
      SCOPED_TRACE(fmt::format("{} and {}", far, near));
      ASSERT_NO_FATAL_FAILURE(check_some_lengths(made));
    }
  }
}

TEST(ExactKnn, ListsAFewNearPointsBesideOneFarAway) {
  MadeRows made{1, {}};
  for (int i = 0; i < 20; ++i) made.values.push_back(static_cast<float>(i * (i + 1)) * 1e-5F);
  made.values.push_back(1e18F);
  ASSERT_NO_FATAL_FAILURE(check_some_lengths(made));
}

// These would make bytes coarse for all others. They are candidates of every row instead, and find their own lists.
TEST(ExactKnn, SetsAFewRowsApartThatLieFarOut) {
  const MadeRows usual = clustered_unit_rows(3000, 64, 100);
  const auto computed = [](const MadeRows& made) {
    return static_cast<double>(ExactKnn({.neighbors = 50, .threads = 1}).neighbors(made.rows()).stats.distance_computations);
  };
  for (const std::size_t count : {1, 40}) {
    MadeRows made = usual;
    for (std::size_t i = 0; i < count; ++i)
      for (std::size_t t = 0; t < 64; ++t) made.values[i * 70 * 64 + t] *= static_cast<float>(100 * (i + 1));
    EXPECT_LT(computed(made), 1.1 * computed(usual)) << count;
    ASSERT_NO_FATAL_FAILURE(check_lengths(made, {1, 50, 300}));
  }
}

TEST(ExactKnn, HoldsFarFromTheOrigin) {
  for (const double spread : {1.0, 1e-2, 1e-4}) {
    MadeRows made = clouds_of_rows(300, 20, 1, 1);
    for (float& value : made.values) value = static_cast<float>(1000 + spread * static_cast<double>(value));
    SCOPED_TRACE(spread);
    ASSERT_NO_FATAL_FAILURE(check_some_lengths(made));
  }
}

TEST(ExactKnn, HoldsInTightClusters) {
  for (const double radius : {1e-3, 1e-5, 1e-7}) {
    MadeRows made = clouds_of_rows(600, 24, 4, radius);
    SCOPED_TRACE(radius);
    ASSERT_NO_FATAL_FAILURE(check_lengths(made, {10, 200}));
    test::scale_to_unit(made);
    ASSERT_NO_FATAL_FAILURE(check_lengths(made, {50}));
  }
}

TEST(ExactKnn, HoldsAtHighDimension) { ASSERT_NO_FATAL_FAILURE(check_lengths(clustered_unit_rows(60, 20000, 4), {20})); }

TEST(ExactKnn, GivesTheSameListsAtAnyNumberOfThreads) {
  for (const bool grid : {false, true}) {
    MadeRows made = clustered_unit_rows(2000, 10, 15);
    if (grid)
      for (float& value : made.values) value = std::round(value * 3);
    const NeighborResult one = ExactKnn({.neighbors = 30, .threads = 1}).neighbors(made.rows());
    for (const unsigned threads : {2U, 3U, 8U}) {
      const NeighborResult more = ExactKnn({.neighbors = 30, .threads = threads}).neighbors(made.rows());
      EXPECT_TRUE(test::equal_lists(one.lists, more.lists)) << threads;
      EXPECT_EQ(one.stats.distance_computations, more.stats.distance_computations);
    }
  }
}

TEST(ExactKnn, FindsTheNeighboursOfQueriesInTheSetAndNearIt) {
  for (const std::size_t dimension : {1, 3, 64, 130}) {
    const MadeRows made = clustered_unit_rows(400, dimension, 8);
    MadeRows queries = clustered_unit_rows(60, dimension, 8, 0.6, 9);
    queries.values.insert(queries.values.end(), made.values.begin(), made.values.begin() + static_cast<std::ptrdiff_t>(20 * dimension));
    const Truth truth(made.rows(), queries.rows(), false, 400);
    for (const std::size_t neighbors : {1, 10, 399, 400}) {
      SCOPED_TRACE(fmt::format("dimension {}, lists of {}", dimension, neighbors));
      const NeighborResult result = ExactKnn({.neighbors = neighbors, .threads = 2}).search(made.rows(), queries.rows());
      ASSERT_NO_FATAL_FAILURE(truth.check(result.lists, dimension));
      if (dimension > 1) {
        for (std::uint32_t i = 0; i < 20; ++i) EXPECT_EQ(result.lists.ids(60 + i)[0], i) << "a query that is a row finds it";
      }
    }
  }
}

TEST(ExactKnn, FindsTheNeighboursOfQueriesFarOutsideTheSet) {
  const MadeRows made = clustered_unit_rows(500, 16, 8);
  for (const float far : {10.0F, 100.0F, 1000.0F, 1e6F}) {
    MadeRows queries = clustered_unit_rows(60, 16, 60, 0.5, 3);
    for (float& value : queries.values) value *= far;
    SCOPED_TRACE(far);
    const Truth truth(made.rows(), queries.rows(), false, 100);
    for (const std::size_t neighbors : {1, 10, 100}) {
      const NeighborResult result = ExactKnn({.neighbors = neighbors, .threads = 1}).search(made.rows(), queries.rows());
      ASSERT_NO_FATAL_FAILURE(truth.check(result.lists, 16));
    }
  }
}

TEST(ExactKnn, SearchesASingleRow) {
  const MadeRows made{2, {1, 2}};
  const NeighborResult result = ExactKnn({.neighbors = 1}).search(made.rows(), made.rows());
  EXPECT_EQ(result.lists.ids(0)[0], 0U);
  EXPECT_EQ(result.lists.distances(0)[0], 0.0F);
}

TEST(ExactKnn, FillsInItsStats) {
  const MadeRows made = clustered_unit_rows(1000, 32, 10);
  const NeighborStats stats = ExactKnn({.neighbors = 20, .threads = 2}).neighbors(made.rows()).stats;
  EXPECT_EQ(stats.index, "exact");
  EXPECT_EQ(stats.kernel, kernels::active().name);
  EXPECT_GE(stats.distance_computations, 1000U * 1000U);
  EXPECT_EQ(stats.recall, 1.0);
  EXPECT_EQ(stats.recall_sample, 0U);
  EXPECT_TRUE(stats.recall_reached);
  EXPECT_GT(stats.peak_memory_bytes, 1000U * 20 * 8);
  double stages = 0;
  for (const auto& stage : stats.stage_seconds) stages += stage.second;
  EXPECT_GT(stats.seconds, 0);
  EXPECT_NEAR(stages, stats.seconds, 0.1 * stats.seconds + 0.01);
}

TEST(ExactKnn, CountsTheRowsThatTellHowMuchRoomToMake) {
  if (kernels::active().bytes == nullptr) GTEST_SKIP() << "no panels of bytes";
  const MadeRows made = clustered_unit_rows(3000, 32, 100);
  const std::uint64_t lists = ExactKnn({.neighbors = 10, .threads = 1}).neighbors(made.rows()).stats.distance_computations;
  // For queries from elsewhere none are tried. A row that finds itself counts once more.
  const std::uint64_t queries = ExactKnn({.neighbors = 11, .threads = 1}).search(made.rows(), made.rows()).stats.distance_computations;
  EXPECT_GE(lists + 3000, queries + 32U * 3000);
}

TEST(ExactKnn, CanBeCancelled) {
  const MadeRows made = clustered_unit_rows(3000, 16, 10);
  std::size_t calls = 0;
  const Progress count = [&](const ProgressEvent& event) {
    EXPECT_FALSE(event.stage.empty());
    EXPECT_LE(event.done, event.total);
    ++calls;
    return true;
  };
  ExactKnn({.neighbors = 5, .threads = 2}).neighbors(made.rows(), count);
  EXPECT_GT(calls, 0U);
  for (const unsigned threads : {1U, 3U})
    EXPECT_THROW(ExactKnn({.neighbors = 5, .threads = threads}).neighbors(made.rows(), [](const ProgressEvent&) { return false; }),
                 Cancelled);
  EXPECT_THROW(ExactKnn({.neighbors = 5}).search(made.rows(), made.rows(), [](const ProgressEvent&) { return false; }), Cancelled);
}

TEST(ExactKnn, RefusesListsAsLongAsThereAreRows) {
  const MadeRows made = clustered_unit_rows(5, 3, 2);
  for (const std::size_t neighbors : {0, 5, 6, 1000})
    EXPECT_THAT(message_of<InvalidArgument>([&] { ExactKnn({.neighbors = neighbors}).neighbors(made.rows()); }),
                testing::AllOf(HasSubstr(fmt::format("neighbors is {}", neighbors)), HasSubstr("5 rows"), HasSubstr("4")));
  EXPECT_THAT(message_of<InvalidArgument>([&] { ExactKnn({.neighbors = 6}).search(made.rows(), made.rows()); }),
              HasSubstr("neighbors is 6"));
  EXPECT_THAT(message_of<InvalidArgument>([&] { ExactKnn({.neighbors = 0}).search(made.rows(), made.rows()); }),
              HasSubstr("neighbors is 0"));
  const MadeRows single{3, {1, 0, 0}};
  EXPECT_THAT(message_of<InvalidArgument>([&] { ExactKnn({.neighbors = 1}).neighbors(single.rows()); }), HasSubstr("1 rows"));
}

TEST(ExactKnn, RefusesQueriesOfAnotherDimension) {
  const MadeRows made = clustered_unit_rows(5, 3, 2), queries = clustered_unit_rows(5, 4, 2);
  EXPECT_THAT(message_of<InvalidArgument>([&] { ExactKnn({.neighbors = 1}).search(made.rows(), queries.rows()); }),
              testing::AllOf(HasSubstr("4"), HasSubstr("3")));
}

TEST(ExactKnn, NamesTheFirstRowAndColumnThatIsNotFinite) {
  MadeRows made = clustered_unit_rows(6000, 4, 2);
  made.values[5000 * 4 + 2] = std::numeric_limits<float>::quiet_NaN();
  made.values[5999 * 4] = std::numeric_limits<float>::infinity();
  EXPECT_THAT(message_of<InvalidArgument>([&] { ExactKnn({.neighbors = 2}).neighbors(made.rows()); }),
              testing::AllOf(HasSubstr("NaN"), HasSubstr("row 5000"), HasSubstr("column 2")));
  made.values[4] = -std::numeric_limits<float>::infinity();
  EXPECT_THAT(message_of<InvalidArgument>([&] { ExactKnn({.neighbors = 2}).neighbors(made.rows()); }),
              testing::AllOf(HasSubstr("infinite"), HasSubstr("row 1"), HasSubstr("column 0")));
  const MadeRows sound = clustered_unit_rows(10, 4, 2);
  EXPECT_THAT(message_of<InvalidArgument>([&] { ExactKnn({.neighbors = 2}).search(sound.rows(), made.rows()); }), HasSubstr("row 1"));
}

TEST(ExactKnn, RefusesRowsWhoseDistancesOverflow) {
  MadeRows made = clustered_unit_rows(10, 4, 2);
  made.values[7 * 4 + 1] = 1e30F;
  EXPECT_THAT(message_of<InvalidArgument>([&] { ExactKnn({.neighbors = 2}).neighbors(made.rows()); }), HasSubstr("row 7"));
}

}  // namespace
}  // namespace smartmine
