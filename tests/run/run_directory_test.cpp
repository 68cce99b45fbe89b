#include "smartmine/run/run_directory.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include "smartmine/core/error.h"
#include "smartmine/run/checkpoint.h"
#include "smartmine/run/choice.h"

namespace smartmine {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::string bytes_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class Folder : public ::testing::Test {
 protected:
  Folder() {
    static int number = 0;
    root_ = std::filesystem::temp_directory_path() / fmt::format("smartmine-run-{}-{}", getpid(), number++);
    std::filesystem::create_directories(root_);
  }
  ~Folder() override { std::filesystem::remove_all(root_); }
  std::filesystem::path root_;
};

TEST_F(Folder, ACheckpointThatIsNotCommittedLeavesTheOldOne) {
  const auto place = root_ / "checkpoint";
  const auto fill = [&](const std::string& text) {
    CheckpointWriter writer(place);
    std::ofstream(writer.folder() / "a") << text;
    return writer.commit();
  };
  EXPECT_TRUE(find_checkpoint(place).empty());
  fill("first");
  {
    const CheckpointWriter writer(place);
    std::ofstream(writer.folder() / "a") << "second";
  }
  EXPECT_EQ(bytes_of(find_checkpoint(place) / "a"), "first");
  fill("third");
  EXPECT_EQ(bytes_of(find_checkpoint(place) / "a"), "third");
  // Cut between the two renames.
  std::filesystem::rename(place, root_ / "checkpoint.old");
  EXPECT_EQ(bytes_of(find_checkpoint(place) / "a"), "third");
  fill("fourth");
  EXPECT_EQ(bytes_of(find_checkpoint(place) / "a"), "fourth");
}

TEST(TrainStates, SurviveTheirText) {
  TrainState state;
  state.epochs_done = 7;
  state.rate_scale = 0.1;
  state.kappa = "a\nb";
  state.label_hash = ~std::uint64_t{0};
  state.in_epoch = true;
  state.next_step = 3;
  const TrainState read = parse_state(to_json(state));
  EXPECT_EQ(read.epochs_done, 7);
  EXPECT_EQ(read.rate_scale, 0.1);
  EXPECT_EQ(read.kappa, "a\nb");
  EXPECT_EQ(read.label_hash, ~std::uint64_t{0});
  EXPECT_TRUE(read.in_epoch);
  EXPECT_EQ(read.next_step, 3U);
  EXPECT_THAT([] { parse_state("{}"); }, ThrowsMessage<InvalidArgument>(HasSubstr("not the state of a run")));
}

TEST(EpochRecords, SurviveTheirLine) {
  EpochRecord record;
  record.epoch = 3;
  record.steps = 10;
  record.active = 7;
  record.terms = 9;
  record.loss_sum = 1.0 / 3;
  record.kappa = 2.5;
  record.kappa_reason = "because";
  record.mining.emplace();
  record.mining->mined = 4;
  record.grouping = BatchStats{.batches = 5, .groups = 20, .near_groups = 12, .copies_left_out = 3, .only_copies = 4};
  record.look = BatchLook{.batches = 4, .error = 0.1, .negative_distance = 0.3, .together = {{"a", "b", 2}}};
  record.stage_seconds["steps"] = 0.25;
  record.metrics = RetrievalMetrics{.split = "test", .recall_at_1 = 0.5};
  record.notes = {"a \"note\""};
  record.device = "cpu";
  record.step_losses = StepLosses::of(1001);
  for (std::size_t step = 0; step < 4; ++step)
    record.step_losses->add(step, step == 3 ? std::nan("") : 1.23456 * static_cast<double>(step));
  const std::string line = to_json_line(record);
  const EpochRecord read = parse_record(line);
  EXPECT_EQ(to_json_line(read), line);
  EXPECT_EQ(read.loss_sum, record.loss_sum);
  EXPECT_EQ(read.device, "cpu");
  EXPECT_EQ(read.step_losses->every, 3U);  // of 1001 steps at most 500
  ASSERT_EQ(read.step_losses->values.size(), 2U);
  EXPECT_EQ(read.step_losses->values[0], 0);
  EXPECT_TRUE(std::isnan(read.step_losses->values[1]));
  EXPECT_EQ(StepLosses::of(500).every, 1U);
  EXPECT_EQ(read.mining->mined, 4U);
  EXPECT_EQ(read.kappa_reason, "because");
  EXPECT_EQ(read.grouping->copies_left_out, 3U);
  EXPECT_EQ(read.grouping->only_copies, 4U);
  EXPECT_EQ(read.look->negative_distance, 0.3);
  ASSERT_EQ(read.look->together.size(), 1U);
  EXPECT_EQ(read.look->together[0].second, "b");
  EXPECT_THAT([] { parse_record("{\"epoch\": 1"); }, ThrowsMessage<InvalidArgument>(HasSubstr("not a line of a run's log")));
}

EpochRecord some_record(std::int64_t epoch) {
  EpochRecord record;
  record.epoch = epoch;
  record.steps = 2;
  record.terms = 4;
  record.active = epoch;
  record.target_error = 0.6;
  record.lists = ListRecord{.index = "fanng", .recall = 0.99, .distance_computations = 7, .success_rate = 0.98, .mean_degree = 12.5};
  return record;
}

TEST_F(Folder, ARunIsReadAgainAsItWasWritten) {
  RunDirectory run = RunDirectory::create(root_ / "run", RunConfig());
  for (const int epoch : {0, 1, 2}) run.append(some_record(epoch));
  RunDirectory again = RunDirectory::open(root_ / "run");
  ASSERT_EQ(again.log().size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(to_json_line(again.log()[i]), to_json_line(run.log()[i]));
  EXPECT_EQ(again.log()[2].lists->success_rate, 0.98);
  EXPECT_EQ(again.log()[2].lists->success_bound, std::nullopt);
  EXPECT_EQ(again.log()[2].target_error, 0.6);
  again.forget_after(1);
  EXPECT_EQ(RunDirectory::open(root_ / "run").log().size(), 2U);
}

TEST_F(Folder, SaysWhichWeightsItHasAndWhetherThatIsSettled) {
  RunConfig config;
  config.schedule.epochs = 1;
  RunDirectory run = RunDirectory::create(root_ / "run", config);
  Choice choice;
  choice.decided = true;
  write_choice(run.path(), choice);
  const std::string how = "; what to keep is not settled yet, smartmine train --resume " + run.path().string() + " does it";
  run.append(some_record(0));
  EXPECT_EQ(run.weights_in_words(), "epoch 0 of 1, where it stands now");
  run.append(some_record(1));
  EXPECT_EQ(run.weights_in_words(), "epoch 1" + how);
  std::ofstream(run.kept_path()) << "written, but not yet in choice.json";
  EXPECT_EQ(run.weights_in_words(), "on the way from the start to epoch 1" + how);
  std::filesystem::remove(run.kept_path());
  choice.kept = {.epoch = 1, .share = 1, .metrics = {}};
  write_choice(run.path(), choice);
  EXPECT_EQ(run.weights_in_words(), "epoch 1");
  // Made longer, and killed before it kept something again.
  config.schedule.epochs = 2;
  run.change_config(config);
  run.append(some_record(2));
  EXPECT_EQ(run.weights_in_words(), "epoch 2" + how);
}

TEST_F(Folder, ADamagedLogIsRefusedWithItsLine) {
  RunDirectory run = RunDirectory::create(root_ / "run", RunConfig());
  run.append(some_record(0));
  std::ofstream(root_ / "run/log.jsonl", std::ios::app) << "{\"epoch\": 1}\n";
  EXPECT_THAT([&] { RunDirectory::open(root_ / "run"); },
              ThrowsMessage<IoError>(HasSubstr("log.jsonl: line 2: not a line of a run's log")));
  std::ofstream(root_ / "run/log.jsonl") << to_json_line(some_record(3)) << "\n" << to_json_line(some_record(2)) << "\n";
  EXPECT_THAT([&] { RunDirectory::open(root_ / "run"); },
              ThrowsMessage<IoError>(HasSubstr("line 2: not a line of a run's log: epoch 2 comes after epoch 3")));
}

TEST(TrainStates, RememberWhatWasTold) {
  TrainState state;
  state.told = {"mining"};
  EXPECT_EQ(parse_state(to_json(state)).told, state.told);
}

TEST_F(Folder, AStartTakesOverAFolderThatHoldsNothingButTheTemporaryFilesOfAKilledOne) {
  std::filesystem::create_directories(root_ / "run");
  const pid_t gone = fork();
  if (gone == 0) _exit(0);
  int status = 0;
  ASSERT_EQ(waitpid(gone, &status, 0), gone);
  const auto left = root_ / "run" / fmt::format(".smartmine-{}-0.tmp", gone);
  const auto held = root_ / "run" / fmt::format(".smartmine-{}-77.tmp", getpid());
  std::ofstream(left) << "half";
  std::ofstream(held) << "half";
  EXPECT_THAT([&] { RunDirectory::create(root_ / "run", RunConfig()); }, ThrowsMessage<IoError>(HasSubstr("run: exists already")));
  EXPECT_FALSE(std::filesystem::exists(left));
  std::filesystem::remove(held);  // its writer lives: it is no business of ours
  EXPECT_NO_THROW(RunDirectory::create(root_ / "run", RunConfig()));
  EXPECT_TRUE(std::filesystem::exists(root_ / "run/config.toml"));
  EXPECT_THAT([&] { RunDirectory::create(root_ / "run", RunConfig()); }, ThrowsMessage<IoError>(HasSubstr("run: exists already")));
}

TEST(TrainStates, ThatAreLongNonsenseAreRefusedInAShortLine) {
  const std::string nonsense = "{\"epoch\": \"" + std::string(5000, 'x') + "\n\x01";
  for (const auto& parse : std::vector<std::function<void()>>{[&] { parse_state(nonsense); }, [&] { parse_record(nonsense); }}) {
    try {
      parse();
      FAIL() << "it was read";
    } catch (const InvalidArgument& refused) {
      const std::string message = refused.what();
      EXPECT_LT(message.size(), 300U);
      EXPECT_EQ(message.find('\n'), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace smartmine
