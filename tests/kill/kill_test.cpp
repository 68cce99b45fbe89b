// Kills commands at random moments. Whatever the moment: no file is ever half there, the next run ends with the same bits as one that was
// never killed, and nothing is left lying about.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "files.h"
#include "program.h"
#include "report/made_run.h"
#include "smartmine/core/random.h"
#include "train/made_folder.h"

namespace smartmine::test {
namespace {

using Words = std::vector<std::string>;
using Clock = std::chrono::steady_clock;
namespace fs = std::filesystem;

std::size_t kills() {
  const char* given = std::getenv("SMARTMINE_KILLS");
  return given == nullptr ? 100 : std::strtoul(given, nullptr, 10);
}

/// Every file of a folder by its path in it, temporary ones as well.
std::map<std::string, std::string> files_of(const fs::path& folder) {
  std::map<std::string, std::string> files;
  std::error_code none;
  for (auto entry = fs::recursive_directory_iterator(folder, none); !none && entry != fs::recursive_directory_iterator();
       entry.increment(none))
    if (entry->is_regular_file(none)) files[fs::relative(entry->path(), folder).string()] = read_text(entry->path());
  return files;
}

bool is_temporary_name(const std::string& path) { return fs::path(path).filename().string().starts_with(".smartmine-"); }

/// Runs a command to its end, or kills it after this long. Returns whether it was killed.
bool run_for(const Words& words, std::chrono::duration<double> time) {
  Words command = words;
  command.insert(command.begin(), SMARTMINE_PROGRAM);
  Process process(command);
  const auto end = Clock::now() + time;
  while (Clock::now() < end && process.running()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const bool alive = process.running();
  if (alive) process.send(SIGKILL);
  const Outcome outcome = process.wait();
  if (!alive) {
    EXPECT_EQ(outcome.status, 0) << outcome.err;
  }
  return alive;
}

std::chrono::duration<double> time_of(const Words& words) {
  const auto begin = Clock::now();
  const Outcome outcome = smartmine(words);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  return Clock::now() - begin;
}

/// Kills a command that writes into `folder` from nothing. `words` takes the folder.
template <class MakeWords>
void expect_whole_or_nothing(const MakeWords& words, std::uint64_t seed) {
  const TemporaryFolder room;
  fs::create_directory(room / "whole");
  const auto time = time_of(words(room / "whole"));
  const auto whole = files_of(room / "whole");
  ASSERT_FALSE(whole.empty());
  fs::create_directory(room / "out");
  Random random(seed);
  std::size_t killed = 0, tries = 0;
  while (killed < kills() && tries++ < 20 * kills()) {
    if (!run_for(words(room / "out"), 1.1 * time * random.uniform())) {
      EXPECT_EQ(files_of(room / "out"), whole);
      fs::remove_all(room / "out");
      fs::create_directory(room / "out");
      continue;
    }
    ++killed;
    for (const auto& [name, bytes] : files_of(room / "out")) {
      if (is_temporary_name(name)) continue;
      const auto found = whole.find(name);
      ASSERT_TRUE(found != whole.end()) << name;
      ASSERT_TRUE(bytes == found->second) << name << " is not whole after kill " << killed;
    }
    if (random.below(4) == 0) fs::remove_all(room / "out"), fs::create_directory(room / "out");
  }
  EXPECT_EQ(killed, kills());
  ASSERT_EQ(smartmine(words(room / "out")).status, 0);
  EXPECT_TRUE(files_of(room / "out") == whole) << "the end is not that of a run that was never killed, or something is left behind";
}

class KillSlowest : public ::testing::Test {
 protected:
  KillSlowest() {
    constexpr std::size_t kRows = 3000, kDimension = 24;
    write_matrix(room_ / "x.npy", clustered_rows(kRows, kDimension), kRows, kDimension);
    std::vector<std::int64_t> labels;
    for (std::size_t i = 0; i < kRows; ++i) labels.push_back(static_cast<std::int64_t>(i % 60));
    write_int64(room_ / "y.npy", labels);
  }
  TemporaryFolder room_;
};

TEST_F(KillSlowest, Knn) {
  expect_whole_or_nothing(
      [&](const std::string& out) {
        return Words{"knn",     "--embeddings", room_ / "x.npy", "--index",      "fanng",
                     "--graph", out + "/g",     "--output",      out + "/lists", "--quiet"};
      },
      1);
}

TEST_F(KillSlowest, Mine) {
  expect_whole_or_nothing(
      [&](const std::string& out) {
        return Words{"mine",    "--embeddings", room_ / "x.npy", "--labels",     room_ / "y.npy",
                     "--kappa", "auto",         "--output",      out + "/t.npy", "--quiet"};
      },
      2);
}

TEST_F(KillSlowest, Report) {
  make_run(room_.path() / "run", {.classes = 12, .images_of_class = 20});
  expect_whole_or_nothing(
      [&](const std::string& out) {
        return Words{"report", room_ / "run", "--output", out + "/r.html", "--quiet"};
      },
      3);
}

#ifdef SMARTMINE_WITH_TORCH

bool has_ending(const fs::path& path, const std::vector<std::string>& endings) {
  const std::string name = path.filename().string();
  return std::any_of(endings.begin(), endings.end(), [&](const std::string& ending) { return name.ends_with(ending); });
}

const std::vector<std::string> kSameBits = {".npy", ".safetensors", ".jpegs", "evaluation.json"};

/// What of a run must come out the same; logs and states hold times.
std::map<std::string, std::string> bits_of(const fs::path& run) {
  std::map<std::string, std::string> kept;
  for (auto& [name, bytes] : files_of(run))
    if (has_ending(name, kSameBits)) kept[name] = std::move(bytes);
  return kept;
}

/// On a few small pictures: writing is then a good part of the run, and is hit often.
Words train_words(const std::string& images, const std::string& run) {
  return {"train",    "--dataset",
          "folder",   "--data-root",
          images,     "--channels",
          "1",        "--input-size",
          "16",       "--choose",
          "off",      "--batch-size",
          "6",        "--embedding-dim",
          "8",        "--epochs",
          "3",        "--triplets-per-anchor",
          "1",        "--threads",
          "1",        "--device",
          "cpu",      "--save-epochs",
          "2",        "--quiet",
          "--output", run};
}

TEST_F(KillSlowest, Train) {
  make_image_folder(room_ / "images");
  const auto words_for = [&](const std::string& run) { return train_words(room_ / "images", run); };
  const auto time = time_of(words_for(room_ / "whole"));
  const auto whole = bits_of(room_ / "whole");
  ASSERT_GT(whole.size(), 4U);
  Random random(4);
  for (std::size_t killed = 0, round = 0; killed < kills(); ++round) {
    const std::string run = room_ / ("run" + std::to_string(round));
    for (bool done = false; !done;) {
      // A folder without settings is taken over by a start; one with them is gone on with.
      Words words = words_for(run);
      if (fs::exists(fs::path(run) / "config.toml")) words.push_back("--resume");
      done = !run_for(words, killed < kills() ? 0.7 * time * random.uniform() : 10 * time);
      killed += done ? 0 : 1;
      for (const auto& [name, bytes] : files_of(run))
        if (!is_temporary_name(name)) {
          ASSERT_FALSE(bytes.empty() && name != "log.jsonl") << name << " is empty after kill " << killed;
        }
    }
    EXPECT_TRUE(bits_of(run) == whole) << "run " << round << " after " << killed << " kills";
    for (const auto& [name, bytes] : files_of(run)) EXPECT_FALSE(is_temporary_name(name)) << name << " is left behind";
    fs::remove_all(run);
  }
}

TEST_F(KillSlowest, Embed) {
  make_image_folder(room_ / "images");
  ASSERT_EQ(smartmine(train_words(room_ / "images", room_ / "run")).status, 0);
  fs::create_directory(room_ / "photos");
  const MadeRun made;
  for (int i = 0; i < 200; ++i) {
    const auto jpeg = made_jpeg(made, static_cast<std::uint64_t>(i));
    write_text(room_ / ("photos/" + std::to_string(i) + ".jpg"), {reinterpret_cast<const char*>(jpeg.data()), jpeg.size()});
  }
  expect_whole_or_nothing(
      [&](const std::string& out) {
        return Words{"embed",     "--run", room_ / "run", "--input", room_ / "photos", "--output", out + "/e.npy",
                     "--threads", "1",     "--device",    "cpu",     "--quiet"};
      },
      5);
}

#endif

}  // namespace
}  // namespace smartmine::test
