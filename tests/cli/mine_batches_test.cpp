#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "files.h"
#include "program.h"

namespace smartmine::test {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

class MineBatches : public ::testing::Test {
 protected:
  static constexpr std::size_t kRows = 600;

  MineBatches() {
    write_matrix(folder_ / "x.npy", clustered_rows(kRows, 8), kRows, 8);
    for (std::size_t i = 0; i < kRows; ++i)
      labels_.push_back(static_cast<std::int64_t>(i % 31));  // as clustered_rows has it: 19 or 20 each
    write_int64(folder_ / "y.npy", labels_);
  }

  Outcome run(const std::vector<std::string>& more, const std::string& output = "b.npy") {
    std::vector<std::string> arguments = {"mine",     "--embeddings",    folder_ / "x.npy", "--labels",
                                          folder_ / "y.npy", "--output", folder_ / output};
    if (std::find(more.begin(), more.end(), "--neighbors") == more.end()) arguments.insert(arguments.end(), {"--neighbors", "60"});
    arguments.insert(arguments.end(), more.begin(), more.end());
    return smartmine(arguments);
  }

  TemporaryFolder folder_;
  std::vector<std::int64_t> labels_;
};

TEST_F(MineBatches, WritesARowOfIdsPerBatchAndEveryPointComesRound) {
  const Outcome outcome = run({"--batches", "--classes", "6", "--images-per-class", "5", "--rounds", "2", "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const json told = json::parse(outcome.out);
  const Matrix<std::int64_t> batches = read_int64(folder_ / "b.npy");
  EXPECT_EQ(batches.columns, 30U);
  EXPECT_EQ(batches.rows, told["batches"].get<std::size_t>());
  EXPECT_EQ(told["batch_size"], 30);
  EXPECT_EQ(told["classes"], 31);
  std::map<std::int64_t, std::size_t> times;
  for (std::size_t b = 0; b < batches.rows; ++b) {
    for (std::size_t group = 0; group < 6; ++group)
      for (std::size_t i = 1; i < 5; ++i)
        EXPECT_EQ(labels_[static_cast<std::size_t>(batches[b][5 * group + i])], labels_[static_cast<std::size_t>(batches[b][5 * group])]);
    for (std::size_t i = 0; i < 30; ++i) ++times[batches[b][i]];
  }
  EXPECT_EQ(times.size(), kRows);
  std::size_t more = 0;
  for (const auto& [item, count] : times) {
    EXPECT_GE(count, 2U) << item;
    more += count - 2;
  }
  EXPECT_EQ(told["repeated"], more);
  for (const char* name :
       {"groups", "near_groups", "random_groups", "near_share", "copies_skipped", "copies_left_out", "alone", "only_copies", "batch_error",
        "nearest_positive_distance", "nearest_negative_distance", "stage_seconds", "recall", "looked_at", "together"})
    EXPECT_TRUE(told.contains(name)) << name;
  EXPECT_TRUE(told["stage_seconds"].contains("survey"));
}

TEST_F(MineBatches, ComputeNoListsWhereAllClassesAreDrawn) {
  const Outcome outcome = run({"--batches", "--near-share", "0", "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const json told = json::parse(outcome.out);
  EXPECT_EQ(told["index"], "none");
  EXPECT_EQ(told["distance_computations"], 0);
  EXPECT_EQ(told["size"], kRows);
  EXPECT_TRUE(told["recall"].is_null());
  EXPECT_EQ(told["near_groups"], 0);
  const Outcome table = run({"--batches", "--near-share", "0"});
  EXPECT_EQ(table.status, 0) << table.err;
  EXPECT_EQ(table.out.find("neighbours of each"), std::string::npos);
  const Outcome shorter = run({"--batches", "--near-share", "0", "--neighbors", "10"}, "same.npy");
  ASSERT_EQ(shorter.status, 0) << shorter.err;
  EXPECT_EQ(read_int64(folder_ / "same.npy").values, read_int64(folder_ / "b.npy").values);
}

TEST_F(MineBatches, TellWhichClassesComeTogether) {
  for (std::size_t i = 0; i < kRows; ++i) labels_[i] = 100 * labels_[i] - 7;
  write_int64(folder_ / "y.npy", labels_);
  const Outcome outcome = run({"--batches", "--classes", "4", "--rounds", "2", "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const json told = json::parse(outcome.out);
  const Matrix<std::int64_t> batches = read_int64(folder_ / "b.npy");
  const std::size_t looked = told["looked_at"];
  EXPECT_EQ(looked, 32U);
  ASSERT_EQ(told["together"].size(), 6U);
  for (const json& pair : told["together"]) {
    std::size_t both = 0;
    for (std::size_t look = 0; look < looked; ++look) {
      std::set<std::int64_t> in;
      for (std::size_t i = 0; i < batches.columns; ++i)
        in.insert(labels_[static_cast<std::size_t>(batches[look * batches.rows / looked][i])]);
      both += in.contains(pair["first"].get<std::int64_t>()) && in.contains(pair["second"].get<std::int64_t>());
    }
    EXPECT_EQ(pair["batches"], both);
  }
  EXPECT_GT(told["together"][0]["batches"], 2);
  EXPECT_THAT(run({"--batches", "--classes", "4"}).out, HasSubstr("often together"));
}

TEST_F(MineBatches, NearClassesMakeHarderBatchesThanDrawnOnes) {
  const auto distance = [&](const char* share) {
    const Outcome outcome = run({"--batches", "--classes", "4", "--near-share", share, "--json"});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return json::parse(outcome.out)["nearest_negative_distance"].get<double>();
  };
  EXPECT_LT(distance("1"), 0.9 * distance("0"));
}

TEST_F(MineBatches, AreTheSameAtAnyNumberOfThreadsAndOtherWithAnotherSeed) {
  ASSERT_EQ(run({"--batches", "--rounds", "3", "--threads", "1"}, "one.npy").status, 0);
  ASSERT_EQ(run({"--batches", "--rounds", "3", "--threads", "4"}, "four.npy").status, 0);
  ASSERT_EQ(run({"--batches", "--rounds", "3", "--seed", "9"}, "nine.npy").status, 0);
  EXPECT_EQ(read_int64(folder_ / "one.npy").values, read_int64(folder_ / "four.npy").values);
  EXPECT_NE(read_int64(folder_ / "one.npy").values, read_int64(folder_ / "nine.npy").values);
}

TEST_F(MineBatches, ComeFromGivenListsTooWithTheSameBits) {
  ASSERT_EQ(smartmine({"knn", "--embeddings", folder_ / "x.npy", "--neighbors", "60", "--output", folder_ / "lists"}).status, 0);
  ASSERT_EQ(run({"--batches"}).status, 0);
  const Outcome outcome = smartmine({"mine", "--ids", folder_ / "lists.ids.npy", "--distances", folder_ / "lists.distances.npy", "--labels",
                                     folder_ / "y.npy", "--batches", "--output", folder_ / "given.npy", "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(read_int64(folder_ / "given.npy").values, read_int64(folder_ / "b.npy").values);
  const json told = json::parse(outcome.out);
  EXPECT_EQ(told["index"], "given");
  EXPECT_TRUE(told["recall"].is_null());
  EXPECT_TRUE(told["batch_error"].is_null()) << "there are no embeddings to measure";
  EXPECT_FALSE(told["together"].empty());
}

TEST_F(MineBatches, RefuseWhatCannotBeRight) {
  const auto refused = [&](int status, const std::vector<std::string>& more, const std::string& part) {
    const Outcome outcome = run(more);
    EXPECT_EQ(outcome.status, status) << part;
    EXPECT_THAT(outcome.err, HasSubstr(part));
    EXPECT_FALSE(std::filesystem::exists(folder_ / "b.npy"));
  };
  refused(2, {"--batches", "--classes", "1"}, "--classes");
  refused(2, {"--batches", "--images-per-class", "1"}, "--images-per-class");
  refused(2, {"--batches", "--near-share", "1.5"}, "--near-share");
  refused(2, {"--batches", "--rounds", "0"}, "--rounds");
  refused(2, {"--batches", "--kappa", "2"}, "--kappa is for triplets, and --batches writes none");
  refused(2, {"--classes", "6"}, "--classes is for --batches, which was not given");
  std::vector<std::int64_t> different(kRows);
  for (std::size_t i = 0; i < kRows; ++i) different[i] = static_cast<std::int64_t>(i);
  write_int64(folder_ / "y.npy", different);
  refused(1, {"--batches"}, "y.npy");
}

TEST_F(MineBatches, SpeakOfBatchesWhereLabelsDoNotDo) {
  const auto refused = [&](const std::vector<std::int64_t>& labels, const std::string& part) {
    write_int64(folder_ / "y.npy", labels);
    const Outcome outcome = run({"--batches"});
    EXPECT_EQ(outcome.status, 1);
    EXPECT_THAT(outcome.err, HasSubstr(part));
    EXPECT_FALSE(std::filesystem::exists(folder_ / "b.npy"));
  };
  std::vector<std::int64_t> labels(kRows);
  refused(labels, "one class only (0 for all 600 points); triplets and batches need at least 2");
  for (std::size_t i = 0; i < kRows; ++i) labels[i] = static_cast<std::int64_t>(i);
  refused(labels, "each of the 600 classes has one member only; batches need two classes of two points or more");
  labels[4] = labels[5] = 3;
  refused(labels, "of the 598 classes only that of label 3 has more than one member; batches need two such classes");
  const Outcome outcome =
      smartmine({"mine", "--embeddings", folder_ / "x.npy", "--labels", folder_ / "y.npy", "--batches", "--output", ""});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, HasSubstr("batches.npy"));
}

TEST_F(MineBatches, SayTruthfullyWhoIsLeftOut) {
  std::vector<float> rows = clustered_rows(kRows, 8);
  for (std::size_t i = 5; i < kRows; i += 31) std::copy_n(rows.begin() + 5 * 8, 8, rows.begin() + static_cast<std::ptrdiff_t>(8 * i));
  write_matrix(folder_ / "x.npy", rows, kRows, 8);
  const Outcome some = run({"--batches"});
  ASSERT_EQ(some.status, 0) << some.err;
  EXPECT_THAT(some.out, HasSubstr("20 points have none but their copies in theirs and are left out"));
  EXPECT_THAT(some.out, ::testing::Not(HasSubstr("alone")));

  write_matrix(folder_ / "x.npy", std::vector<float>(8 * kRows), kRows, 8);
  const Outcome all = run({"--batches"});
  ASSERT_EQ(all.status, 0) << all.err;
  EXPECT_THAT(all.out, ::testing::Not(HasSubstr("are left out")));
  EXPECT_THAT(all.out, ::testing::Not(HasSubstr("alone")));
  const auto items = read_int64(folder_ / "b.npy").values;
  EXPECT_EQ(std::set<std::int64_t>(items.begin(), items.end()).size(), kRows);
}

TEST_F(MineBatches, WarnWhereListsHoldNoOtherClass) {
  std::vector<float> rows = clustered_rows(kRows, 8);
  for (std::size_t i = 0; i < kRows; ++i) {
    labels_[i] = static_cast<std::int64_t>(i % 4);
    rows[8 * i] += 100.0F * static_cast<float>(i % 4);
  }
  write_matrix(folder_ / "x.npy", rows, kRows, 8);
  write_int64(folder_ / "y.npy", labels_);
  const Outcome outcome = run({"--batches", "--classes", "2", "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("100 % of the lists hold no point of another class, most of those of 4 classes: their centres"));
  const json told = json::parse(outcome.out);
  EXPECT_EQ(told["classes_by_centre"], 4);
  EXPECT_EQ(told["lists_without_negative"], kRows);
  EXPECT_GT(told["near_share"], 0.9);
  EXPECT_THAT(told["note"].get<std::string>(), HasSubstr("their centres are compared too"));
}

TEST_F(MineBatches, SayWhatTheyAreInATable) {
  const Outcome outcome = run({"--batches"});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.out, HasSubstr("batches"));
  EXPECT_THAT(outcome.out, HasSubstr("of another class for"));
}

}  // namespace
}  // namespace smartmine::test
