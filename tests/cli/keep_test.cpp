#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <iterator>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "program.h"
#include "train/made_folder.h"

namespace smartmine::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using Words = std::vector<std::string>;

/// A choice of a few seconds: too few classes train to hold some out, so it is the careful one.
class Keep : public ::testing::Test {
 protected:
  Outcome train(const std::string& run, const Words& more = {}) {
    std::istringstream settings("train --dataset folder --device cpu --threads 1 --system npairs --batch-size 6 --channels 1");
    Words words{std::istream_iterator<std::string>(settings), {}};
    words.insert(words.end(), {"--input-size", "16", "--embedding-dim", "8", "--data-root", folder_ / "images", "--output", folder_ / run});
    if (std::find(more.begin(), more.end(), "--choose") == more.end()) words.insert(words.end(), {"--choose", "on"});
    words.insert(words.end(), more.begin(), more.end());
    return smartmine(words);
  }
  TemporaryFolder folder_;
};

TEST_F(Keep, RefusesWhatLeavesNothingToChoose) {
  make_image_folder(folder_ / "images");
  const auto refused = [&](const Words& words, const std::string& text) {
    const Outcome outcome = train("run", words);
    EXPECT_EQ(outcome.status, 2) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(text));
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
    EXPECT_FALSE(std::filesystem::exists(folder_ / "run"));
  };
  refused({"--epochs", "0"}, "--epochs is 0; with choose on it must be at least 1");
  refused({"--epochs", "2", "--validation-classes", "0.3"}, "--validation-classes is 0.3; with choose on it must be 0");
}

TEST_F(Keep, TheClosingLineCountsTheTimeOfChoosing) {
  make_image_folder(folder_ / "images");
  const Outcome outcome = train("run", {"--epochs", "1"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, ::testing::ContainsRegex("\n  [0-9]+ s, [0-9]+ s of them for choosing; the run is in "));
}

TEST_F(Keep, CtrlCWhileItMeasuresWhatItKeepsNamesTheWayToGoOn) {
  make_image_folder(folder_ / "images", 14, 10);
  for (const auto& folder : std::filesystem::directory_iterator(folder_ / "images"))  // many to measure on
    for (int i = 0; i < 50; ++i)
      std::filesystem::create_hard_link(folder.path() / fmt::format("{}.png", i % 10), folder.path() / fmt::format("{}.png", 10 + i));
  ASSERT_EQ(train("small", {"--epochs", "1", "--choose", "off", "--quiet"}).status, 0);
  ASSERT_EQ(train("run", {"--epochs", "1", "--quiet", "--weights", folder_ / "small/checkpoint/model.safetensors"}).status, 0);
  const std::string kept = folder_ / "run/kept.safetensors", whole = read_text(folder_ / "run/choice.json"), weights = read_text(kept);
  std::filesystem::remove(kept);
  Process process({SMARTMINE_TORCH_PROGRAM, "train", "--resume", folder_ / "run", "--quiet"});
  while (process.running() && !std::filesystem::exists(kept)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  process.send(SIGINT);
  const Outcome stopped = process.wait();
  EXPECT_EQ(stopped.status, 130) << stopped.err;
  EXPECT_THAT(stopped.err, AllOf(HasSubstr("smartmine train --resume " + (folder_ / "run")), Not(HasSubstr("nothing was written"))));
  EXPECT_EQ(smartmine({"train", "--resume", folder_ / "run", "--quiet"}).status, 0);
  EXPECT_EQ(read_text(folder_ / "run/choice.json"), whole);
  EXPECT_EQ(read_text(kept), weights);
}

}  // namespace
}  // namespace smartmine::test
