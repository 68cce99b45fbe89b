#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "files.h"
#include "program.h"

namespace smartmine::test {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::StartsWith;

struct Neighbor {
  float distance = 0;
  std::int32_t id = 0;
  friend bool operator<(const Neighbor& a, const Neighbor& b) { return a.distance != b.distance ? a.distance < b.distance : a.id < b.id; }
};

// The true list of a point, nearest first, ties by id.
std::vector<Neighbor> true_list(const std::vector<float>& values, std::size_t dimension, std::size_t point, std::size_t k) {
  std::vector<Neighbor> all;
  for (std::size_t other = 0; other < values.size() / dimension; ++other) {
    if (other == point) continue;
    float sum = 0;
    for (std::size_t j = 0; j < dimension; ++j) {
      const float difference = values[point * dimension + j] - values[other * dimension + j];
      sum += difference * difference;
    }
    all.push_back({sum, static_cast<std::int32_t>(other)});
  }
  std::sort(all.begin(), all.end());
  all.resize(k);
  return all;
}

// The rule in its plainest form, for one triplet: the nearest negative beyond kappa times the distance of the nearest
// positive, with the nearest positive behind it. Nothing if the list does not hold both.
std::vector<std::int64_t> plain_triplet(std::size_t anchor, const std::vector<Neighbor>& list, const std::vector<std::int64_t>& labels,
                                        double kappa) {
  const auto is_positive = [&](const Neighbor& other) { return labels[static_cast<std::size_t>(other.id)] == labels[anchor]; };
  const auto first = std::find_if(list.begin(), list.end(), is_positive);
  if (first == list.end()) return {};
  const auto negative = std::find_if(first, list.end(), [&](const Neighbor& other) {
    return !is_positive(other) && other.distance > 0 && static_cast<double>(other.distance) >= kappa * static_cast<double>(first->distance);
  });
  const auto positive = std::find_if(negative, list.end(), is_positive);
  if (positive == list.end()) return {};
  return {static_cast<std::int64_t>(anchor), positive->id, negative->id};
}

class Mine : public ::testing::Test {
 protected:
  static constexpr std::size_t kRows = 600;
  static constexpr std::size_t kDimension = 8;
  static constexpr std::size_t kNeighbors = 30;

  Mine() : values_(clustered_rows(kRows, kDimension)) {
    // As clustered_rows has it, 31 classes of 19 or 20.
    for (std::size_t i = 0; i < kRows; ++i) labels_.push_back(static_cast<std::int64_t>(i % (kRows / 20 + 1)));
    write_matrix(folder_ / "x.npy", values_, kRows, kDimension);
    write_int64(folder_ / "y.npy", labels_);
    before_ = folder_.names();
  }

  // True lists as somebody else's program would leave them.
  void write_lists() {
    ids_.clear();
    distances_.clear();
    for (std::size_t i = 0; i < kRows; ++i)
      for (const Neighbor& neighbor : true_list(values_, kDimension, i, kNeighbors)) {
        ids_.push_back(neighbor.id);
        distances_.push_back(neighbor.distance);
      }
    rewrite_lists();
  }
  void rewrite_lists() {
    write_int32(folder_ / "i.npy", ids_, kNeighbors);
    write_matrix(folder_ / "d.npy", distances_, kRows, kNeighbors);
    before_ = folder_.names();
  }

  std::vector<std::string> from_embeddings() const {
    return {"--embeddings", folder_ / "x.npy", "--neighbors", std::to_string(kNeighbors)};
  }
  std::vector<std::string> from_lists() const { return {"--ids", folder_ / "i.npy", "--distances", folder_ / "d.npy"}; }

  Outcome run(const std::vector<std::string>& from, std::vector<std::string> more = {}, const Surroundings& surroundings = {}) {
    std::vector<std::string> arguments = {"mine"};
    arguments.insert(arguments.end(), from.begin(), from.end());
    const auto missing = [&](const char* option) { return std::find(more.begin(), more.end(), option) == more.end(); };
    if (missing("--labels")) more.insert(more.end(), {"--labels", folder_ / "y.npy"});
    if (missing("--output")) more.insert(more.end(), {"--output", folder_ / "t.npy"});
    if (missing("--device")) more.insert(more.end(), {"--device", "cpu"});  // the same everywhere
    arguments.insert(arguments.end(), more.begin(), more.end());
    return smartmine(arguments, surroundings);
  }
  json run_json(const std::vector<std::string>& from, std::vector<std::string> more = {}) {
    more.emplace_back("--json");
    const Outcome outcome = run(from, more);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return outcome.status == 0 ? json::parse(outcome.out) : json();
  }
  Matrix<std::int64_t> triplets() { return read_int64(folder_ / "t.npy"); }

  // One clear line, and not a file more than before.
  void expect_refused(int status, const std::vector<std::string>& parts, const std::vector<std::string>& from,
                      const std::vector<std::string>& more = {}, const Surroundings& surroundings = {}) {
    const Outcome outcome = run(from, more, surroundings);
    EXPECT_EQ(outcome.status, status) << outcome.err;
    EXPECT_THAT(outcome.err, StartsWith("smartmine: "));
    for (const std::string& part : parts) EXPECT_THAT(outcome.err, HasSubstr(part));
    const std::string last = outcome.err.substr(outcome.err.rfind('\n', outcome.err.size() - 2) + 1);
    EXPECT_THAT(last, HasSubstr(parts.front())) << "the last line is not the error";
    EXPECT_EQ(outcome.out, "");
    EXPECT_EQ(folder_.names(), before_);
  }

