#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "program.h"
#include "train/made_folder.h"

// Training with a network from a file, and what is said of a choice to those who read no table.
namespace smartmine::test {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

class ScriptedTrain : public ::testing::Test {
 protected:
  ScriptedTrain() {
    make_image_folder(folder_ / "images");
    EXPECT_EQ(Process({MAKE_NETWORK_PROGRAM, folder_ / "net.pt", "12"}).wait().status, 0);
  }
  /// Into the run `name`, quickly; `more` are pairs of an option and its value, and flags.
  Outcome train(const std::string& name, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words = {"train",        "--dataset", "folder",    "--backbone", folder_ / "net.pt", "--input-size", "16",
                                      "--batch-size", "6",         "--threads", "1",          "--output",         folder_ / name};
    words.insert(words.end(), more.begin(), more.end());
    if (std::find(more.begin(), more.end(), "--data-root") == more.end()) words.insert(words.end(), {"--data-root", folder_ / "images"});
    return smartmine(words);
  }
  /// A setting as the run has it.
  std::string setting(const std::string& run, const std::string& name) const {
    const std::string settings = read_text(folder_ / (run + "/config.toml"));
    const std::size_t at = settings.find("\n" + name + " = ");
    return at == std::string::npos ? "" : settings.substr(at + name.size() + 4, settings.find('\n', at + 1) - at - name.size() - 4);
  }

  TemporaryFolder folder_;
};

TEST_F(ScriptedTrain, HasAsManyDimensionsAsTheFileHasFeaturesAndALayerOfComponents) {
  struct Case {
    std::vector<std::string> given;
    std::string dimension, start;
  };
  const std::vector<Case> cases = {{{}, "12", "components"},
                                   {{"--embedding-dim", "5"}, "5", "components"},
                                   {{"--embedding-dim", "20"}, "20", "auto"},
                                   {{"--new-layer-start", "random"}, "12", "random"},
                                   {{"--new-layer-start", "auto"}, "12", "auto"}};
  for (const Case& each : cases) {
    std::vector<std::string> words = each.given;
    words.insert(words.end(), {"--epochs", "0", "--quiet"});
    std::filesystem::remove_all(folder_ / "run");
    const Outcome outcome = train("run", words);
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_EQ(setting("run", "embedding-dim"), each.dimension);
    EXPECT_EQ(setting("run", "new-layer-start"), "\"" + each.start + "\"");
  }
}

TEST_F(ScriptedTrain, RanksAgreeOnTheDimensions) {
  if (smartmine({"--version"}).out.find("several ranks") == std::string::npos) GTEST_SKIP() << "this program was built without ranks";
  const Outcome outcome = train("run", {"--epochs", "0", "--quiet", "--ranks", "2"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(setting("run", "embedding-dim"), "12");
}

TEST_F(ScriptedTrain, ARecipeHasTheDimensionsThatItSays) {
  write_text(folder_ / "own.toml", "[train]\nsystem = \"semihard\"\n");
  const Outcome outcome = train("run", {"--config", folder_ / "own.toml", "--epochs", "0", "--quiet"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(setting("run", "embedding-dim"), "64");
}

TEST_F(ScriptedTrain, RefusesMeansAndDeviationsThatAreNotOfValuesFromZeroToOne) {
  const auto expect_refused = [&](const std::string& option, const std::string& value, const std::string& range) {
    const Outcome outcome = train("refused", {option, value, "--epochs", "0", "--quiet"});
    EXPECT_EQ(outcome.status, 2) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(option + " is '" + value + "'; it must be " + range));
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
    EXPECT_FALSE(std::filesystem::exists(folder_ / "refused"));
  };
  expect_refused("--input-mean", "123,117,104", "from -1 to 1");
  expect_refused("--input-deviation", "0,0,0", "above 0 and at most 1");
  expect_refused("--input-deviation", "58,57,57", "above 0 and at most 1");
}

TEST_F(ScriptedTrain, WhoReadsNoTableIsToldThatTheStartIsKeptToo) {
  make_image_folder(folder_ / "many", 40, 16);
  std::vector<std::string> words = {"--data-root", folder_ / "many", "--choose", "on", "--learning-rate", "1e-9", "--epochs", "1"};
  // Who reads the table has read it there.
  const Outcome table = train("table", words);
  const std::string note = "no training beats the weights it starts from on 10 held-out classes, so these are kept";
  EXPECT_THAT(table.err, Not(HasSubstr(note)));
  EXPECT_THAT(table.out, HasSubstr(note));
  for (const char* flag : {"--quiet", "--json"}) {
    words.push_back(flag);
    const Outcome outcome = train(flag, words);
    words.pop_back();
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr("note: " + note));
    if (std::string(flag) == "--quiet") {
      EXPECT_EQ(outcome.out, "");
      continue;
    }
    // What was chosen, and then the epochs.
    const std::size_t end = outcome.out.find('\n') + 1;
    const json line = json::parse(outcome.out.substr(0, end));
    ASSERT_EQ(line.size(), 1U);
    json written = json::parse(read_text(folder_ / "--json/choice.json"));
    written.erase("kept");  // known at the end
    EXPECT_EQ(line.at("choice"), written);
    EXPECT_EQ(line.at("choice").at("chosen").at("system"), "class-batch");
    EXPECT_EQ(outcome.out.substr(end), read_text(folder_ / "--json/log.jsonl"));
  }
}

TEST_F(ScriptedTrain, WhoReadsNoTableIsToldOfTheCarefulWay) {
  const Outcome outcome = train("run", {"--choose", "on", "--epochs", "3", "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("note: there are too few training classes to hold some out; a fifth of the usual rate"));
  EXPECT_EQ(json::parse(outcome.out.substr(0, outcome.out.find('\n'))).at("choice").at("careful"), true);
}

}  // namespace
}  // namespace smartmine::test
