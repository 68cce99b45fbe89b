#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "graph/made_rows.h"
#include "smartmine/graph/fanng.h"

namespace smartmine {
namespace {

using test::clouds_of_rows;
using test::clustered_unit_rows;
using test::MadeRows;

// Rows in classes, each repeated so often with a little noise of this length.
MadeRows tiled_rows(std::size_t size, std::size_t copies, double length) {
  const MadeRows base = clustered_unit_rows(size / copies, 32, 20, 0.6);
  MadeRows made{32, {}};
  for (std::size_t i = 0; i < size; ++i) {
    Random random(3, 5, i);
    for (std::size_t t = 0; t < 32; ++t)
      made.values.push_back(base[i % base.size()][t] + static_cast<float>(length / std::sqrt(32.0) * random.normal()));
  }
  return made;
}

// Six clusters, each a tenth as wide as the one before.
MadeRows clusters_of_unequal_widths(std::size_t size) {
  const MadeRows centres = clouds_of_rows(6, 32, 6, 1);
  MadeRows made{32, {}};
  for (std::size_t i = 0; i < size; ++i) {
    Random random(3, 7, i);
    for (std::size_t t = 0; t < 32; ++t)
      made.values.push_back(centres[i % 6][t] + static_cast<float>(std::pow(10.0, -static_cast<double>(i % 6)) * random.normal()));
  }
  return made;
}

// Lengths spread evenly over six decades: crowds inside each other.
MadeRows rows_of_all_lengths(std::size_t size) {
  MadeRows made = clouds_of_rows(size, 32, size, 0);
  for (std::size_t i = 0; i < size; ++i) {
    Random random(3, 8, i);
    const auto length = static_cast<float>(std::pow(10.0, -6 * random.uniform()));
    for (std::size_t t = 0; t < 32; ++t) made.values[i * 32 + t] *= length;
  }
  return made;
}

// Half of the rows nearly the same, half noise.
MadeRows half_crowded(std::size_t size) {
  MadeRows made = clouds_of_rows(size, 32, size, 0);
  for (std::size_t i = 0; i < size; i += 2)
    for (std::size_t t = 0; t < 32; ++t) made.values[i * 32 + t] *= 1e-4F;
  return made;
}

// The lists reach the recall without a search through the graph, at no more distances by all pairs than this.
void check(const MadeRows& made, std::size_t neighbors, double most_computed) {
  const FanngResult built = build_fanng(made.rows(), {.neighbors = neighbors, .for_search = false, .threads = 2});
  EXPECT_EQ(test::fault_of(built.lists, made.rows()), "");
  EXPECT_TRUE(built.stats.recall_reached);
  EXPECT_GE(test::recall_of(built.lists, made.rows(), 200), 0.97);
  EXPECT_EQ(built.stats.stage_seconds.count("search"), 0U) << built.stats.note;
  const auto size = static_cast<double>(made.size());
  EXPECT_LT(static_cast<double>(built.stats.distance_computations) / (size * size), most_computed);
}

class CrowdLists : public testing::TestWithParam<std::size_t> {};
INSTANTIATE_TEST_SUITE_P(OfLength, CrowdLists, testing::Values(10, 50));

TEST_P(CrowdLists, AreFoundAmongTiledRows) {
  for (const double length : {1e-1, 1e-2, 1e-4, 1e-6}) {
    SCOPED_TRACE(length);
    check(tiled_rows(12000, 250, length), GetParam(), 1.5);
  }
}

// More clouds than are searched as groups, each of more rows than are measured.
TEST(CrowdLists, AreFoundInManyCloudsOfNearCopies) { check(tiled_rows(36000, 250, 1e-4), 10, 0.25); }

TEST_P(CrowdLists, AreFoundInClustersOfUnequalWidths) { check(clusters_of_unequal_widths(12000), GetParam(), 2); }

TEST_P(CrowdLists, AreFoundWhereCrowdsLieInsideEachOther) { check(rows_of_all_lengths(12000), GetParam(), 6); }

TEST_P(CrowdLists, AreFoundBesideNoise) { check(half_crowded(12000), GetParam(), 5); }

TEST(CrowdLists, HaveEdgesAndAreTheSameAtAnyNumberOfThreads) {
  const MadeRows made = clusters_of_unequal_widths(6000);
  FanngOptions options{.neighbors = 20, .success_target = 0.1, .refreshable = true};
  options.threads = 1;
  const FanngResult one = build_fanng(made.rows(), options);
  options.threads = 3;
  const FanngResult three = build_fanng(made.rows(), options);
  EXPECT_TRUE(test::equal_lists(one.lists, three.lists));
  EXPECT_TRUE(test::equal_edges(one.graph, three.graph));
  EXPECT_EQ(one.stats.distance_computations, three.stats.distance_computations);
  for (std::size_t vertex = 0; vertex < made.size(); ++vertex) ASSERT_GT(one.graph.edges(vertex).size(), 0U) << vertex;
  // What is kept for a refresh are neighbours too.
  options.start = Start::kPrevious;
  const FanngResult again = build_fanng(made.rows(), options, &one.graph);
  EXPECT_TRUE(again.stats.recall_reached);
  EXPECT_EQ(test::fault_of(again.lists, made.rows()), "");
}

}  // namespace
}  // namespace smartmine
