#include "smartmine/metrics/clustering.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <vector>

#include "metrics/points.h"

namespace smartmine {
namespace {

using test::message_of;
using test::Points;
using testing::HasSubstr;

// What must hold of every result: rows at their nearest centre, the inertia that follows, a history that never rises.
void expect_sound(const Points& points, const KMeansResult& result) {
  const Rows rows = points.rows();
  const Rows centres(result.centres.data(), result.clusters, points.dimension);
  ASSERT_EQ(result.assignments.size(), rows.size());
  ASSERT_EQ(result.centres.size(), result.clusters * points.dimension);
  double inertia = 0, scale = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    ASSERT_GE(result.assignments[i], 0);
    ASSERT_LT(result.assignments[i], static_cast<std::int64_t>(result.clusters));
    const double own = test::squared_distance(rows[i], centres[static_cast<std::size_t>(result.assignments[i])], points.dimension);
    double nearest = own;
    for (std::size_t c = 0; c < result.clusters; ++c)
      nearest = std::min(nearest, test::squared_distance(rows[i], centres[c], points.dimension));
    EXPECT_LE(own, nearest + 1e-5 * nearest + 1e-12) << "row " << i;
    inertia += own;
    scale += test::squared_distance(rows[i], rows[0], points.dimension);
  }
  EXPECT_NEAR(result.inertia, inertia, 1e-5 * inertia + 1e-9 * scale);
  EXPECT_EQ(result.inertia, result.stats.inertia.back());
  EXPECT_EQ(result.stats.inertia.size(), result.stats.iterations + 1);
  for (std::size_t i = 1; i < result.stats.inertia.size(); ++i)
    EXPECT_LE(result.stats.inertia[i], result.stats.inertia[i - 1] * (1 + 1e-6) + 1e-9 * scale) << "iteration " << i;
  EXPECT_EQ(*std::min_element(result.stats.restart_inertia.begin(), result.stats.restart_inertia.end()), result.inertia);
  EXPECT_EQ(result.stats.restart_inertia[result.stats.kept_restart], result.inertia);
}

TEST(KMeans, FindsWellSeparatedGroupsExactly) {
  for (const std::size_t groups : {2U, 7U, 40U}) {
    SCOPED_TRACE(groups);
    const Points points = test::grouped_points(groups * 25, 16, groups, 0.02);
    const KMeansResult result = k_means(points.rows(), {.clusters = groups});
    expect_sound(points, result);
    EXPECT_EQ(result.clusters, groups);
    EXPECT_TRUE(result.stats.converged);
    for (std::size_t i = groups; i < points.size(); ++i) ASSERT_EQ(result.assignments[i], result.assignments[i % groups]) << i;
    EXPECT_EQ(std::set<std::int64_t>(result.assignments.begin(), result.assignments.end()).size(), groups);
    // Each centre is the mean of its rows.
    for (std::size_t group = 0; group < groups; ++group)
      for (std::size_t j = 0; j < points.dimension; ++j) {
        double sum = 0;
        for (std::size_t i = group; i < points.size(); i += groups) sum += points.rows()[i][j];
        EXPECT_NEAR(result.centres[static_cast<std::size_t>(result.assignments[group]) * points.dimension + j], sum / 25, 1e-5);
      }
  }
}

TEST(KMeans, PutsEveryRowAtItsNearestCentreAndNeverRaisesTheInertia) {
  for (const std::size_t dimension : {1U, 3U, 17U, 64U, 130U}) {
    for (const std::size_t clusters : {1U, 2U, 15U, 16U, 17U, 90U}) {
      SCOPED_TRACE(testing::Message() << clusters << " clusters, dimension " << dimension);
      const Points points = test::grouped_points(1300, dimension, 50, 1.0);
      const KMeansResult result = k_means(points.rows(), {.clusters = clusters, .restarts = 2, .tolerance = 0});
      expect_sound(points, result);
      EXPECT_EQ(result.clusters, clusters);
      EXPECT_LT(result.inertia, result.stats.inertia.front());
    }
  }
}

TEST(KMeans, StaysSoundFarFromTheOrigin) {
  Points points = test::grouped_points(800, 8, 10, 0.3);
  for (float& value : points.values) value += 1000.0F;
  const KMeansResult result = k_means(points.rows(), {.clusters = 10});
  for (std::size_t i = 10; i < points.size(); ++i) ASSERT_EQ(result.assignments[i], result.assignments[i % 10]);
}

TEST(KMeans, FindsTheBestOfAllDivisionsOfAFewPoints) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const Points points = test::grouped_points(11, 2, 11, 0, seed);
    double best = std::numeric_limits<double>::infinity();
    for (unsigned division = 0; division < (1U << 10); ++division) {  // row 10 is always on side 0
      double inertia = 0;
      for (unsigned side = 0; side < 2; ++side) {
        std::vector<std::size_t> members;
        for (std::size_t i = 0; i < points.size(); ++i)
          if (((division >> i) & 1U) == side) members.push_back(i);
        for (std::size_t j = 0; j < 2 && !members.empty(); ++j) {
          double mean = 0;
          for (const std::size_t i : members) mean += points.rows()[i][j] / static_cast<double>(members.size());
          for (const std::size_t i : members) inertia += (points.rows()[i][j] - mean) * (points.rows()[i][j] - mean);
        }
      }
      best = std::min(best, inertia);
    }
    EXPECT_NEAR(k_means(points.rows(), {.clusters = 2, .restarts = 60, .tolerance = 0}).inertia, best, 1e-5 * best) << "seed " << seed;
  }
}

