#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <string>
#include <vector>

#include "program.h"

// scripts/reproduce.sh from its first to its last line, on characters small enough for two cores.
namespace smartmine::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr const char* kRandom = "rows/triplet-global/seed-1";

class Reproduce : public ::testing::Test {
 protected:
  std::vector<std::string> command(const std::vector<std::string>& more, const std::vector<std::string>& settings = {}) {
    std::vector<std::string> words = {
        std::string(SMARTMINE_SOURCE) + "/scripts/reproduce.sh", "glyphs", "--program", SMARTMINE_PROGRAM, "--output", folder_ / "results"};
    words.insert(words.end(), more.begin(), more.end());
    const std::vector<std::string> small = {"--", "--device",     "cpu", "--embedding-dim",       "8", "--input-size",
                                            "16", "--batch-size", "200", "--triplets-per-anchor", "1"};
    words.insert(words.end(), small.begin(), small.end());
    words.insert(words.end(), settings.begin(), settings.end());
    return words;
  }
  Outcome run(const std::vector<std::string>& more, const std::vector<std::string>& settings = {}) {
    return Process(command(more, settings)).wait();
  }
  std::filesystem::path result(const std::string& name) { return folder_.path() / "results" / name; }

  TemporaryFolder folder_;
};

TEST_F(Reproduce, GoesOnWhereItWasStoppedAndEndsWithTheTables) {
  const std::vector<std::string> parts = {"--epochs",  "2",
                                          "--seeds",   "1,2",
                                          "--jobs",    "2",
                                          "--systems", "triplet-global,triplet-fanng-global-adaptive",
                                          "--only",    "rows,convergence,triplets"};
  {
    Process killed(command(parts));
    ASSERT_TRUE(killed.wait_for_error_text("[2/5]"));
    killed.send(SIGKILL);
    EXPECT_EQ(killed.wait().status, 1000 + SIGKILL);
  }
  {
    Process stopped(command(parts));
    ASSERT_TRUE(stopped.wait_for_error_text("seed-1: done in"));
    stopped.send(SIGTERM);
    const Outcome outcome = stopped.wait();
    EXPECT_EQ(outcome.status, 128 + SIGTERM) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr("stopped; the same command goes on"));
    EXPECT_FALSE(std::filesystem::exists(result("results.md")));
  }
  const auto finished =
      std::filesystem::exists(result(kRandom) / "reproduced.txt") ? result(kRandom) : result("rows/triplet-fanng-global-adaptive/seed-1");
  const auto written = std::filesystem::last_write_time(finished / "log.jsonl");
  const Outcome outcome = run(parts);
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(std::filesystem::last_write_time(finished / "log.jsonl"), written) << "a finished run was run again";
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("goes on"), HasSubstr("were finished before, 0 failed")));
  EXPECT_THAT(outcome.out, AllOf(StartsWith("# glyphs\n"), HasSubstr("## The table, by the better recipe\n\n| system"),
                                 HasSubstr("| triplet-global                |    2 |      2 |"), HasSubstr("Recall@1 by epoch"),
                                 HasSubstr("Validation error by epoch"), HasSubstr("Triplets of fixed anchors in triplets/seed-1"),
                                 HasSubstr("- Device: cpu ("), HasSubstr("- Commit: "), HasSubstr("- Seeds: 1,2")));
  EXPECT_THAT(outcome.out, Not(HasSubstr("No runs yet")));
  EXPECT_THAT(read_text(result("results.md")), AllOf(StartsWith(outcome.out), HasSubstr("## Runs\n\n- rows/")));

  const Outcome again = run(parts);
  EXPECT_EQ(again.status, 0) << again.err;
  EXPECT_THAT(again.err, HasSubstr("0 runs trained, 5 were finished before, 0 failed"));
  const Outcome other = run({"--epochs", "3", "--seeds", "1", "--systems", "triplet-global", "--only", "rows"});
  EXPECT_EQ(other.status, 1);
  EXPECT_THAT(other.err, HasSubstr("rows/triplet-global/seed-1: was made with '--epochs 2 "));
  // A recipe that sets anything else, too. A comment, or what it says about another system, is none of the run's business.
  const std::string made_by = read_text(result(kRandom) / "reproduced.txt");
  const std::string recipe = read_text(std::filesystem::path(SMARTMINE_SOURCE) / "recipes/glyphs.toml");
  const auto with_recipe = [&](const std::string& text) {
    write_text(folder_ / "recipe.toml", text);
    return run({"--epochs", "2", "--seeds", "1", "--systems", "triplet-global", "--only", "rows", "--recipe", folder_ / "recipe.toml"});
  };
  EXPECT_THAT(with_recipe(recipe + "# more\n[train.lifted]\nmargin = 0.3\n").err,
              HasSubstr("0 runs trained, 1 were finished before, 0 failed"));
  for (const std::string& text : {"margin = 0.3\n" + recipe, recipe + "[train.triplet-global]\nmargin = 0.3\n"}) {
    const Outcome changed = with_recipe(text);
    EXPECT_EQ(changed.status, 1);
    EXPECT_THAT(changed.err, AllOf(HasSubstr("rows/triplet-global/seed-1: was made with"),
                                   HasSubstr("0 runs trained, 0 were finished before, 1 failed")));
  }
  EXPECT_EQ(read_text(result(kRandom) / "reproduced.txt"), made_by);
}

