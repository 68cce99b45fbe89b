// That the benchmark runs and tells the truth; its figures mean nothing on sets this small.
#ifdef BENCH_NEIGHBORS_PROGRAM

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "files.h"
#include "program.h"

namespace smartmine::test {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

Outcome bench(const std::vector<std::string>& arguments) {
  std::vector<std::string> command = {BENCH_NEIGHBORS_PROGRAM, "--threads", "2", "--neighbors", "10"};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return Process(command).wait();
}

json goal(const json& report, const std::string& part) {
  for (const json& each : report.at("must_hold"))
    if (each.at("what").get<std::string>().find(part) != std::string::npos) return each;
  ADD_FAILURE() << "no goal speaks of " << part;
  return {};
}

TEST(BenchNeighbors, MeasuresEveryMethodItWasBuiltWith) {
  const Outcome outcome = bench({"--sizes", "300,3000", "--dimension", "16", "--random-rows", "500", "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const json report = json::parse(outcome.out);
  ASSERT_EQ(report.at("sets").size(), 3U);
  EXPECT_EQ(report.at("sets")[1].at("rows"), 3000);
  std::vector<std::string> names;
  for (const json& set : report.at("sets"))
    for (const json& method : set.at("methods")) {
      names.push_back(method.at("method"));
      SCOPED_TRACE(names.back());
      if (method.contains("failure")) continue;  // small sets are not for everybody
      EXPECT_GT(method.at("seconds"), 0);
      EXPECT_GT(method.at("processor_seconds"), 0);
      EXPECT_GT(method.at("peak_memory_bytes"), 1 << 20);
      EXPECT_LE(method.at("recall"), 1);
      EXPECT_GE(method.at("recall"), names.back().find("exact") == std::string::npos ? 0.9 : 0.999);
    }
  for (const char* name : {"exact", "partition", "previous", "random"}) EXPECT_THAT(names, ::testing::Contains(name));

  const json ratio = goal(report, "time at 3000 by time at 300 rows");
  EXPECT_EQ(ratio.at("at_most"), 13);
  EXPECT_EQ(ratio.at("holds").get<bool>(), ratio.at("reached").get<double>() <= 13);
  EXPECT_GT(goal(report, "selecting triplets").at("reached"), 0);
  EXPECT_GT(goal(report, "certified success rate").at("reached"), 0.5);
}

TEST(BenchNeighbors, ShowsAMethodThatFailsAsAFailedRow) {
  const Outcome outcome = bench({"--sizes", "500", "--epochs", "1", "--methods", "previous,exact"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("failed: needs the embeddings of at least 2 epochs"));
  EXPECT_THAT(outcome.out, HasSubstr("not measured"));
  EXPECT_THAT(outcome.out, HasSubstr("smartmine exact"));
}

TEST(BenchNeighbors, MeasuresPeersOfPythonOrSaysWhyNot) {
  const auto failure_of = [](const std::vector<std::string>& python) {
    std::vector<std::string> arguments = {"--sizes", "500", "--epochs", "1", "--methods", "python-hnswlib", "--json"};
    arguments.insert(arguments.end(), python.begin(), python.end());
    const Outcome outcome = bench(arguments);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return json::parse(outcome.out).at("sets")[0].at("methods")[0].value("failure", "");
  };
  EXPECT_THAT(failure_of({}), HasSubstr("--python"));
  EXPECT_THAT(failure_of({"--python", "/nowhere/python"}), HasSubstr("status 127"));
  const TemporaryFolder folder;
  // Stands for an interpreter without the peer, and looks at how it is called.
  std::ofstream(folder / "python") << "#!/bin/sh\n"
                                      "[ \"$2 $4 $5\" = 'hnswlib --neighbors 10' ] || exit 3\n"
                                      "echo '{\"failure\": \"no hnswlib here\"}'\n";
  std::filesystem::permissions(folder / "python", std::filesystem::perms::owner_all);
  EXPECT_EQ(failure_of({"--python", folder / "python"}), "no hnswlib here");
}

// Stands for an interpreter whose peers find nothing in so many seconds; rows are 500, lists of 10.
std::string made_python(const TemporaryFolder& folder, double seconds) {
  write_int64(folder / "sample.npy", std::vector<std::int64_t>(500 * 10));
  std::ofstream(folder / "python")
      << "#!/bin/sh\n"
      << "for last; do true; done\n"  // where the sample goes
      << "cp '" << folder / "sample.npy"
      << "' \"$last\"\n"
      << R"(echo '{"processor_seconds": 1, "peak_memory_bytes": 1, "version": "9", "settings": "s", "seconds": )" << seconds << "}'\n";
  std::filesystem::permissions(folder / "python", std::filesystem::perms::owner_all);
  return folder / "python";
}

TEST(BenchNeighbors, ComparesWithPeersOfPythonInTableAndGoals) {
  const TemporaryFolder folder;
  const std::vector<std::string> words = {"--sizes",   "500",
                                          "--epochs",  "1",
                                          "--python",  made_python(folder, 5000),
                                          "--methods", "exact,partition,python-hnswlib,python-faiss-exact"};
  std::vector<std::string> as_json = words;
  as_json.emplace_back("--json");
  const json report = json::parse(bench(as_json).out);
  const auto seconds_of = [&](std::size_t method) { return report.at("sets")[0].at("methods")[method].at("seconds").get<double>(); };
  EXPECT_NEAR(goal(report, "times faster than hnswlib").at("reached").get<double>() * seconds_of(1) / 5000, 1, 1e-6);
  EXPECT_NEAR(goal(report, "times faster than faiss exact").at("reached").get<double>() * seconds_of(0) / 5000, 1, 1e-6);
  const std::string table = bench(words).out;
  for (const char* method : {"hnswlib of Python", "faiss exact of Python"}) {
    SCOPED_TRACE(table);
    std::istringstream row(table.substr(std::min(table.find(method), table.size())));
    row.ignore(28);  // the name
    std::string seconds, processor, found, by_hnswlib, by_faiss;
    row >> seconds >> processor >> found >> by_hnswlib >> by_faiss;
    EXPECT_EQ(seconds, "5000.00");
    EXPECT_EQ(by_hnswlib, "1.00");
    EXPECT_EQ(by_faiss, "1.00");
  }
}

TEST(BenchNeighbors, ComparesWithTheQuickerOfTwoVersionsOfAPeer) {
  const TemporaryFolder folder;
  const auto times_hnswlib = [&](double seconds) -> std::optional<double> {
    const Outcome outcome = bench({"--sizes", "500", "--epochs", "1", "--python", made_python(folder, seconds), "--methods",
                                   "partition,hnswlib,python-hnswlib", "--json"});
    if (outcome.status == 2) return std::nullopt;
    return goal(json::parse(outcome.out), "times faster than hnswlib").at("reached").get<double>();
  };
  const auto slow = times_hnswlib(1e9), quick = times_hnswlib(1e-9);
  if (!slow) GTEST_SKIP() << "the bench was built without hnswlib";
  EXPECT_LT(*slow, 1e6) << "the distribution's took no 30 years";
  EXPECT_LT(*quick, 1e-3) << "Python's was the quicker";
}

TEST(BenchNeighbors, TakesEmbeddingsFromFiles) {
  const TemporaryFolder folder;
  write_matrix(folder / "x.npy", clustered_rows(400, 8), 400, 8);
  write_matrix(folder / "other.npy", clustered_rows(300, 8), 300, 8);
  const Outcome outcome = bench({"--embeddings", folder / "x.npy", "--methods", "partition", "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const json report = json::parse(outcome.out);
  EXPECT_EQ(report.at("sets")[0].at("rows"), 400);
  EXPECT_TRUE(goal(report, "selecting triplets").at("reached").is_null()) << "without labels";
  EXPECT_EQ(bench({"--embeddings", folder / "x.npy", folder / "other.npy"}).status, 1);
}

TEST(BenchNeighbors, RefusesWhatItDoesNotKnow) {
  EXPECT_EQ(bench({"--methods", "guess"}).status, 2);
  EXPECT_EQ(bench({"--sizes", "-5"}).status, 2);
  EXPECT_EQ(bench({"--sizes", "5"}).status, 1) << "fewer rows than neighbours";
}

}  // namespace
}  // namespace smartmine::test

#endif
