#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <thread>
#include <vector>

#include "graph/made_rows.h"
#include "smartmine/graph/fanng.h"

namespace smartmine {
namespace {

using test::clustered_unit_rows;
using test::kNone;
using test::MadeRows;
using test::message_of;
using test::nearest_of_all;
using testing::HasSubstr;

class FanngSearch : public testing::Test {
 protected:
  static constexpr std::size_t kRows = 5000;
  static constexpr std::size_t kDimension = 32;

  static void SetUpTestSuite() {
    made_ = clustered_unit_rows(kRows, kDimension, 60);
    graph_ = build_fanng(made_.rows(), {.neighbors = 20, .threads = 1}).graph;
  }

  // The share of the true ten nearest that a search with so many distances finds, over some queries.
  static double recall(const MadeRows& queries, std::size_t distances) {
    std::size_t right = 0;
    for (std::size_t i = 0; i < queries.size(); ++i) {
      const auto start = static_cast<std::uint32_t>(i * 131 % kRows);
      const auto found = graph_.search(made_.rows(), queries[i], {.neighbors = 10, .distance_computations = distances, .start = start});
      const auto truth = nearest_of_all(made_.rows(), queries[i], kNone, 10);
      for (const Found& one : found) right += one.distance <= truth.back().distance;
    }
    return static_cast<double>(right) / static_cast<double>(queries.size() * 10);
  }

