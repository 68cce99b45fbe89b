#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "files.h"
#include "program.h"

namespace smartmine::test {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// One line that begins with the program's name, nothing on stdout.
void expect_usage_error(const std::vector<std::string>& arguments, const std::string& part) {
  const Outcome outcome = smartmine(arguments);
  EXPECT_EQ(outcome.status, 2) << outcome.err;
  EXPECT_THAT(outcome.err, StartsWith("smartmine: "));
  EXPECT_THAT(outcome.err, HasSubstr(part));
  EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  EXPECT_EQ(outcome.out, "");
}

TEST(CommandLine, HelpNamesTheSubcommandsAndGivesExamples) {
  const Outcome outcome = smartmine({"--help"});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.out, HasSubstr("knn"));
  EXPECT_THAT(outcome.out, HasSubstr("Examples:"));
  EXPECT_EQ(outcome.err, "");
}

TEST(CommandLine, HelpOfKnnNamesEveryOption) {
  const Outcome outcome = smartmine({"knn", "--help"});
  EXPECT_EQ(outcome.status, 0);
  for (const char* option : {"--embeddings", "--neighbors", "--index", "--start", "--graph", "--output", "--threads", "--json", "--recall",
                             "--success-rate", "--max-degree", "--seed", "--quiet"})
    EXPECT_THAT(outcome.out, HasSubstr(option));
  EXPECT_THAT(outcome.out, HasSubstr("Examples:"));
}

TEST(CommandLine, VersionIsALineAndOneOnDevices) {
  const Outcome outcome = smartmine({"--version"});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.out, ::testing::MatchesRegex("smartmine [0-9]+\\.[0-9]+\\.[0-9]+\n(LibTorch|no training).*\n"));
}

TEST(CommandLine, RefusesWhatItDoesNotKnow) {
  expect_usage_error({}, "subcommand");
  expect_usage_error({"frobnicate"}, "frobnicate");
  expect_usage_error({"knn", "--embeddings", "x.npy", "--output", "y", "--frobnicate"}, "--frobnicate");
  expect_usage_error({"knn", "--embeddings", "x.npy", "--output", "y", "stray"}, "unexpected argument 'stray'");
  expect_usage_error({"knn", "--embeddings", "x.npy", "--output", "y", "--neigbors", "5"},
                     "smartmine: unknown option --neigbors; did you mean --neighbors?");
  expect_usage_error({"knn", "--embeddings", "x.npy", "--output", "y", "--neigbors=5"},
                     "smartmine: unknown option --neigbors; did you mean --neighbors?");
  // The misspelt name, not the one it leaves missing.
  expect_usage_error({"knn", "--embedings", "x.npy", "--output", "y"}, "smartmine: unknown option --embedings; did you mean --embeddings?");
  expect_usage_error({"evla", "--embeddings", "x.npy"}, "'evla' is no subcommand; did you mean eval? See smartmine --help");
  expect_usage_error({"knn", "--embeddings", "x.npy", "--output", "y", "--zzzzzz"},
                     "smartmine: unknown option --zzzzzz; see smartmine knn --help");
  // Each points to its own help.
  for (const char* command : {"knn", "mine", "report", "compare"})
    expect_usage_error({command}, fmt::format("; see smartmine {} --help", command));
}

TEST(CommandLine, RefusesAMissingRequiredOption) {
  expect_usage_error({"knn", "--output", "y"}, "--embeddings");
  expect_usage_error({"knn", "--embeddings", "x.npy"}, "--output");
}

TEST(CommandLine, RefusesValuesOutOfRangeAndNamesTheOption) {
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {"--neighbors", "0"},  {"--neighbors", "-1"},    {"--neighbors", "ten"}, {"--neighbors", "3000000000"}, {"--neighbors", "1.5"},
      {"--recall", "0"},     {"--recall", "1.01"},     {"--recall", "nan"},    {"--success-rate", "1"},       {"--success-rate", "0"},
      {"--max-degree", "3"}, {"--max-degree", "1025"}, {"--threads", "-1"},    {"--threads", "1000000"},      {"--seed", "-1"},
      {"--index", "hnsw"},   {"--start", "yesterday"}, {"--output", ""},       {"--output", "folder/"}};
  for (const auto& [option, value] : wrong) {
    SCOPED_TRACE(option + " " + value);
    std::vector<std::string> arguments = {"knn", "--embeddings", "x.npy"};
    if (option != "--output") arguments.insert(arguments.end(), {"--output", "y"});
    arguments.push_back(option + "=" + value);
    expect_usage_error(arguments, option);
  }
}

TEST(CommandLine, RefusesOptionsThatContradictEachOther) {
  expect_usage_error({"knn", "--embeddings", "x.npy", "--output", "y", "--start", "previous"}, "--graph");
  expect_usage_error({"knn", "--embeddings", "x.npy", "--output", "y", "--index", "exact", "--graph", "g"}, "--graph");
  expect_usage_error({"knn", "--embeddings", "x.npy", "--output", "y", "--index", "exact", "--start", "random"}, "--start");
}

TEST(CommandLine, RefusesOptionsOfAGraphBesideExactSearch) {
  const std::vector<std::vector<std::string>> all = {
      {"--certify"}, {"--success-rate", "0.9"}, {"--edge-candidates", "0"}, {"--max-degree", "64"}};
  for (const std::vector<std::string>& option : all)
    for (std::vector<std::string> arguments : {std::vector<std::string>{"knn", "--embeddings", "x.npy"},
                                               std::vector<std::string>{"mine", "--embeddings", "x.npy", "--labels", "l.npy"}}) {
      SCOPED_TRACE(arguments[0] + " " + option[0]);
      arguments.insert(arguments.end(), {"--output", "y", "--index", "exact"});
      arguments.insert(arguments.end(), option.begin(), option.end());
      expect_usage_error(arguments, option[0] + " is for a graph");
    }
}