TEST(KMeans, GivesTheSameBitsAtAnyNumberOfThreads) {
  const Points points = test::grouped_points(5000, 24, 60, 0.9);
  const KMeansResult one = k_means(points.rows(), {.clusters = 60, .restarts = 3, .threads = 1});
  for (const unsigned threads : {2U, 3U, 8U}) {
    const KMeansResult result = k_means(points.rows(), {.clusters = 60, .restarts = 3, .threads = threads});
    EXPECT_EQ(result.assignments, one.assignments);
    EXPECT_EQ(result.centres, one.centres);
    EXPECT_EQ(result.stats.inertia, one.stats.inertia);
    EXPECT_EQ(result.stats.restart_inertia, one.stats.restart_inertia);
  }
}

TEST(KMeans, OtherSeedsGiveOtherStartsAndMoreRestartsAreNeverWorse) {
  const Points points = test::grouped_points(1000, 6, 40, 0.7);
  const KMeansResult few = k_means(points.rows(), {.clusters = 40, .restarts = 2});
  const KMeansResult more = k_means(points.rows(), {.clusters = 40, .restarts = 8});
  EXPECT_TRUE(std::equal(few.stats.restart_inertia.begin(), few.stats.restart_inertia.end(), more.stats.restart_inertia.begin()));
  EXPECT_LE(more.inertia, few.inertia);
  EXPECT_GT(std::set<double>(more.stats.restart_inertia.begin(), more.stats.restart_inertia.end()).size(), 1U);
  EXPECT_NE(k_means(points.rows(), {.clusters = 40, .restarts = 1, .seed = 2}).stats.inertia.front(),
            k_means(points.rows(), {.clusters = 40, .restarts = 1, .seed = 3}).stats.inertia.front());
}

TEST(KMeans, MakesAsManyCentresAsThereAreDistinctRowsAndNoMore) {
  const Points points = test::lattice_points(500, 2, 3);  // nine places
  const KMeansResult result = k_means(points.rows(), {.clusters = 20});
  expect_sound(points, result);
  EXPECT_EQ(result.clusters, 9U);
  EXPECT_EQ(result.inertia, 0);
  const Points same{std::vector<float>(60, 0.25F), 3};
  const KMeansResult one = k_means(same.rows(), {.clusters = 4});
  EXPECT_EQ(one.clusters, 1U);
  EXPECT_EQ(one.inertia, 0);
  EXPECT_EQ(one.assignments, std::vector<std::int64_t>(20, 0));
}

TEST(KMeans, GivesEveryRowItsOwnCentreIfThereAreAsManyCentresAsRows) {
  const Points points = test::grouped_points(70, 5, 70, 0);
  const KMeansResult result = k_means(points.rows(), {.clusters = 70});
  EXPECT_EQ(result.clusters, 70U);
  EXPECT_EQ(result.inertia, 0);
  EXPECT_EQ(std::set<std::int64_t>(result.assignments.begin(), result.assignments.end()).size(), 70U);
}

TEST(KMeans, OneRowIsOneCluster) {
  const Points points{{1, 2, 3}, 3};
  const KMeansResult result = k_means(points.rows(), {.clusters = 1});
  EXPECT_EQ(result.centres, points.values);
  EXPECT_EQ(result.assignments, std::vector<std::int64_t>{0});
}

TEST(KMeans, MovesCentresThatLostAllRows) {
  // From centres at -10, 0 and 30 the first move leads to -5.7, 6 and 17.1: the middle one then loses 0 to the left and 12 to the right.
  // Few starts are these three, so many are tried.
  Points points{{-10, 0, 12, 30}, 1};
  points.values.insert(points.values.end(), 8, -5.2F);
  points.values.insert(points.values.end(), 8, 15.5F);
  std::size_t emptied = 0;
  for (std::uint64_t seed = 1; seed <= 10000; ++seed) {
    const KMeansResult result = k_means(points.rows(), {.clusters = 3, .restarts = 1, .tolerance = 0, .seed = seed, .threads = 1});
    if (result.stats.emptied_clusters == 0) continue;
    emptied += result.stats.emptied_clusters;
    expect_sound(points, result);
    EXPECT_EQ(std::set<std::int64_t>(result.assignments.begin(), result.assignments.end()).size(), 3U) << "seed " << seed;
  }
  EXPECT_GT(emptied, 0U) << "no centre lost its rows, so nothing was tested";
}