TEST_F(Reproduce, GoesOnAfterARunThatFailsAndSaysSo) {
  const std::vector<std::string> parts = {"--epochs", "1", "--seeds", "1", "--systems", "semihard,triplet-global", "--only", "rows"};
  std::filesystem::create_directories(result("rows/semihard/seed-1"));
  write_text(result("rows/semihard/seed-1/config.toml"), "epochs = none\n");
  const Outcome outcome = run(parts);
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("rows/semihard/seed-1: failed with status 1: smartmine: "),
                                 HasSubstr("1 runs trained, 0 were finished before, 1 failed")));
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("| triplet-global |    1 |"), HasSubstr("- Failed: rows/semihard/seed-1: ")));
}

// The line after those of key, command, commit, device and date.
void claim_seconds(const std::filesystem::path& run, int seconds) {
  std::filesystem::create_directories(run);
  write_text(run / "reproduced.txt", "-\n-\n-\n-\n-\n" + std::to_string(seconds) + " s\n");
}

TEST_F(Reproduce, StartsNoRunThatWouldOutlastTheMinutesAndKeepsASmallFolder) {
  const auto words = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = {"--epochs", "1", "--seeds", "1,2", "--systems", "semihard,triplet-global", "--only", "rows,report"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  claim_seconds(result("rows/semihard/seed-9"), 1);
  claim_seconds(result("rows/triplet-global/seed-8"), 7200);
  claim_seconds(result("rows/triplet-global/seed-9"), 1);
  const Outcome sitting = run(words({"--minutes", "60"}));
  EXPECT_EQ(sitting.status, 3) << sitting.err;
  EXPECT_THAT(sitting.err, AllOf(HasSubstr("2 runs trained, 0 were finished before, 0 failed"),
                                 HasSubstr("2 are left, too long for what is left of 60 minutes: rows/triplet-global/seed-1 "
                                           "rows/triplet-global/seed-2"),
                                 HasSubstr("the same command goes on")));
  EXPECT_THAT(sitting.out, AllOf(HasSubstr("- Left for another sitting: rows/triplet-global/seed-1"), HasSubstr("| semihard |    2 |")));
  EXPECT_THAT(read_text(result("rows/semihard/seed-1/reproduced.txt")), ::testing::ContainsRegex("Z\n[0-9]+ s\n$"));
  EXPECT_TRUE(std::filesystem::exists(result("rows/semihard/seed-1/checkpoint")));

  std::filesystem::remove_all(result("rows/triplet-global"));
  const Outcome next = run(words({"--minutes", "60", "--slim"}));
  ASSERT_EQ(next.status, 0) << next.err;
  EXPECT_THAT(next.err, HasSubstr("2 runs trained, 2 were finished before, 0 failed"));
  for (const char* run : {"rows/semihard/seed-1", "rows/semihard/seed-2", "rows/triplet-global/seed-2"}) {
    for (const char* gone : {"checkpoint", "embeddings", "report"})
      EXPECT_FALSE(std::filesystem::exists(result(run) / gone)) << run << "/" << gone;
    EXPECT_TRUE(std::filesystem::exists(result(run) / "log.jsonl")) << run;
  }
  EXPECT_FALSE(std::filesystem::exists(result(kRandom) / "checkpoint"));
  EXPECT_TRUE(std::filesystem::exists(result(kRandom) / "embeddings")) << "the page shows them";
  EXPECT_TRUE(std::filesystem::exists(result(kRandom) / "report")) << "the page shows them";
  EXPECT_TRUE(std::filesystem::exists(result("report.html")));

  // The runs alone are put back, on another machine.
  std::filesystem::remove_all(result("logs"));
  const Outcome again = run(words({"--slim"}));
  EXPECT_EQ(again.status, 0) << again.err;
  EXPECT_THAT(again.err, AllOf(HasSubstr("0 runs trained, 4 were finished before, 0 failed"), HasSubstr("curves, map and triplets")));
  EXPECT_EQ(again.out.substr(again.out.find("## The table")), next.out.substr(next.out.find("## The table")));
}

TEST_F(Reproduce, BeginsAHalfRunOfAnotherRecipeAnewWhoseCheckpointIsGone) {
  const auto words = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = {"--epochs", "1", "--seeds", "1", "--systems", "triplet-global", "--only", "rows", "--slim"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  ASSERT_EQ(run(words({})).status, 0);
  std::filesystem::remove_all(result("logs"));
  write_text(folder_ / "recipe.toml",
             "margin = 0.3\n" + read_text(std::filesystem::path(SMARTMINE_SOURCE) / "recipes/glyphs.toml"));
  // Finished by something else: it is not touched.
  const Outcome finished = run(words({"--recipe", folder_ / "recipe.toml"}));
  EXPECT_EQ(finished.status, 1);
  EXPECT_THAT(finished.err, AllOf(HasSubstr("rows/triplet-global/seed-1: was made with '--epochs 1 "), Not(HasSubstr("no checkpoint"))));
  // Half: as if it had been stopped in the epoch after, and only its log had been taken along.
  std::filesystem::remove(result(kRandom) / "reproduced.txt");
  const Outcome half = run(words({"--recipe", folder_ / "recipe.toml"}));
  EXPECT_EQ(half.status, 0) << half.err;
  EXPECT_THAT(half.err, AllOf(HasSubstr("its checkpoint is missing, so it begins anew"), HasSubstr("1 runs trained")));
  EXPECT_THAT(read_text(result(kRandom) / "config.toml"), HasSubstr("margin = 0.3"));
}

TEST_F(Reproduce, TrainsTheFirstSeedOfAllRowsBeforeTheSecondOfAny) {
  write_text(folder_ / "letter.toml", read_text(std::filesystem::path(SMARTMINE_SOURCE) / "recipes/glyphs.toml"));
  const Outcome outcome = run({"--dry-run", "--seeds", "3,1", "--paper-recipe", folder_ / "letter.toml"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const auto place = [&](const std::string& run) {
    const std::size_t found = outcome.out.find("results/" + run + "\n");
    EXPECT_NE(found, std::string::npos) << run;
    return found;
  };
  EXPECT_LT(place("paper/triplet-global/seed-3"), place("rows/semihard/seed-1"));
  EXPECT_LT(place("paper/validation/seed-3"), place("rows/semihard/seed-1"));
  EXPECT_LT(place("paper/validation/seed-1"), place("triplets/seed-3"));
  EXPECT_LT(place("paper/validation/seed-1"), place("kappa/1/seed-3"));
  const std::string words = outcome.out.substr(0, place("paper/validation/seed-3"));
  EXPECT_THAT(words.substr(words.rfind('\n')), HasSubstr("--system triplet-fanng-global-adaptive --target validation --seed 3"));
}

TEST_F(Reproduce, PrintsTheCommandsOfAllRowsAndStudies) {
  const Outcome outcome = run({"--dry-run"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(std::count(outcome.out.begin(), outcome.out.end(), '\n'), 8 * 3 + 1 + (4 + 6 + 2) * 3);
  EXPECT_THAT(outcome.out, Not(HasSubstr("index/exact"))) << "the adaptive row has exact lists already";
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("--kappa 64 --seed"), HasSubstr("--mined-fraction 0.6"), HasSubstr("--graph-start random"),
                                 HasSubstr("--epochs 16 --save-epochs 4,8,12,16 "), HasSubstr("--validation-classes 0 ")));
  EXPECT_FALSE(std::filesystem::exists(result("")));
  EXPECT_THAT(run({"--dry-run", "--epochs", "8"}).out,
              HasSubstr("--save-epochs 4,8 "));  // what was asked for goes before the paper's epochs
  EXPECT_THAT(run({"--dry-run"}, {"--validation-classes", "0.2"}).out, Not(HasSubstr("--validation-classes 0 ")));
}

TEST_F(Reproduce, TrainsTheRowOfExactSearchAnewOnlyWhereTheAdaptiveRowHasAnotherIndex) {
  const std::vector<std::string> parts = {"--dry-run", "--only", "index", "--seeds", "1"};
  EXPECT_THAT(run(parts).out, AllOf(HasSubstr("rows/triplet-fanng-global-adaptive/seed-1"), Not(HasSubstr("index/exact/seed-1"))));
  const auto anew = AllOf(HasSubstr("--index exact"), HasSubstr("index/exact/seed-1"), Not(HasSubstr("rows/")));
  EXPECT_THAT(run(parts, {"--graph-start", "previous"}).out, anew);
  write_text(folder_ / "recipe.toml",
             "index = \"fanng\"\n" + read_text(std::filesystem::path(SMARTMINE_SOURCE) / "recipes/glyphs.toml"));
  std::vector<std::string> with_recipe = parts;
  with_recipe.insert(with_recipe.end(), {"--recipe", folder_ / "recipe.toml"});
  EXPECT_THAT(run(with_recipe).out, anew);
}

TEST_F(Reproduce, TrainsThePapersOwnRowsByItsLetterBesideTheBetterOnes) {
  // In front, for the recipe ends with sections of some systems.
  write_text(folder_ / "letter.toml",
             "# The paper's graph.\ngraph-start = \"random\"\n# And lists.\nlonger-lists = true\n# Its fit.\nkappa-fit = \"linear\"\n" +
                 read_text(std::filesystem::path(SMARTMINE_SOURCE) / "recipes/glyphs.toml"));
  const std::vector<std::string> parts = {"--epochs",       "2",
                                          "--seeds",        "1",
                                          "--systems",      "lifted,triplet-global,triplet-fanng-global-adaptive",
                                          "--only",         "rows,paper",
                                          "--paper-recipe", folder_ / "letter.toml"};
  const Outcome commands = run([&] {
    std::vector<std::string> words = parts;
    words.emplace_back("--dry-run");
    return words;
  }());
  EXPECT_EQ(std::count(commands.out.begin(), commands.out.end(), '\n'), 3 + 2 + 1)
      << "lifted is none of the paper's own; the adaptive row has two targets";
  const Outcome outcome = run(parts);
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("## The table, by the better recipe\n\n| system"), HasSubstr("mined % |"),
                                 HasSubstr("## The paper's own rows, by its letter\n\n| system"), HasSubstr("| fanng, random |"),
                                 HasSubstr(", target validation |")));
  const std::string letter = outcome.out.substr(outcome.out.find("## The paper's own rows"));
  for (const std::string& section : {outcome.out.substr(0, outcome.out.size() - letter.size()), letter})
    EXPECT_THAT(section, HasSubstr("Mined triplets by epoch"));
  EXPECT_THAT(read_text(result("paper/triplet-fanng-global-adaptive/seed-1/config.toml")), HasSubstr("graph-start = \"random\""));
  EXPECT_THAT(read_text(result("rows/triplet-fanng-global-adaptive/seed-1/config.toml")), HasSubstr("graph-start = \"auto\""));
  EXPECT_THAT(run(parts).err, HasSubstr("0 runs trained, 6 were finished before, 0 failed"));
}

TEST_F(Reproduce, RefusesBadInputInOneLine) {
  const auto refused = [&](const std::string& text, const std::vector<std::string>& words) {
    const Outcome outcome = run(words);
    EXPECT_EQ(outcome.status, 2) << text;
    EXPECT_THAT(outcome.err, AllOf(StartsWith("reproduce: "), HasSubstr(text)));
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  };
  refused("unexpected argument 'cub200'", {"cub200"});
  refused("unknown option --seed", {"--seed", "1"});
  refused("--only has 'row'", {"--only", "row"});
  refused("--only is 'rows kappa'", {"--only", "rows kappa"});
  refused("--systems has 'fanng'", {"--systems", "fanng"});
  refused("seeds are '1,1'", {"--seeds", "1,1"});
  refused("seeds are 'a'", {"--seeds", "a"});
  refused("--epochs is '0'", {"--epochs", "0"});
  refused("--jobs is '-1'", {"--jobs", "-1"});
  refused("--minutes is '0'", {"--minutes", "0"});
  refused("--data-root is not for glyphs", {"--data-root", "."});
  refused("there is no recipe", {"--recipe", folder_ / "none.toml"});
  refused("there is no recipe", {"--only", "paper"});
  const auto script = std::string(SMARTMINE_SOURCE) + "/scripts/reproduce.sh";
  EXPECT_EQ(Process({script, "cub200", "--output", folder_ / "results"}).wait().status, 2);
  EXPECT_EQ(Process({script, "birds", "--output", folder_ / "results"}).wait().status, 2);
  EXPECT_EQ(Process({script}).wait().status, 2);
  EXPECT_FALSE(std::filesystem::exists(result("")));
}

}  // namespace
}  // namespace smartmine::test