  static MadeRows made_;
  static Fanng graph_;
};
MadeRows FanngSearch::made_;
Fanng FanngSearch::graph_;

TEST_F(FanngSearch, FindsTheNearestOfQueriesOutsideTheSet) {
  const MadeRows queries = test::drifted(MadeRows{kDimension, {made_.values.begin(), made_.values.begin() + 200 * kDimension}}, 0.3);
  EXPECT_GE(recall(queries, 2000), 0.95);
  EXPECT_GE(recall(queries, 5000), 0.98);
}

TEST_F(FanngSearch, FindsRowsOfTheSetThemselves) {
  std::size_t first = 0;
  for (std::uint32_t i = 0; i < 300; ++i) {
    const auto found =
        graph_.search(made_.rows(), made_[i * 16], {.neighbors = 1, .distance_computations = 1000, .start = (i * 77) % 5000});
    ASSERT_EQ(found.size(), 1U);
    first += found[0].id == i * 16 && found[0].distance == 0;
  }
  EXPECT_GE(first, 295U);
}

TEST_F(FanngSearch, GivesDistinctRowsNearestFirstTiesByIdWithTheirTrueDistances) {
  const MadeRows queries = clustered_unit_rows(50, kDimension, 60, 0.5, 8);
  for (std::size_t i = 0; i < queries.size(); ++i) {
    const auto found = graph_.search(made_.rows(), queries[i], {.neighbors = 40, .distance_computations = 500});
    ASSERT_EQ(found.size(), 40U);
    std::set<std::uint32_t> ids;
    for (std::size_t place = 0; place < found.size(); ++place) {
      ids.insert(found[place].id);
      ASSERT_EQ(found[place].distance, kernels::active().squared_distance(queries[i], made_[found[place].id], kDimension));
      if (place > 0) {
        ASSERT_TRUE(found[place - 1].distance < found[place].distance ||
                    (found[place - 1].distance == found[place].distance && found[place - 1].id < found[place].id));
      }
    }
    EXPECT_EQ(ids.size(), 40U);
  }
}

TEST_F(FanngSearch, LooksAtNoMoreRowsThanItMay) {
  // With as many results asked for as distances allowed, every distance computed is a result.
  for (const std::size_t budget : {1, 2, 17, 100, 999}) {
    const auto found = graph_.search(made_.rows(), made_[7], {.neighbors = budget, .distance_computations = budget, .start = 42});
    EXPECT_EQ(found.size(), budget);
  }
  const auto only = graph_.search(made_.rows(), made_[7], {.neighbors = 1, .distance_computations = 1, .start = 42});
  EXPECT_EQ(only[0].id, 42U);
}

TEST_F(FanngSearch, FollowsTheNextEdgeOfTheNearestVertexThatHasOne) {
  // The paper's search, spelled out with a plain list for the queue.
  struct Entry {
    float distance;
    std::uint32_t vertex;
    std::size_t edge;
  };
  const MadeRows queries = clustered_unit_rows(10, kDimension, 60, 0.5, 8);
  for (std::size_t i = 0; i < queries.size(); ++i) {
    const auto distance = [&](std::uint32_t v) { return kernels::active().squared_distance(made_[v], queries[i], kDimension); };
    std::vector<Entry> queue{{distance(3), 3, 0}};
    std::map<std::uint32_t, float> seen{{3, queue[0].distance}};
    while (!queue.empty() && seen.size() < 150) {
      const auto best = std::min_element(queue.begin(), queue.end(), [](const Entry& a, const Entry& b) {
        return a.distance != b.distance ? a.distance < b.distance : a.vertex < b.vertex;
      });
      const auto edges = graph_.edges(best->vertex);
      if (best->edge == edges.size()) {
        queue.erase(best);
        continue;
      }
      const std::uint32_t end = edges[best->edge++];
      if (seen.contains(end)) continue;
      seen[end] = distance(end);
      queue.push_back({seen[end], end, 0});
    }
    const auto found = graph_.search(made_.rows(), queries[i], {.neighbors = 150, .distance_computations = 150, .start = 3});
    ASSERT_EQ(found.size(), seen.size());
    for (const Found& one : found) ASSERT_TRUE(seen.contains(one.id));
  }
}

TEST_F(FanngSearch, MayBeUsedByManyThreadsAtOnce) {
  const auto expected = graph_.search(made_.rows(), made_[11], {});
  std::vector<std::thread> threads;
  std::atomic<int> same{0};
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) {
        const auto found = graph_.search(made_.rows(), made_[11], {});
        same +=
            std::ranges::equal(found, expected, [](const Found& a, const Found& b) { return a.id == b.id && a.distance == b.distance; });
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(same, 80);
}

TEST_F(FanngSearch, GivesWhatCanBeReachedWhenMoreIsAskedFor) {
  const MadeRows few = clustered_unit_rows(30, 4, 3);
  const Fanng graph = build_fanng(few.rows(), {.neighbors = 5, .threads = 1}).graph;
  std::set<std::uint32_t> reachable{0};
  std::vector<std::uint32_t> open{0};
  while (!open.empty()) {
    const std::uint32_t vertex = open.back();
    open.pop_back();
    for (const std::uint32_t end : graph.edges(vertex))
      if (reachable.insert(end).second) open.push_back(end);
  }
  const auto found = graph.search(few.rows(), few[3], {.neighbors = 1000, .distance_computations = 100000});
  EXPECT_EQ(found.size(), reachable.size());
}

TEST_F(FanngSearch, NamesWhatIsWrongWithItsArguments) {
  const Rows rows = made_.rows();
  const auto message = [&](const Rows& with, const SearchOptions& options) {
    return message_of<InvalidArgument>([&] { graph_.search(with, made_[0], options); });
  };
  EXPECT_THAT(message(rows, {.neighbors = 0}), HasSubstr("neighbors is 0"));
  EXPECT_THAT(message(rows, {.neighbors = 20, .distance_computations = 19}), HasSubstr("distance_computations is 19"));
  EXPECT_THAT(message(rows, {.start = 5000}), HasSubstr("start is 5000"));
  EXPECT_THAT(message(Rows(made_.values.data(), 4999, kDimension), {}), testing::AllOf(HasSubstr("5000"), HasSubstr("4999")));
  EXPECT_THAT(message(Rows(made_.values.data(), 5000, 16), {}), testing::AllOf(HasSubstr("32"), HasSubstr("16")));
  std::vector<float> query(kDimension, 0.1F);
  query[9] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(message_of<InvalidArgument>([&] { graph_.search(rows, query.data(), {}); }), HasSubstr("column 9"));
  EXPECT_THAT(message_of<InvalidArgument>([&] { Fanng().search(rows, made_[0], {}); }), HasSubstr("5000"));
}

}  // namespace
}  // namespace smartmine
