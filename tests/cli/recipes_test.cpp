#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "program.h"

namespace smartmine::test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

std::vector<std::filesystem::path> recipes() {
  std::vector<std::filesystem::path> all;
  for (const auto& entry : std::filesystem::directory_iterator(std::filesystem::path(SMARTMINE_SOURCE) / "recipes"))
    if (entry.path().extension() == ".toml") all.push_back(entry.path());
  return all;
}

/// Settings that have no comment in the line above, or behind them.
std::vector<std::string> unexplained(const std::filesystem::path& recipe) {
  std::vector<std::string> settings;
  std::ifstream file(recipe);
  std::string before;
  for (std::string line; std::getline(file, line); before = line)
    if (!line.empty() && line.front() != '#' && line.front() != '[' && !before.starts_with("# ") && line.find(" # ") == std::string::npos)
      settings.push_back(line);
  return settings;
}

TEST(Recipes, AreOneForEveryDataSetThatHasItsOwnFormat) {
  for (const char* name : {"cub200", "cars196", "omniglot", "glyphs"})
    EXPECT_TRUE(std::filesystem::is_regular_file(std::filesystem::path(SMARTMINE_SOURCE) / "recipes" / (std::string(name) + ".toml")))
        << name;
}

TEST(Recipes, GiveAReasonForEverySetting) {
  for (const auto& recipe : recipes()) EXPECT_THAT(unexplained(recipe), IsEmpty()) << recipe;
  const TemporaryFolder folder;
  write_text(folder / "a.toml", "# why\na = 1\nb = 2\nc = 3 # why\n\n[train.npairs]\nd = 4\n");
  EXPECT_THAT(unexplained(folder / "a.toml"), SizeIs(2));  // the check itself can fail
}

TEST(Recipes, AreTakenByTheProgramForEveryDataSetWithoutItsData) {
  const TemporaryFolder folder;
  for (const auto& recipe : recipes()) {
    SCOPED_TRACE(recipe.string());
    // Settings are looked at before the run that is not there.
    std::vector<std::string> words = {"train", "--config", recipe.string(), "--resume", "--output", folder / "nowhere"};
    if (read_text(recipe).find("\ndataset = \"glyphs\"") == std::string::npos) words.insert(words.end(), {"--data-root", folder / "data"});
    const Outcome outcome = smartmine(words);
    EXPECT_EQ(outcome.status, 1);
    EXPECT_THAT(outcome.err, HasSubstr("nowhere: there is no such run"));
  }
}

class SystemSections : public ::testing::Test {
 protected:
  Outcome train(const std::string& config, const std::vector<std::string>& more = {}) {
    write_text(folder_ / "recipe.toml", config);
    std::vector<std::string> words = {"train", "--config", folder_ / "recipe.toml", "--resume", "--output", folder_ / "nowhere"};
    words.insert(words.end(), more.begin(), more.end());
    return smartmine(words);
  }
  TemporaryFolder folder_;
};

// A value that cannot be shows which of two was taken.
TEST_F(SystemSections, HoldForTheirSystemAlone) {
  const std::string recipe = "dataset = \"glyphs\"\nmargin = 0.2\n[train.npairs]\nmargin = -3\n";
  EXPECT_THAT(train(recipe).err, HasSubstr("no such run"));
  EXPECT_THAT(train(recipe, {"--system", "lifted"}).err, HasSubstr("no such run"));
  EXPECT_THAT(train(recipe, {"--system", "npairs"}).err, HasSubstr("margin is -3"));
  EXPECT_THAT(train("system = \"npairs\"\n" + recipe).err, HasSubstr("margin is -3"));
  EXPECT_THAT(train("system = \"npairs\"\n" + recipe, {"--system", "lifted"}).err, HasSubstr("no such run"));
  EXPECT_THAT(train(recipe, {"--system", "npairs", "--margin", "-5"}).err, HasSubstr("margin is -5"));
  EXPECT_THAT(train("dataset = \"glyphs\"\n[train.triplet-fanng-global-adaptive]\nmargin = -4\n").err, HasSubstr("margin is -4"));
  const std::string pretrained = "backbone = \"resnet18\"\nweights = \"none.pth\"\n";  // has another usual system
  EXPECT_THAT(train(pretrained + "[train.class-batch]\nmargin = -5\n").err, HasSubstr("margin is -5"));
  EXPECT_THAT(train(pretrained + "[train.triplet-fanng-global-adaptive]\nmargin = -6\n").err, ::testing::Not(HasSubstr("margin is -6")));
}

TEST_F(SystemSections, AreRefusedWithAnUnknownSystemOrSetting) {
  Outcome outcome = train("[train.npair]\nmargin = 0.3\n");
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, HasSubstr("recipe.toml: unknown section [train.npair]"));
  outcome = train("[train.npairs]\nmargins = 0.3\n");
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, HasSubstr("recipe.toml: unknown option margins of train"));
}

}  // namespace
}  // namespace smartmine::test
