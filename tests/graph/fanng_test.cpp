#include "smartmine/graph/fanng.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>
#include <vector>

#include "graph/made_rows.h"

namespace smartmine {
namespace {

using test::clustered_unit_rows;
using test::equal_edges;
using test::equal_lists;
using test::fault_of;
using test::MadeRows;
using test::message_of;
using test::recall_of;
using testing::AllOf;
using testing::HasSubstr;

// What is wrong with the graph itself; empty: nothing.
std::string fault_of(const Fanng& graph, const Rows& rows, std::size_t max_degree) {
  if (graph.size() != rows.size() || graph.dimension() != rows.dimension()) return "its size or dimension is another";
  const auto distance = [&](std::size_t a, std::size_t b) {
    return kernels::active().squared_distance(rows[a], rows[b], rows.dimension());
  };
  for (std::size_t vertex = 0; vertex < graph.size(); ++vertex) {
    const auto edges = graph.edges(vertex);
    if (edges.size() > max_degree) return fmt::format("vertex {} has {} edges", vertex, edges.size());
    std::set<std::uint32_t> ends;
    for (std::size_t c = 0; c < edges.size(); ++c) {
      if (edges[c] >= graph.size()) return fmt::format("vertex {} leads to {}", vertex, edges[c]);
      if (edges[c] == vertex) return fmt::format("vertex {} leads to itself", vertex);
      if (!ends.insert(edges[c]).second) return fmt::format("vertex {} leads to {} twice", vertex, edges[c]);
      const float length = distance(vertex, edges[c]);
      for (std::size_t b = 0; b < c; ++b) {
        const float shorter = distance(vertex, edges[b]);
        if (b + 1 == c && shorter > length) return fmt::format("the edges of vertex {} are not shortest first", vertex);
        if (shorter < length && distance(edges[b], edges[c]) < length)
          return fmt::format("at vertex {} the edge to {} occludes the one to {}", vertex, edges[b], edges[c]);
      }
    }
  }
  return "";
}

// The share of random pairs from which going downhill ends on the target, or on a copy of it.
double success_rate(const Fanng& graph, const Rows& rows, std::size_t pairs) {
  Random random(99, 1);
  std::size_t arrived = 0;
  for (std::size_t i = 0; i < pairs; ++i) {
    auto here = static_cast<std::uint32_t>(random.below(rows.size()));
    const auto target = static_cast<std::uint32_t>(random.below(rows.size()));
    const auto to_target = [&](std::uint32_t vertex) {
      return kernels::active().squared_distance(rows[vertex], rows[target], rows.dimension());
    };
    while (true) {
      std::uint32_t best = here;
      for (const std::uint32_t end : graph.edges(here))
        if (to_target(end) < to_target(best)) best = end;
      if (best == here) break;
      here = best;
    }
    arrived += here == target || to_target(here) == 0;
  }
  return static_cast<double>(arrived) / static_cast<double>(pairs);
}

// Whether the success rate in the stats is what walks made by the test itself come to, as far as the numbers of pairs can tell.
void check_success_rate(const FanngResult& result, const Rows& rows) {
  constexpr std::size_t kPairs = 10000;
  const double claimed = result.stats.success_rate, seen = success_rate(result.graph, rows, kPairs);
  const double variance = seen * (1 - seen) * (1.0 / kPairs + 1.0 / static_cast<double>(result.stats.success_pairs));
  EXPECT_NEAR(claimed, seen, 4 * std::sqrt(variance) + 0.002) << "on " << result.stats.success_pairs << " pairs";
}

void check_stats(const FanngResult& result, const FanngOptions& options) {
  const NeighborStats& stats = result.stats;
  EXPECT_EQ(stats.index, "fanng");
  EXPECT_EQ(stats.kernel, kernels::active().name);
  EXPECT_GT(stats.distance_computations, result.graph.size());
  EXPECT_EQ(stats.recall_target, options.recall_target);
  EXPECT_EQ(stats.recall_sample, std::min(options.recall_sample, result.graph.size()));
  EXPECT_EQ(stats.recall_reached, stats.recall >= options.recall_target);
  if (!stats.recall_reached) {
    EXPECT_THAT(stats.note, HasSubstr("recall"));
  }
  EXPECT_LE(stats.success_bound, stats.success_rate);
  EXPECT_GE(stats.success_pairs, 200U);
  EXPECT_EQ(stats.success_reached, stats.success_bound >= options.success_target);
  std::size_t edges = 0, most = 0;
  for (std::size_t vertex = 0; vertex < result.graph.size(); ++vertex) {
    edges += result.graph.edges(vertex).size();
    most = std::max(most, result.graph.edges(vertex).size());
  }
  EXPECT_NEAR(stats.mean_degree, static_cast<double>(edges) / static_cast<double>(result.graph.size()), 1e-9);
  EXPECT_EQ(stats.max_degree, most);
  EXPECT_GT(stats.peak_memory_bytes, result.lists.all_ids().size() * 8);
  double stages = 0;
  for (const auto& [stage, seconds] : stats.stage_seconds) {
    EXPECT_GE(seconds, 0) << stage;
    stages += seconds;
  }
  EXPECT_GT(stats.seconds, 0);
  EXPECT_NEAR(stages, stats.seconds, 0.05 * stats.seconds + 0.02);
}

// Everything that holds for every result, whatever its start.
void check(const FanngResult& result, const MadeRows& made, const FanngOptions& options) {
  EXPECT_EQ(fault_of(result.lists, made.rows()), "");
  EXPECT_EQ(fault_of(result.graph, made.rows(), options.max_degree), "");
  check_stats(result, options);
  EXPECT_TRUE(result.stats.recall_reached) << result.stats.note;
  EXPECT_TRUE(result.stats.success_reached);
  const double recall = recall_of(result.lists, made.rows(), 500);
  EXPECT_GE(recall, options.recall_target - 0.005);
  EXPECT_NEAR(recall, result.stats.recall, 0.01);
  EXPECT_GE(success_rate(result.graph, made.rows(), 4000), options.success_target - 0.008);
  check_success_rate(result, made.rows());
}

TEST(FanngFromPartition, ReachesItsTargetsOnFewRows) {
  const MadeRows made = clustered_unit_rows(3000, 32, 40);
  const FanngOptions options{.neighbors = 50, .threads = 1};
  check(build_fanng(made.rows(), options), made, options);
}

TEST(FanngFromPartition, ReachesItsTargetsOnManyRows) {
  const MadeRows made = clustered_unit_rows(20000, 64, 200);
  const FanngOptions options{.neighbors = 100, .threads = 1};
  check(build_fanng(made.rows(), options), made, options);
}

TEST(FanngFromPartition, ReachesItsTargetsOnRowsWithoutClusters) {
  MadeRows made = test::clouds_of_rows(8000, 16, 1, 1);
  test::scale_to_unit(made);
  const FanngOptions options{.neighbors = 20, .threads = 1};
  check(build_fanng(made.rows(), options), made, options);
}

TEST(FanngFromPartitionSlow, FindsListsOfALowerRecallInOneSearch) {
  // Thirty of a class, spread less and less from dimension to dimension, as trained embeddings are: an exchange mends little of much here.
  MadeRows made = clustered_unit_rows(100000, 64, 3333);
  for (std::size_t i = 0; i < made.values.size(); ++i) made.values[i] /= std::sqrt(1 + static_cast<float>(i % 64));
  test::scale_to_unit(made);
  std::uint64_t before = 0;
  for (const double recall : {0.8, 0.9, 0.95, 0.98}) {
    SCOPED_TRACE(recall);
    const FanngResult built = build_fanng(made.rows(), {.neighbors = 100, .recall_target = recall, .for_search = false});
    EXPECT_GE(built.stats.recall, recall);
    EXPECT_GT(built.stats.distance_computations, before);  // a search that fell short and was made again would cost more than the next
    before = built.stats.distance_computations;
  }
}

TEST(FanngFromPartition, ReachesAHigherRecallWhenAsked) {
  const MadeRows made = clustered_unit_rows(6000, 48, 60);
  const FanngOptions options{.neighbors = 30, .recall_target = 0.999, .threads = 1};
  check(build_fanng(made.rows(), options), made, options);
}

TEST(FanngFromPartition, KeepsToItsDegreeAndSaysWhatItReached) {
  const MadeRows made = clustered_unit_rows(5000, 32, 50);
  for (const std::uint32_t degree : {4U, 12U}) {
    const FanngOptions options{.neighbors = 20, .max_degree = degree, .threads = 1};
    const FanngResult result = build_fanng(made.rows(), options);
    EXPECT_EQ(fault_of(result.lists, made.rows()), "");
    EXPECT_EQ(fault_of(result.graph, made.rows(), degree), "");
    check_stats(result, options);
    EXPECT_GE(recall_of(result.lists, made.rows(), 300), 0.97);
    check_success_rate(result, made.rows());
  }
}

TEST(FanngFromPartition, TakesAnyNumberOfEdgeCandidates) {
  for (const std::size_t size : {1000, 5000}) {
    const MadeRows made = clustered_unit_rows(size, 24, 50);
    for (const std::uint32_t candidates : {1U, 30U, 700U, 4096U}) {
      const FanngOptions options{.neighbors = 20, .edge_candidates = candidates, .threads = 1};
      const FanngResult result = build_fanng(made.rows(), options);
      EXPECT_EQ(fault_of(result.lists, made.rows()), "");
      EXPECT_EQ(fault_of(result.graph, made.rows(), options.max_degree), "");
      check_stats(result, options);
      EXPECT_TRUE(result.stats.recall_reached);
      check_success_rate(result, made.rows());
    }
  }
}

TEST(FanngFromPartitionSlow, IsCertifiedBeyondThirtyTwoThousandRowsWhenAsked) {
  const MadeRows made = clustered_unit_rows(33000, 16, 300);
  FanngOptions options{.neighbors = 20, .certify = true, .threads = 1};
  check(build_fanng(made.rows(), options), made, options);
  options.certify = false;
  const FanngResult result = build_fanng(made.rows(), options);
  EXPECT_EQ(fault_of(result.lists, made.rows()), "");
  EXPECT_EQ(fault_of(result.graph, made.rows(), options.max_degree), "");
  check_stats(result, options);
  EXPECT_GE(recall_of(result.lists, made.rows(), 300), 0.975);
  check_success_rate(result, made.rows());
}

TEST(FanngFromPartitionSlow, IsTheSameCertifiedAtAnyNumberOfThreads) {
  const MadeRows made = clustered_unit_rows(33000, 16, 300);
  FanngOptions options{.neighbors = 20, .certify = true, .threads = 1};
  const FanngResult one = build_fanng(made.rows(), options);
  options.threads = 3;
  const FanngResult more = build_fanng(made.rows(), options);
  EXPECT_TRUE(equal_lists(one.lists, more.lists));
  EXPECT_TRUE(equal_edges(one.graph, more.graph));
  EXPECT_EQ(one.stats.success_rate, more.stats.success_rate);
}

TEST(Fanng, RandomStartSearchesNoLongerThanTheRecallAsksFor) {
  const MadeRows made = clustered_unit_rows(3000, 16, 20);
  std::uint64_t computed = 0;
  for (const double target : {0.8, 0.95, 0.999}) {
    const FanngOptions options{.neighbors = 40, .recall_target = target, .start = Start::kRandom, .threads = 1};
    const FanngResult result = build_fanng(made.rows(), options);
    EXPECT_GE(result.stats.recall, target);
    EXPECT_LT(result.stats.recall, target + 0.08);
    EXPECT_GT(result.stats.distance_computations, computed) << "as many as for a lower recall";
    computed = result.stats.distance_computations;
  }
}

TEST(FanngFromRandomEdges, IsCertifiedAndFindsTheListsBySearching) {
  const MadeRows made = clustered_unit_rows(2000, 32, 30);
  const FanngOptions options{.neighbors = 20, .start = Start::kRandom, .threads = 1};
  const FanngResult result = build_fanng(made.rows(), options);
  check(result, made, options);
  EXPECT_GE(result.stats.success_bound, 0.98);
  EXPECT_GT(result.stats.edges_added, 2000U);
  EXPECT_GE(result.stats.mean_degree, 8);
  EXPECT_LE(result.stats.mean_degree, 35);
}

TEST(FanngFromRandomEdges, HoldsForOtherTargets) {
  const MadeRows made = clustered_unit_rows(1000, 16, 20);
  for (const double target : {0.5, 0.9, 0.995}) {
    const FanngOptions options{.neighbors = 10, .success_target = target, .start = Start::kRandom, .threads = 1};
    const FanngResult result = build_fanng(made.rows(), options);
    EXPECT_EQ(fault_of(result.lists, made.rows()), "");
    EXPECT_EQ(fault_of(result.graph, made.rows(), options.max_degree), "");
    check_stats(result, options);
    EXPECT_TRUE(result.stats.success_reached) << target;
    check_success_rate(result, made.rows());
  }
}

TEST(FanngFromPrevious, ReachesItsTargetsAfterADrift) {
  for (const std::size_t size : {3000, 8000}) {
    const MadeRows before = clustered_unit_rows(size, 32, 60);
    FanngOptions options{.neighbors = 30, .threads = 1, .refreshable = true};
    FanngResult result = build_fanng(before.rows(), options);
    options.start = Start::kPrevious;
    MadeRows now = before;
    for (int epoch = 0; epoch < 3; ++epoch) {  // each from the one before
      SCOPED_TRACE(fmt::format("{} rows, epoch {}", size, epoch));
      now = test::drifted(now, 0.1, 50 + static_cast<std::uint64_t>(epoch));
      const Fanng previous = std::move(result.graph);
      result = build_fanng(now.rows(), options, &previous);
      check(result, now, options);
    }
  }
}

TEST(FanngFromPrevious, LooksAtLessForListsAloneWhereLittleHasMoved) {
  const MadeRows before = clustered_unit_rows(8000, 32, 60);
  FanngOptions options{.neighbors = 30, .for_search = false, .threads = 1, .refreshable = true};
  const Fanng previous = build_fanng(before.rows(), options).graph;
  options.start = Start::kPrevious;
  const MadeRows little = test::drifted(before, 0.01, 50), much = test::drifted(before, 0.16, 50);
  const FanngResult after_little = build_fanng(little.rows(), options, &previous),
                    after_much = build_fanng(much.rows(), options, &previous);
  for (const auto& [result, now] : {std::pair(&after_little, &little), std::pair(&after_much, &much)}) {
    EXPECT_EQ(result->stats.note, "") << "both from the previous graph";
    EXPECT_EQ(fault_of(result->lists, now->rows()), "");
    EXPECT_TRUE(result->stats.recall_reached);
    EXPECT_GE(recall_of(result->lists, now->rows(), 500), options.recall_target - 0.01);
  }
  EXPECT_LT(after_little.stats.distance_computations, after_much.stats.distance_computations);
  options.threads = 3;
  const FanngResult again = build_fanng(little.rows(), options, &previous);
  EXPECT_TRUE(std::ranges::equal(again.lists.all_ids(), after_little.lists.all_ids()));
  EXPECT_EQ(again.stats.distance_computations, after_little.stats.distance_computations);
}

TEST(FanngFromPrevious, IsNeverSilentlyLowWhenTheRowsAreOthers) {
  const MadeRows before = clustered_unit_rows(5000, 24, 60), now = clustered_unit_rows(5000, 24, 60, 0.4, 77);
  FanngOptions options{.neighbors = 20, .threads = 1, .refreshable = true};
  const Fanng previous = build_fanng(before.rows(), options).graph;
  options.start = Start::kPrevious;
  const FanngResult result = build_fanng(now.rows(), options, &previous);
  EXPECT_EQ(fault_of(result.lists, now.rows()), "");
  EXPECT_EQ(fault_of(result.graph, now.rows(), options.max_degree), "");
  check_stats(result, options);
  EXPECT_NEAR(recall_of(result.lists, now.rows(), 500), result.stats.recall, 0.02);
}

TEST(FanngFromPrevious, KeepsTheOcclusionRuleWhenClustersHaveDriftedApart) {
  // The earlier graph is of no use for these rows, and they fall into groups that are searched on their own: what was prepared in the
  // earlier graph's order must have no part in the edges.
  const MadeRows before = clustered_unit_rows(6000, 16, 40), now = test::clouds_of_rows(6000, 16, 6, 0.02, 77);
  FanngOptions options{.neighbors = 20, .threads = 1, .refreshable = true};
  const Fanng previous = build_fanng(before.rows(), options).graph;
  options.start = Start::kPrevious;
  const FanngResult result = build_fanng(now.rows(), options, &previous);
  EXPECT_THAT(result.stats.note, HasSubstr("built from a partition instead"));
  EXPECT_EQ(fault_of(result.lists, now.rows()), "");
  EXPECT_EQ(fault_of(result.graph, now.rows(), options.max_degree), "");
}

TEST(FanngFromPrevious, StartsFromTheSameRowsToo) {
  const MadeRows made = clustered_unit_rows(5000, 24, 60);
  FanngOptions options{.neighbors = 20, .threads = 1, .refreshable = true};
  const Fanng previous = build_fanng(made.rows(), options).graph;
  options.start = Start::kPrevious;
  check(build_fanng(made.rows(), options, &previous), made, options);
}

TEST(FanngFromPrevious, MeasuresItsSuccessOnPairsThatTheEarlierBuildHasNotMended) {
  // With the same seed and the same order of points the very pairs that the earlier build mended may come up again, and then the rate is
  // flattered.
  constexpr int kSets = 4;
  double excess = 0;
  for (std::uint64_t set = 0; set < kSets; ++set) {
    const MadeRows made = clustered_unit_rows(5000, 24, 60, 0.4, 10 + set);
    FanngOptions options{.neighbors = 20, .certify = true, .threads = 1, .refreshable = true};
    const FanngResult first = build_fanng(made.rows(), options);
    EXPECT_GT(first.stats.edges_added, 500U);
    options.start = Start::kPrevious;
    const FanngResult second = build_fanng(made.rows(), options, &first.graph);
    EXPECT_TRUE(second.stats.success_reached);
    excess += (second.stats.success_rate - success_rate(second.graph, made.rows(), 20000)) / kSets;
  }
  EXPECT_LT(excess, 0.005);
}

TEST(FanngFromPartition, CertifiesWhatHoldsOnOtherPairs) {
  // A rate that is just short of the target and rises slowly: some batch of pairs will be lucky long before it is reached.
  const MadeRows made = clustered_unit_rows(20000, 32, 100, 0.4, 20);
  const FanngResult result = build_fanng(made.rows(), {.neighbors = 20, .certify = true, .edge_candidates = 250, .threads = 2});
  EXPECT_TRUE(result.stats.success_reached);
  EXPECT_GE(success_rate(result.graph, made.rows(), 40000), result.stats.success_target);
}

TEST(FanngFromPrevious, TakesAnyGraphOfTheRightShapeOrSaysWhyNot) {
  const MadeRows made = clustered_unit_rows(4500, 16, 40);
  for (const Start start : {Start::kPartition, Start::kRandom}) {
    FanngOptions options{.neighbors = 10, .start = start, .threads = 1, .refreshable = false};
    const Fanng previous = build_fanng(made.rows(), options).graph;
    options.start = Start::kPrevious;
    try {
      const FanngResult result = build_fanng(made.rows(), options, &previous);
      EXPECT_EQ(fault_of(result.lists, made.rows()), "");
      EXPECT_GE(recall_of(result.lists, made.rows(), 300), 0.97);
    } catch (const InvalidArgument& error) {
      EXPECT_THAT(error.what(), HasSubstr("refresh"));
    }
  }
}

TEST(FanngFromPrevious, TakesLongerListsThanTheGraphWasMadeWith) {
  const MadeRows made = clustered_unit_rows(6000, 16, 40);
  FanngOptions options{.neighbors = 5, .threads = 1, .refreshable = true};
  const Fanng previous = build_fanng(made.rows(), options).graph;
  options.start = Start::kPrevious;
  options.neighbors = 700;
  const FanngResult result = build_fanng(made.rows(), options, &previous);
  EXPECT_EQ(fault_of(result.lists, made.rows()), "");
  EXPECT_EQ(result.stats.recall_reached, result.stats.recall >= 0.98);
  EXPECT_NEAR(recall_of(result.lists, made.rows(), 100), result.stats.recall, 0.02);
}

TEST(FanngFromPrevious, RefusesAGraphOfAnotherShape) {
  const MadeRows made = clustered_unit_rows(500, 8, 10), fewer = clustered_unit_rows(499, 8, 10), wider = clustered_unit_rows(500, 9, 10);
  const Fanng graph = build_fanng(made.rows(), {.neighbors = 5, .threads = 1, .refreshable = true}).graph;
  const FanngOptions options{.neighbors = 5, .start = Start::kPrevious, .threads = 1};
  EXPECT_THAT(message_of<InvalidArgument>([&] { build_fanng(fewer.rows(), options, &graph); }), AllOf(HasSubstr("500"), HasSubstr("499")));
  EXPECT_THAT(message_of<InvalidArgument>([&] { build_fanng(wider.rows(), options, &graph); }), AllOf(HasSubstr("8"), HasSubstr("9")));
  EXPECT_THAT(message_of<InvalidArgument>([&] { build_fanng(made.rows(), options); }), HasSubstr("previous"));
  const Fanng empty;
  EXPECT_THAT(message_of<InvalidArgument>([&] { build_fanng(made.rows(), options, &empty); }), AllOf(HasSubstr("500"), HasSubstr("0")));
}

// One start on rows of one size.
struct Build {
  std::string name;
  Start start;
  std::size_t size;
  friend void PrintTo(const Build& build, std::ostream* out) { *out << build.name; }
};

class FanngBuild : public testing::TestWithParam<Build> {
 protected:
  FanngBuild() : made_(clustered_unit_rows(GetParam().size, 20, 40)) {
    if (GetParam().start == Start::kPrevious) {
      previous_ = build_fanng(made_.rows(), {.neighbors = 20, .threads = 1, .refreshable = true}).graph;
      made_ = test::drifted(made_, 0.1);
    }
  }
  FanngOptions options() const { return {.neighbors = 20, .start = GetParam().start, .threads = 1, .refreshable = true}; }
  FanngResult build(const FanngOptions& options, const Progress& progress = {}) const {
    return build_fanng(made_.rows(), options, GetParam().start == Start::kPrevious ? &previous_ : nullptr, progress);
  }
  MadeRows made_;
  Fanng previous_;
};
INSTANTIATE_TEST_SUITE_P(Every, FanngBuild,
                         testing::Values(Build{"few_from_partition", Start::kPartition, 1500}, Build{"partition", Start::kPartition, 5000},
                                         Build{"random", Start::kRandom, 1200}, Build{"few_from_previous", Start::kPrevious, 1500},
                                         Build{"previous", Start::kPrevious, 5000}),
                         [](const auto& build) { return build.param.name; });

TEST_P(FanngBuild, GivesTheSameListsAndEdgesAtAnyNumberOfThreads) {
  FanngOptions options = this->options();
  const FanngResult one = build(options);
  for (const unsigned threads : {1U, 2U, 3U, 8U}) {
    options.threads = threads;
    const FanngResult more = build(options);
    EXPECT_TRUE(equal_lists(one.lists, more.lists)) << threads;
    EXPECT_TRUE(equal_edges(one.graph, more.graph)) << threads;
    EXPECT_EQ(one.stats.distance_computations, more.stats.distance_computations) << threads;
    EXPECT_EQ(one.stats.recall, more.stats.recall) << threads;
    EXPECT_EQ(one.stats.success_rate, more.stats.success_rate) << threads;
  }
}

// Once each with several threads: little enough work for ThreadSanitizer, which the builds above take too long for.
TEST(FanngThreads, ShareEveryStartWithoutRaces) {
  const MadeRows made = clustered_unit_rows(3000, 20, 40);
  const FanngOptions options{.neighbors = 15, .threads = 3, .refreshable = true};
  const FanngResult built = build_fanng(made.rows(), options);
  check(built, made, options);
  const MadeRows moved = test::drifted(made, 0.1);
  FanngOptions again = options;
  again.start = Start::kPrevious;
  check(build_fanng(moved.rows(), again, &built.graph), moved, again);
  const MadeRows few = clustered_unit_rows(600, 8, 10);
  FanngOptions random = options;
  random.start = Start::kRandom;
  check(build_fanng(few.rows(), random), few, random);
}

TEST_P(FanngBuild, ReachesItsTargetsWithAnotherSeed) {
  FanngOptions options = this->options();
  const FanngResult one = build(options);
  options.seed = 12345;
  const FanngResult other = build(options);
  check(other, made_, options);
  EXPECT_FALSE(equal_edges(one.graph, other.graph)) << "the seed has no part in the graph";
}

TEST_P(FanngBuild, CanBeCancelledInEveryStage) {
  std::set<std::string> stages;
  std::size_t calls = 0;
  build(options(), [&](const ProgressEvent& event) {
    stages.insert(std::string(event.stage));
    EXPECT_FALSE(event.stage.empty());
    EXPECT_TRUE(event.total == 0 || event.done <= event.total) << event.stage << " " << event.done << " of " << event.total;
    ++calls;
    return true;
  });
  EXPECT_GE(stages.size(), 2U);
  for (const std::string& stage : stages) {
    for (const unsigned threads : {1U, 3U}) {
      FanngOptions options = this->options();
      options.threads = threads;
      bool refused = false;  // with several threads a short stage may end before the calling one reports
      const auto refuse = [&](const ProgressEvent& event) { return !(refused = refused || event.stage == stage); };
      try {
        build(options, refuse);
        EXPECT_FALSE(refused) << stage;
      } catch (const Cancelled&) {
        EXPECT_TRUE(refused) << stage;
      }
      EXPECT_TRUE(refused || threads > 1) << stage;
    }
  }
  for (std::size_t last = 0; last < calls; last += 1 + calls / 5) {  // at some moment or other
    std::size_t call = 0;
    EXPECT_THROW(build(options(), [&](const ProgressEvent&) { return call++ < last; }), Cancelled) << last;
  }
}

TEST(FanngOptions, NamesEachBadOptionItsValueAndTheRange) {
  const auto message = [](auto change) {
    FanngOptions options;
    change(options);
    return message_of<InvalidArgument>([&] { options.validate(); });
  };
  EXPECT_NO_THROW(FanngOptions().validate());
  EXPECT_THAT(message([](FanngOptions& o) { o.neighbors = 0; }), AllOf(HasSubstr("neighbors is 0"), HasSubstr("at least 1")));
  for (const double value : {0.0, -0.5, 1.5})
    EXPECT_THAT(message([&](FanngOptions& o) { o.recall_target = value; }),
                AllOf(HasSubstr(fmt::format("recall_target is {}", value)), HasSubstr("1")));
  for (const double value : {0.0, -1.0, 1.0, 7.0})
    EXPECT_THAT(message([&](FanngOptions& o) { o.success_target = value; }),
                AllOf(HasSubstr(fmt::format("success_target is {}", value)), HasSubstr("under 1")));
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(message([&](FanngOptions& o) { o.recall_target = nan; }), HasSubstr("recall_target is nan"));
  EXPECT_THAT(message([&](FanngOptions& o) { o.success_target = nan; }), HasSubstr("success_target is nan"));
  for (const std::uint32_t value : {0U, 3U, 1025U})
    EXPECT_THAT(message([&](FanngOptions& o) { o.max_degree = value; }),
                AllOf(HasSubstr(fmt::format("max_degree is {}", value)), HasSubstr("1024")));
  EXPECT_THAT(message([](FanngOptions& o) { o.edge_candidates = 4097; }), AllOf(HasSubstr("edge_candidates is 4097"), HasSubstr("4096")));
  EXPECT_THAT(message([](FanngOptions& o) { o.recall_sample = 0; }), HasSubstr("recall_sample is 0"));
  EXPECT_NO_THROW((FanngOptions{.recall_target = 1, .max_degree = 1024, .recall_sample = 1}).validate());
}

TEST(FanngOptions, AreLookedAtBeforeTheWork) {
  const MadeRows made = clustered_unit_rows(50, 4, 3);
  EXPECT_THAT(message_of<InvalidArgument>([&] { build_fanng(made.rows(), {.neighbors = 5, .max_degree = 2}); }),
              HasSubstr("max_degree is 2"));
  for (const std::size_t neighbors : {50, 51, 1000})
    for (const Start start : {Start::kPartition, Start::kRandom})
      EXPECT_THAT(message_of<InvalidArgument>([&] { build_fanng(made.rows(), {.neighbors = neighbors, .start = start}); }),
                  AllOf(HasSubstr(fmt::format("neighbors is {}", neighbors)), HasSubstr("50")));
  const MadeRows single{2, {1, 0}};
  EXPECT_THAT(message_of<InvalidArgument>([&] { build_fanng(single.rows(), {.neighbors = 1}); }), HasSubstr("neighbors is 1"));
}

TEST(FanngOptions, NameTheFirstValueThatIsNotFinite) {
  for (const Start start : {Start::kPartition, Start::kRandom}) {
    MadeRows made = clustered_unit_rows(5000, 4, 3);
    made.values[4321 * 4 + 3] = std::numeric_limits<float>::quiet_NaN();
    EXPECT_THAT(message_of<InvalidArgument>([&] { build_fanng(made.rows(), {.neighbors = 5, .start = start}); }),
                AllOf(HasSubstr("NaN"), HasSubstr("row 4321"), HasSubstr("column 3")));
    made.values[4321 * 4 + 3] = 1e30F;
    EXPECT_THAT(message_of<InvalidArgument>([&] { build_fanng(made.rows(), {.neighbors = 5, .start = start}); }), HasSubstr("row 4321"));
  }
}

}  // namespace
}  // namespace smartmine
