#include "graph/previous_lists.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "graph/fanng_parts.h"
#include "graph/made_rows.h"
#include "graph/place_set.h"

namespace smartmine {
namespace {

using test::clustered_unit_rows;
using test::MadeRows;

TEST(PlaceSet, HasEachPlaceOnceInTheOrderTheyCame) {
  PlaceSet set(200);
  for (int round = 0; round < 2; ++round) {
    set.clear(4);
    for (const std::uint32_t place : {7U, 199U, 7U, 0U, 199U, 64U}) set.add(place);
    EXPECT_THAT(set.members(), testing::ElementsAre(7, 199, 0, 64));
    EXPECT_TRUE(set.has(64));
    EXPECT_FALSE(set.has(65));
  }
  set.clear(1);
  EXPECT_FALSE(set.has(7));
  EXPECT_THAT(set.members(), testing::IsEmpty());
}

// What a graph keeps for a refresh begins with the lists as they were given out, and names no point twice.
void check_kept(const FanngResult& result) {
  const std::vector<std::uint32_t>& order = FanngParts::order(result.graph);
  const std::vector<std::uint32_t>& kept = FanngParts::candidates(result.graph);
  const std::size_t each = FanngParts::candidates_per_point(result.graph), neighbors = result.lists.neighbors();
  ASSERT_EQ(each, 2 * neighbors);
  for (std::size_t place = 0; place < order.size(); ++place) {
    const auto mine = std::span(kept).subspan(place * each, each);
    std::set<std::uint32_t> first, all;
    for (std::size_t j = 0; j < each; ++j) {
      all.insert(order[mine[j]]);
      if (j < neighbors) first.insert(order[mine[j]]);
    }
    const auto ids = result.lists.ids(order[place]);
    ASSERT_EQ(first, std::set<std::uint32_t>(ids.begin(), ids.end())) << place;
    ASSERT_EQ(all.size(), each) << place;
    ASSERT_EQ(all.count(order[place]), 0U) << place;
  }
}

TEST(PreviousLists, KeepForTheNextEpochWhatAnExchangeFound) {
  const MadeRows before = clustered_unit_rows(8000, 32, 60);
  FanngOptions options{.neighbors = 30, .for_search = false, .threads = 2, .refreshable = true};
  const FanngResult first = build_fanng(before.rows(), options);
  check_kept(first);
  options.start = Start::kPrevious;
  for (const double drift : {0.01, 0.1, 0.16}) {
    SCOPED_TRACE(drift);
    const MadeRows now = test::drifted(before, drift, 50);
    const FanngResult result = build_fanng(now.rows(), options, &first.graph);
    EXPECT_EQ(result.stats.note, "");
    EXPECT_GE(result.stats.recall, options.recall_target);
    check_kept(result);
  }
}

TEST(PreviousLists, LastForManyEpochs) {
  MadeRows rows = clustered_unit_rows(20000, 32, 600);
  FanngOptions options{.neighbors = 50, .for_search = false, .threads = 2, .refreshable = true};
  FanngResult result = build_fanng(rows.rows(), options);
  options.start = Start::kPrevious;
  for (std::uint64_t epoch = 1; epoch <= 8; ++epoch) {
    SCOPED_TRACE(epoch);
    rows = test::drifted(rows, 0.1, epoch);
    options.seed = epoch;
    result = build_fanng(rows.rows(), options, &result.graph);
    EXPECT_EQ(result.stats.note, "");
    EXPECT_GE(result.stats.recall, options.recall_target);
  }
}

TEST(PreviousLists, AreNotMadeWhereTheSampleSaysThatTheyWillNotDo) {
  const MadeRows before = clustered_unit_rows(8000, 32, 60), now = clustered_unit_rows(8000, 32, 60, 0.4, 2);
  FanngOptions options{.neighbors = 30, .for_search = false, .threads = 2, .refreshable = true};
  const FanngResult first = build_fanng(before.rows(), options);
  const FanngResult anew = build_fanng(now.rows(), options);
  options.start = Start::kPrevious;
  const FanngResult result = build_fanng(now.rows(), options, &first.graph);
  EXPECT_THAT(result.stats.note, testing::HasSubstr("too little: built from a partition instead"));
  // A sample's lists and another sample, and not those of all points.
  EXPECT_LT(result.stats.distance_computations, anew.stats.distance_computations + 10'000'000);
  EXPECT_EQ(result.stats.recall, anew.stats.recall);
}

}  // namespace
}  // namespace smartmine
