#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "files.h"
#include "program.h"

namespace smartmine::test {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr const char* kMetrics[] = {"recall@1", "recall@2", "recall@4", "recall@8", "nmi", "nmi_geometric", "map@r", "r_precision"};

class Eval : public ::testing::Test {
 protected:
  static constexpr std::size_t kRows = 900;
  static constexpr std::size_t kDimension = 12;

  Eval() : values_(clustered_rows(kRows, kDimension)) {
    // clustered_rows has kRows / 20 + 1 = 46 clusters; three of them make a class, and the first row is a class of its own.
    for (std::size_t i = 0; i < kRows; ++i) labels_.push_back(static_cast<std::int64_t>(i % 46 / 3));
    labels_[0] = -7;
    write_matrix(folder_ / "x.npy", values_, kRows, kDimension);
    write_int64(folder_ / "y.npy", labels_);
  }

  Outcome run(const std::vector<std::string>& more = {}, const Surroundings& surroundings = {}) {
    std::vector<std::string> arguments = {"eval", "--embeddings", folder_ / "x.npy", "--labels", folder_ / "y.npy"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return smartmine(arguments, surroundings);
  }

  void expect_failure(int status, const std::vector<std::string>& parts, const std::vector<std::string>& more = {}) {
    const Outcome outcome = run(more);
    EXPECT_EQ(outcome.status, status) << outcome.err;
    EXPECT_THAT(outcome.err, StartsWith("smartmine: "));
    for (const std::string& part : parts) EXPECT_THAT(outcome.err, HasSubstr(part));
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
    EXPECT_EQ(outcome.out, "");
  }

  TemporaryFolder folder_;
  std::vector<float> values_;
  std::vector<std::int64_t> labels_;
};

// recall@k of the rows by their definition.
double brute_force_recall(const std::vector<float>& values, std::size_t dimension, const std::vector<std::int64_t>& labels, std::size_t k) {
  std::size_t hits = 0;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    std::vector<std::pair<double, std::size_t>> others;
    for (std::size_t j = 0; j < labels.size(); ++j) {
      if (j == i) continue;
      double sum = 0;
      for (std::size_t t = 0; t < dimension; ++t) {
        const double difference = static_cast<double>(values[i * dimension + t]) - static_cast<double>(values[j * dimension + t]);
        sum += difference * difference;
      }
      others.emplace_back(sum, j);
    }
    std::sort(others.begin(), others.end());
    for (std::size_t place = 0; place < k; ++place)
      if (labels[others[place].second] == labels[i]) {
        ++hits;
        break;
      }
  }
  return static_cast<double>(hits) / static_cast<double>(labels.size());
}

TEST_F(Eval, PrintsOneJsonObjectWithTheNamesOfTheContract) {
  const Outcome outcome = run({"--json", "--threads", "2"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(std::count(outcome.out.begin(), outcome.out.end(), '\n'), 1);
  const json object = json::parse(outcome.out);
  for (const char* name : kMetrics) {
    ASSERT_TRUE(object.contains(name) && object[name].is_number()) << name;
    EXPECT_GT(object[name], 0) << name;
    EXPECT_LT(object[name], 1) << name;
  }
  for (const auto& [name, value] : object.items()) EXPECT_EQ(value.is_primitive(), name != "stage_seconds") << name;
  EXPECT_EQ(object.at("size"), kRows);
  EXPECT_EQ(object.at("dimension"), kDimension);
  EXPECT_EQ(object.at("classes"), 17);
  EXPECT_EQ(object.at("clusters"), 17);
  EXPECT_EQ(object.at("restarts"), 5);
  EXPECT_EQ(object.at("threads"), 2);
  EXPECT_EQ(object.at("unit_norm"), true);
  EXPECT_EQ(object.at("queries_without_positive"), 1);
  EXPECT_THAT(object.at("note"), HasSubstr("1 of 900 rows are alone in their class"));
  EXPECT_THAT(outcome.err, HasSubstr("1 of 900 rows are alone in their class"));
}

TEST_F(Eval, AgreesWithBruteForceRecall) {
  const json object = json::parse(run({"--json"}).out);
  for (const std::size_t k : {1U, 2U, 4U, 8U})
    EXPECT_NEAR(object.at("recall@" + std::to_string(k)).get<double>(), brute_force_recall(values_, kDimension, labels_, k), 1e-12) << k;
}

TEST_F(Eval, PrintsATableForPeople) {
  const Outcome outcome = run();
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  for (const char* part : {"900 of dimension 12, 17 classes", "recall@1 ", "recall@2 ", "recall@4 ", "recall@8 ", "NMI, arithmetic",
                           "NMI, geometric", "MAP@R", "R-precision", " %"})
    EXPECT_THAT(outcome.out, HasSubstr(part));
}

TEST_F(Eval, PrintsOnlyWarningsWhenQuiet) {
  labels_[0] = 0;
  write_int64(folder_ / "y.npy", labels_);
  const Outcome outcome = run({"--quiet"});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(outcome.err, "");
}

TEST_F(Eval, LeavesOutWhatIsNotWanted) {
  const json all = json::parse(run({"--json"}).out);
  const json some = json::parse(run({"--json", "--no-nmi", "--no-map"}).out);
  for (const char* name : {"recall@1", "recall@2", "recall@4", "recall@8"}) EXPECT_EQ(some.at(name), all.at(name));
  for (const char* name : {"nmi", "nmi_geometric", "map@r", "r_precision"}) EXPECT_TRUE(some.at(name).is_null()) << name;
  for (const auto& [name, value] : all.items()) EXPECT_TRUE(some.contains(name)) << name;
  EXPECT_THAT(run({"--no-nmi"}).out, ::testing::Not(HasSubstr("NMI")));
  EXPECT_THAT(run({"--no-map"}).out, ::testing::Not(HasSubstr("MAP@R")));
}

TEST_F(Eval, GivesTheSameNumbersAtAnyNumberOfThreadsAndOthersForAnotherSeed) {
  const json one = json::parse(run({"--json", "--threads", "1", "--clusters", folder_ / "c1.npy"}).out);
  const json four = json::parse(run({"--json", "--threads", "4", "--clusters", folder_ / "c4.npy"}).out);
  for (const char* name : kMetrics) EXPECT_EQ(one.at(name), four.at(name)) << name;
  EXPECT_EQ(read_text(folder_ / "c1.npy"), read_text(folder_ / "c4.npy"));
  const json other = json::parse(run({"--json", "--seed", "2", "--restarts", "1"}).out);
  EXPECT_NE(one.at("inertia"), other.at("inertia"));
  EXPECT_EQ(other.at("restarts"), 1);
  EXPECT_EQ(one.at("map@r"), other.at("map@r"));
}

TEST_F(Eval, RunsAtEveryKernelLevelTheMachineHas) {
  const json usual = json::parse(run({"--json"}).out);
  std::size_t ran = 0;
  for (const std::string level : {"portable", "avx2", "avx512", "avx512vnni", "avx512amx"}) {
    SCOPED_TRACE(level);
    const Outcome outcome = run({"--json"}, {.environment = {{"SMARTMINE_KERNEL", level}}, .out = {}});
    if (outcome.status != 0) {  // only because this machine lacks the instructions
      EXPECT_THAT(outcome.err, HasSubstr(level));
      continue;
    }
    ++ran;
    const json object = json::parse(outcome.out);
    for (const char* name : {"recall@1", "recall@8", "map@r", "r_precision"})
      EXPECT_NEAR(object.at(name).get<double>(), usual.at(name).get<double>(), 1e-3) << name;
    EXPECT_NEAR(object.at("nmi").get<double>(), usual.at("nmi").get<double>(), 0.05);  // other last bits may lead to another start
  }
  EXPECT_GE(ran, 1U);
}

TEST_F(Eval, AgreesWithScikitLearnOnTheSameClustering) {
  const std::string script =
      "import sys, json, numpy\n"
      "from sklearn.metrics import normalized_mutual_info_score as nmi\n"
      "y, c = numpy.load(sys.argv[1]), numpy.load(sys.argv[2])\n"
      "print(json.dumps([nmi(y, c, average_method=m) for m in ('arithmetic', 'geometric')]))\n";
  const json object = json::parse(run({"--json", "--clusters", folder_ / "c.npy"}).out);
  // The system's Python has the distribution's packages; another one may stand before it in the path.
  for (const char* python : {"python3", "/usr/bin/python3"}) {
    if (Process({python, "-c", "import sklearn, numpy"}).wait().status != 0) continue;
    const Outcome outcome = Process({python, "-c", script, folder_ / "y.npy", folder_ / "c.npy"}).wait();
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    const json expected = json::parse(outcome.out);
    EXPECT_NEAR(object.at("nmi").get<double>(), expected[0].get<double>(), 1e-10);
    EXPECT_NEAR(object.at("nmi_geometric").get<double>(), expected[1].get<double>(), 1e-10);
    return;
  }
  GTEST_SKIP() << "python3-sklearn is not installed";
}

TEST_F(Eval, TakesIdenticalRowsAndSaysThatThereAreFewerClusters) {
  write_matrix(folder_ / "x.npy", std::vector<float>(kRows * kDimension, 0.5F), kRows, kDimension);
  const Outcome outcome = run({"--json"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  const json object = json::parse(outcome.out);
  EXPECT_EQ(object.at("clusters"), 1);
  EXPECT_EQ(object.at("nmi"), 0);
  EXPECT_EQ(object.at("unit_norm"), false);
  EXPECT_THAT(object.at("note"), HasSubstr("only 1 distinct rows for 17 classes"));
}

TEST_F(Eval, SearchesAGalleryApartAtAnyK) {
  constexpr std::size_t kQueries = 200;
  const std::size_t cut = kQueries * kDimension;
  write_matrix(folder_ / "q.npy", {values_.begin(), values_.begin() + cut}, kQueries, kDimension);
  write_matrix(folder_ / "g.npy", {values_.begin() + cut, values_.end()}, kRows - kQueries, kDimension);
  write_int64(folder_ / "ql.npy", {labels_.begin(), labels_.begin() + kQueries});
  write_int64(folder_ / "gl.npy", {labels_.begin() + kQueries, labels_.end()});
  const std::vector<std::string> apart = {"eval",      "--embeddings",    folder_ / "q.npy",  "--labels",        folder_ / "ql.npy",
                                          "--gallery", folder_ / "g.npy", "--gallery-labels", folder_ / "gl.npy"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), apart.begin(), apart.end());
    return smartmine(more);
  };
  const Outcome outcome = with({"--recall-at", "1,5,100", "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const json object = json::parse(outcome.out);
  EXPECT_EQ(object.at("gallery_size"), kRows - kQueries);
  EXPECT_EQ(object.at("queries_without_positive"), 1);
  EXPECT_FALSE(object.contains("recall@2"));
  for (const std::size_t k : {1U, 5U, 100U}) {
    std::size_t hits = 0;
    for (std::size_t q = 0; q < kQueries; ++q) {
      std::vector<std::pair<float, std::size_t>> order;
      for (std::size_t g = kQueries; g < kRows; ++g) {
        float sum = 0;
        for (std::size_t j = 0; j < kDimension; ++j) {
          const float difference = values_[q * kDimension + j] - values_[g * kDimension + j];
          sum += difference * difference;
        }
        order.emplace_back(sum, g);
      }
      std::sort(order.begin(), order.end());
      hits += std::any_of(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(k),
                          [&](const auto& one) { return labels_[one.second] == labels_[q]; });
    }
    EXPECT_DOUBLE_EQ(object.at(fmt::format("recall@{}", k)).get<double>(), static_cast<double>(hits) / kQueries) << k;
  }
  EXPECT_THAT(with({}).out, HasSubstr("700 points; every point above is a query in it"));
  EXPECT_THAT(with({"--recall-at", "5,1"}).err, HasSubstr("--recall-at is '5,1'; it must be ascending whole numbers"));
  EXPECT_EQ(smartmine({"eval", "--embeddings", folder_ / "q.npy", "--labels", folder_ / "ql.npy", "--gallery", folder_ / "g.npy"}).status,
            2);
  write_matrix(folder_ / "g.npy", std::vector<float>(6), 3, 2);
  write_int64(folder_ / "gl.npy", {1, 2, 3});
  EXPECT_THAT(with({}).err, HasSubstr("g.npy: of dimension 2, but"));
}

TEST_F(Eval, RefusesLabelsThatDoNotFit) {
  labels_.pop_back();
  write_int64(folder_ / "y.npy", labels_);
  expect_failure(1, {"y.npy", "899 labels", "x.npy", "900 rows"});
  write_int64(folder_ / "y.npy", std::vector<std::int64_t>(kRows, 3));
  expect_failure(1, {"y.npy", "one class only (3 for all 900 points)"});
  for (std::size_t i = 0; i < labels_.size(); ++i) labels_[i] = static_cast<std::int64_t>(i);
  labels_.push_back(-1);
  write_int64(folder_ / "y.npy", labels_);
  expect_failure(1, {"y.npy", "each of the 900 classes has one member only"});
}

TEST_F(Eval, RefusesOneRowAndValuesThatAreNotFinite) {
  values_[5 * kDimension + 3] = std::numeric_limits<float>::quiet_NaN();
  write_matrix(folder_ / "x.npy", values_, kRows, kDimension);
  expect_failure(1, {"x.npy", "NaN at row 5, column 3"});
  write_matrix(folder_ / "x.npy", {1, 2}, 1, 2);
  write_int64(folder_ / "y.npy", {1});
  expect_failure(1, {"x.npy", "only 1 row"});
}

TEST_F(Eval, RefusesFilesThatAreNotThereAndOptionsThatContradictEachOther) {
  expect_failure(2, {"--restarts"}, {"--restarts", "0"});
  expect_failure(2, {"--restarts", "--no-nmi"}, {"--restarts", "3", "--no-nmi"});
  expect_failure(2, {"--clusters", "--no-nmi"}, {"--clusters", folder_ / "c.npy", "--no-nmi"});
  expect_failure(2, {"x.npy"}, {"--clusters", folder_ / "x.npy"});
  expect_failure(1, {"c.npy"}, {"--clusters", folder_ / "nowhere/c.npy"});
  EXPECT_EQ(smartmine({"eval", "--labels", folder_ / "y.npy"}).status, 2);
  EXPECT_EQ(smartmine({"eval", "--embeddings", folder_ / "x.npy"}).status, 2);
  std::filesystem::remove(folder_ / "y.npy");
  expect_failure(1, {"y.npy"});
}

}  // namespace
}  // namespace smartmine::test
