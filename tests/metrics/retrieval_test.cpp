#include "smartmine/metrics/retrieval.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <mutex>
#include <vector>

#include "graph/together.h"
#include "metrics/points.h"
#include "smartmine/core/error.h"
#include "smartmine/graph/exact_knn.h"

namespace smartmine {
namespace {

using test::message_of;
using test::Points;
using testing::HasSubstr;

struct Expected {
  std::vector<double> recall;
  double map_at_r = 0;
  double r_precision = 0;
  std::size_t alone = 0;
};

// By the definitions, with every list in full.
Expected brute_force(const Points& points, const std::vector<std::int64_t>& labels, const std::vector<std::size_t>& recall_at) {
  Expected expected{std::vector<double>(recall_at.size()), 0, 0, 0};
  const std::size_t size = labels.size();
  for (std::size_t query = 0; query < size; ++query) {
    std::vector<std::pair<double, std::size_t>> order;
    for (std::size_t other = 0; other < size; ++other)
      if (other != query) order.emplace_back(test::squared_distance(points.rows()[query], points.rows()[other], points.dimension), other);
    std::sort(order.begin(), order.end());
    std::vector<bool> relevant;
    for (const auto& entry : order) relevant.push_back(labels[entry.second] == labels[query]);
    for (std::size_t i = 0; i < recall_at.size(); ++i) {
      bool hit = false;
      for (std::size_t place = 0; place < std::min(recall_at[i], relevant.size()); ++place) hit = hit || relevant[place];
      expected.recall[i] += hit ? 1.0 / static_cast<double>(size) : 0.0;
    }
    const auto positives = static_cast<std::size_t>(std::count(relevant.begin(), relevant.end(), true));
    if (positives == 0) {
      ++expected.alone;
      continue;
    }
    double precisions = 0, found = 0;
    for (std::size_t place = 0; place < positives; ++place)
      if (relevant[place]) precisions += ++found / static_cast<double>(place + 1);
    expected.map_at_r += precisions / static_cast<double>(positives);
    expected.r_precision += found / static_cast<double>(positives);
  }
  expected.map_at_r /= static_cast<double>(size - expected.alone);
  expected.r_precision /= static_cast<double>(size - expected.alone);
  return expected;
}

void expect_same(const RetrievalResult& result, const Expected& expected) {
  ASSERT_EQ(result.recall.size(), expected.recall.size());
  for (std::size_t i = 0; i < expected.recall.size(); ++i) EXPECT_NEAR(result.recall[i], expected.recall[i], 1e-12) << i;
  EXPECT_NEAR(result.map_at_r, expected.map_at_r, 1e-12);
  EXPECT_NEAR(result.r_precision, expected.r_precision, 1e-12);
  EXPECT_EQ(result.stats.queries_without_positive, expected.alone);
}

// Classes from one member to `largest`, by a random draw that favours small ones.
std::vector<std::int64_t> uneven_labels(std::size_t size, std::size_t largest) {
  std::vector<std::int64_t> labels(size, -5);
  Random random(11);
  for (std::size_t i = largest; i < size;) {
    const std::size_t members = 1 + random.below(random.below(40) + 1);
    const auto label = static_cast<std::int64_t>(random.bits() >> 1);
    for (std::size_t m = 0; m < members && i < size; ++m) labels[i++] = label;
  }
  shuffle(labels, random);
  return labels;
}

TEST(Retrieval, GivesTheValuesWorkedByHand) {
  // On a line. Neighbours of each, nearest first (* is of the class):
  //   0 (A, R = 2): 1* 2 3 4*    average precision (1/1) / 2       R-precision 1/2
  //   1 (A, R = 2): 2 0* 3 4*    (1/2) / 2                         1/2
  //   2 (B, R = 1): 1 0 3* 4     0                                 0
  //   3 (B, R = 1): 2* 1 0 4     1                                 1
  //   4 (A, R = 2): 3 2 1* 0*    0                                 0
  const Points points{{0, 1, 1.5, 7, 15}, 1};
  const std::vector<std::int64_t> labels{1, 1, 2, 2, 1};
  const RetrievalResult result = measure_retrieval(points.rows(), labels);
  EXPECT_THAT(result.recall,
              testing::ElementsAre(testing::DoubleEq(0.4), testing::DoubleEq(0.6), testing::DoubleEq(1), testing::DoubleEq(1)));
  EXPECT_DOUBLE_EQ(result.map_at_r, (0.5 + 0.25 + 0 + 1 + 0) / 5);
  EXPECT_DOUBLE_EQ(result.r_precision, (0.5 + 0.5 + 0 + 1 + 0) / 5);
  EXPECT_EQ(result.stats.queries, 5U);
  EXPECT_EQ(result.stats.classes, 2U);
  EXPECT_EQ(result.stats.queries_without_positive, 0U);
}

TEST(Retrieval, AgreesWithBruteForceOnClassesOfAllSizes) {
  const std::vector<std::size_t> recall_at{1, 2, 4, 8, 30};
  for (const std::size_t size : {std::size_t{17}, std::size_t{300}, std::size_t{1100}}) {
    for (const std::size_t largest : {std::size_t{0}, size / 3, size - 4}) {
      SCOPED_TRACE(testing::Message() << size << " points, the largest class of " << largest);
      Points points = test::grouped_points(size, 7, 25, 0.5);
      for (float& value : points.values) value = std::round(value * 64) / 64;  // squared distances are then exact, at every kernel level
      const std::vector<std::int64_t> labels = uneven_labels(size, largest);
      expect_same(measure_retrieval(points.rows(), labels, {.recall_at = recall_at}), brute_force(points, labels, recall_at));
    }
  }
}

TEST(Retrieval, BreaksTiesByIdAsBruteForceDoes) {
  const std::vector<std::size_t> recall_at{1, 2, 3, 4, 5, 6, 7, 8};
  for (const std::uint64_t steps : {2U, 3U, 6U}) {
    SCOPED_TRACE(steps);
    const Points points = test::lattice_points(900, 3, steps);
    for (const std::size_t largest : {std::size_t{0}, std::size_t{400}}) {
      const std::vector<std::int64_t> labels = uneven_labels(900, largest);
      expect_same(measure_retrieval(points.rows(), labels, {.recall_at = recall_at}), brute_force(points, labels, recall_at));
    }
  }
}

TEST(Retrieval, LeavesTheQueryOutByItsIndexNotByItsPlace) {
  // All the same: the nearest other of every row is row 0, of row 0 it is row 1.
  const Points points{std::vector<float>(400 * 3, 0.5F), 3};
  std::vector<std::int64_t> labels(400);
  for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<std::int64_t>(i % 2);
  for (const bool precision : {false, true})
    EXPECT_DOUBLE_EQ(measure_retrieval(points.rows(), labels, {.recall_at = {1}, .precision = precision}).recall[0], 199.0 / 400);
}

TEST(Retrieval, CountsRowsAloneInTheirClassAsMissesOfRecallAndLeavesThemOutOfTheRest) {
  const Points points{{0, 1, 10, 11, 100, 200}, 1};
  const std::vector<std::int64_t> labels{1, 1, 2, 2, 3, 4};
  const RetrievalResult result = measure_retrieval(points.rows(), labels);
  for (const double recall : result.recall) EXPECT_DOUBLE_EQ(recall, 4.0 / 6);
  EXPECT_DOUBLE_EQ(result.map_at_r, 1);
  EXPECT_DOUBLE_EQ(result.r_precision, 1);
  EXPECT_EQ(result.stats.queries_without_positive, 2U);
}

TEST(Retrieval, TakesAllOtherRowsIfThereAreFewerThanK) {
  const Points points{{0, 1, 10}, 1};
  const std::vector<std::int64_t> labels{1, 2, 1};
  const RetrievalResult result = measure_retrieval(points.rows(), labels, {.recall_at = {1, 2, 50}});
  EXPECT_THAT(result.recall, testing::ElementsAre(0.0, testing::DoubleEq(2.0 / 3), testing::DoubleEq(2.0 / 3)));
}

TEST(Retrieval, WithoutPrecisionLooksAtShortListsOnlyAndGivesTheSameRecall) {
  const Points points = test::grouped_points(2000, 8, 10, 1.0);
  std::vector<std::int64_t> labels;
  for (std::size_t i = 0; i < points.size(); ++i) labels.push_back(static_cast<std::int64_t>(i % 10));
  const RetrievalResult all = measure_retrieval(points.rows(), labels);
  const RetrievalResult some = measure_retrieval(points.rows(), labels, {.precision = false});
  EXPECT_EQ(all.recall, some.recall);
  EXPECT_GT(some.recall[0], 0.1);
  EXPECT_LT(some.recall[0], 1.0);
  EXPECT_TRUE(std::isnan(some.map_at_r));
  EXPECT_TRUE(std::isnan(some.r_precision));
  EXPECT_EQ(all.stats.longest_list, 199U);
  EXPECT_EQ(some.stats.longest_list, 8U);
}

TEST(Retrieval, GivesTheSameBitsAtAnyNumberOfThreads) {
  const Points points = test::grouped_points(1500, 9, 30, 0.8);
  const std::vector<std::int64_t> labels = uneven_labels(1500, 500);
  const RetrievalResult one = measure_retrieval(points.rows(), labels, {.threads = 1});
  for (const unsigned threads : {2U, 3U, 8U}) {
    const RetrievalResult result = measure_retrieval(points.rows(), labels, {.threads = threads});
    EXPECT_EQ(result.recall, one.recall);
    EXPECT_EQ(result.map_at_r, one.map_at_r);
    EXPECT_EQ(result.r_precision, one.r_precision);
  }
}

void expect_same_bits(const RetrievalResult& one, const RetrievalResult& other) {
  EXPECT_EQ(one.recall, other.recall);
  EXPECT_EQ(one.map_at_r, other.map_at_r);
  EXPECT_EQ(one.r_precision, other.r_precision);
  EXPECT_EQ(one.stats.queries_without_positive, other.stats.queries_without_positive);
  EXPECT_EQ(one.stats.longest_list, other.stats.longest_list);
  EXPECT_EQ(one.stats.distance_computations, other.stats.distance_computations);
}

TEST(Retrieval, GivesTheSameBitsByATeamOfAnySize) {
  const Points points = test::grouped_points(1500, 9, 30, 0.8), few = test::grouped_points(3, 9, 3, 0.8);
  const std::vector<std::int64_t> labels = uneven_labels(1500, 500), of_few(labels.end() - 3, labels.end());
  for (const bool gpu : {false, true}) {  // the first one's alone, where there is one
    const RetrievalResult alone = measure_retrieval(points.rows(), labels, {.threads = 2, .gpu = gpu});
    const RetrievalResult apart = measure_retrieval(few.rows(), of_few, points.rows(), labels, {.threads = 2, .gpu = gpu});
    for (const std::size_t size : {1U, 2U, 3U, 5U}) {  // 5: more than there are queries apart
      test::Together together(size);
      std::size_t done = 0;
      std::mutex mutex;
      const auto results = together.run([&](const Team* team) {
        std::size_t own = 0;
        RetrievalResult result = measure_retrieval(points.rows(), labels, {.threads = 1, .team = team, .gpu = gpu},
                                                   [&](const ProgressEvent& event) { return own = event.total, true; });
        const std::lock_guard lock(mutex);
        done += own;
        return result;
      });
      for (const auto& result : results) expect_same_bits(alone, *result);
      EXPECT_EQ(done, points.size()) << "each query is for one";
      for (const auto& result : together.run([&](const Team* team) {
             return measure_retrieval(few.rows(), of_few, points.rows(), labels, {.threads = 1, .team = team, .gpu = gpu});
           }))
        expect_same_bits(apart, *result);
    }
  }
}

TEST(Retrieval, SplitsManyQueriesIntoPiecesWithoutChangingTheResult) {
  // The lists of all rows do not fit into one piece. Rows stand on a line, class after class, so the answers are known.
  constexpr std::size_t kClass = 1200, kSize = 20 * kClass;
  Points points{std::vector<float>(kSize), 1};
  std::vector<std::int64_t> labels(kSize);
  double inside = 0;
  for (std::size_t i = 0; i < kSize; ++i) {
    points.values[i] = static_cast<float>(i);
    labels[i] = static_cast<std::int64_t>(i / kClass);
    // The R = 1199 nearest of row i: 599 on both sides and one of the two next, the lower id; near the ends of the line, whatever there is.
    std::size_t first = i >= 600 ? i - 600 : 0;
    if (first + kClass > kSize) first = kSize - kClass;
    const std::size_t block = i / kClass * kClass;
    const std::size_t both = std::min(first, block) + kClass - std::max(first, block);
    inside += static_cast<double>(both - 1) / (kClass - 1);
  }
  const RetrievalResult result = measure_retrieval(points.rows(), labels, {.threads = 2});
  EXPECT_NEAR(result.r_precision, inside / kSize, 1e-9);
  EXPECT_DOUBLE_EQ(result.recall[1], 1);
}

TEST(Retrieval, RefusesBadInputAndSaysWhat) {
  const Points points{{0, 1, 2, 3}, 1};
  const auto told = [&](const std::vector<std::int64_t>& labels, const RetrievalOptions& options = {}) {
    return message_of([&] { measure_retrieval(points.rows(), labels, options); });
  };
  EXPECT_THAT(told({1, 1, 2}), HasSubstr("3 labels but 4 embeddings"));
  EXPECT_THAT(told({}), HasSubstr("0 labels but 4 embeddings"));
  EXPECT_THAT(told({7, 7, 7, 7}), HasSubstr("one class only (7 for all 4 points)"));
  EXPECT_THAT(told({1, 2, 3, 4}), HasSubstr("each of the 4 classes has one member only"));
  EXPECT_THAT(told({1, 1, 2, 2}, {.recall_at = {0, 1}}), HasSubstr("recall_at has 0"));
  EXPECT_THAT(told({1, 1, 2, 2}, {.recall_at = {2, 2}}), HasSubstr("recall_at has 2 behind 2"));
  EXPECT_THAT(told({1, 1, 2, 2}, {.recall_at = {}, .precision = false}), HasSubstr("nothing to measure"));
  const Points one{{4}, 1};
  const std::vector<std::int64_t> label{1};
  EXPECT_THAT(message_of([&] { measure_retrieval(one.rows(), label); }), HasSubstr("only 1 embedding"));
  Points bad = points;
  bad.values[2] = std::numeric_limits<float>::quiet_NaN();
  const std::vector<std::int64_t> labels{1, 1, 2, 2};
  EXPECT_THAT(message_of([&] { measure_retrieval(bad.rows(), labels); }), HasSubstr("NaN at row 2, column 0"));
}

TEST(Retrieval, CanBeCancelledAndReportsAllQueries) {
  const Points points = test::grouped_points(3000, 8, 10, 1.0);
  const std::vector<std::int64_t> labels = uneven_labels(3000, 1000);
  std::size_t most = 0;
  measure_retrieval(points.rows(), labels, {.threads = 1}, [&](const ProgressEvent& event) {
    EXPECT_EQ(event.stage, "retrieval");
    EXPECT_EQ(event.total, 3000U);
    EXPECT_GE(event.done, most);
    most = event.done;
    return true;
  });
  EXPECT_EQ(most, 3000U);
  EXPECT_THROW(measure_retrieval(points.rows(), labels, {}, [](const ProgressEvent&) { return false; }), Cancelled);
}

TEST(Retrieval, LooksForNeighboursOnADeviceAndGoesOnWithoutOneThatFails) {
  const Points points = test::lattice_points(60, 3, 9);
  std::vector<std::int64_t> labels(60);
  for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<std::int64_t>(i % 7);
  const Expected expected = brute_force(points, labels, {1, 2, 4, 8});
  int calls = 0;
  const auto measured_by = [&](bool fails) {
    RetrievalOptions options{.threads = 1};
    options.device = [&calls, fails](const Rows& rows, RowRange, std::size_t neighbors, const ListMaker&, const Progress&) {
      ++calls;
      if (fails) throw Error("the GPU has too little free memory: 9 MiB more were needed");
      return ExactKnn({.neighbors = neighbors, .threads = 1}).neighbors(rows);
    };
    return measure_retrieval(points.rows(), labels, options);
  };
  const RetrievalResult by_device = measured_by(false), without = measured_by(true);
  EXPECT_EQ(calls, 2);
  expect_same(by_device, expected);
  expect_same(without, expected);
  EXPECT_EQ(by_device.stats.note, "");
  EXPECT_THAT(without.stats.note, HasSubstr("9 MiB more"));
}

TEST(Retrieval, SearchesAGalleryApartFromTheQueries) {
  const Points all = test::lattice_points(230, 3, 6);
  std::vector<std::int64_t> labels = uneven_labels(230, 30);
  labels[0] = 987654;  // a query whose class the gallery has not
  constexpr std::size_t kQueries = 70;
  const Rows queries(all.values.data(), kQueries, all.dimension);
  const Rows gallery(all.values.data() + kQueries * all.dimension, 230 - kQueries, all.dimension);
  const std::span<const std::int64_t> both(labels);
  const std::vector<std::size_t> ranks = {1, 3, 50, 1000};
  Expected expected{std::vector<double>(ranks.size()), 0, 0, 0};
  for (std::size_t query = 0; query < kQueries; ++query) {
    std::vector<std::pair<double, std::size_t>> order;
    for (std::size_t row = kQueries; row < 230; ++row)
      order.emplace_back(test::squared_distance(all.rows()[query], all.rows()[row], all.dimension), row);
    std::sort(order.begin(), order.end());
    std::size_t positives = 0, first = 1000000;
    for (std::size_t place = 0; place < order.size(); ++place)
      if (labels[order[place].second] == labels[query]) {
        ++positives;
        first = std::min(first, place);
      }
    for (std::size_t i = 0; i < ranks.size(); ++i) expected.recall[i] += first < ranks[i] ? 1.0 / kQueries : 0.0;
    if (positives == 0) {
      ++expected.alone;
      continue;
    }
    double found = 0, precisions = 0;
    for (std::size_t place = 0; place < positives; ++place)
      if (labels[order[place].second] == labels[query]) precisions += ++found / static_cast<double>(place + 1);
    expected.map_at_r += precisions / static_cast<double>(positives);
    expected.r_precision += found / static_cast<double>(positives);
  }
  const auto answerable = static_cast<double>(kQueries - expected.alone);
  expected.map_at_r /= answerable;
  expected.r_precision /= answerable;
  EXPECT_GT(expected.alone, 0U);
  const RetrievalResult result =
      measure_retrieval(queries, both.first(kQueries), gallery, both.subspan(kQueries), {.recall_at = ranks, .threads = 2});
  expect_same(result, expected);
  EXPECT_EQ(result.stats.queries, kQueries);
}

TEST(Retrieval, RefusesAGalleryThatDoesNotFit) {
  const Points points = test::lattice_points(6, 2, 9), wide = test::lattice_points(6, 3, 9);
  const std::vector<std::int64_t> labels = {1, 1, 2, 2, 3, 3}, others = {4, 4, 5, 5, 6, 6};
  EXPECT_THAT(message_of([&] { measure_retrieval(points.rows(), labels, wide.rows(), labels); }),
              HasSubstr("queries are of dimension 2 and the gallery of 3"));
  EXPECT_THAT(message_of([&] { measure_retrieval(points.rows(), labels, points.rows(), std::span(labels).first(4)); }),
              HasSubstr("gallery has 4 labels but 6 embeddings"));
  EXPECT_THAT(message_of([&] { measure_retrieval(points.rows(), labels, points.rows(), others); }), HasSubstr("no answer could be right"));
}

}  // namespace
}  // namespace smartmine
