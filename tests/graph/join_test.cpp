#include "graph/join.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "graph/made_rows.h"
#include "graph/together.h"
#include "smartmine/core/random.h"
#include "smartmine/graph/exact_knn.h"
#include "smartmine/graph/fanng.h"

namespace smartmine {
namespace {

using test::clustered_unit_rows;
using test::equal_lists;
using test::fault_of;
using test::MadeRows;
using test::recall_of;
using test::Together;

constexpr std::size_t kNeighbors = 20;
const Progress kNoProgress;

// Lists that lack about a third of the nearest and have farther ones instead.
NeighborLists poor_lists(const MadeRows& made) {
  const NeighborLists whole = ExactKnn({.neighbors = 2 * kNeighbors}).neighbors(made.rows()).lists;
  NeighborLists poor(made.size(), kNeighbors);
  for (std::size_t i = 0; i < made.size(); ++i) {
    Random random(7, 1, i);
    for (std::size_t from = 0, to = 0; to < kNeighbors; ++from) {
      const bool must = 2 * kNeighbors - from == kNeighbors - to;
      if (!must && random.below(3) == 0) continue;
      poor.ids(i)[to] = whole.ids(i)[from];
      poor.distances(i)[to++] = whole.distances(i)[from];
    }
  }
  return poor;
}

// In an order of their own, as a partition's is.
OrderedRows some_order(const MadeRows& made) {
  std::vector<std::uint32_t> order(made.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::uint32_t>(i * 7 % order.size());
  return {made.rows(), order, 1};
}

NeighborLists joined(const MadeRows& made, const Join& join, unsigned threads, std::uint64_t& computed, const Team* team = nullptr) {
  const OrderedRows ordered = some_order(made);
  const BuildTask task{made.rows(), {.neighbors = kNeighbors, .threads = threads}, kernels::active(), kNoProgress, false, team};
  const PackedPoints packed(ordered.rows(), task.kernels, 1);
  NeighborLists lists = poor_lists(made);
  const std::vector<std::size_t> shares = team_shares(team, made.size());
  join_neighbors(task, ordered, packed, join, shares, lists, computed);
  if (team == nullptr) return lists;
  // The lists of others' places are theirs to mend.
  const TeamShare own = own_share(team, shares);
  NeighborLists mine(own.end - own.begin, kNeighbors);
  for (std::size_t place = own.begin; place < own.end; ++place) {
    std::ranges::copy(lists.ids(ordered.point(place)), mine.ids(place - own.begin).begin());
    std::ranges::copy(lists.distances(ordered.point(place)), mine.distances(place - own.begin).begin());
  }
  return mine;
}

TEST(Join, FindsWhatNeighboursKnow) {
  const MadeRows made = clustered_unit_rows(3000, 16, 60);
  const double before = recall_of(poor_lists(made), made.rows(), 3000);
  EXPECT_LT(before, 0.75);
  double fewer = before;
  for (const Join& join : {Join{1, 10}, Join{4, 20}, Join{20, 20}}) {
    std::uint64_t computed = 0;
    const NeighborLists lists = joined(made, join, 1, computed);
    EXPECT_EQ(fault_of(lists, made.rows()), "");
    const double after = recall_of(lists, made.rows(), 3000);
    EXPECT_GT(after, fewer);
    EXPECT_GT(computed, 0U);
    fewer = after;
  }
  EXPECT_GT(fewer, 0.99);
}

TEST(Join, IsTheSameAtAnyNumberOfThreadsAndByTeams) {
  const MadeRows made = clustered_unit_rows(3001, 16, 60);
  std::uint64_t computed = 0, by_three = 0;
  const NeighborLists alone = joined(made, {}, 1, computed);
  EXPECT_TRUE(equal_lists(alone, joined(made, {}, 3, by_three)));
  EXPECT_EQ(computed, by_three);
  const OrderedRows ordered = some_order(made);
  std::size_t place = 0;
  for (const auto& part : Together(2).run([&](const Team* team) {
         std::uint64_t together = 0;
         NeighborLists mine = joined(made, {}, 1, together, team);
         EXPECT_EQ(together, computed);
         return mine;
       }))
    for (std::size_t i = 0; i < part->size(); ++i, ++place) {
      const std::uint32_t point = ordered.point(place);
      ASSERT_TRUE(std::ranges::equal(part->ids(i), alone.ids(point))) << point;
      ASSERT_TRUE(std::ranges::equal(part->distances(i), alone.distances(point))) << point;
    }
  EXPECT_EQ(place, made.size());
}

TEST(Join, BringsASearchOfShorterReachToTheRecallAskedFor) {
  const MadeRows made = clustered_unit_rows(30000, 64, 1000);
  FanngOptions options{.neighbors = 60, .recall_target = 0.99, .for_search = false, .threads = 1};
  const FanngResult searched = build_fanng(made.rows(), options);
  EXPECT_EQ(searched.stats.stage_seconds.count("join"), 0U);
  options.joined_from = 0;
  const FanngResult joined = build_fanng(made.rows(), options);
  EXPECT_EQ(joined.stats.stage_seconds.count("join"), 1U);
  EXPECT_GE(joined.stats.recall, 0.99);
  EXPECT_GE(recall_of(joined.lists, made.rows(), 500), 0.985);
  EXPECT_EQ(fault_of(joined.lists, made.rows()), "");
  options.threads = 3;
  EXPECT_TRUE(equal_lists(joined.lists, build_fanng(made.rows(), options).lists));
  options.threads = 1;
  for (const auto& result : Together(2).run([&](const Team* team) { return build_fanng(made.rows(), options, nullptr, {}, team); })) {
    EXPECT_TRUE(equal_lists(joined.lists, result->lists));
    EXPECT_EQ(joined.stats.distance_computations, result->stats.distance_computations);
  }
}

TEST(Join, TakesListsShorterThanWhatItLooksAt) {
  const MadeRows made = clustered_unit_rows(500, 8, 10);
  std::uint64_t computed = 0;
  EXPECT_EQ(fault_of(joined(made, {.helpers = 1000, .entries = 1000}, 1, computed), made.rows()), "");
}

}  // namespace
}  // namespace smartmine
