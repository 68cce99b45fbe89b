#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "program.h"
#include "report/made_finished_run.h"

namespace smartmine::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class CompareCommand : public ::testing::Test {
 protected:
  std::string make(const std::string& name, const FinishedRun& made = {}) {
    make_finished_run(folder_ / name, made);
    return folder_ / name;
  }
  void expect_refused(int status, const std::string& text, std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "compare");
    const Outcome outcome = smartmine(arguments);
    EXPECT_EQ(outcome.status, status);
    EXPECT_EQ(outcome.out, "");
    EXPECT_THAT(outcome.err, AllOf(StartsWith("smartmine: "), HasSubstr(text)));
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  }

  TemporaryFolder folder_;
};

TEST_F(CompareCommand, PrintsATableAndWritesTheSameToAFile) {
  const Outcome outcome =
      smartmine({"compare", make("a", {.recall = 0.5}), make("b", {.seed = 2, .recall = 0.52}), make("c", {.epochs_done = 1, .seed = 3}),
                 "--paper", "cub200", "--by-epoch", "--output", folder_ / "table.md"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("51.00 ± 1.41"), HasSubstr("49.44"), HasSubstr("+1.56"), HasSubstr("Kappa by epoch")));
  EXPECT_EQ(read_text(folder_ / "table.md"), outcome.out);
  EXPECT_EQ(outcome.err, "smartmine: note: " + (folder_ / "c") + ": not finished: 1 of 2 epochs; left out\n");
}

TEST_F(CompareCommand, PrintsOneObjectWithJson) {
  const Outcome outcome = smartmine({"compare", make("a"), make("b", {.system = "npairs", .recall = 0.4}), "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const auto json = nlohmann::json::parse(outcome.out);
  ASSERT_EQ(json.at("groups").size(), 2U);
  EXPECT_EQ(json.at("groups").at(1).at("name"), "npairs");
  EXPECT_DOUBLE_EQ(json.at("groups").at(1).at("recall@1").at("mean").get<double>(), 0.4);
  EXPECT_TRUE(json.at("notes").empty());
}

TEST_F(CompareCommand, StepsOverWhatIsNoRunAmongSeveral) {
  write_text(folder_ / "notes.txt", "a note");
  std::filesystem::create_directories(folder_ / "empty");
  const Outcome outcome = smartmine({"compare", make("a"), folder_ / "notes.txt", folder_ / "empty"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("MAP@R %"));
  EXPECT_THAT(outcome.err,
              AllOf(HasSubstr("notes.txt: not the folder of a run: it has no config.toml; left out"), HasSubstr("empty: not")));
  expect_refused(1, "notes.txt: not the folder of a run", {folder_ / "notes.txt", folder_ / "empty"});
}

TEST_F(CompareCommand, RefusesBadInputInOneLine) {
  const std::string run = make("a");
  expect_refused(2, "runs", {});
  expect_refused(2, "twice", {run, run});
  expect_refused(2, "--paper", {run, "--paper", "omniglot"});
  expect_refused(2, "--paper is cars196, but " + run + " is of cub200", {run, "--paper", "cars196"});
  expect_refused(1, "nowhere: there is no such run", {run, folder_ / "nowhere"});
  expect_refused(1, "not finished: 0 of 2 epochs", {make("begun", {.epochs_done = -1})});
  expect_refused(1, "create the folder first", {run, "--output", folder_ / "no/table.md"});
}

}  // namespace
}  // namespace smartmine::test
