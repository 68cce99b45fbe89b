#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "files.h"
#include "program.h"

namespace smartmine::test {
namespace {

using nlohmann::json;
using ::testing::AnyOf;
using ::testing::HasSubstr;

double squared_distance(const std::vector<float>& values, std::size_t dimension, std::size_t a, std::size_t b) {
  double sum = 0;
  for (std::size_t j = 0; j < dimension; ++j) {
    const double difference = static_cast<double>(values[a * dimension + j]) - static_cast<double>(values[b * dimension + j]);
    sum += difference * difference;
  }
  return sum;
}

// Whether the files hold well-formed lists; returns the share of entries no farther than the true k-th neighbour.
double checked_recall(const std::string& prefix, const std::vector<float>& values, std::size_t rows, std::size_t dimension, std::size_t k) {
  const auto ids = read_int32(prefix + ".ids.npy");
  const auto distances = read_float32(prefix + ".distances.npy");
  EXPECT_EQ(ids.rows, rows);
  EXPECT_EQ(ids.columns, k);
  EXPECT_EQ(distances.rows, rows);
  EXPECT_EQ(distances.columns, k);
  std::size_t found = 0;
  for (std::size_t i = 0; i < rows; ++i) {
    std::vector<double> truth;
    for (std::size_t j = 0; j < rows; ++j)
      if (j != i) truth.push_back(squared_distance(values, dimension, i, j));
    std::nth_element(truth.begin(), truth.begin() + static_cast<std::ptrdiff_t>(k - 1), truth.end());
    const double worst = truth[k - 1];
    EXPECT_EQ(std::set<std::int32_t>(ids[i], ids[i] + k).size(), k) << "an id stands twice in list " << i;
    EXPECT_TRUE(std::is_sorted(distances[i], distances[i] + k)) << "list " << i;
    for (std::size_t place = 0; place < k; ++place) {
      const auto id = static_cast<std::size_t>(ids[i][place]);
      EXPECT_LT(id, rows);
      EXPECT_NE(id, i);
      if (id >= rows) return 0;
      EXPECT_NEAR(distances[i][place], squared_distance(values, dimension, i, id), 1e-4 * (1.0 + worst));
      found += static_cast<double>(distances[i][place]) <= worst * (1 + 1e-5) + 1e-6;
    }
  }
  return static_cast<double>(found) / static_cast<double>(rows * k);
}

class Knn : public ::testing::Test {
 protected:
  static constexpr std::size_t kRows = 1500;
  static constexpr std::size_t kDimension = 16;

  Knn() : values_(clustered_rows(kRows, kDimension)) { write_matrix(folder_ / "x.npy", values_, kRows, kDimension); }

  Outcome run(std::vector<std::string> more, const Surroundings& surroundings = {}) {
    std::vector<std::string> arguments = {"knn", "--embeddings", folder_ / "x.npy", "--neighbors", "10"};
    const auto missing = [&](const char* option) { return std::find(more.begin(), more.end(), option) == more.end(); };
    if (missing("--output")) more.insert(more.end(), {"--output", folder_ / "y"});
    if (missing("--device")) more.insert(more.end(), {"--device", "cpu"});  // the same everywhere
    arguments.insert(arguments.end(), more.begin(), more.end());
    return smartmine(arguments, surroundings);
  }
  double recall() { return checked_recall(folder_ / "y", values_, kRows, kDimension, 10); }