  // Every triplet is one, and `per_anchor` of them belong to each anchor in order.
  void expect_sound(std::size_t per_anchor = 1) {
    const auto all = triplets();
    ASSERT_EQ(all.rows, kRows * per_anchor);
    ASSERT_EQ(all.columns, 3U);
    for (std::size_t t = 0; t < all.rows; ++t) {
      ASSERT_EQ(all[t][0], static_cast<std::int64_t>(t / per_anchor));
      for (std::size_t j = 1; j < 3; ++j) {
        ASSERT_GE(all[t][j], 0) << "triplet " << t;
        ASSERT_LT(all[t][j], static_cast<std::int64_t>(kRows)) << "triplet " << t;
      }
      const auto label = [&](std::size_t j) { return labels_[static_cast<std::size_t>(all[t][j])]; };
      EXPECT_NE(all[t][0], all[t][1]);
      EXPECT_EQ(label(0), label(1)) << "triplet " << t;
      EXPECT_NE(label(0), label(2)) << "triplet " << t;
    }
  }

  // The triplets that the rule alone gives are all there, and `mined` counts them.
  void expect_the_rules_triplets(const json& report, double kappa) {
    const auto all = triplets();
    std::size_t mined = 0;
    for (std::size_t i = 0; i < kRows; ++i) {
      const auto expected = plain_triplet(i, true_list(values_, kDimension, i, kNeighbors), labels_, kappa);
      if (expected.empty()) continue;
      ++mined;
      EXPECT_EQ(std::vector<std::int64_t>(all[i], all[i] + 3), expected);
    }
    EXPECT_GT(mined, kRows / 10);
    EXPECT_EQ(report.at("mined"), mined);
  }

