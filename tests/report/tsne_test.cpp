#include "smartmine/report/tsne.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "metrics/points.h"
#include "report/tsne_parts.h"
#include "smartmine/graph/exact_knn.h"

namespace smartmine {
namespace {

using test::grouped_points;
using test::message_of;
using test::Points;
using ::testing::HasSubstr;

NeighborLists lists_of(const Points& points, std::size_t neighbors) {
  return ExactKnn({.neighbors = neighbors, .threads = 1}).neighbors(points.rows()).lists;
}

std::vector<Place> made_places(std::size_t count, double width) {
  std::vector<Place> places;
  Random random(5);
  for (std::size_t i = 0; i < count; ++i) places.push_back({width * random.normal(), width * random.normal()});
  return places;
}

/// Affinities as the definition has them, over all pairs: those outside the lists are 0.
std::vector<std::vector<double>> dense_affinities(const NeighborLists& lists, double perplexity) {
  const std::size_t count = lists.size();
  std::vector<std::vector<double>> conditional(count, std::vector<double>(count)), joint = conditional;
  for (std::size_t i = 0; i < count; ++i) {
    // By bisection over many orders of magnitude, without any of the shortcuts.
    double low = -60, high = 60;
    std::vector<double> shares(lists.neighbors());
    for (int round = 0; round < 200; ++round) {
      const double beta = std::exp((low + high) / 2);
      double sum = 0, entropy = 0;
      for (std::size_t k = 0; k < shares.size(); ++k)
        sum += shares[k] = std::exp(-beta * (static_cast<double>(lists.distances(i)[k]) - lists.distances(i)[0]));
      for (double& share : shares) {
        share /= sum;
        if (share > 0) entropy -= share * std::log(share);
      }
      (entropy > std::log(perplexity) ? low : high) = std::log(beta);
    }
    for (std::size_t k = 0; k < shares.size(); ++k) conditional[i][lists.ids(i)[k]] = shares[k];
  }
  for (std::size_t i = 0; i < count; ++i)
    for (std::size_t j = 0; j < count; ++j) joint[i][j] = (conditional[i][j] + conditional[j][i]) / (2 * static_cast<double>(count));
  return joint;
}

/// The gradient as the definition has it, over all pairs.
std::vector<Place> dense_gradient(const std::vector<std::vector<double>>& p, const std::vector<Place>& y, double exaggeration) {
  const std::size_t count = y.size();
  const auto weight = [&](std::size_t i, std::size_t j) {
    return 1 / (1 + (y[i].x - y[j].x) * (y[i].x - y[j].x) + (y[i].y - y[j].y) * (y[i].y - y[j].y));
  };
  double normalizer = 0;
  for (std::size_t i = 0; i < count; ++i)
    for (std::size_t j = 0; j < count; ++j)
      if (i != j) normalizer += weight(i, j);
  std::vector<Place> slopes(count);
  for (std::size_t i = 0; i < count; ++i)
    for (std::size_t j = 0; j < count; ++j) {
      if (i == j) continue;
      const double force = 4 * (exaggeration * p[i][j] - weight(i, j) / normalizer) * weight(i, j);
      slopes[i] = {slopes[i].x + force * (y[i].x - y[j].x), slopes[i].y + force * (y[i].y - y[j].y)};
    }
  return slopes;
}

/// Share of the rows' nearest neighbours that are nearest neighbours on the map too.
double kept_neighbors(const Points& points, const TsneResult& map, std::size_t neighbors) {
  Points plane{{}, 2};
  for (std::size_t i = 0; i < map.x.size(); ++i) {
    plane.values.push_back(static_cast<float>(map.x[i]));
    plane.values.push_back(static_cast<float>(map.y[i]));
  }
  const NeighborLists before = lists_of(points, neighbors), after = lists_of(plane, neighbors);
  std::size_t kept = 0;
  for (std::size_t i = 0; i < map.x.size(); ++i) {
    const std::set<std::uint32_t> near(before.ids(i).begin(), before.ids(i).end());
    for (const std::uint32_t id : after.ids(i)) kept += near.contains(id) ? 1 : 0;
  }
  return static_cast<double>(kept) / static_cast<double>(map.x.size() * neighbors);
}

/// Share of points whose nearest other point on the map is of their group.
double own_group_nearest(const TsneResult& map, std::size_t groups) {
  std::size_t right = 0;
  for (std::size_t i = 0; i < map.x.size(); ++i) {
    std::size_t best = i;
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t j = 0; j < map.x.size(); ++j) {
      const double distance = std::hypot(map.x[i] - map.x[j], map.y[i] - map.y[j]);
      if (j != i && distance < least) least = distance, best = j;
    }
    right += best % groups == i % groups ? 1 : 0;
  }
  return static_cast<double>(right) / static_cast<double>(map.x.size());
}

void expect_finite(const TsneResult& map, std::size_t count) {
  ASSERT_EQ(map.x.size(), count);
  ASSERT_EQ(map.y.size(), count);
  for (std::size_t i = 0; i < count; ++i) EXPECT_TRUE(std::isfinite(map.x[i]) && std::isfinite(map.y[i])) << i;
}

TEST(TsneShares, HaveThePerplexityAskedFor) {
  const Points points = grouped_points(300, 8, 5, 0.3);
  const NeighborLists lists = lists_of(points, 90);
  for (const double perplexity : {2.0, 5.0, 30.0, 80.0}) {
    for (std::size_t i = 0; i < points.size(); i += 17) {
      std::vector<double> shares(lists.neighbors());
      neighbor_shares(lists.distances(i), perplexity, shares);
      double entropy = 0;
      for (const double share : shares)
        if (share > 0) entropy -= share * std::log(share);
      EXPECT_NEAR(std::exp(entropy), perplexity, 1e-4 * perplexity);
      EXPECT_NEAR(std::accumulate(shares.begin(), shares.end(), 0.0), 1, 1e-12);
      EXPECT_TRUE(std::is_sorted(shares.rbegin(), shares.rend()));
    }
  }
}

TEST(TsneShares, AreEvenWhereAllDistancesAreEqualAndFiniteWhereTheyAreHuge) {
  for (const float distance : {0.0F, 3.0F, 1e30F}) {
    std::vector<double> shares(6);
    neighbor_shares(std::vector<float>(6, distance), 2, shares);
    for (const double share : shares) EXPECT_DOUBLE_EQ(share, 1.0 / 6);
  }
  std::vector<double> shares(3);
  neighbor_shares(std::vector<float>{0, 0, 1e30F}, 1, shares);
  EXPECT_NEAR(shares[0] + shares[1], 1, 1e-12);
}

TEST(TsneAffinities, AreThoseOfTheDefinition) {
  const Points points = grouped_points(60, 5, 4, 0.5);
  const NeighborLists lists = lists_of(points, 15);
  const auto dense = dense_affinities(lists, 5);
  const Affinities sparse = affinities(lists, 15, 5, 2);
  std::vector<std::vector<double>> filled(60, std::vector<double>(60));
  for (std::size_t i = 0; i < 60; ++i)
    for (std::size_t e = sparse.offsets[i]; e < sparse.offsets[i + 1]; ++e) filled[i][sparse.ids[e]] += sparse.values[e];
  double sum = 0;
  for (std::size_t i = 0; i < 60; ++i)
    for (std::size_t j = 0; j < 60; ++j) {
      EXPECT_NEAR(filled[i][j], dense[i][j], 1e-8) << i << ' ' << j;
      sum += filled[i][j];
    }
  EXPECT_NEAR(sum, 1, 1e-12);
}

class TsneGradient : public ::testing::TestWithParam<double> {};

TEST_P(TsneGradient, WithoutApproximationIsThatOfTheDefinition) {
  const Points points = grouped_points(80, 5, 4, 0.5);
  const NeighborLists lists = lists_of(points, 15);
  const std::vector<Place> places = made_places(80, GetParam());
  const auto expected = dense_gradient(dense_affinities(lists, 5), places, 12);
  QuadTree tree;
  Gradient found;
  gradient(affinities(lists, 15, 5, 1), places, 12, 0, 2, tree, found);
  double largest = 0;
  for (const Place& slope : expected) largest = std::max(largest, std::hypot(slope.x, slope.y));
  for (std::size_t i = 0; i < places.size(); ++i) {
    EXPECT_NEAR(found.slopes[i].x, expected[i].x, 1e-7 * largest);
    EXPECT_NEAR(found.slopes[i].y, expected[i].y, 1e-7 * largest);
  }
}

TEST_P(TsneGradient, ByBarnesHutIsNearIt) {
  const Points points = grouped_points(500, 5, 4, 0.5);
  const NeighborLists lists = lists_of(points, 30);
  const std::vector<Place> places = made_places(500, GetParam());
  const auto expected = dense_gradient(dense_affinities(lists, 10), places, 1);
  QuadTree tree;
  Gradient found;
  gradient(affinities(lists, 30, 10, 1), places, 1, 0.5, 2, tree, found);
  double error = 0, size = 0;
  for (std::size_t i = 0; i < places.size(); ++i) {
    error += std::pow(found.slopes[i].x - expected[i].x, 2) + std::pow(found.slopes[i].y - expected[i].y, 2);
    size += std::pow(expected[i].x, 2) + std::pow(expected[i].y, 2);
  }
  EXPECT_LT(std::sqrt(error / size), 0.03);
  EXPECT_GT(error, 0);  // otherwise nothing was approximated, and the test says nothing
}

INSTANTIATE_TEST_SUITE_P(Widths, TsneGradient, ::testing::Values(1e-4, 0.5, 20.0));

TEST(TsneTree, CountsEveryOtherPointAlsoWhereManyLieOnEachOther) {
  std::vector<Place> places(50, {1, 2});
  places.insert(places.end(), 20, {1 + 1e-13, 2});
  places.push_back({-3, 5});
  QuadTree tree;
  tree.build(places);
  EXPECT_NEAR(tree.repulsion(0, 0.5).weight, 69 + 1 / (1 + 16.0 + 9.0), 1e-9);
  EXPECT_NEAR(tree.repulsion(70, 0.5).weight, 70 / (1 + 16.0 + 9.0), 1e-9);
}

TEST(Tsne, KeepsGroupsApartAndNeighborsTogether) {
  const Points points = grouped_points(600, 16, 6, 0.15);
  const TsneResult map = tsne(points.rows(), {.threads = 2});
  expect_finite(map, 600);
  EXPECT_EQ(own_group_nearest(map, 6), 1);
  const TsneResult start = tsne(points.rows(), {.iterations = 0});
  EXPECT_GT(kept_neighbors(points, map, 10), 0.35);  // of round heaps of 100 points in 16 dimensions; inside them, chance is 0.1
  EXPECT_GT(kept_neighbors(points, map, 10), 1.5 * kept_neighbors(points, start, 10));
  EXPECT_LT(map.stats.divergence, start.stats.divergence / 2);
  EXPECT_EQ(map.stats.perplexity, 30);
  EXPECT_EQ(map.stats.neighbors, 90U);
  EXPECT_NEAR(std::accumulate(map.x.begin(), map.x.end(), 0.0), 0, 1e-6);
}

TEST(Tsne, KeepsTheOrderOfACurve) {
  Points line{{}, 3};
  for (int i = 0; i < 200; ++i)
    for (const double value : {std::cos(i * 0.02), std::sin(i * 0.02), i * 0.01}) line.values.push_back(static_cast<float>(value));
  EXPECT_GT(kept_neighbors(line, tsne(line.rows(), {.perplexity = 10}), 4), 0.7);
}

TEST(Tsne, GivesTheSameBitsAtAnyNumberOfThreadsAndOtherOnesForAnotherSeed) {
  const Points points = grouped_points(900, 10, 7, 0.4);
  const TsneResult one = tsne(points.rows(), {.iterations = 120, .early = 60, .threads = 1});
  const TsneResult three = tsne(points.rows(), {.iterations = 120, .early = 60, .threads = 3});
  EXPECT_EQ(one.x, three.x);
  EXPECT_EQ(one.y, three.y);
  EXPECT_NE(one.x, tsne(points.rows(), {.iterations = 120, .early = 60, .seed = 2}).x);
}

TEST(Tsne, TakesFewPointsAndDuplicates) {
  for (const std::size_t count : {1, 2, 3, 4, 5, 10, 36}) {
    const Points points = grouped_points(count, 4, 3, 0.3);
    const TsneResult map = tsne(points.rows());
    expect_finite(map, count);
    for (const double x : map.x) EXPECT_LT(std::abs(x), 1e4) << count;
  }
  Points same{std::vector<float>(40 * 3, 0.5F), 3};
  expect_finite(tsne(same.rows()), 40);
  for (std::size_t i = 0; i < 3; ++i) same.values[i] = -1;  // one stands apart
  expect_finite(tsne(same.rows()), 40);
  const Points lattice = test::lattice_points(200, 2, 3);  // nine places for 200 points
  const TsneResult map = tsne(lattice.rows(), {.perplexity = 5});
  expect_finite(map, 200);
}

TEST(Tsne, RefusesBadOptionsAndListsOfOtherPoints) {
  const Points points = grouped_points(50, 4, 3, 0.3);
  const auto message = [&](const TsneOptions& options) { return message_of([&] { tsne(points.rows(), options); }); };
  EXPECT_THAT(message({.perplexity = 0.5}), HasSubstr("perplexity is 0.5; it must be from 1 to 1000"));
  EXPECT_THAT(message({.perplexity = std::nan("")}), HasSubstr("perplexity is nan"));
  EXPECT_THAT(message({.iterations = 100001}), HasSubstr("iterations is 100001"));
  EXPECT_THAT(message({.exaggeration = 0}), HasSubstr("exaggeration is 0"));
  EXPECT_THAT(message({.theta = 0.8}), HasSubstr("theta is 0.8; it must be from 0 to 0.7"));
  EXPECT_THAT(message({.learning_rate = -1}), HasSubstr("learning_rate is -1"));
  EXPECT_THAT(message_of([&] { tsne(points.rows(), lists_of(points, 5)); }),
              HasSubstr("lists are of 50 points and 5 neighbours; they must be of 50 points and at least 49"));
  EXPECT_THAT(message_of([&] { tsne(points.rows(), NeighborLists()); }), HasSubstr("lists are of 0 points"));
}

TEST(Tsne, StopsWhenAskedTo) {
  const Points points = grouped_points(50, 4, 3, 0.3);
  EXPECT_THROW(tsne(points.rows(), {}, [](const ProgressEvent& event) { return event.stage != "map" || event.done < 10; }), Cancelled);
}

}  // namespace
}  // namespace smartmine
