#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <vector>

#include "graph/made_rows.h"
#include "smartmine/graph/fanng.h"

namespace smartmine {
namespace {

using test::clouds_of_rows;
using test::clustered_unit_rows;
using test::MadeRows;

std::string name_of(Start start) { return start == Start::kPartition ? "partition" : start == Start::kRandom ? "random" : "previous"; }

// Builds from this start (from a graph of the same rows for the previous one) and holds the result to its word.
void check(const MadeRows& made, FanngOptions options, double recall = 0.975) {
  SCOPED_TRACE(fmt::format("{} rows of dimension {}, lists of {}, start {}", made.size(), made.dimension, options.neighbors,
                           name_of(options.start)));
  const auto begin = std::chrono::steady_clock::now();
  Fanng previous;
  options.refreshable = true;
  options.threads = 1;
  if (options.start == Start::kPrevious) {
    FanngOptions first = options;
    first.start = Start::kPartition;
    previous = build_fanng(made.rows(), first).graph;
  }
  const FanngResult result = build_fanng(made.rows(), options, options.start == Start::kPrevious ? &previous : nullptr);
  EXPECT_EQ(test::fault_of(result.lists, made.rows()), "");
  EXPECT_EQ(result.stats.recall_reached, result.stats.recall >= options.recall_target);
  EXPECT_TRUE(result.stats.recall_reached || result.stats.note.find("recall") != std::string::npos) << "silently low";
  EXPECT_GE(test::recall_of(result.lists, made.rows(), 200), recall);
  for (std::size_t vertex = 0; vertex < made.size(); ++vertex)
    for (const std::uint32_t end : result.graph.edges(vertex)) ASSERT_TRUE(end < made.size() && end != vertex);
  EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(), 120.0);
}

class FanngOnOddRows : public testing::TestWithParam<Start> {
 protected:
  FanngOptions options(std::size_t neighbors) const { return {.neighbors = neighbors, .start = GetParam()}; }
  bool random() const { return GetParam() == Start::kRandom; }
};
INSTANTIATE_TEST_SUITE_P(Every, FanngOnOddRows, testing::Values(Start::kPartition, Start::kRandom, Start::kPrevious),
                         [](const auto& start) { return name_of(start.param); });

TEST_P(FanngOnOddRows, GivesFullListsWhenAllRowsAreIdentical) {
  for (const std::size_t size : {2, 3, 50, 1000})
    check({4, std::vector<float>(size * 4, 0.5F)}, options(std::min<std::size_t>(20, size - 1)), 1);
  check({4, std::vector<float>(4 * 4, 0.0F)}, options(3), 1);
}

TEST_P(FanngOnOddRows, GivesDistinctNeighboursAmongManyDuplicates) {
  const MadeRows kinds = clustered_unit_rows(10, 8, 10);
  MadeRows made{8, {}};
  for (std::size_t i = 0; i < 1500; ++i) made.values.insert(made.values.end(), kinds[i * 7 % 10], kinds[i * 7 % 10] + 8);
  check(made, options(100));
}

TEST_P(FanngOnOddRows, TakesEveryDimension) {
  for (const std::size_t dimension : {1, 2, 3}) check(clouds_of_rows(1500, dimension, 5, 0.5), options(15));
  check(clustered_unit_rows(400, 1000, 10), options(15));
}

TEST_P(FanngOnOddRows, TakesListsOfAllOtherRows) {
  for (const std::size_t size : {2, 3, 5, 17, 60, 350}) check(clustered_unit_rows(size, 5, 3), options(size - 1), 1);
}

TEST_P(FanngOnOddRows, TakesRowsOfAnyLength) {
  for (const float size : {1e-12F, 1e-3F, 50.0F, 1e17F}) {
    MadeRows made = clouds_of_rows(1200, 8, 12, 0.4);
    for (std::size_t i = 0; i < made.values.size(); ++i) made.values[i] *= size * static_cast<float>(1 + i / 8 % 3);
    check(made, options(10));
  }
}

TEST_P(FanngOnOddRows, TakesRowsFarFromTheOrigin) {
  MadeRows made = clouds_of_rows(1200, 8, 12, 0.4);
  for (float& value : made.values) value += 1000;
  check(made, options(10));
}

TEST_P(FanngOnOddRows, TakesAGridFullOfTies) {
  MadeRows made{3, {}};
  for (int i = 0; i < 1331; ++i)
    made.values.insert(made.values.end(), {static_cast<float>(i % 11), static_cast<float>(i / 11 % 11), static_cast<float>(i / 121)});
  check(made, options(26));
}

TEST_P(FanngOnOddRows, TakesALine) {
  MadeRows made{1, {}};
  for (int i = 0; i < 1000; ++i) made.values.push_back(static_cast<float>(i * 7919 % 1000));
  check(made, options(10));
}

TEST_P(FanngOnOddRows, TakesOneRowFarAwayFromAllOthers) {
  MadeRows made = clouds_of_rows(1000, 6, 5, 0.4);
  for (std::size_t t = 0; t < 6; ++t) made.values[500 * 6 + t] = 1e6F;
  check(made, options(10));
}

// The same where the partition really has cells.
TEST(FanngOnManyOddRows, GivesFullListsWhenAllRowsAreIdentical) {
  for (const Start start : {Start::kPartition, Start::kPrevious})
    check({4, std::vector<float>(5000 * 4, 0.5F)}, {.neighbors = 100, .start = start}, 1);
}

TEST(FanngOnManyOddRows, GivesDistinctNeighboursAmongManyDuplicates) {
  const MadeRows kinds = clustered_unit_rows(10, 8, 10);
  MadeRows made{8, {}};
  for (std::size_t i = 0; i < 5000; ++i) made.values.insert(made.values.end(), kinds[i * 7 % 10], kinds[i * 7 % 10] + 8);
  for (const Start start : {Start::kPartition, Start::kPrevious}) {
    check(made, {.neighbors = 100, .start = start});
    check(made, {.neighbors = 600, .start = start});  // more than there are copies of a row
  }
}

TEST(FanngOnManyOddRows, TakesEveryDimension) {
  for (const std::size_t dimension : {1, 2, 3})
    for (const Start start : {Start::kPartition, Start::kPrevious})
      check(clouds_of_rows(6000, dimension, 8, 0.5), {.neighbors = 20, .start = start});
  check(clustered_unit_rows(4200, 1000, 30), {.neighbors = 10});
}

TEST(FanngOnManyOddRows, TakesListsOfOneAndTwo) {
  for (const Start start : {Start::kPartition, Start::kPrevious})
    for (const std::size_t neighbors : {1, 2}) check(clustered_unit_rows(4500, 8, 30), {.neighbors = neighbors, .start = start});
}

TEST(FanngOnManyOddRows, TakesRowsFarFromTheOrigin) {
  MadeRows made = clouds_of_rows(6000, 12, 20, 0.4);
  for (float& value : made.values) value += 1000;
  check(made, {.neighbors = 20});
}

TEST(FanngOnManyOddRows, TakesTinyAndHugeRows) {
  for (const float size : {1e-18F, 1e-9F, 1e9F, 1e17F}) {
    MadeRows made = clouds_of_rows(5000, 12, 20, 0.4);
    for (float& value : made.values) value *= size;
    check(made, {.neighbors = 20});
  }
}

TEST(FanngOnManyOddRows, TakesAFewRowsFarAwayFromAllOthers) {
  MadeRows made = clouds_of_rows(5000, 12, 20, 0.4);
  for (std::size_t i = 0; i < 5; ++i)
    for (std::size_t t = 0; t < 12; ++t) made.values[i * 999 * 12 + t] = 1e5F * static_cast<float>(i + 1);
  for (const Start start : {Start::kPartition, Start::kPrevious}) check(made, {.neighbors = 20, .start = start});
}

TEST(FanngOnManyOddRows, TakesNoLongerForAFewRowsFarAway) {
  MadeRows made = clustered_unit_rows(15000, 64, 500, 0.6);
  const auto computed = [&made] {
    const FanngResult built = build_fanng(made.rows(), {.neighbors = 50, .for_search = false, .threads = 2});
    EXPECT_TRUE(built.stats.recall_reached);
    EXPECT_EQ(test::fault_of(built.lists, made.rows()), "");
    return static_cast<double>(built.stats.distance_computations);
  };
  const double usual = computed();
  for (std::size_t i = 0; i < 60; ++i)
    for (std::size_t t = 0; t < 64; ++t) made.values[i * 250 * 64 + t] *= 100;
  EXPECT_LT(computed(), 1.2 * usual);
}

// The candidates for edges lie far beyond such lists, and must have no holes there.
TEST(FanngOnManyOddRows, IsCertifiedWithShortLists) {
  const MadeRows made = clustered_unit_rows(20000, 64, 666, 0.6);
  for (const std::size_t neighbors : {10, 50}) {
    const NeighborStats stats = build_fanng(made.rows(), {.neighbors = neighbors, .certify = true, .threads = 2}).stats;
    EXPECT_TRUE(stats.success_reached) << neighbors << ": " << stats.success_rate;
    EXPECT_LT(stats.edges_added, 2 * made.size()) << neighbors;
  }
}

// Lengths spread as embeddings that are not normalised may have them: one scale for the bytes of all is too coarse for the short ones.
MadeRows rows_of_unequal_lengths(std::size_t size) {
  MadeRows made = clustered_unit_rows(size, 32, size / 30, 0.6);
  for (std::size_t i = 0; i < size; ++i) {
    Random random(3, 9, i);
    const auto length = static_cast<float>(std::exp(random.normal()));
    for (std::size_t t = 0; t < 32; ++t) made.values[i * 32 + t] *= length;
  }
  return made;
}

TEST(FanngOnManyOddRows, FindsListsOfRowsOfUnequalLengthsByCellsAlone) {
  const MadeRows made = rows_of_unequal_lengths(12000);
  for (const std::size_t neighbors : {10, 50}) {
    const FanngResult built = build_fanng(made.rows(), {.neighbors = neighbors, .for_search = false, .threads = 2});
    EXPECT_EQ(built.stats.stage_seconds.count("search"), 0U);
    EXPECT_TRUE(built.stats.recall_reached);
    EXPECT_GE(test::recall_of(built.lists, made.rows(), 200), 0.97);
    EXPECT_EQ(test::fault_of(built.lists, made.rows()), "");
  }
}

TEST(FanngOnManyOddRows, KeepsWhatWasFoundWhereASearchThroughTheGraphIsLeft) {
  const MadeRows made = rows_of_unequal_lengths(20000);
  int begun = 0;
  std::string last;
  const FanngResult built = build_fanng(made.rows(), {.neighbors = 50, .recall_target = 1, .for_search = false, .threads = 1}, nullptr,
                                        [&](const ProgressEvent& event) {
                                          begun += event.stage != last && event.stage == "recall";
                                          last = event.stage;
                                          return true;
                                        });
  const bool by_all_pairs = built.stats.stage_seconds.contains("all_pairs");
  EXPECT_EQ(built.stats.stage_seconds.count("search") + (by_all_pairs ? 1 : 0), 1U) << "the rows are too easy for this test";
  EXPECT_EQ(built.stats.note.find("all pairs were looked at") != std::string::npos, by_all_pairs) << "the stage is called by what was done";
  EXPECT_EQ(begun, 1) << "samples are taken once, one after the other";
  EXPECT_TRUE(built.stats.recall_reached);
  EXPECT_EQ(test::fault_of(built.lists, made.rows()), "");
}

TEST(FanngOnManyOddRows, TakesListsThatAreAThirdOfTheSet) { check(clustered_unit_rows(4500, 16, 10), {.neighbors = 1500}); }

TEST(FanngOnManyOddRows, TakesLongLists) { check(clustered_unit_rows(9000, 16, 10), {.neighbors = 500}); }

// A handful of clusters so tight that packing to bytes cannot tell their rows apart.
void check_tight_clusters(std::size_t size, double radius, Start start) {
  MadeRows made = clouds_of_rows(size, 32, 5, 0);
  test::scale_to_unit(made);
  for (std::size_t i = 0; i < size; ++i) {
    Random random(3, 3, i);
    for (std::size_t t = 0; t < 32; ++t) made.values[i * 32 + t] += static_cast<float>(radius * random.normal());
  }
  check(made, {.neighbors = 50, .start = start}, 0.97);
}

TEST(FanngOnManyOddRows, TakesAHandfulOfTightClusters) {
  for (const double radius : {1e-2, 1e-4, 1e-6}) check_tight_clusters(6000, radius, Start::kPartition);
}

TEST(FanngInTightClustersSlowest, IsBuiltFromAPartition) {
  for (const double radius : {1e-4, 1e-6}) check_tight_clusters(30000, radius, Start::kPartition);
}

TEST(FanngInTightClustersSlowest, IsBuiltFromThePreviousGraph) {
  for (const double radius : {1e-4, 1e-6}) check_tight_clusters(30000, radius, Start::kPrevious);
}

TEST(FanngInTightClustersSlowest, IsBuiltFromRandomEdges) {
  for (const double radius : {1e-4, 1e-6}) check_tight_clusters(3000, radius, Start::kRandom);
}

}  // namespace
}  // namespace smartmine