  TemporaryFolder folder_;
  std::vector<float> values_;
};

TEST_F(Knn, TakesAGpuOrSaysWhyNot) {
  const Outcome outcome = run({"--device", "cuda", "--json"});
  if (outcome.status != 0) {
    EXPECT_EQ(outcome.status, 2);
    EXPECT_THAT(outcome.err, AnyOf(HasSubstr("--device cuda cannot be: this smartmine was built without CUDA"),
                                   HasSubstr("--device cuda cannot be: no GPU is seen")));
  } else {
    const json object = json::parse(outcome.out);
    EXPECT_EQ(object.at("index"), "exact-cuda");
    EXPECT_EQ(object.at("rows_certified").get<std::size_t>() + object.at("rows_again").get<std::size_t>() +
                  object.at("rows_measured").get<std::size_t>(),
              kRows);
    EXPECT_EQ(recall(), 1.0);
  }
  EXPECT_THAT(run({"--device", "cuda", "--index", "fanng"}).err, HasSubstr("--index fanng asks for a graph"));
  EXPECT_THAT(run({"--device", "cuda", "--max-degree", "9"}).err, HasSubstr("--max-degree asks for a graph"));
  EXPECT_EQ(run({"--device", "auto", "--index", "exact"}).status, 0);
}

TEST_F(Knn, WritesTheTrueNeighboursWithTheExactIndex) {
  const Outcome outcome = run({"--index", "exact"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(recall(), 1.0);
  EXPECT_THAT(outcome.out, HasSubstr("recall"));
  EXPECT_THAT(outcome.out, HasSubstr("y.ids.npy"));
  EXPECT_EQ(folder_.names(), (std::set<std::string>{"x.npy", "y.distances.npy", "y.ids.npy"}));
}

TEST_F(Knn, MakesTheSameListsOnTheDiskAndInMemory) {
  for (const char* index : {"exact", "fanng"}) {
    SCOPED_TRACE(index);
    for (const std::string where : {"memory", "disk"}) {
      const Outcome outcome = run({"--index", index, "--lists-on", where, "--output", folder_ / where});
      EXPECT_EQ(outcome.status, 0) << outcome.err;
    }
    for (const std::string file : {".ids.npy", ".distances.npy"})
      EXPECT_TRUE(read_text(folder_ / ("memory" + file)) == read_text(folder_ / ("disk" + file))) << file;
    EXPECT_EQ(folder_.names(),
              (std::set<std::string>{"disk.distances.npy", "disk.ids.npy", "memory.distances.npy", "memory.ids.npy", "x.npy"}));
  }
  EXPECT_THAT(run({"--lists-on", "tape"}).err, HasSubstr("--lists-on: 'tape' is not one of auto, memory, disk"));
}

TEST_F(Knn, SaysWhereTheDiskCannotHaveTheLists) {
  const Surroundings surroundings{.no_room_apart = true};
  const Outcome outcome = run({"--lists-on", "disk"}, surroundings);
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, HasSubstr("y.ids.npy: lists cannot be made in this file"));
  EXPECT_THAT(outcome.err, HasSubstr("--lists-on memory"));
  EXPECT_EQ(folder_.names(), (std::set<std::string>{"x.npy"}));
  EXPECT_EQ(run({"--lists-on", "memory"}, surroundings).status, 0);
}

TEST_F(Knn, ReachesTheRecallAskedForFromEveryStart) {
  for (const char* start : {"partition", "random"}) {
    SCOPED_TRACE(start);
    const Outcome outcome = run({"--index", "fanng", "--start", start, "--recall", "0.95"});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_GE(recall(), 0.94);  // the program measures on a sample of 1,000
  }
}

TEST_F(Knn, PrintsOneFlatJsonObjectAndNothingElse) {
  for (const char* kind : {"exact", "fanng", "fanng with edges"}) {
    SCOPED_TRACE(kind);
    const std::string index = std::string(kind).substr(0, 5);
    const bool graph = index == "fanng", edges = graph && index != kind;
    std::vector<std::string> arguments = {"--index", index, "--recall", "0.97", "--threads", "2", "--json"};
    if (edges) arguments.insert(arguments.end(), {"--max-degree", "64"});
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.status, 0);
    EXPECT_EQ(outcome.err, "");
    EXPECT_EQ(std::count(outcome.out.begin(), outcome.out.end(), '\n'), 1);
    const json object = json::parse(outcome.out);
    for (const char* number : {"seconds", "distance_computations", "recall", "recall_target", "recall_sample", "peak_memory_bytes",
                               "read_seconds", "write_seconds"})
      EXPECT_TRUE(object.contains(number) && object[number].is_number()) << number;
    for (const char* boolean : {"recall_reached", "unit_norm"})
      EXPECT_TRUE(object.contains(boolean) && object[boolean].is_boolean()) << boolean;
    for (const char* number :
         {"success_rate", "success_bound", "success_pairs", "success_target", "mean_degree", "max_degree", "edges_added"})
      EXPECT_TRUE(object.contains(number) && (edges ? object[number].is_number() : object[number].is_null())) << number;
    EXPECT_TRUE(object.contains("success_reached"));
    EXPECT_TRUE(edges ? object["success_reached"].is_boolean() : object["success_reached"].is_null());
    EXPECT_EQ(object.at("recall_target"), 0.97);
    EXPECT_GE(object.at("recall"), graph ? 0.97 : 1.0);
    EXPECT_EQ(object.at("recall_reached"), true);
    for (const auto& [name, value] : object.items()) EXPECT_EQ(value.is_primitive(), name != "stage_seconds") << name;
    for (const auto& [stage, seconds] : object.at("stage_seconds").items()) EXPECT_TRUE(seconds.is_number()) << stage;
    EXPECT_EQ(object.at("size"), kRows);
    EXPECT_EQ(object.at("dimension"), kDimension);
    EXPECT_EQ(object.at("neighbors"), 10);
    EXPECT_EQ(object.at("index"), index);
    EXPECT_EQ(object.at("start"), graph ? "partition" : "none");
    EXPECT_EQ(object.at("threads"), 2);
    EXPECT_NE(object.at("kernel"), "");
    EXPECT_EQ(object.at("unit_norm"), true);
    EXPECT_GT(object.at("peak_memory_bytes"), 0);
  }
}

TEST_F(Knn, PrintsNothingWhenQuiet) {
  const Outcome outcome = run({"--quiet"});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(outcome.err, "");
}

TEST_F(Knn, AutoTakesExactSearchForFewRowsAndAGraphWhenOneIsAskedFor) {
  EXPECT_EQ(json::parse(run({"--json"}).out).at("index"), "exact");
  EXPECT_EQ(json::parse(run({"--json", "--graph", folder_ / "g"}).out).at("index"), "fanng");
  EXPECT_EQ(json::parse(run({"--json", "--start", "partition"}).out).at("index"), "fanng");
  // Lists, and those of the next epoch, need no edges and no certificate.
  EXPECT_TRUE(json::parse(run({"--json", "--graph", folder_ / "g"}).out).at("success_rate").is_null());
  EXPECT_TRUE(json::parse(run({"--json", "--graph", folder_ / "g", "--start", "previous"}).out).at("mean_degree").is_null());
  EXPECT_TRUE(json::parse(run({"--json", "--graph", folder_ / "g", "--max-degree", "64"}).out).at("success_rate").is_number());
  EXPECT_EQ(json::parse(run({"--json", "--certify"}).out).at("index"), "fanng");
  // Given as their defaults too.
  EXPECT_EQ(json::parse(run({"--json", "--success-rate", "0.98"}).out).at("index"), "fanng");
  EXPECT_EQ(json::parse(run({"--json", "--edge-candidates", "0"}).out).at("index"), "fanng");
  EXPECT_EQ(json::parse(run({"--json", "--max-degree", "64"}).out).at("index"), "fanng");
}

TEST_F(Knn, WritesTheSameBytesAtAnyNumberOfThreads) {
  const std::vector<std::vector<std::string>> ways = {
      {"--index", "exact"}, {"--index", "fanng", "--start", "partition"}, {"--index", "fanng", "--start", "random"}};
  for (std::vector<std::string> way : ways) {
    SCOPED_TRACE(way.back());
    const bool graph = way[1] == "fanng";
    for (const std::string threads : {"1", "4"}) {
      std::vector<std::string> arguments = way;
      arguments.insert(arguments.end(), {"--threads", threads, "--output", folder_ / threads});
      if (graph) arguments.insert(arguments.end(), {"--graph", folder_ / (threads + ".graph")});
      ASSERT_EQ(run(arguments).status, 0);
    }
    EXPECT_EQ(read_text(folder_ / "1.ids.npy"), read_text(folder_ / "4.ids.npy"));
    EXPECT_EQ(read_text(folder_ / "1.distances.npy"), read_text(folder_ / "4.distances.npy"));
    if (graph) {
      EXPECT_EQ(read_text(folder_ / "1.graph"), read_text(folder_ / "4.graph"));
    }
  }
}

TEST_F(Knn, RunsAtEveryKernelLevelTheMachineHas) {
  std::size_t ran = 0;
  for (const std::string level : {"portable", "avx2", "avx512", "avx512vnni", "avx512amx"}) {
    SCOPED_TRACE(level);
    const Surroundings forced{.environment = {{"SMARTMINE_KERNEL", level}}, .out = {}};
    for (const char* index : {"exact", "fanng"}) {
      const Outcome outcome = run({"--index", index, "--json"}, forced);
      if (outcome.status != 0) {  // only because this machine lacks the instructions
        EXPECT_EQ(outcome.status, 1);
        EXPECT_THAT(outcome.err, HasSubstr("this machine can run"));
        EXPECT_NE(level, "portable");
        continue;
      }
      ++ran;
      EXPECT_EQ(json::parse(outcome.out).at("kernel"), level);
      EXPECT_GE(recall(), std::string(index) == "exact" ? 1.0 : 0.97);
    }
  }
  EXPECT_GE(ran, 2U);
}

TEST_F(Knn, RefusesAnUnknownKernelLevel) {
  const Outcome outcome = run({}, {.environment = {{"SMARTMINE_KERNEL", "mmx"}}, .out = {}});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, HasSubstr("SMARTMINE_KERNEL is 'mmx'"));
}

TEST_F(Knn, SaysSoWhenItsReportCannotBeWritten) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "no /dev/full here";
  const Outcome outcome = run({"--json"}, {.environment = {}, .out = "/dev/full"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, HasSubstr("standard output"));
}

TEST_F(Knn, WarnsButSucceedsWhenTheRecallCannotBeReached) {
  // Recall 1 on a sample is asked for; if it is not reached, the shortfall must be said, and if it is, nothing is.
  const Outcome outcome = run({"--index", "fanng", "--recall", "1", "--max-degree", "4", "--json"});
  EXPECT_EQ(outcome.status, 0);
  const json object = json::parse(outcome.out);
  EXPECT_EQ(object.at("recall_reached").get<bool>(), object.at("recall").get<double>() >= 1.0);
  EXPECT_EQ(object.at("recall_reached").get<bool>(), outcome.err.find("recall is") == std::string::npos) << outcome.err;
}

TEST_F(Knn, RecommendsNothingThatWasTriedWhenTheSuccessRateIsNotReached) {
  for (const std::vector<std::string>& more : {std::vector<std::string>{}, std::vector<std::string>{"--certify"}}) {
    std::vector<std::string> arguments = {"--index", "fanng", "--success-rate", "0.9999999", "--max-degree", "4", "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome outcome = run(arguments);
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    ASSERT_EQ(json::parse(outcome.out).at("success_reached"), false);
    EXPECT_THAT(outcome.err, HasSubstr("more --edge-candidates or a larger --max-degree"));
    EXPECT_THAT(outcome.err, ::testing::Not(HasSubstr("--certify"))) << "so few rows are certified unasked";
  }
}

TEST(MakeEmbeddings, MakesUnitRowsThatKnnTakes) {
  const TemporaryFolder folder;
  EXPECT_EQ(Process({MAKE_EMBEDDINGS_PROGRAM, "300", "8", folder / "x", "2"}).wait().status, 0);
  EXPECT_EQ(folder.names(), (std::set<std::string>{"x.0.npy", "x.1.npy", "x.labels.npy"}));
  const Outcome outcome = smartmine({"knn", "--embeddings", folder / "x.1.npy", "--neighbors", "5", "--output", folder / "y", "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(json::parse(outcome.out).at("unit_norm"), true);
}

TEST(KnnOnOddRows, TakesTwoRows) {
  const TemporaryFolder folder;
  write_matrix(folder / "x.npy", {1, 0, 0, 1}, 2, 2);
  for (const char* index : {"exact", "fanng"}) {
    const Outcome outcome =
        smartmine({"knn", "--embeddings", folder / "x.npy", "--neighbors", "1", "--index", index, "--output", folder / "y"});
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_EQ(read_int32(folder / "y.ids.npy").values, (std::vector<std::int32_t>{1, 0}));
    EXPECT_EQ(read_float32(folder / "y.distances.npy").values, (std::vector<float>{2, 2}));
  }
}

TEST(KnnOnOddRows, TakesRowsOfAnyLengthAndSaysSo) {
  const TemporaryFolder folder;
  std::vector<float> values = clustered_rows(400, 8);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] *= 1.0F + static_cast<float>(i / 8 % 7);
  write_matrix(folder / "x.npy", values, 400, 8);
  for (const char* index : {"exact", "fanng"}) {
    const Outcome outcome =
        smartmine({"knn", "--embeddings", folder / "x.npy", "--neighbors", "10", "--index", index, "--json", "--output", folder / "y"});
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_EQ(json::parse(outcome.out).at("unit_norm"), false);
    EXPECT_GE(checked_recall(folder / "y", values, 400, 8, 10), std::string(index) == "exact" ? 1.0 : 0.96);
  }
  const Outcome table = smartmine({"knn", "--embeddings", folder / "x.npy", "--neighbors", "10", "--output", folder / "y"});
  EXPECT_THAT(table.out, HasSubstr("not of unit length"));
}

TEST(KnnOnOddRows, GivesDistinctNeighboursWhenAllRowsAreIdentical) {
  const TemporaryFolder folder;
  const std::vector<float> values(500 * 4, 0.5F);
  write_matrix(folder / "x.npy", values, 500, 4);
  for (const std::vector<std::string>& way :
       std::vector<std::vector<std::string>>{{"--index", "exact"}, {"--start", "partition"}, {"--start", "random"}}) {
    SCOPED_TRACE(way.back());
    std::vector<std::string> arguments = {"knn", "--embeddings", folder / "x.npy", "--neighbors", "20", "--output", folder / "y"};
    arguments.insert(arguments.end(), way.begin(), way.end());
    const Outcome outcome = smartmine(arguments);
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_EQ(checked_recall(folder / "y", values, 500, 4, 20), 1.0);
  }
}

}  // namespace
}  // namespace smartmine::test