  TemporaryFolder folder_;
  std::vector<float> values_;
  std::vector<std::int64_t> labels_;
  std::vector<std::int32_t> ids_;
  std::vector<float> distances_;
  std::set<std::string> before_;
};

std::size_t sum_of_origins(const json& report) {
  std::size_t sum = 0;
  for (const char* origin : {"mined", "mined_outside_positive", "mined_nearer_positive", "random_no_positive", "random_no_negative",
                             "random_no_farther_positive", "random_by_share"})
    sum += report.at(origin).get<std::size_t>();
  return sum;
}

TEST_F(Mine, SelectsTheRulesTripletsFromEmbeddingsAndLabels) {
  for (const double kappa : {1.5, 3.0}) {
    SCOPED_TRACE(kappa);
    const json report = run_json(from_embeddings(), {"--kappa", std::to_string(kappa)});
    expect_sound();
    expect_the_rules_triplets(report, kappa);
    EXPECT_EQ(sum_of_origins(report), kRows);
    EXPECT_EQ(report.at("kappa"), kappa);
  }
  before_.insert("t.npy");
  EXPECT_EQ(folder_.names(), before_);
}

TEST_F(Mine, SelectsTheSameFromListsComputedElsewhere) {
  const json own = run_json(from_embeddings(), {"--kappa", "2"});
  const std::string wanted = read_text(folder_ / "t.npy");
  write_lists();

  const json alone = run_json(from_lists(), {"--kappa", "2"});
  EXPECT_EQ(read_text(folder_ / "t.npy"), wanted);
  std::vector<std::string> both = from_lists();
  both.insert(both.end(), {"--embeddings", folder_ / "x.npy"});
  const json with_embeddings = run_json(both, {"--kappa", "2"});
  EXPECT_EQ(read_text(folder_ / "t.npy"), wanted);

  for (const json& report : {alone, with_embeddings}) {
    EXPECT_EQ(report.at("index"), "given");
    EXPECT_EQ(report.at("neighbors"), kNeighbors);
    EXPECT_EQ(report.at("stage_seconds").at("lists"), 0);
    EXPECT_TRUE(report.at("recall").is_null()) << "nobody measured it";
    for (const char* same : {"mined", "mined_outside_positive", "random_no_negative", "negative_distance_median"})
      EXPECT_EQ(report.at(same), own.at(same)) << same;
  }
  // Only the embeddings tell how far positives outside the lists are.
  const std::size_t outside = own.at("mined_outside_positive");
  ASSERT_GT(outside, 0U);
  EXPECT_EQ(own.at("positive_distances_unknown"), 0);
  EXPECT_EQ(with_embeddings.at("positive_distances_unknown"), 0);
  EXPECT_EQ(with_embeddings.at("positive_distance_max"), own.at("positive_distance_max"));
  EXPECT_EQ(alone.at("positive_distances_unknown"), outside);
  EXPECT_EQ(alone.at("positive_distance_count").get<std::size_t>() + outside, own.at("positive_distance_count").get<std::size_t>());
  EXPECT_TRUE(alone.at("dimension").is_null());
  EXPECT_TRUE(alone.at("unit_norm").is_null());
  EXPECT_EQ(with_embeddings.at("dimension"), kDimension);
}

TEST_F(Mine, TakesTheListsThatKnnWrites) {
  std::vector<std::string> knn = {"knn", "--output", folder_ / "l", "--quiet"};
  for (const std::string& word : from_embeddings()) knn.push_back(word);
  ASSERT_EQ(smartmine(knn).status, 0);
  ASSERT_EQ(run(from_embeddings(), {"--quiet"}).status, 0);
  const std::string wanted = read_text(folder_ / "t.npy");
  const Outcome outcome = run({"--ids", folder_ / "l.ids.npy", "--distances", folder_ / "l.distances.npy"}, {"--quiet"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(read_text(folder_ / "t.npy"), wanted);
}

TEST_F(Mine, TakesTheFirstOfLongerListsWhenFewerAreAskedFor) {
  write_lists();
  std::vector<std::string> shorter = from_lists();
  shorter.insert(shorter.end(), {"--neighbors", "12"});
  EXPECT_EQ(run_json(shorter).at("neighbors"), 12);
  const std::string cut = read_text(folder_ / "t.npy");
  run_json({"--embeddings", folder_ / "x.npy", "--neighbors", "12"});
  EXPECT_EQ(read_text(folder_ / "t.npy"), cut);
}

TEST_F(Mine, TakesLabelsOfEitherWidthAndAnyValues) {
  run_json(from_embeddings());
  const std::string wanted = read_text(folder_ / "t.npy");
  // Renaming classes changes no triplet as long as their order stays.
  std::vector<std::int32_t> narrow;
  std::vector<std::int64_t> wide;
  std::vector<std::int64_t> extreme;
  for (const std::int64_t label : labels_) {
    narrow.push_back(static_cast<std::int32_t>(label - 15));
    wide.push_back((label - 20) * 1'000'000'000'000);
    extreme.push_back(label == 0    ? std::numeric_limits<std::int64_t>::min()
                      : label == 30 ? std::numeric_limits<std::int64_t>::max()
                                    : label);
  }
  write_int32(folder_ / "narrow.npy", narrow);
  write_int64(folder_ / "wide.npy", wide);
  write_int64(folder_ / "extreme.npy", extreme);
  write_int64(folder_ / "column.npy", labels_, 1);
  for (const char* file : {"narrow.npy", "wide.npy", "extreme.npy", "column.npy"}) {
    SCOPED_TRACE(file);
    const json report = run_json(from_embeddings(), {"--labels", folder_ / file});
    EXPECT_EQ(report.at("classes"), 31);
    EXPECT_EQ(read_text(folder_ / "t.npy"), wanted);
  }
}

TEST_F(Mine, PrintsOneFlatJsonObjectAndNothingElse) {
  for (const char* kind : {"exact", "fanng", "fanng with edges"}) {
    SCOPED_TRACE(kind);
    const std::string index = std::string(kind).substr(0, 5);
    const bool edges = index != kind;
    std::vector<std::string> arguments = {"--index", index, "--kappa", "1.1", "--threads", "2", "--json"};
    if (edges) arguments.insert(arguments.end(), {"--max-degree", "64"});
    const Outcome outcome = run(from_embeddings(), arguments);
    EXPECT_EQ(outcome.status, 0);
    EXPECT_EQ(outcome.err, "");
    EXPECT_EQ(std::count(outcome.out.begin(), outcome.out.end(), '\n'), 1);
    const json report = json::parse(outcome.out);
    for (const char* number : {"seconds",
                               "distance_computations",
                               "recall",
                               "peak_memory_bytes",
                               "read_seconds",
                               "write_seconds",
                               "classes",
                               "single_member_classes",
                               "kappa",
                               "triplets",
                               "anchors",
                               "anchors_skipped",
                               "mined",
                               "mined_outside_positive",
                               "mined_nearer_positive",
                               "random_no_positive",
                               "random_no_negative",
                               "random_no_farther_positive",
                               "random_by_share",
                               "mined_violating",
                               "outside_violating",
                               "positive_distances_unknown",
                               "positive_distance_count",
                               "negative_distance_count",
                               "duplicates_skipped",
                               "rank_skipped",
                               "cap_skipped",
                               "negatives_forced",
                               "lists_walked",
                               "lists_without_positive",
                               "lists_without_negative",
                               "suggested_neighbors",
                               "extended_anchors",
                               "extended_neighbors"})
      EXPECT_TRUE(report.contains(number) && report[number].is_number()) << number;
    for (const char* number : {"success_rate", "success_bound", "mean_degree"})
      EXPECT_TRUE(report.contains(number) && (edges ? report[number].is_number() : report[number].is_null())) << number;
    for (const auto& [name, value] : report.items())
      EXPECT_EQ(value.is_primitive(), name != "stage_seconds" && name != "list_stage_seconds") << name;
    double stages = 0;
    for (const char* stage : {"lists", "selection", "longer_lists"}) stages += report.at("stage_seconds").at(stage).get<double>();
    EXPECT_EQ(report.at("stage_seconds").size(), 3U);
    EXPECT_DOUBLE_EQ(report.at("seconds"), stages);
    EXPECT_GT(report.at("stage_seconds").at("lists"), 0);
    EXPECT_GT(report.at("stage_seconds").at("selection"), 0);
    EXPECT_EQ(report.at("note"), "");
    EXPECT_EQ(report.at("size"), kRows);
    EXPECT_EQ(report.at("index"), index);
    EXPECT_EQ(report.at("anchors"), kRows);
    EXPECT_EQ(report.at("triplets"), kRows);
    EXPECT_EQ(report.at("mined_violating"), report.at("mined"));
    EXPECT_EQ(sum_of_origins(report), kRows);
    for (const std::string distance : {"positive_distance", "negative_distance"}) {
      double before = 0;
      for (const char* level : {"_min", "_p5", "_p25", "_median", "_p75", "_p95", "_max"}) {
        const double value = report.at(distance + level);
        EXPECT_GE(value, before) << distance << level;
        EXPECT_LE(value, 4) << distance << level;
        before = value;
      }
    }
  }
}

TEST_F(Mine, HasNoQuantilesWhereNothingWasMined) {
  const json report = run_json(from_embeddings(), {"--mined-fraction", "0"});
  EXPECT_EQ(report.at("random_by_share"), kRows);
  EXPECT_EQ(report.at("negative_distance_count"), 0);
  EXPECT_TRUE(report.at("negative_distance_median").is_null());
  expect_sound();
}

TEST_F(Mine, PrintsATableForPeople) {
  const Outcome outcome = run(from_embeddings());
  EXPECT_EQ(outcome.status, 0);
  for (const char* part : {"mined", "random", "no negative beyond the bound", "anchor to negative", "selection seconds", "t.npy"})
    EXPECT_THAT(outcome.out, HasSubstr(part));
  const Outcome quiet = run(from_embeddings(), {"--kappa", "1.1", "--quiet"});
  EXPECT_EQ(quiet.status, 0);
  EXPECT_EQ(quiet.out + quiet.err, "");
}

TEST_F(Mine, WritesTheSameBytesAtAnyNumberOfThreads) {
  const std::vector<std::vector<std::string>> ways = {{"--index", "exact"},
                                                      {"--index", "fanng"},
                                                      {"--triplets-per-anchor", "3", "--mined-fraction", "0.5"},
                                                      {"--max-negative-uses", "2"},
                                                      {"--neighbors", "5", "--kappa", "8", "--longer-lists"}};
  for (const auto& way : ways) {
    SCOPED_TRACE(way.front() + " " + way[1]);
    for (const std::string threads : {"1", "3"}) {
      std::vector<std::string> arguments = way;
      arguments.insert(arguments.end(), {"--threads", threads, "--quiet", "--output", folder_ / (threads + ".npy")});
      if (way.front() != "--neighbors") arguments.insert(arguments.end(), {"--neighbors", "20"});
      ASSERT_EQ(run({"--embeddings", folder_ / "x.npy"}, arguments).status, 0);
    }
    EXPECT_EQ(read_text(folder_ / "1.npy"), read_text(folder_ / "3.npy"));
  }
}

TEST_F(Mine, GivesEachSeedItsOwnRandomTriplets) {
  std::set<std::string> files;
  for (const char* seed : {"1", "2", "1"}) {
    run_json(from_embeddings(), {"--mined-fraction", "0", "--seed", seed});
    files.insert(read_text(folder_ / "t.npy"));
  }
  EXPECT_EQ(files.size(), 2U);
}

TEST_F(Mine, MinesTheShareAndTheNumberAskedFor) {
  const json report = run_json(from_embeddings(), {"--triplets-per-anchor", "4", "--mined-fraction", "0.25", "--kappa", "1.5"});
  expect_sound(4);
  EXPECT_EQ(report.at("triplets"), 4 * kRows);
  EXPECT_EQ(report.at("random_by_share"), 3 * kRows);
  const auto all = triplets();
  for (std::size_t i = 0; i < kRows; ++i) {
    std::set<std::int64_t> negatives;
    for (std::size_t j = 0; j < 4; ++j) negatives.insert(all[4 * i + j][2]);
    EXPECT_EQ(negatives.size(), 4U) << "anchor " << i << " has a negative twice";
  }
}

TEST_F(Mine, TakesPositivesNearerThanTheNegativeOnlyWhenAskedTo) {
  // Lists much longer than a class hold the whole of most.
  const std::vector<std::string> from = {"--embeddings", folder_ / "x.npy", "--neighbors", "300", "--kappa", "2"};
  const json strict = run_json(from);
  EXPECT_EQ(strict.at("mined_nearer_positive"), 0);
  EXPECT_GT(strict.at("random_no_farther_positive"), 0);
  const json nearer = run_json(from, {"--nearer-positives"});
  expect_sound();
  EXPECT_GT(nearer.at("mined_nearer_positive"), 0);
  EXPECT_EQ(nearer.at("mined"), strict.at("mined"));
  EXPECT_EQ(nearer.at("mined_nearer_positive").get<int>() + nearer.at("random_no_farther_positive").get<int>(),
            strict.at("random_no_farther_positive"));
}

TEST_F(Mine, KeepsToTheCapOnNegatives) {
  const json limited = run_json(from_embeddings(), {"--hub-limit", "2", "--kappa", "1.5"});
  EXPECT_GT(limited.at("cap_skipped"), 0);
  EXPECT_THAT(limited.at("note").get<std::string>(), HasSubstr("because it had served 2 times already"));
  const json report = run_json(from_embeddings(), {"--max-negative-uses", "2", "--kappa", "1.5"});
  EXPECT_GT(report.at("cap_skipped"), 0);
  EXPECT_EQ(report.at("negatives_forced"), 0);
  std::map<std::int64_t, int> uses;
  const auto all = triplets();
  for (std::size_t i = 0; i < all.rows; ++i) ++uses[all[i][2]];
  for (const auto& [id, count] : uses) EXPECT_LE(count, 2) << id;
}

TEST_F(Mine, LeavesTheFirstRanksAlone) {
  const json report = run_json(from_embeddings(), {"--min-negative-rank", "25", "--kappa", "1.01"});
  EXPECT_GT(report.at("rank_skipped"), 0);
  const auto all = triplets();
  std::size_t in_front = 0;
  for (std::size_t i = 0; i < kRows; ++i) {
    const auto list = true_list(values_, kDimension, i, 25);
    in_front += std::any_of(list.begin(), list.end(), [&](const Neighbor& neighbor) { return neighbor.id == all[i][2]; });
  }
  // A random negative may still be a near one.
  EXPECT_LE(in_front, report.at("random_no_negative").get<std::size_t>() + report.at("random_no_positive").get<std::size_t>());
}

TEST_F(Mine, SuggestsLongerListsAndFetchesThemWhenAskedTo) {
  const std::vector<std::string> from = {"--embeddings", folder_ / "x.npy", "--neighbors", "3"};
  const Outcome outcome = run(from, {"--json"});
  const json short_lists = json::parse(outcome.out);
  const std::size_t suggested = short_lists.at("suggested_neighbors");
  EXPECT_GT(suggested, 3U);
  EXPECT_THAT(outcome.err, HasSubstr("lists of about " + std::to_string(suggested)));
  EXPECT_THAT(short_lists.at("note").get<std::string>(), HasSubstr("lists of about " + std::to_string(suggested)));
  EXPECT_EQ(short_lists.at("extended_anchors"), 0);

  const json longer = run_json(from, {"--longer-lists"});
  expect_sound();
  EXPECT_GT(longer.at("extended_anchors"), 0);
  EXPECT_EQ(longer.at("extended_neighbors"), 48) << "16 times as long by default";
  EXPECT_LT(longer.at("random_no_negative"), short_lists.at("random_no_negative"));
  EXPECT_GT(longer.at("stage_seconds").at("longer_lists"), 0);
  EXPECT_GT(longer.at("distance_computations"), short_lists.at("distance_computations"));

  // With as long a list as there is, nobody lacks a positive; and the true lists are what is fetched.
  const json longest = run_json(from, {"--longer-lists", "--longest-list", "100000", "--kappa", "1.5"});
  EXPECT_EQ(longest.at("random_no_positive"), 0);
  EXPECT_EQ(longest.at("random_no_negative"), 0);
  const auto all = triplets();
  for (std::size_t i = 0; i < kRows; ++i) {
    const auto list = true_list(values_, kDimension, i, kRows - 1);
    const auto expected = plain_triplet(i, list, labels_, 1.5);
    if (!expected.empty()) {
      EXPECT_EQ(all[i][2], expected[2]) << "anchor " << i;
    }
  }
}

TEST_F(Mine, KeepsTheGraphAndStartsWithAnyIndex) {
  const json report = run_json(from_embeddings(), {"--graph", folder_ / "g", "--kappa", "1.5"});
  EXPECT_EQ(report.at("index"), "fanng");
  EXPECT_TRUE(std::filesystem::exists(folder_ / "g"));
  EXPECT_FALSE(report.at("list_stage_seconds").empty());
  expect_sound();
}

TEST_F(Mine, ReadsOptionsFromAFile) {
  write_text(folder_ / "settings.toml", "neighbors = 30\nkappa = 2.5\n\n[mine]\ntriplets-per-anchor = 2\n\n[knn]\nneighbors = 7\n");
  const json report = run_json({"--embeddings", folder_ / "x.npy"}, {"--config", folder_ / "settings.toml"});
  EXPECT_EQ(report.at("kappa"), 2.5);
  EXPECT_EQ(report.at("neighbors"), 30);
  EXPECT_EQ(report.at("triplets"), 2 * kRows);
}

TEST_F(Mine, WarnsWhenTheListsAreOfOtherEmbeddings) {
  write_lists();
  std::vector<std::string> both = from_lists();
  both.insert(both.end(), {"--embeddings", folder_ / "x.npy", "--kappa", "1.1"});
  EXPECT_EQ(run(both, {"--json"}).err, "");

  for (float& distance : distances_) distance = std::sqrt(distance);  // not squared, an easy mistake
  rewrite_lists();
  const Outcome outcome = run(both, {"--json"});
  EXPECT_EQ(outcome.status, 0);
  for (const char* part : {"warning", "d.npy", "x.npy", "point 0", "squared"}) EXPECT_THAT(outcome.err, HasSubstr(part));
  EXPECT_THAT(json::parse(outcome.out).at("note").get<std::string>(), HasSubstr("does not fit"));
}

TEST_F(Mine, PrintsSoundJsonWhateverFilesAreCalled) {
  write_lists();
  for (float& distance : distances_) distance *= 2;
  rewrite_lists();
  std::filesystem::rename(folder_ / "d.npy", folder_ / "d\xff.npy");
  const Outcome outcome =
      run({"--ids", folder_ / "i.npy", "--distances", folder_ / "d\xff.npy", "--embeddings", folder_ / "x.npy"}, {"--json"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(json::parse(outcome.out).at("note").get<std::string>(), HasSubstr("does not fit"));
}

TEST_F(Mine, CountsAndMentionsPointsAloneInTheirClass) {
  labels_[5] = 1000;
  labels_[77] = -1000;
  write_int64(folder_ / "y.npy", labels_);
  const Outcome outcome = run(from_embeddings(), {"--json"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("2 points are alone in their class"));
  const json report = json::parse(outcome.out);
  EXPECT_EQ(report.at("single_member_classes"), 2);
  EXPECT_EQ(report.at("anchors_skipped"), 2);
  EXPECT_EQ(report.at("anchors"), kRows - 2);
  EXPECT_THAT(report.at("note").get<std::string>(), HasSubstr("alone"));
  const auto all = triplets();
  EXPECT_EQ(all.rows, kRows - 2);
  for (std::size_t i = 0; i < all.rows; ++i)
    for (std::size_t j = 0; j < 2; ++j) EXPECT_TRUE(all[i][j] != 5 && all[i][j] != 77);
  EXPECT_THAT(run(from_embeddings()).out, HasSubstr("2 points are alone in their class"));
}

TEST_F(Mine, DrawsRandomTripletsWhenAllPointsAreInOnePlace) {
  write_matrix(folder_ / "x.npy", std::vector<float>(kRows * kDimension, 0.5F), kRows, kDimension);
  const json report = run_json(from_embeddings());
  expect_sound();
  EXPECT_EQ(report.at("mined"), 0);
  EXPECT_EQ(sum_of_origins(report), kRows);
  // The lists hold the lowest ids only, and nothing beyond the bound but duplicates.
  EXPECT_GT(report.at("duplicates_skipped"), 0);
  EXPECT_EQ(run_json(from_embeddings(), {"--keep-duplicates"}).at("duplicates_skipped"), 0);
}

TEST_F(Mine, RefusesOptionsOutOfRange) {
  const std::vector<std::pair<std::string, std::string>> wrong = {{"--kappa", "0"},
                                                                  {"--kappa", "-4"},
                                                                  {"--kappa", "nan"},
                                                                  {"--kappa", "inf"},
                                                                  {"--kappa", "1e999"},
                                                                  {"--kappa", "four"},
                                                                  {"--kappa", ""},
                                                                  {"--mined-fraction", "-0.1"},
                                                                  {"--mined-fraction", "1.1"},
                                                                  {"--mined-fraction", "nan"},
                                                                  {"--mined-fraction", "50%"},
                                                                  {"--margin", "0"},
                                                                  {"--margin", "inf"},
                                                                  {"--triplets-per-anchor", "0"},
                                                                  {"--triplets-per-anchor", "65537"},
                                                                  {"--triplets-per-anchor", "1.5"},
                                                                  {"--min-negative-rank", "-1"},
                                                                  {"--max-negative-uses", "-1"},
                                                                  {"--hub-limit", "0.5"},
                                                                  {"--duplicate-distance", "-1"},
                                                                  {"--longest-list", "0"},
                                                                  {"--threads", "-1"},
                                                                  {"--output", ""}};
  for (const auto& [option, value] : wrong) {
    SCOPED_TRACE(option + "=" + value);
    std::vector<std::string> more = {option + "=" + value};
    if (option == "--output") more = {option, value};
    expect_refused(2, {option}, from_embeddings(), more);
  }
  expect_refused(2, {"--neighbors is 600"}, {"--embeddings", folder_ / "x.npy", "--neighbors", "600"});
}

TEST_F(Mine, RefusesOptionsThatContradictEachOther) {
  write_lists();
  expect_refused(2, {"--embeddings is missing"}, {});
  expect_refused(2, {"--distances is missing"}, {"--ids", folder_ / "i.npy"});
  expect_refused(2, {"--ids is missing"}, {"--distances", folder_ / "d.npy"});
  for (const char* option : {"--index", "--start", "--graph", "--recall", "--success-rate", "--max-degree"}) {
    SCOPED_TRACE(option);
    const std::map<std::string, std::string> values = {{"--index", "fanng"}, {"--start", "random"},     {"--graph", folder_ / "g"},
                                                       {"--recall", "0.9"},  {"--success-rate", "0.9"}, {"--max-degree", "40"}};
    expect_refused(2, {option, "--ids"}, from_lists(), {option, values.at(option)});
  }
  expect_refused(2, {"--neighbors is 31", "i.npy"}, from_lists(), {"--neighbors", "31"});
  expect_refused(2, {"--longer-lists needs --embeddings"}, from_lists(), {"--longer-lists"});
  expect_refused(2, {"--longest-list"}, from_embeddings(), {"--longest-list", "100"});
  expect_refused(2, {"--longest-list is 30"}, from_embeddings(), {"--longer-lists", "--longest-list", "30"});
  expect_refused(2, {"overwrite"}, from_embeddings(), {"--output", folder_ / "y.npy"});
  expect_refused(2, {"overwrite"}, from_lists(), {"--output", folder_ / "d.npy"});
  expect_refused(2, {"twice"}, from_embeddings(), {"--graph", folder_ / "t.npy"});
  EXPECT_EQ(smartmine({"mine", "--embeddings", folder_ / "x.npy", "--output", folder_ / "t.npy"}).status, 2) << "no labels";
  EXPECT_EQ(smartmine({"mine", "--embeddings", folder_ / "x.npy", "--labels", folder_ / "y.npy"}).status, 2) << "no output";
}

TEST_F(Mine, RefusesLabelsOfAnotherLength) {
  labels_.pop_back();
  write_int64(folder_ / "y.npy", labels_);
  expect_refused(1, {"y.npy: 599 labels", "x.npy has 600 rows"}, from_embeddings());
  write_lists();
  expect_refused(1, {"y.npy: 599 labels", "i.npy has 600 rows"}, from_lists());
}

TEST_F(Mine, LooksForAKappaWhenAskedToAndSuggestsOneWhenHardlyAnythingIsMined) {
  const json too_large = run_json(from_embeddings(), {"--kappa", "1000000"});
  EXPECT_EQ(too_large.at("mined"), 0);
  EXPECT_THAT(too_large.at("note").get<std::string>(),
              ::testing::ContainsRegex(
                  "only 0 of 600 triplets were mined; --kappa [0-9.]+ would mine [0-9]+ % of them, and --kappa auto finds it"));
  const json found = run_json(from_embeddings(), {"--kappa", "auto"});
  const double kappa = found.at("kappa").get<double>();
  EXPECT_GT(kappa, 0);
  EXPECT_LE(kappa, 4);
  EXPECT_GT(found.at("stage_seconds").at("kappa_search"), 0);
  const auto mined = [](const json& report) {
    return report.at("mined").get<double>() + report.at("mined_outside_positive").get<double>();
  };
  EXPECT_GT(mined(found), kRows / 2.0);
  // No other one mines much more, and a larger one less.
  for (const double other : {4.0, 2.0, 1.0, 0.5, 0.25, 0.1})
    EXPECT_LE(0.9 * mined(run_json(from_embeddings(), {"--kappa", std::to_string(other)})), mined(found)) << other;
  const json given = run_json(from_embeddings(), {"--kappa", fmt::format("{}", kappa)});
  EXPECT_EQ(given.at("mined"), found.at("mined"));
  before_.insert("t.npy");
  expect_refused(2, {"--kappa", "nor auto"}, from_embeddings(), {"--kappa", "some", "--output", folder_ / "u.npy"});
}

TEST_F(Mine, SaysFirstThatLabelsAreOfAnotherLengthAndWhatTextIs) {
  write_int64(folder_ / "y.npy", std::vector<std::int64_t>(50, 1));
  expect_refused(1, {"y.npy: 50 labels", "x.npy has 600 rows"}, from_embeddings());
  write_raw_npy(folder_ / "y.npy", "{'descr': '<U5', 'fortran_order': False, 'shape': (2,), }", std::string(40, 'a'));
  expect_refused(1, {"y.npy: the values are text ('<U5'), numbers are needed", "np.unique"}, from_embeddings());
}

TEST_F(Mine, RefusesLabelsThatAllowNoTriplet) {
  write_int64(folder_ / "y.npy", std::vector<std::int64_t>(kRows, -7));
  expect_refused(1, {"y.npy", "one class only", "-7"}, from_embeddings());
  std::iota(labels_.begin(), labels_.end(), -300);
  write_int64(folder_ / "y.npy", labels_);
  expect_refused(1, {"y.npy"}, from_embeddings());
}

TEST_F(Mine, RefusesLabelsThatAreNone) {
  write_matrix(folder_ / "y.npy", std::vector<float>(kRows), kRows, 1);
  expect_refused(1, {"y.npy", "whole numbers"}, from_embeddings());
  write_int64(folder_ / "y.npy", labels_, 2);
  expect_refused(1, {"y.npy", "(300, 2)"}, from_embeddings());
  write_int64(folder_ / "y.npy", {});
  expect_refused(1, {"y.npy", "no labels"}, from_embeddings());
  expect_refused(1, {"nowhere.npy"}, from_embeddings(), {"--labels", folder_ / "nowhere.npy"});
}

TEST_F(Mine, NamesTheRowAndColumnOfTheFirstValueThatIsNotFinite) {
  write_lists();
  values_[17 * kDimension + 5] = std::numeric_limits<float>::quiet_NaN();
  write_matrix(folder_ / "x.npy", values_, kRows, kDimension);
  expect_refused(1, {"x.npy: embeddings hold NaN at row 17, column 5"}, from_embeddings(), {"--quiet"});
  std::vector<std::string> both = from_lists();
  both.insert(both.end(), {"--embeddings", folder_ / "x.npy"});
  expect_refused(1, {"x.npy: embeddings hold NaN at row 17, column 5"}, both, {"--quiet"});
}

// Lists from elsewhere are wrong in many ways; the first wrong place is named.
class MineGivenLists : public Mine {
 protected:
  MineGivenLists() { write_lists(); }
  void expect_place(std::size_t point, std::size_t place, const std::string& what) {
    rewrite_lists();
    expect_refused(1, {"point " + std::to_string(point) + ", place " + std::to_string(place), what, "i.npy", "d.npy"}, from_lists(),
                   {"--quiet"});
  }
  std::int32_t& id(std::size_t point, std::size_t place) { return ids_[point * kNeighbors + place]; }
  float& distance(std::size_t point, std::size_t place) { return distances_[point * kNeighbors + place]; }
};

TEST_F(MineGivenLists, ThatNameTheirOwnPointAreRefused) {
  id(400, 0) = 400;
  id(200, 4) = 200;
  expect_place(200, 4, "its own point");
}

TEST_F(MineGivenLists, ThatNamePointsOutOfRangeAreRefused) {
  id(3, 29) = static_cast<std::int32_t>(kRows);
  expect_place(3, 29, "600 is out of range");
  id(3, 29) = -1;  // what some libraries put where they found nothing
  rewrite_lists();
  expect_refused(1, {"i.npy", "-1", "row 3, column 29"}, from_lists(), {"--quiet"});
}

TEST_F(MineGivenLists, ThatAreUnsortedAreRefused) {
  std::swap(distance(599, 10), distance(599, 20));
  std::swap(id(599, 10), id(599, 20));
  expect_place(599, 11, "nearest first");
}

TEST_F(MineGivenLists, ThatNameAPointTwiceAreRefused) {
  id(42, 7) = id(42, 2);
  expect_place(42, 7, "twice");
}

TEST_F(MineGivenLists, WithDistancesThatAreNoneAreRefused) {
  distance(0, 0) = -0.5F;
  expect_place(0, 0, "-0.5");
  distance(0, 0) = 0;
  distance(8, 29) = std::numeric_limits<float>::infinity();
  expect_place(8, 29, "inf");
  distance(8, 29) = std::numeric_limits<float>::quiet_NaN();
  expect_place(8, 29, "nan");
}

TEST_F(MineGivenLists, OfAnotherShapeAreRefused) {
  write_matrix(folder_ / "d.npy", distances_, kRows / 2, kNeighbors * 2);
  expect_refused(1, {"d.npy", "300 rows of 60", "600 rows of 30"}, from_lists());
  rewrite_lists();
  write_matrix(folder_ / "x.npy", clustered_rows(kRows + 1, kDimension), kRows + 1, kDimension);
  std::vector<std::string> both = from_lists();
  both.insert(both.end(), {"--embeddings", folder_ / "x.npy"});
  expect_refused(1, {"600 labels", "x.npy has 601 rows"}, both);
  write_matrix(folder_ / "i.npy", distances_, kRows, kNeighbors);
  expect_refused(1, {"i.npy", "float32"}, from_lists());
}

TEST_F(Mine, SaysThatTheOutputFolderIsMissingBeforeAnyWork) {
  std::filesystem::remove(folder_ / "y.npy");
  before_ = folder_.names();
  expect_refused(1, {"nowhere"}, from_embeddings(), {"--output", folder_ / "nowhere/t.npy"});
}

TEST_F(Mine, LeavesAnEarlierResultAloneWhenTheDiskIsFull) {
  write_text(folder_ / "t.npy", "earlier");
  before_ = folder_.names();
  // 600 triplets take 14 kB. The limit would end a process that does not ignore its signal.
  expect_refused(1, {"t.npy"}, from_embeddings(), {"--quiet", "--kappa", "1.1"},
                 {.environment = {}, .most_bytes_per_file = 4096, .out = {}});
  EXPECT_EQ(read_text(folder_ / "t.npy"), "earlier");
}

TEST_F(Mine, SaysSoWhenItsReportCannotBeWritten) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "no /dev/full here";
  const Outcome outcome = run(from_embeddings(), {"--json"}, {.environment = {}, .out = "/dev/full"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, HasSubstr("standard output"));
}

TEST(CommandLine, HelpOfMineNamesEveryOption) {
  const Outcome outcome = smartmine({"mine", "--help"});
  EXPECT_EQ(outcome.status, 0);
  for (const char* option : {"--embeddings",
                             "--labels",
                             "--output",
                             "--ids",
                             "--distances",
                             "--kappa",
                             "--triplets-per-anchor",
                             "--mined-fraction",
                             "--margin",
                             "--nearer-positives",
                             "--keep-duplicates",
                             "--min-negative-rank",
                             "--max-negative-uses",
                             "--hub-limit",
                             "--duplicate-distance",
                             "--longer-lists",
                             "--longest-list",
                             "--neighbors",
                             "--index",
                             "--start",
                             "--graph",
                             "--recall",
                             "--success-rate",
                             "--max-degree",
                             "--seed",
                             "--threads",
                             "--json",
                             "--quiet"})
    EXPECT_THAT(outcome.out, HasSubstr(option));
  EXPECT_THAT(outcome.out, HasSubstr("Examples:"));
}

// The dozen points of docs/mining.md.
TEST(MineByHand, FindsNothingInsideALargeBoundaryAndOneViolatingTripletBeyondASmallerOne) {
  const TemporaryFolder folder;
  write_matrix(folder / "x.npy", {0, 0, 1, 0, -1, -2, 0.5, 0.5, -1, 1, 1.5, -0.5, 1, 1.5, 4, 3, 5, 1, -4, 3, -5, -1, 3, -4}, 12, 2);
  write_int32(folder / "y.npy", {1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 3});
  const auto mine = [&](const std::string& kappa) {
    const Outcome outcome = smartmine({"mine", "--embeddings", folder / "x.npy", "--labels", folder / "y.npy", "--neighbors", "6",
                                       "--kappa", kappa, "--output", folder / "t.npy", "--json"});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return json::parse(outcome.out);
  };
  // Point 0 is the only difference between the two.
  const json large = mine("4");
  const auto first = read_int64(folder / "t.npy");
  const json small = mine("3");
  const auto second = read_int64(folder / "t.npy");
  EXPECT_EQ(std::vector<std::int64_t>(second[0], second[0] + 3), (std::vector<std::int64_t>{0, 2, 6}));
  EXPECT_GE(large.at("random_no_negative"), 1);
  EXPECT_LT(small.at("random_no_negative"), large.at("random_no_negative"));
  EXPECT_EQ(first.rows, 12U);
  EXPECT_EQ(small.at("mined_violating"), small.at("mined"));
}

}  // namespace
}  // namespace smartmine::test