TEST(KMeans, ManyCentresCloserTogetherThanRoundingTellsAreStillToldApart) {
  // A far row makes rounding coarse against the distances of the others, and there are more centres among those than a scan keeps
  // candidates.
  Points points{std::vector<float>(800 * 64, 1.0F), 64};
  for (std::size_t i = 0; i < points.size(); ++i) points.values[i * 64] += static_cast<float>(i) * 1e-3F;
  std::fill(points.values.end() - 64, points.values.end(), 1e4F);
  const KMeansResult result = k_means(points.rows(), {.clusters = 400, .restarts = 1, .tolerance = 0});
  EXPECT_EQ(result.clusters, 400U);
  EXPECT_GT(result.stats.iterations, 1U);
  expect_sound(points, result);
}

TEST(KMeans, CentresThatBytesDoNotTellApartAreStillToldApart) {
  // One row far away makes the steps of a byte wider than all the rest is, so that some 300 centres look alike.
  Points points = test::grouped_points(3000, 32, 300, 0.05);
  for (std::size_t j = 0; j < points.dimension; ++j) points.values[j] = 5000.0F;
  const KMeansResult result = k_means(points.rows(), {.clusters = 300, .restarts = 1});
  expect_sound(points, result);
  EXPECT_EQ(result.clusters, 300U);
}

TEST(KMeans, StartsFromRowsOfAllPlaces) {
  Points points{std::vector<float>(6000 * 8), 8};
  for (std::size_t i = 0; i < points.size(); ++i) {
    Random centre(1, 0, i / 500), within(1, 1, i);
    for (std::size_t j = 0; j < 8; ++j) points.values[i * 8 + j] = static_cast<float>(centre.normal() + 0.01 * within.normal());
  }
  const KMeansResult result = k_means(points.rows(), {.clusters = 12});
  for (std::size_t i = 0; i < points.size(); ++i) ASSERT_EQ(result.assignments[i], result.assignments[i / 500 * 500]) << i;
  EXPECT_EQ(std::set<std::int64_t>(result.assignments.begin(), result.assignments.end()).size(), 12U);
}

TEST(KMeans, RefusesBadInputAndSaysWhat) {
  const Points points{{0, 1, 2, 3}, 1};
  const auto told = [&](const KMeansOptions& options) { return message_of([&] { k_means(points.rows(), options); }); };
  EXPECT_THAT(told({.clusters = 0}), HasSubstr("clusters is 0"));
  EXPECT_THAT(told({.clusters = 5}), HasSubstr("clusters is 5; with 4 rows it must be from 1 to 4"));
  EXPECT_THAT(told({.restarts = 0}), HasSubstr("restarts is 0"));
  EXPECT_THAT(told({.max_iterations = 0}), HasSubstr("max_iterations is 0"));
  EXPECT_THAT(told({.tolerance = -0.1}), HasSubstr("tolerance is -0.1"));
  EXPECT_THAT(told({.tolerance = std::nan("")}), HasSubstr("tolerance is nan"));
  Points bad = points;
  bad.values[3] = std::numeric_limits<float>::infinity();
  EXPECT_THAT(message_of([&] { k_means(bad.rows(), {}); }), HasSubstr("infinite value at row 3"));
}

TEST(KMeans, CanBeCancelled) {
  const Points points = test::grouped_points(500, 8, 10, 1.0);
  EXPECT_THROW(k_means(points.rows(), {.clusters = 10}, [](const ProgressEvent&) { return false; }), Cancelled);
}

TEST(NormalizedMutualInformation, GivesTheValuesWorkedByHand) {
  // Six points, classes 000111, clusters 001122. H1 = log 2, H2 = log 3. Clusters 0 and 2 tell the class, cluster 1 nothing, so
  // I = H1 - H(class | cluster) = log 2 - 1/3 log 2 = 2/3 log 2.
  const std::vector<std::int64_t> classes{0, 0, 0, 1, 1, 1}, clusters{0, 0, 1, 1, 2, 2};
  const NormalizedMutualInformation nmi = normalized_mutual_information(classes, clusters);
  EXPECT_NEAR(nmi.arithmetic, 2.0 / 3 * std::log(2) / (0.5 * (std::log(2) + std::log(3))), 1e-14);
  EXPECT_NEAR(nmi.geometric, 2.0 / 3 * std::log(2) / std::sqrt(std::log(2) * std::log(3)), 1e-14);
}

