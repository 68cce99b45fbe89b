#include "smartmine/report/compare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "report/made_finished_run.h"
#include "smartmine/core/error.h"
#include "smartmine/run/choice.h"

namespace smartmine::test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class Compare : public ::testing::Test {
 protected:
  Compare() {
    std::string pattern = (std::filesystem::temp_directory_path() / "smartmine-compare-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
  }
  ~Compare() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  std::filesystem::path make(const std::string& name, const FinishedRun& made = {}) {
    make_finished_run(folder_ / name, made);
    return folder_ / name;
  }
  Comparison compare(const std::vector<std::filesystem::path>& runs) { return compare_runs(runs); }
  std::vector<std::string> names(const Comparison& comparison) {
    std::vector<std::string> all;
    for (const RunGroup& group : comparison.groups) all.push_back(group.name);
    return all;
  }

  std::filesystem::path folder_;
};

TEST(Spread, IsThatOfASample) {
  const Spread spread = spread_of(std::array{2.0, 4.0, 9.0});
  EXPECT_DOUBLE_EQ(spread.mean, 5);
  EXPECT_DOUBLE_EQ(spread.deviation, std::sqrt((9 + 1 + 16) / 2.0));
  EXPECT_EQ(spread.count, 3U);
  const Spread one = spread_of(std::array{0.1});
  EXPECT_EQ(one.mean, 0.1);
  EXPECT_EQ(one.deviation, 0);
  EXPECT_EQ(spread_of({}).count, 0U);
}

TEST_F(Compare, RunsThatDifferInSeedAndPlaceOnlyAreOneGroup) {
  const Comparison comparison = compare(
      {make("a", {.seed = 1, .recall = 0.50, .more = "threads = 2\ndevice = \"cpu\"\ndata-root = \"/one\"\nweights = \"/one/w.pt\"\n"}),
       make("b", {.system = "triplet-global", .recall = 0.4}),
       make("c", {.seed = 2, .recall = 0.53, .seconds = 20, .more = "threads = 8\nsave-epochs = [4, 8]\nweights = \"/two/w.pt\"\n"})});
  EXPECT_THAT(names(comparison), ElementsAre("triplet-fanng-global", "triplet-global"));
  EXPECT_THAT(comparison.notes, IsEmpty());
  const RunGroup& group = comparison.groups[0];
  EXPECT_EQ(group.runs.size(), 2U);
  EXPECT_EQ(group.epochs, 2);
  EXPECT_NEAR(group.metrics.at("recall@1").mean, 0.515, 1e-12);
  EXPECT_NEAR(group.metrics.at("recall@1").deviation, 0.03 / std::sqrt(2.0), 1e-12);
  EXPECT_NEAR(group.metrics.at("nmi").mean, 0.615, 1e-12);
  EXPECT_NEAR(group.seconds.mean, 45, 1e-12);  // three lines each
  EXPECT_NEAR(group.by_epoch.at(1).at("recall@1").mean, 0.415, 1e-12);
  EXPECT_FALSE(group.by_epoch.at(1).contains("kappa"));
  EXPECT_EQ(group.by_epoch.at(2).at("kappa").mean, 2.5);
}

TEST_F(Compare, TakesTheFiguresOfKeptWeightsOnlyAsLongAsTheRunHasThem) {
  const auto run = make("run");
  Choice choice;
  choice.decided = true;
  choice.kept = {.epoch = 2, .share = 1, .metrics = RetrievalMetrics{.split = "test", .recall_at_1 = 0.75}};
  write_choice(run, choice);
  Comparison comparison = compare({run});
  EXPECT_EQ(comparison.groups[0].metrics.at("recall@1").mean, 0.75);
  EXPECT_THAT(comparison.notes, IsEmpty());
  choice.kept->epoch = 1;  // it has been made longer, and killed before it kept something again
  write_choice(run, choice);
  comparison = compare({run});
  EXPECT_EQ(comparison.groups[0].metrics.at("recall@1").mean, 0.5);
  const std::string how = ": what to keep is not settled yet; smartmine train --resume " + run.string() + " does it";
  const auto not_settled = ElementsAre(run.string() + how);
  EXPECT_THAT(comparison.notes, not_settled);
  choice.kept.reset();
  write_choice(run, choice);
  EXPECT_THAT(compare({run}).notes, not_settled);
  choice.kept = {.epoch = 2, .share = 0.75, .metrics = {}};  // killed while what is kept was measured
  write_choice(run, choice);
  EXPECT_THAT(compare({run}).notes, not_settled);
  choice.kept->share = 1;  // the last epoch's figures are those of what is kept
  write_choice(run, choice);
  EXPECT_THAT(compare({run}).notes, IsEmpty());
}

TEST_F(Compare, NamesWhatSetsGroupsOfOneSystemApart) {
  const Comparison comparison =
      compare({make("a", {.more = "kappa = 4\nmargin = 0.2\n"}), make("b", {.more = "kappa = 16\nmargin = 0.2\n"}),
               make("c", {.system = "triplet-fanng", .more = "kappa = 8\nmargin = 0.2\n"})});
  EXPECT_THAT(names(comparison), ElementsAre("triplet-fanng-global, kappa 4", "triplet-fanng-global, kappa 16", "triplet-fanng"));
  const Comparison two = compare(
      {make("d", {.dataset = "glyphs"}), make("e", {.dataset = "cub200", .more = "dropout = 0.2\n"}), make("f", {.dataset = "cub200"})});
  EXPECT_THAT(names(two), ElementsAre("glyphs: triplet-fanng-global", "cub200: triplet-fanng-global, dropout 0.2",
                                      "cub200: triplet-fanng-global, dropout unset"));
}

TEST_F(Compare, FoldersInTwoPlacesAreTwoDataSets) {
  const auto on = [&](const std::string& name, const std::string& root, const FinishedRun& made = {}) {
    FinishedRun run = made;
    run.dataset = "folder";
    run.more += "data-root = \"" + root + "\"\n";
    return make(name, run);
  };
  // The same folder, written in three ways.
  const auto a = on("a", "/sets/birds"), b = on("b", "/sets/cars/../birds/", {.seed = 2}), c = on("c", "/sets//birds/.", {.seed = 3});
  const Comparison one = compare({a, b, c});
  EXPECT_THAT(names(one), ElementsAre("triplet-fanng-global"));
  EXPECT_EQ(one.groups[0].runs.size(), 3U);
  EXPECT_THAT(one.notes, IsEmpty());

  const auto d = on("d", "/sets/cars", {.recall = 0.9}), e = on("e", "/sets/cars", {.system = "npairs"});
  const Comparison two = compare({a, d, b});
  EXPECT_THAT(names(two), ElementsAre("folder birds: triplet-fanng-global", "folder cars: triplet-fanng-global"));
  EXPECT_EQ(two.groups[0].metrics.at("recall@1").deviation, 0);
  EXPECT_EQ(two.groups[0].dataset, "folder");
  EXPECT_THAT(names(compare({a, e})), ElementsAre("folder birds: triplet-fanng-global", "folder cars: npairs"));
  EXPECT_THAT(names(compare({a, make("f")})), ElementsAre("folder: triplet-fanng-global", "cub200: triplet-fanng-global"));

  // As much of the path as tells them apart.
  const auto g = on("g", "/birds/images"), h = on("h", "/cars/images"), i = on("i", "/images");
  EXPECT_THAT(names(compare({g, h, a})),
              ElementsAre("folder birds/images: triplet-fanng-global", "folder cars/images: triplet-fanng-global",
                          "folder birds: triplet-fanng-global"));
  EXPECT_THAT(names(compare({g, i})), ElementsAre("folder birds/images: triplet-fanng-global", "folder /images: triplet-fanng-global"));
  const auto j = on("j", "/sets/cars", {.more = "kappa = 4\n"}), k = on("k", "/sets/cars", {.more = "kappa = 8\n"});
  EXPECT_THAT(names(compare({a, j, k})), ElementsAre("folder birds: triplet-fanng-global", "folder cars: triplet-fanng-global, kappa 4",
                                                     "folder cars: triplet-fanng-global, kappa 8"));
}

TEST_F(Compare, LeavesOutWhatIsNotFinishedAndSaysSo) {
  const Comparison comparison = compare({make("whole"), make("half", {.epochs_done = 1, .seed = 2})});
  ASSERT_EQ(comparison.groups.size(), 1U);
  EXPECT_EQ(comparison.groups[0].runs.size(), 1U);
  EXPECT_THAT(comparison.notes, ElementsAre((folder_ / "half").string() + ": not finished: 1 of 2 epochs; left out"));
  EXPECT_THROW(compare({folder_ / "half"}), IoError);
}

TEST_F(Compare, SaysWhenASeedCountsTwice) {
  const Comparison comparison = compare({make("a"), make("b")});
  ASSERT_EQ(comparison.notes.size(), 1U);
  EXPECT_THAT(comparison.notes[0], HasSubstr("the same seed, 1"));
}

TEST_F(Compare, RefusesWhatIsNoRun) {
  EXPECT_THROW(compare({}), InvalidArgument);
  const auto run = make("a");
  EXPECT_THROW(compare({run, folder_ / "." / "a"}), InvalidArgument);
  EXPECT_THROW(compare({run, folder_ / "nowhere"}), IoError);
  std::filesystem::create_directories(folder_ / "empty");
  EXPECT_THROW(compare({folder_ / "empty"}), IoError);
  const Comparison among = compare({run, folder_ / "empty"});  // as runs/* gives it
  EXPECT_EQ(among.groups.size(), 1U);
  EXPECT_THAT(among.notes, ::testing::Contains(::testing::HasSubstr("empty: not the folder of a run: it has no config.toml; left out")));
  EXPECT_THROW((ComparisonOptions{.paper = "omniglot"}.validate()), InvalidArgument);
}

TEST_F(Compare, PutsThePaperOursAndTheDifferenceIntoOneTable) {
  const Comparison comparison =
      compare({make("a", {.recall = 0.50}), make("b", {.seed = 2, .recall = 0.52}), make("c", {.system = "hard-pairs"}),
               make("d", {.system = "npairs", .evaluated_on = "validation"})});
  const std::string text = comparison_tables(comparison, {.paper = "cub200"});
  EXPECT_THAT(text,
              AllOf(HasSubstr("| triplet-fanng-global | paper      |      |        |        49.44 |"), HasSubstr("| 51.00 ± 1.41 |"),
                    HasSubstr("|        +1.56 |"), HasSubstr("| hard-pairs           | ours       |    1 |      2 |        50.00 |")));
  EXPECT_THAT(text, HasSubstr("| npairs               | ours "));  // measured on other classes than the paper
  // Every row has the same columns in the same places.
  std::size_t width = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const auto letters = static_cast<std::size_t>(
        std::count_if(line.begin(), line.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
    if (width == 0) width = letters;
    EXPECT_EQ(letters, width) << line;
  }
  EXPECT_THAT(comparison_tables(comparison, {}), Not(HasSubstr("paper")));
  const auto json = nlohmann::json::parse(comparison_json(comparison, {.paper = "cub200"}));
  EXPECT_NEAR(json.at("groups").at(0).at("difference").at("recall@1").get<double>(), 0.0156, 1e-9);
  EXPECT_FALSE(json.at("groups").at(1).contains("paper"));
  EXPECT_TRUE(json.at("groups").at(1).at("recall@1").at("deviation").is_null());
}

TEST_F(Compare, SaysHowMuchWasMinedAndByWhichIndex) {
  const Comparison comparison = compare({make("a", {.mined = 0.9}), make("b", {.seed = 2, .mined = 0.8}), make("c", {.system = "npairs"})});
  EXPECT_NEAR(comparison.groups.at(0).mined.mean, 0.85, 1e-9);
  EXPECT_EQ(comparison.groups.at(0).index, "fanng, random");
  EXPECT_EQ(comparison.groups.at(1).mined.count, 0U);
  EXPECT_THAT(comparison_tables(comparison, {}),
              AllOf(HasSubstr("mined % |         index |"), HasSubstr("| 85.0 ± 7.1 | fanng, random |"), HasSubstr("|          - |")));
  EXPECT_THAT(comparison_tables(compare({folder_ / "c"}), {}), Not(HasSubstr("mined")));
  const auto json = nlohmann::json::parse(comparison_json(comparison, {}));
  EXPECT_NEAR(json.at("groups").at(0).at("mined").at("mean").get<double>(), 0.85, 1e-9);
  EXPECT_FALSE(json.at("groups").at(1).contains("index"));
}

TEST_F(Compare, ShowsWhatMiningTookAndWhyTripletsAreRandom) {
  const auto a = make("a", {.epochs = 3, .epochs_done = 3, .mined = 0.75});
  const auto b = make("b", {.epochs = 3, .epochs_done = 3, .seed = 2, .mined = 0.5});
  const Comparison comparison = compare({a, b, make("c", {.system = "npairs"})});
  const auto& mining = comparison.groups.at(0).mining;
  EXPECT_NEAR(mining.at("lists_seconds").mean, 0.625, 1e-9) << "of epochs 2 and 3";
  EXPECT_NEAR(mining.at("random_no_farther_positive").mean, 0.375, 1e-9);
  EXPECT_TRUE(comparison.groups.at(1).mining.empty());
  const std::string text = comparison_tables(comparison, {});
  EXPECT_THAT(text, AllOf(HasSubstr("| system               | index         |    lists, s | longer lists, s |  selection, s |"),
                          HasSubstr("| success rate % |  its bound % |     degree | no farther positive % |"),
                          HasSubstr(" | no negative beyond the bound % |\n"),
                          HasSubstr("| triplet-fanng-global | fanng, random | 0.62 ± 0.00 |     0.12 ± 0.00 | 0.010 ± 0.000 |"),
                          HasSubstr("|   98.50 ± 0.00 | 98.10 ± 0.00 | 25.5 ± 0.0 |           37.5 ± 17.7 |"),
                          HasSubstr(" |                      0.0 ± 0.0 |\n")));
  EXPECT_THAT(text, Not(HasSubstr("no positive in the list"))) << "the log does not say";
  const auto json = nlohmann::json::parse(comparison_json(comparison, {}));
  EXPECT_NEAR(json.at("groups").at(0).at("mining").at("mean_degree").at("mean").get<double>(), 25.5, 1e-9);
  EXPECT_FALSE(json.at("groups").at(1).contains("mining"));
  EXPECT_THAT(comparison_tables(compare({folder_ / "c"}), {}), Not(HasSubstr("Mining")));
}

TEST_F(Compare, NamesExactSearchThatStoodInForAGraph) {
  EXPECT_EQ(compare({make("a", {.mined = 0.9, .index = "exact"})}).groups.at(0).index, "exact after fanng, random");
}

TEST_F(Compare, ShowsTheCourseOfEveryGroupSideBySide) {
  const Comparison comparison = compare({make("a"), make("b", {.system = "triplet-global", .epochs = 1, .epochs_done = 1})});
  const std::string text = comparison_tables(comparison, {.by_epoch = true});
  EXPECT_THAT(text, AllOf(HasSubstr("Recall@1 by epoch, %, mean over runs:\n\n| epoch | triplet-fanng-global | triplet-global |"),
                          HasSubstr("|     1 |                40.00 |          50.00 |"),
                          HasSubstr("|     2 |                50.00 |              - |"), HasSubstr("Training error"),
                          HasSubstr("Validation error"), HasSubstr("Kappa by epoch")));
  EXPECT_EQ(nlohmann::json::parse(comparison_json(comparison, {.by_epoch = true})).at("groups").at(0).at("by_epoch").size(), 3U);
  const Comparison one_system = compare({make("c", {.more = "kappa = 4\n"}), make("d", {.more = "kappa = 16\n"})});
  EXPECT_THAT(comparison_tables(one_system, {.by_epoch = true}), HasSubstr("| epoch | kappa 4 | kappa 16 |"));
}

TEST_F(Compare, ShowsHowMuchEveryEpochMinedBesideKappa) {
  const Comparison comparison = compare({make("a", {.seed = 1, .mined = 0.8}), make("b", {.seed = 2, .mined = 0.9})});
  EXPECT_FALSE(comparison.groups[0].by_epoch.at(1).contains("mined"));
  EXPECT_NEAR(comparison.groups[0].by_epoch.at(2).at("mined").mean, 0.85, 1e-9);
  EXPECT_FALSE(comparison.groups[0].metrics.contains("mined"));
  EXPECT_THAT(comparison_tables(comparison, {.by_epoch = true}),
              HasSubstr("Mined triplets by epoch, %, mean over runs:\n\n| epoch | triplet-fanng-global |\n"
                        "|------:|---------------------:|\n|     2 |                85.00 |\n"));
  const auto json = nlohmann::json::parse(comparison_json(comparison, {.by_epoch = true}));
  EXPECT_NEAR(json.at("groups").at(0).at("by_epoch").at(2).at("mined").get<double>(), 0.85, 1e-9);
  EXPECT_THAT(comparison_tables(compare({make("c")}), {.by_epoch = true}), Not(HasSubstr("Mined triplets")));
}

TEST_F(Compare, ShowsTheAnchorsWhoseTripletsWereMinedInMostEpochs) {
  make_finished_run(folder_ / "run", {});
  // Of nine anchors, those at 1 and 4 are never mined, 6 in the first epoch only.
  for (const int epoch : {1, 2}) {
    Json anchors = Json::array();
    for (const int a : {0, 1, 2, 3, 4, 5, 6, 7, 8}) {
      const auto picture = [](int number) { return Json{{"name", std::to_string(number)}, {"class", "c"}, {"image", nullptr}}; };
      Json positive = picture(20), negative = picture(30);
      positive["distance"] = negative["distance"] = 0.5;
      const bool mined = a != 1 && a != 4 && (a != 6 || epoch == 1);
      Json anchor = picture(a);
      anchor["mined"] = Json::array({Json{{"positive", positive}, {"negative", negative}, {"kind", mined ? "mined" : "random"}}});
      anchor["random"] = Json::array();
      anchors.push_back(anchor);
    }
    write_file(folder_ / "run/report" / ("triplets-000" + std::to_string(epoch) + ".json"),
               Json{{"epoch", epoch}, {"kappa", 2.5}, {"anchors", anchors}}.dump());
  }
  const Comparison comparison = compare({folder_ / "run"});
  std::vector<std::string> shown;
  for (const ShownTriplet& one : comparison.groups[0].triplets)
    if (one.epoch == 2) shown.push_back(one.anchor);
  EXPECT_THAT(shown, ElementsAre("0", "2", "3", "5", "7", "8"));
}

TEST_F(Compare, ShowsTheTripletsOfTheSameAnchorsAtTheEpochsKept) {
  make_run(folder_ / "run");  // of six anchors at epochs 2 and 4
  const Comparison comparison = compare({folder_ / "run"});
  ASSERT_EQ(comparison.groups[0].triplets.size(), 24U);
  EXPECT_EQ(comparison.groups[0].triplets[0].anchor, "train/0");
  EXPECT_EQ(comparison.groups[0].triplets[2].anchor, "train/0");
  EXPECT_EQ(comparison.groups[0].triplets[2].epoch, 4);
  EXPECT_THAT(comparison_tables(comparison, {.triplets = true}),
              AllOf(HasSubstr("Triplets of fixed anchors in " + (folder_ / "run").string()),
                    HasSubstr("| train/0 | train/50 | train/90  | trained 6 | mined |     2 |  2.50 |       0.500 |       0.250 |")));
}

}  // namespace
}  // namespace smartmine::test
