// Several members that share the work of one call find what one alone finds, to the bit. They are threads here, and ranks in a run.
#include "smartmine/graph/team.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "graph/fanng_parts.h"
#include "graph/made_rows.h"
#include "graph/partition.h"
#include "graph/together.h"
#include "smartmine/graph/exact_knn.h"

namespace smartmine {
namespace {

using test::clouds_of_rows;
using test::clustered_unit_rows;
using test::MadeRows;
using test::Together;

template <class Values>
std::vector<typename Values::value_type> copy_of(const Values& values) {
  return {values.begin(), values.end()};
}

void expect_same(const FanngResult& one, const FanngResult& other) {
  EXPECT_EQ(copy_of(one.lists.all_ids()), copy_of(other.lists.all_ids()));
  EXPECT_EQ(copy_of(one.lists.all_distances()), copy_of(other.lists.all_distances()));
  EXPECT_EQ(one.stats.distance_computations, other.stats.distance_computations);
  EXPECT_EQ(one.stats.recall, other.stats.recall);
  EXPECT_EQ(one.stats.success_rate, other.stats.success_rate);
  EXPECT_EQ(FanngParts::candidates(one.graph), FanngParts::candidates(other.graph));
  for (std::size_t i = 0; i < one.graph.size(); ++i) ASSERT_EQ(copy_of(one.graph.edges(i)), copy_of(other.graph.edges(i))) << i;
}

void expect_same_by_teams(const MadeRows& made, FanngOptions options, const Fanng* previous = nullptr) {
  options.threads = 1;
  const FanngResult alone = build_fanng(made.rows(), options, previous);
  for (const std::size_t size : {2U, 3U}) {
    Together together(size);
    for (const auto& result : together.run([&](const Team* team) { return build_fanng(made.rows(), options, previous, {}, team); }))
      expect_same(alone, *result);
    EXPECT_GT(together.gathers(), 0U);
  }
}

TEST(Team, FindsTheListsAndTheGraphOfOneAlone) {
  expect_same_by_teams(clustered_unit_rows(6000, 16, 40), {.neighbors = 20});
  expect_same_by_teams(clustered_unit_rows(6000, 16, 40), {.neighbors = 20, .for_search = false, .refreshable = true});
}

TEST(Team, FindsThemInGroupsThatLieFarApart) {
  MadeRows made = clouds_of_rows(10000, 8, 1, 1.0);  // two large groups and a small one
  for (std::size_t i = 0; i < made.size(); ++i) made.values[i * made.dimension] += i < 4800 ? 0.0F : i < 9700 ? 1000.0F : 3000.0F;
  expect_same_by_teams(made, {.neighbors = 10});
}

TEST(Team, FindsThemFromAnEarlierGraph) {
  const MadeRows made = clustered_unit_rows(6000, 16, 40);
  for (const double drift : {0.01, 0.05}) {  // with lists alone: without an exchange, and with more looks
    MadeRows moved = made;
    Random random(5);
    for (float& value : moved.values) value += static_cast<float>(drift * random.normal());
    for (const bool for_search : {true, false}) {
      FanngOptions options{.neighbors = 20, .for_search = for_search, .refreshable = true};
      const FanngResult earlier = build_fanng(made.rows(), options);
      options.start = Start::kPrevious;
      expect_same_by_teams(moved, options, &earlier.graph);
    }
  }
}

TEST(Team, FindsThemFromRandomEdges) { expect_same_by_teams(clustered_unit_rows(1500, 8, 10), {.neighbors = 10, .start = Start::kRandom}); }

TEST(Team, MakesThePartitionOfOneAloneInOneLevelAndInTwo) {
  const MadeRows made = clustered_unit_rows(5000, 12, 30);
  for (const std::size_t most_at_once : {std::size_t{1'000'000}, std::size_t{50}}) {
    const auto partition_by = [&](const Team* team) {
      std::uint64_t computed = 0;
      Partition made_by = partition_rows(made.rows(), 16, 1, 1, kernels::active(), computed, {}, team, most_at_once);
      return std::pair(std::move(made_by), computed);
    };
    const auto alone = partition_by(nullptr);
    for (const std::size_t size : {2U, 3U}) {
      for (const auto& result : Together(size).run(partition_by)) {
        EXPECT_EQ(result->first.order, alone.first.order);
        EXPECT_EQ(result->first.cell_begins, alone.first.cell_begins);
        EXPECT_EQ(result->second, alone.second);
      }
    }
  }
}

TEST(Team, MayHaveMoreMembersThanThereIsWork) {
  const MadeRows made = clustered_unit_rows(40, 4, 3);
  const ExactKnn exact({.neighbors = 5, .threads = 1});
  const NeighborResult alone = exact.neighbors(made.rows());
  for (const auto& result : Together(50).run([&](const Team* team) { return exact.neighbors(made.rows(), {}, team); }))
    EXPECT_EQ(copy_of(result->lists.all_ids()), copy_of(alone.lists.all_ids()));
  expect_same_by_teams(made, {.neighbors = 5});
}

}  // namespace
}  // namespace smartmine