TEST(NormalizedMutualInformation, AgreesWithScikitLearn) {
  // normalized_mutual_info_score(first, second, average_method=...) of scikit-learn 1.2.1.
  struct Case {
    std::size_t size;
    std::int64_t (*first)(std::int64_t);
    std::int64_t (*second)(std::int64_t);
    double arithmetic, geometric;
  };
  const Case cases[] = {
      {60, [](std::int64_t i) { return i * i % 7; }, [](std::int64_t i) { return (3 * i + i / 5) % 5; }, 0.1477838936766059,
       0.14832410916207772},
      {1000, [](std::int64_t i) { return i / 10; }, [](std::int64_t i) { return (i / 10 * 7 + (i % 3 == 0 ? i % 11 : 0)) % 90; },
       0.7778974937272434, 0.7779710483803864},
      {200, [](std::int64_t i) { return i < 150 ? 0 : i; }, [](std::int64_t i) { return i / 50; }, 0.3842878221708055, 0.38482127603909205},
      {6, [](std::int64_t i) { return i / 3; }, [](std::int64_t i) { return i / 2; }, 0.5158037429793888, 0.5295405780575618},
      {10, [](std::int64_t) -> std::int64_t { return 0; }, [](std::int64_t i) { return i % 3; }, 0, 0},
      {10, [](std::int64_t) -> std::int64_t { return 0; }, [](std::int64_t) -> std::int64_t { return 4; }, 1, 1},
      {4, [](std::int64_t i) { return i / 2; }, [](std::int64_t i) { return i % 2; }, 0, 0},
  };
  for (const Case& example : cases) {
    std::vector<std::int64_t> first, second;
    for (std::size_t i = 0; i < example.size; ++i) {
      first.push_back(example.first(static_cast<std::int64_t>(i)));
      second.push_back(example.second(static_cast<std::int64_t>(i)));
    }
    SCOPED_TRACE(testing::Message() << example.size << " points, " << example.arithmetic);
    for (const NormalizedMutualInformation& nmi :
         {normalized_mutual_information(first, second), normalized_mutual_information(second, first)}) {
      EXPECT_NEAR(nmi.arithmetic, example.arithmetic, 1e-12);
      EXPECT_NEAR(nmi.geometric, example.geometric, 1e-12);
    }
  }
}

TEST(NormalizedMutualInformation, LooksAtGroupsNotAtTheirNames) {
  std::vector<std::int64_t> first, renamed;
  for (std::int64_t i = 0; i < 500; ++i) {
    first.push_back(i * i % 13);
    renamed.push_back(std::numeric_limits<std::int64_t>::min() + 1'000'003 * (20 - first.back()));
  }
  const NormalizedMutualInformation nmi = normalized_mutual_information(first, renamed);
  EXPECT_NEAR(nmi.arithmetic, 1, 1e-14);
  EXPECT_NEAR(nmi.geometric, 1, 1e-14);
  EXPECT_LE(nmi.arithmetic, 1);
}

TEST(NormalizedMutualInformation, RefusesOtherLengthsAndNothing) {
  const std::vector<std::int64_t> two{1, 2}, three{1, 2, 3}, none;
  EXPECT_THAT(message_of([&] { normalized_mutual_information(two, three); }), HasSubstr("2 and of 3 points"));
  EXPECT_THAT(message_of([&] { normalized_mutual_information(none, none); }), HasSubstr("empty"));
}

// Large enough for many centres to be added at once. Drawn by distances that are out of date, many would fall into the same groups.
TEST(KMeansSlow, AddsManyCentresAtOnceAsIfOneByOne) {
  constexpr std::size_t kGroups = 400;
  const Points points = test::grouped_points(8000, 3200, kGroups, 0.02);
  const KMeansResult result = k_means(points.rows(), {.clusters = kGroups, .restarts = 1, .threads = 1});
  EXPECT_EQ(result.clusters, kGroups);
  for (std::size_t i = kGroups; i < points.size(); ++i) ASSERT_EQ(result.assignments[i], result.assignments[i % kGroups]) << i;
  EXPECT_EQ(std::set<std::int64_t>(result.assignments.begin(), result.assignments.end()).size(), kGroups);
  const KMeansResult more = k_means(points.rows(), {.clusters = kGroups, .restarts = 1, .threads = 3});
  EXPECT_EQ(more.assignments, result.assignments);
  EXPECT_EQ(more.centres, result.centres);
}

TEST(KMeansSlow, AddsNoMoreCentresThanThereAreDistinctRows) {
  Points points = test::grouped_points(8000, 3200, 300, 0);
  const KMeansResult result = k_means(points.rows(), {.clusters = 400, .restarts = 1});
  EXPECT_EQ(result.clusters, 300U);
  EXPECT_NEAR(result.inertia, 0, 1e-6);
}

}  // namespace
}  // namespace smartmine
