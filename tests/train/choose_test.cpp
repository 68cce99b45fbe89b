#include "smartmine/train/choose.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/script.h>
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "smartmine/core/error.h"
#include "train/choosing.h"

namespace smartmine {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::ThrowsMessage;

TEST_F(Choosing, GoesByTheValidationSplitOfTheDataWhereItHasOne) {
  make_table(10, 5);
  RunDirectory run = new_run("run");
  const Choice choice = choose_settings(config_, run);
  EXPECT_TRUE(choice.decided);
  EXPECT_FALSE(choice.careful);
  EXPECT_EQ(choice.held_out_classes, 5);
  EXPECT_EQ(choice.held_out_images, 100);
  EXPECT_FALSE(choice.trials.empty());
  EXPECT_THAT(choice.reason, HasSubstr("on 5 validation classes"));
}

TEST_F(Choosing, HoldsOutTrainingClassesWhereTheValidationSplitIsTooSmall) {
  make_table(14, 1);
  RunDirectory run = new_run("run");
  const Choice choice = choose_settings(config_, run);
  EXPECT_FALSE(choice.careful);
  EXPECT_EQ(choice.held_out_classes, 7);
  ASSERT_FALSE(choice.trials.empty());
  EXPECT_EQ(RunDirectory::open(run.path() / "trials" / choice.trials[0].name).log().back().metrics->split, "validation");
}

TEST_F(Choosing, IsOffWhereNothingIsTrained) {
  config_.choosing.choose = "auto";
  config_.schedule.learning_rate.reset();
  EXPECT_EQ(config_.resolved().choosing.choose, "on");
  config_.schedule.epochs = 0;
  EXPECT_EQ(config_.resolved().choosing.choose, "off");
}

TEST_F(Choosing, RefusesWhatLeavesNothingToChoose) {
  RunDirectory run = new_run("run");
  config_.schedule.epochs = 0;
  EXPECT_THAT([&] { choose_settings(config_, run); },
              ThrowsMessage<InvalidArgument>(HasSubstr("epochs is 0; with choose on it must be at least 1")));
  config_.schedule.epochs = 4;
  config_.data.validation_classes = 0.3;  // what is chosen on these classes would be measured on them
  EXPECT_THAT([&] { choose_settings(config_, run); },
              ThrowsMessage<InvalidArgument>(HasSubstr("validation-classes is 0.3; with choose on it must be 0")));
  EXPECT_FALSE(std::filesystem::exists(run.path() / "trials"));
}

TEST_F(Choosing, TakesAwayTheWeightsOfTrialsThatAKillHasLeft) {
  RunDirectory run = new_run("run");
  Choice choice;
  choice.decided = true;
  write_choice(run.path(), choice);
  const std::filesystem::path trial = run.path() / "trials/rate-1-epochs-1";
  std::filesystem::create_directories(trial / "checkpoint");
  for (const char* name : {"checkpoint/model.safetensors", "start.safetensors", "log.jsonl"}) std::ofstream(trial / name) << "something";
  choose_settings(config_, run);
  EXPECT_FALSE(std::filesystem::exists(trial / "checkpoint"));
  EXPECT_FALSE(std::filesystem::exists(trial / "start.safetensors"));
  EXPECT_TRUE(std::filesystem::exists(trial / "log.jsonl"));
}

TEST_F(Choosing, TriesRatesOnHeldOutClassesAndKeepsARecord) {
  RunDirectory run = new_run("run");
  const Choice choice = train(run);
  EXPECT_TRUE(choice.decided);
  EXPECT_FALSE(choice.careful);
  EXPECT_EQ(choice.held_out_classes, 6);
  EXPECT_EQ(choice.held_out_images, 120);
  ASSERT_GE(choice.trials.size(), 2U);
  EXPECT_EQ(choice.trials[0].shares.size(), 4U);
  EXPECT_GT(choice.start.recall_at_1, 0);
  Choice read = *read_choice(run.path());
  ASSERT_TRUE(read.kept.has_value());
  EXPECT_EQ(read.kept->epoch, choice.epochs);
  EXPECT_EQ(read.kept->metrics->split, "test");
  read.kept.reset();  // written at the end
  EXPECT_EQ(to_json(read), to_json(choice));
  EXPECT_EQ(read_config(run.config_path()).schedule.epochs, choice.epochs);
  EXPECT_EQ(run.log().back().epoch, choice.epochs);
  EXPECT_EQ(run.log().back().metrics->split, "test");
  for (const Trial& trial : choice.trials) {
    const RunDirectory of_trial = RunDirectory::open(run.path() / "trials" / trial.name);
    EXPECT_EQ(of_trial.log().back().metrics->split, "validation");
    EXPECT_FALSE(std::filesystem::exists(of_trial.checkpoint_path()));
  }
  // Once decided, nothing is tried again.
  std::size_t events = 0;
  choose_settings(config_, run, {}, [&](const ProgressEvent&) { return ++events > 0; });
  EXPECT_EQ(events, 0U);
}

TEST(ChosenConfigs, HaveWhatWasChosenAndKeepWhatWasGiven) {
  Choice choice;
  choice.learning_rate = 0.125;
  choice.epochs = 3;
  choice.share = 0.75;
  RunConfig config;
  config.schedule.rate_warmup_epochs = 5;
  const RunConfig plain = chosen_config(config, choice);
  EXPECT_EQ(plain.schedule.learning_rate, 0.125);
  EXPECT_EQ(plain.schedule.epochs, 3);
  EXPECT_EQ(plain.schedule.rate_warmup_epochs, 3);
  EXPECT_TRUE(plain.output.keep_start);
  EXPECT_FALSE(plain.model.dropout.has_value());
  choice.share = 1;
  EXPECT_TRUE(chosen_config(config, choice).output.keep_start) << "for a training that has to be stopped";
  choice.dropout = 0.25;
  EXPECT_EQ(chosen_config(config, choice).model.dropout, 0.25);
}

TEST_F(Choosing, TriesATrainingOfFullLengthBeforeItKeepsTheStart) {
  config_.schedule.learning_rate = 100;  // nothing can come of it
  RunDirectory run = new_run("run");
  const Choice choice = choose_settings(config_, run);
  EXPECT_EQ(choice.epochs, 0);
  EXPECT_THAT(choice.reason, HasSubstr("the weights it starts from"));
  ASSERT_EQ(choice.trials.size(), 3U);
  EXPECT_LT(choice.trials[0].epochs, 4);
  EXPECT_LT(choice.trials[1].epochs, 4);
  EXPECT_EQ(choice.trials[2].epochs, 4);
  EXPECT_EQ(choice.trials[0].learning_rate, 100);
  EXPECT_EQ(choice.trials[1].learning_rate, 40) << "two fifths of the usual rate";
  EXPECT_EQ(choice.trials[2].learning_rate, 40) << "likewise";
  config_.schedule.epochs = 1;  // trials are as long as that already
  RunDirectory short_run = new_run("short");
  EXPECT_EQ(choose_settings(config_, short_run).trials.size(), 2U);
}

TEST_F(ChoosingSystems, TriesEachAtTwoRatesAndThenAnotherOfOne) {
  config_.schedule.epochs = 10;
  RunDirectory run = new_run("run");
  EXPECT_EQ(read_config(run.config_path()).system.name, "auto");
  const Choice choice = train(run);
  ASSERT_GE(choice.trials.size(), 4U);
  EXPECT_EQ(choice.trials[0].name, "triplet-fanng-global-adaptive-rate-0.1-epochs-2");
  EXPECT_EQ(choice.trials[1].name, "neighbor-batch-rate-0.5-epochs-2");
  EXPECT_EQ(choice.trials[2].name, "triplet-fanng-global-adaptive-rate-0.5-epochs-2");
  EXPECT_EQ(choice.trials[3].name, "neighbor-batch-rate-0.1-epochs-2");
  EXPECT_EQ(choice.system, pick_system(choice));
  double epochs = 0;
  EXPECT_THAT(choice.trials, ::testing::Each(::testing::Field(&Trial::learning_rate, ::testing::Le(0.5)))) << "a trial flatters these";
  for (std::size_t i = 0; i < choice.trials.size(); ++i) {
    const Trial& trial = choice.trials[i];
    const RunConfig config = read_config(run.path() / "trials" / trial.name / "config.toml");
    EXPECT_EQ(config.system.name, trial.system);
    EXPECT_EQ(config.mining.kappa, trial.system == "neighbor-batch" ? 2 : 4) << "what suits the system";
    EXPECT_TRUE(i < 4 || trial.system == choice.system) << trial.name;
    epochs += static_cast<double>(trial.done) / 2;  // half of the images are held out
  }
  EXPECT_TRUE(epochs <= 5 || choice.epochs == 0) << "more than half of the training";
  const RunConfig trained = read_config(run.config_path());
  EXPECT_EQ(trained.system.name, choice.system);
  EXPECT_EQ(trained.mining.kappa, choice.system == "neighbor-batch" ? 2 : 4);
  EXPECT_EQ(trained.schedule.learning_rate, choice.learning_rate);
  EXPECT_EQ(to_json(choose_settings(trained, run)), to_json(*read_choice(run.path()))) << "it was chosen anew";
}

TEST_F(ChoosingSystems, TriesEachOnceWhereTheTrainingIsShort) {
  config_.schedule.epochs = 3;  // half of that are three epochs of half of the images
  RunDirectory run = new_run("run");
  const Choice choice = choose_settings(config_, run);
  ASSERT_GE(choice.trials.size(), 2U);
  EXPECT_EQ(choice.trials[0].learning_rate, 0.1);
  EXPECT_EQ(choice.trials[1].learning_rate, 0.5);
  EXPECT_NE(choice.trials[0].system, choice.trials[1].system);
  ASSERT_EQ(choice.system, "neighbor-batch");
  ASSERT_EQ(choice.trials.size(), 3U) << "at the usual rate too, for a trial flatters the higher one";
  EXPECT_EQ(choice.trials[2].system, "neighbor-batch");
  EXPECT_EQ(choice.trials[2].learning_rate, 0.1);
}

TEST_F(ChoosingSystems, HasNoneToChooseWhereOneIsGivenOrWeightsAre) {
  config_.system.name = "neighbor-batch";
  RunDirectory given = new_run("given");
  const Choice choice = choose_settings(config_, given);
  ASSERT_FALSE(choice.trials.empty());
  EXPECT_EQ(choice.trials[0].name, "rate-0.1-epochs-2");
  EXPECT_EQ(choice.system, "neighbor-batch");
  config_.system.name = "auto";
  config_.model.weights = (root_ / "trunk.safetensors").string();
  RunDirectory weights = new_run("weights");
  for (const Trial& trial : choose_settings(config_, weights).trials) EXPECT_EQ(trial.system, "triplet-fanng-global-adaptive");
}

TEST_F(ChoosingSystems, LeavesOutOneThatWhatWasGivenDoesNotFit) {
  config_.mining.find_kappa = true;
  RunDirectory run = new_run("run");
  const Choice choice = choose_settings(config_, run);
  ASSERT_FALSE(choice.trials.empty());
  for (const Trial& trial : choice.trials) EXPECT_EQ(trial.system, "triplet-fanng-global-adaptive");
}

TEST_F(ChoosingSystems, KeepsADrawnStartThatNothingBeats) {
  config_.schedule.learning_rate = 1e-9;
  config_.schedule.epochs = 2;
  RunDirectory run = new_run("run");
  const Choice choice = train(run);
  EXPECT_EQ(choice.epochs, 0);
  EXPECT_THAT(choice.reason, HasSubstr("no training beats the weights it starts from on 6 held-out classes, so these are kept"));
  const Trial& last = choice.trials.back();
  EXPECT_EQ(last.system, "triplet-fanng-global-adaptive");
  EXPECT_EQ(last.epochs, 2) << "one as long as the training has its say before";
  EXPECT_EQ(run.log().back().epoch, 0);
  const Choice kept = *read_choice(run.path());
  ASSERT_TRUE(kept.kept.has_value());
  EXPECT_EQ(in_words(*kept.kept), "those that the run starts from");
  const NamedTensors start = read_safetensors(run.start_path());
  for (const auto& [name, tensor] : read_safetensors(run.model_path())) EXPECT_TRUE(tensor.equal(start.at(name))) << name;
  EXPECT_EQ(read_config(run.config_path()).system.name, "triplet-fanng-global-adaptive");
}

TEST_F(ChoosingSystems, ABudgetThatIsTooShortLeavesTheUsualOne) {
  config_.choosing.budget = "0.001s";
  RunDirectory run = new_run("run");
  const Choice choice = train(run);
  EXPECT_EQ(choice.epochs, 0);
  EXPECT_EQ(read_config(run.config_path()).system.name, "triplet-fanng-global-adaptive");
}

TEST_F(ChoosingSystems, ABudgetTriesEachAndTrainsOne) {
  config_.choosing.budget = "1h";
  config_.choosing.most_epochs = 2;
  RunDirectory run = new_run("run");
  const Choice choice = train(run);
  ASSERT_GE(choice.trials.size(), 2U);
  EXPECT_NE(choice.trials[0].system, choice.trials[1].system);
  EXPECT_LE(choice.epochs, 2);
  EXPECT_EQ(read_config(run.config_path()).system.name, choice.system);
}

TEST_F(ChoosingSystems, StoppedAnywhereEndsWithTheSameBits) { expect_same_bits_wherever_stopped(5); }

TEST_F(ChoosingSystems, StoppedAnywhereEndsWithTheSameBitsOfAnotherThanTheUsualOne) {
  config_.schedule.epochs = 3;
  expect_same_bits_wherever_stopped(5);
  EXPECT_EQ(read_config(root_ / "whole" / "config.toml").system.name, "neighbor-batch");
  EXPECT_EQ(read_config(root_ / "whole" / "config.toml").mining.kappa, 2);
}

TEST_F(Choosing, TriesNothingFromAPerfectStart) {
  for (const auto& folder : std::filesystem::directory_iterator(root_ / "images"))  // all images of a class are the same one
    for (int i = 1; i < 20; ++i)
      std::filesystem::copy_file(folder.path() / "0.png", folder.path() / fmt::format("{}.png", i),
                                 std::filesystem::copy_options::overwrite_existing);
  RunDirectory run = new_run("run");
  std::vector<std::int64_t> epochs;
  const ChoiceEvents events{.on_begin = {}, .on_epoch = [&](const Trial&, const EpochRecord& record) { epochs.push_back(record.epoch); }};
  const Choice choice = choose_settings(config_, run, events);
  EXPECT_EQ(choice.start.value(), 1);
  EXPECT_EQ(choice.epochs, 0);
  EXPECT_TRUE(choice.trials.empty());
  EXPECT_THAT(choice.reason, HasSubstr("nothing to gain"));
  EXPECT_EQ(epochs, std::vector<std::int64_t>{0});
}

TEST_F(Choosing, IsCarefulWithFewClassesOrLittleTime) {
  make_images(8);  // half of them train
  RunDirectory run = new_run("few");
  const Choice few = choose_settings(config_, run);
  EXPECT_TRUE(few.careful);
  EXPECT_TRUE(few.trials.empty());
  EXPECT_LT(few.learning_rate, 0.02);
  EXPECT_EQ(few.share, 0.5);
  EXPECT_THAT(few.reason, HasSubstr("too few training classes"));
  config_.choosing.budget = "0.001s";
  RunDirectory hasty = new_run("hasty");
  EXPECT_EQ(choose_settings(config_, hasty).epochs, 0);
  make_images(24);
  RunDirectory quick = new_run("quick");
  std::size_t begun = 0;
  const Choice little = choose_settings(config_, quick, {.on_begin = [&](const Choice&) { ++begun; }, .on_epoch = {}});
  EXPECT_EQ(begun, 0U) << "nothing is chosen, so nothing is announced";
  EXPECT_EQ(little.epochs, 0);
  EXPECT_THAT(little.reason, HasSubstr("the budget is too short"));
  EXPECT_THAT(little.reason, HasSubstr(" s or so)"));  // as a few images told
  EXPECT_THAT(little.reason, Not(HasSubstr("(1 s or so)"))) << "less than that";
  EXPECT_FALSE(std::filesystem::exists(quick.path() / "trials")) << "no epoch had to be tried to know it";
}

TEST_F(Choosing, FitsEpochsIntoTheBudget) {
  config_.choosing.budget = "1h";
  RunDirectory run = new_run("run");
  config_.schedule.epochs = 1;
  // An hour is more than enough for many epochs of these; nothing is trained at the end, so this stays quick.
  std::int64_t most = 0;
  const Choice choice = choose_settings(
      config_, run, {.on_begin = {}, .on_epoch = [&](const Trial& trial, const EpochRecord&) { most = std::max(most, trial.epochs); }});
  EXPECT_GT(most, 1);
  EXPECT_EQ(choice.epochs == 0 || choice.epochs > 8, true) << choice.epochs;
}

TEST_F(Choosing, ABudgetComesToNoMoreEpochsThanItMay) {
  config_.choosing.budget = "1h";
  config_.choosing.most_epochs = 2;
  RunDirectory run = new_run("run");
  std::int64_t most = 0;
  const auto longest = [&](const Trial& trial, const EpochRecord&) { most = std::max(most, trial.epochs); };
  EXPECT_LE(choose_settings(config_, run, {.on_begin = {}, .on_epoch = longest}).epochs, 2);
  EXPECT_GE(most, 1);
  EXPECT_LE(most, 2);
}

TEST_F(Choosing, ABudgetTriesNoRatesThatItHasNoTimeFor) {
  config_.model.weights.clear();
  config_.schedule.learning_rate = 1e-9;  // nothing is learnt, so no rate is better than another
  config_.choosing.budget = "1h";
  config_.choosing.most_epochs = 1;
  RunDirectory patient = new_run("patient");
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_GE(choose_settings(config_, patient).trials.size(), 3U);
  const double start = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / 3;  // of a trial, and more
  // An epoch of a trial now takes a time beside which its start is short, one of the training, of twice as many images, twice that: a
  // second trial fits in, a third does not.
  const double epoch = std::max(0.4, 3 * start);
  config_.choosing.budget = fmt::format("{}s", 5 * epoch);
  RunDirectory hasty = new_run("hasty");
  const auto slowly = [&](const ProgressEvent& event) {
    if (event.stage.starts_with("epoch ") && event.done == event.total) std::this_thread::sleep_for(std::chrono::duration<double>(epoch));
    return true;
  };
  EXPECT_LE(choose_settings(config_, hasty, {}, slowly).trials.size(), 2U);
}

TEST_F(Choosing, ABudgetWhoseFirstEpochHadToBeStoppedIsNotPlannedByIt) {
  config_.schedule.learning_rate = 1e30;
  config_.choosing.budget = "1h";
  RunDirectory run = new_run("run");
  const Choice choice = choose_settings(config_, run);
  EXPECT_EQ(choice.epochs, 0);
  EXPECT_THAT(choice.reason, AllOf(HasSubstr("an epoch at a rate of 1e+30 was given up"), HasSubstr("the weights it starts from are kept"),
                                   Not(HasSubstr("checkpoint"))));
  for (const auto& trial : std::filesystem::directory_iterator(run.path() / "trials"))
    EXPECT_THAT(trial.path().filename().string(), ::testing::EndsWith("-epochs-1"));
}

TEST_F(Choosing, StoppedWithABudgetGoesOnWithTheSameEpochs) {
  config_.choosing.budget = "1h";
  RunDirectory run = new_run("run");
  std::size_t epochs = 0;
  const auto count = [&](const Trial&, const EpochRecord&) { ++epochs; };
  EXPECT_THROW(choose_settings(config_, run, {.on_begin = {}, .on_epoch = count}, [&](const ProgressEvent&) { return epochs < 4; }),
               Cancelled);
  Choice plan = read_choice(run.path()).value();
  EXPECT_FALSE(plan.decided);
  EXPECT_GT(plan.epochs, 4);
  plan.epochs = 4;  // not what an hour has time for, so it can only have been read
  write_choice(run.path(), plan);
  std::int64_t most = 0;
  const auto longest = [&](const Trial& trial, const EpochRecord&) { most = std::max(most, trial.epochs); };
  const Choice choice = choose_settings(config_, run, {.on_begin = {}, .on_epoch = longest});
  EXPECT_TRUE(choice.decided);
  EXPECT_LE(most, 4);
  EXPECT_LE(choice.epochs, 4);
}

TEST_F(Choosing, AnEpochOfATrialThatNoCheckpointHasIsTrainedAgain) {
  RunDirectory whole = new_run("whole");
  Choice expected = choose_settings(config_, whole);
  ASSERT_GE(expected.trials[0].epochs, 2);
  // As it is after a kill between the log and the checkpoint of a trial's last epoch.
  RunDirectory run = new_run("run");
  const std::filesystem::path trial = run.path() / "trials" / expected.trials[0].name, earlier = root_ / "earlier";
  const auto cut = [&](const Trial& of, const EpochRecord& record) {
    if (record.epoch + 1 == of.epochs) std::filesystem::copy(trial / "checkpoint", earlier, std::filesystem::copy_options::recursive);
    if (record.epoch == of.epochs) throw Cancelled();
  };
  EXPECT_THROW(choose_settings(config_, run, {.on_begin = {}, .on_epoch = cut}), Cancelled);
  std::filesystem::remove_all(trial / "checkpoint");
  std::filesystem::rename(earlier, trial / "checkpoint");
  Choice again = choose_settings(config_, run);
  for (Choice* each : {&expected, &again}) {
    each->seconds = 0;
    for (Trial& one : each->trials) one.seconds = 0;
  }
  EXPECT_EQ(to_json(again), to_json(expected));
}

TEST_F(Choosing, TellsAgainWhatWasDoneBeforeItWasStopped) {
  using Row = std::pair<std::string, std::int64_t>;  // of a trial, and its epoch
  std::vector<Row> before, after;
  const auto into = [](std::vector<Row>& rows) {
    return [&rows](const Trial& trial, const EpochRecord& record) { rows.emplace_back(trial.name, record.epoch); };
  };
  RunDirectory run = new_run("run");
  EXPECT_THROW(
      choose_settings(config_, run, {.on_begin = {}, .on_epoch = into(before)}, [&](const ProgressEvent&) { return before.size() < 3; }),
      Cancelled);
  choose_settings(config_, run, {.on_begin = {}, .on_epoch = into(after)});
  ASSERT_EQ(before.size(), 3U);
  ASSERT_GT(after.size(), before.size());
  EXPECT_EQ(std::vector<Row>(after.begin(), after.begin() + 3), before);
}

TEST_F(Choosing, ATrialThatFailsAtOnceLeavesNothingBehind) {
  config_.schedule.learning_rate = 0.02;
  config_.model.weights = (root_ / "none.safetensors").string();
  RunDirectory run = new_run("run");
  EXPECT_THROW(choose_settings(config_, run), IoError);
  run.remove_if_unused();
  EXPECT_FALSE(std::filesystem::exists(run.path()));
}

TEST_F(Choosing, LeavesNoCopyOfABackboneInItsTrials) {
  torch::jit::Module net("Net");
  torch::manual_seed(2);
  net.register_parameter("filters", (torch::randn({12, 3, 5, 5}) * 0.2).set_requires_grad(true), /*is_buffer=*/false);
  net.define("def forward(self, x):\n  return torch.relu(torch.conv2d(x, self.filters, None, [4, 4])).flatten(1)\n");
  net.save((root_ / "net.pt").string());
  config_.model.backbone = (root_ / "net.pt").string();
  config_.model.weights.clear();
  config_.model.channels.reset();
  RunDirectory run = new_run("run");
  const Choice choice = choose_settings(config_, run);
  ASSERT_FALSE(choice.trials.empty());
  for (const Trial& trial : choice.trials) EXPECT_FALSE(std::filesystem::exists(run.path() / "trials" / trial.name / "backbone.pt"));
  EXPECT_TRUE(std::filesystem::exists(run.backbone_path()));
}

TEST_F(Choosing, FindsABadTestImageBeforeItTriesAnything) {
  std::ofstream(root_ / "images/class30/3.png", std::ios::trunc).close();  // the second half of the classes tests
  RunDirectory run = new_run("run");
  std::size_t told = 0;
  const ChoiceEvents events{.on_begin = [&](const Choice&) { ++told; }, .on_epoch = {}};
  try {
    choose_settings(config_, run, events);
    ADD_FAILURE() << "it was not found";
  } catch (const IoError& error) {
    EXPECT_THAT(error.what(), HasSubstr("class30/3.png"));
  }
  EXPECT_EQ(told, 0U);
  EXPECT_FALSE(std::filesystem::exists(run.path() / "trials"));
  config_.data.skip_bad_images = true;
  EXPECT_TRUE(choose_settings(config_, run).decided);
}

TEST_F(Choosing, StoppedAnywhereEndsWithTheSameBits) { expect_same_bits_wherever_stopped(3); }

}  // namespace
}  // namespace smartmine