TEST(CommandLine, RefusesToOverwriteItsOwnInput) {
  const TemporaryFolder folder;
  write_matrix(folder / "x.ids.npy", clustered_rows(30, 4), 30, 4);
  const std::string before = read_text(folder / "x.ids.npy");
  expect_usage_error({"knn", "--embeddings", folder / "x.ids.npy", "--neighbors", "3", "--output", folder / "./x"}, "overwrite");
  EXPECT_EQ(read_text(folder / "x.ids.npy"), before);
  expect_usage_error({"knn", "--embeddings", folder / "z.npy", "--graph", folder / "x.ids.npy", "--output", folder / "x"}, "twice");
}

TEST(CommandLine, RefusesAsManyNeighboursAsThereAreRows) {
  const TemporaryFolder folder;
  write_matrix(folder / "x.npy", clustered_rows(10, 4), 10, 4);
  for (const char* index : {"exact", "fanng", "auto"}) {
    SCOPED_TRACE(index);
    expect_usage_error({"knn", "--embeddings", folder / "x.npy", "--neighbors", "10", "--index", index, "--output", folder / "y"},
                       "--neighbors is 10");
  }
  EXPECT_EQ(folder.names(), std::set<std::string>{"x.npy"});
}

class ConfigFile : public ::testing::Test {
 protected:
  void SetUp() override { write_matrix(folder_ / "x.npy", clustered_rows(40, 4), 40, 4); }
  Outcome run_with(const std::string& toml, std::vector<std::string> more = {}) {
    write_text(folder_ / "settings.toml", toml);
    std::vector<std::string> arguments = {"knn",         "--embeddings", folder_ / "x.npy",        "--output",
                                          folder_ / "y", "--config",     folder_ / "settings.toml"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return smartmine(arguments);
  }
  std::size_t columns() { return read_int32(folder_ / "y.ids.npy").columns; }
  TemporaryFolder folder_;
};

TEST_F(ConfigFile, SetsOptionsAtItsTop) {
  EXPECT_EQ(run_with("# a comment\nneighbors = 7\nindex = \"exact\"\n").status, 0);
  EXPECT_EQ(columns(), 7U);
}

TEST_F(ConfigFile, SetsOptionsInTheSubcommandsSection) {
  EXPECT_EQ(run_with("[knn]\nneighbors = 6\nquiet = true\n").status, 0);
  EXPECT_EQ(columns(), 6U);
}

TEST_F(ConfigFile, LeavesTheLastWordToTheCommandLine) {
  EXPECT_EQ(run_with("neighbors = 7\n", {"--neighbors", "5"}).status, 0);
  EXPECT_EQ(columns(), 5U);
}

TEST_F(ConfigFile, CanStandBeforeTheSubcommand) {
  write_text(folder_ / "settings.toml", "neighbors = 4\n");
  EXPECT_EQ(smartmine({"--config", folder_ / "settings.toml", "knn", "--embeddings", folder_ / "x.npy", "--output", folder_ / "y"}).status,
            0);
  EXPECT_EQ(columns(), 4U);
}

TEST_F(ConfigFile, IsRefusedWithAnUnknownNameOrSection) {
  Outcome outcome = run_with("neighbours = 7\n");
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, HasSubstr("settings.toml: unknown option neighbours of knn"));
  outcome = run_with("[knn]\nkappa = 7\n");
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, HasSubstr("settings.toml: unknown option kappa of knn"));
  outcome = run_with("[kn]\nneighbors = 7\n");
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, HasSubstr("settings.toml: unknown section [kn]"));
  EXPECT_EQ(folder_.names(), (std::set<std::string>{"settings.toml", "x.npy"}));
}

TEST_F(ConfigFile, IsRefusedWhenItIsNoToml) {
  for (const std::string& junk : {std::string("hello\n"), std::string("neighbors 7\n"), std::string("[knn\nneighbors = 7\n"),
                                  std::string("neighbors =\n"), std::string("\0\x01\xff=\x80\n", 6), read_text(folder_ / "x.npy")}) {
    SCOPED_TRACE(junk.substr(0, 20));
    const Outcome outcome = run_with("# fine so far\n\n" + junk);
    EXPECT_EQ(outcome.status, 2);
    EXPECT_THAT(outcome.err, HasSubstr("settings.toml: cannot be read as TOML: line 3 "));
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  }
  EXPECT_EQ(folder_.names(), (std::set<std::string>{"settings.toml", "x.npy"}));
}

TEST_F(ConfigFile, MayHaveCommentsBlanksAndLineEndsOfAnotherSystem) {
  EXPECT_EQ(run_with("\r\n  # a comment\r\n  [ knn ]  # another\r\n  neighbors = 6  # a third\r\n").status, 0);
  EXPECT_EQ(columns(), 6U);
}

TEST_F(ConfigFile, IsRefusedWithAValueOutOfRange) {
  const Outcome outcome = run_with("recall = 2\n");
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, HasSubstr("recall"));
}

TEST_F(ConfigFile, IsAnErrorWhenMissing) {
  expect_usage_error({"knn", "--embeddings", folder_ / "x.npy", "--output", folder_ / "y", "--config", folder_ / "none.toml"}, "none.toml");
}

}  // namespace
}  // namespace smartmine::test
