#include "smartmine/run/choice.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "smartmine/core/error.h"

namespace smartmine {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

Trial trial(double rate, double recall, double map, std::int64_t done = 2) {
  return {.name = fmt::format("rate-{:g}", rate),
          .learning_rate = rate,
          .epochs = 2,
          .done = done,
          .score = {.recall_at_1 = recall, .map_at_r = map},
          .shares = {{1, {.recall_at_1 = recall, .map_at_r = map}}},
          .seconds = 1,
          .stopped = {}};
}

Trial trial_of(const char* system, double rate, double recall, double map, std::int64_t done = 2) {
  Trial made = trial(rate, recall, map, done);
  made.system = system;
  return made;
}

Choice choice_of(std::vector<Trial> trials) {
  Choice choice;
  choice.held_out_classes = 10;
  choice.start = {.recall_at_1 = 0.8, .map_at_r = 0.4};
  choice.tolerance = 0.01;
  choice.trials = std::move(trials);
  return choice;
}

TEST(Choices, GoAtMostHalfOfTheWayFromAGoodStartThatNothingClearlyBeats) {
  Trial each = trial(0.1, 0.956, 0.76);
  each.shares = {{0.25, {0.953, 0.755}}, {0.5, {0.954, 0.757}}, {0.75, {0.956, 0.759}}, {1, {0.956, 0.76}}};
  Choice choice = choice_of({each});
  choice.start = {.recall_at_1 = 0.953, .map_at_r = 0.746};
  pick_trial(choice, 8, true);
  EXPECT_EQ(choice.epochs, 8);
  EXPECT_EQ(choice.share, 0.5);
  choice.start = {.recall_at_1 = 0.92, .map_at_r = 0.78};  // as little gained, but from a start that leaves much to gain
  pick_trial(choice, 8, true);
  EXPECT_EQ(choice.share, 0.75);
  choice.start = {.recall_at_1 = 0.94, .map_at_r = 0.7};  // clearly better
  pick_trial(choice, 8, true);
  EXPECT_EQ(choice.share, 0.75);
}

TEST(Choices, GoHalfOfTheWayMoreGentlyWhereAQuarterIsBest) {
  Trial each = trial(0.25, 0.7, 0.3);
  each.shares = {{0.25, {0.9, 0.5}}, {0.5, {0.85, 0.45}}, {0.75, {0.82, 0.42}}, {1, {0.7, 0.3}}};
  Choice choice = choice_of({each});
  pick_trial(choice, 8, true);
  EXPECT_DOUBLE_EQ(choice.learning_rate, 0.1);
  EXPECT_EQ(choice.share, 0.5);
  EXPECT_EQ(choice.epochs, 8);
  EXPECT_THAT(choice.reason, HasSubstr("a learning rate of 0.25 took MAP@R from 40.0 to 50.0 %"));
  EXPECT_THAT(choice.reason, HasSubstr("with weights 25 % of the way, and 50 % of the way at 0.1 goes as far more gently"));
  EXPECT_EQ(parse_choice(to_json(choice)).share, 0.5);
  each.shares[1].score = {0.9, 0.5};
  choice = choice_of({each});
  pick_trial(choice, 8, true);
  EXPECT_EQ(choice.learning_rate, 0.25) << "half of the way is as good";
  EXPECT_EQ(choice.share, 0.5);
}

TEST(Choices, KeepAQuarterOfTheWayWhereTheGentlerRateWasTriedAndDidNotHelp) {
  Trial usual = trial(0.25, 0.7, 0.3), gentle = trial(0.1, 0.7, 0.3);
  usual.shares = {{0.25, {0.81, 0.41}}, {0.5, {0.75, 0.35}}, {1, {0.7, 0.3}}};
  gentle.shares = {{0.25, {0.79, 0.4}}, {0.5, {0.78, 0.39}}, {1, {0.7, 0.3}}};
  Choice choice = choice_of({usual, gentle});
  pick_trial(choice, 8, true);
  EXPECT_EQ(choice.learning_rate, 0.25);
  EXPECT_EQ(choice.share, 0.25);
  gentle.shares[1].score = {0.81, 0.41};
  choice = choice_of({usual, gentle});
  pick_trial(choice, 8, true);
  EXPECT_DOUBLE_EQ(choice.learning_rate, 0.1) << "half of the way helps there";
  EXPECT_EQ(choice.share, 0.5);
}

TEST(Choices, KeepAQuarterOfTheWayWhereThatIsWhatWasMeasured) {
  const std::vector<Interpolation> shares = {{0.25, {0.9, 0.5}}, {0.5, {0.85, 0.45}}, {1, {0.7, 0.3}}};
  Trial whole = trial(0.25, 0.7, 0.3, 8), nothing = trial(0.25, 0.7, 0.3), gentle = trial(0.1, 0.7, 0.3);
  whole.epochs = 8;
  whole.shares = gentle.shares = shares;
  Choice choice = choice_of({whole});
  pick_trial(choice, 8, true);
  EXPECT_EQ(choice.learning_rate, 0.25) << "a trial as long as the training";
  EXPECT_EQ(choice.share, 0.25);
  choice = choice_of({nothing, gentle});
  pick_trial(choice, 8, true);
  EXPECT_EQ(choice.learning_rate, 0.1) << "the gentler rate itself";
  EXPECT_EQ(choice.share, 0.25);
}

TEST(Choices, CannotBeatAStartThatIsAsGoodAsPerfect) {
  Choice choice = choice_of({});
  EXPECT_TRUE(can_be_beaten(choice));
  choice.start = {.recall_at_1 = 1, .map_at_r = 0.98};
  EXPECT_TRUE(can_be_beaten(choice));
  choice.start = {.recall_at_1 = 1, .map_at_r = 0.992};
  EXPECT_FALSE(can_be_beaten(choice));
}

TEST(Choices, CompareTrialsByWhatWouldBeKeptOfThem) {
  // The first one's best share costs recall, so that it may not be kept; what may be is worse than what the second has.
  Trial first = trial(0.1, 0.7, 0.7), second = trial(0.02, 0.83, 0.47);
  first.shares = {{0.25, {0.81, 0.41}}, {0.5, {0.75, 0.6}}, {1, {0.7, 0.7}}};
  second.shares = {{0.5, {0.83, 0.47}}, {1, {0.79, 0.5}}};
  Choice choice = choice_of({first, second});
  pick_trial(choice, 8, true);
  EXPECT_EQ(choice.learning_rate, 0.02);
  EXPECT_EQ(choice.share, 0.5);
}

TEST(Choices, SayWhyNoTrialCouldBeFinished) {
  Trial each = trial(0.1, 0.7, 0.3, 1);
  each.stopped = "the embeddings have collapsed";
  Choice choice = choice_of({each, each});
  pick_trial(choice, 8, true);
  EXPECT_EQ(choice.epochs, 0);
  EXPECT_THAT(choice.reason, HasSubstr("no trial could be finished"));
  EXPECT_THAT(choice.reason, HasSubstr("the embeddings have collapsed"));
  EXPECT_EQ(parse_choice(to_json(choice)).trials.front().stopped, each.stopped);
}

TEST(Choices, TakeTheSlowestOfEqualRatesForWeightsThatWereDrawn) {
  Choice choice = choice_of({trial(0.1, 0.9, 0.5), trial(0.5, 0.91, 0.51), trial(0.02, 0.85, 0.45)});
  pick_trial(choice, 8, false);
  EXPECT_EQ(choice.learning_rate, 0.1);
  EXPECT_EQ(choice.epochs, 8);
  EXPECT_EQ(choice.share, 1);
  EXPECT_THAT(choice.reason, HasSubstr("from 80.0 to 90.0 %"));
  choice = choice_of({trial(0.1, 0.85, 0.45), trial(0.5, 0.84, 0.44), trial(0.02, 0.9, 0.5)});
  pick_trial(choice, 8, false);
  EXPECT_EQ(choice.learning_rate, 0.02);
}

TEST(Choices, TakeAHigherRateThanTheUsualOneOnlyWhereItIsFarBetter) {
  const auto rate = [](const Trial& higher, bool pretrained = false) {
    Choice choice = choice_of({trial(0.1, 0.9, 0.5), higher, trial(0.02, 0.85, 0.45)});
    pick_trial(choice, 8, pretrained);
    return choice.learning_rate;
  };
  EXPECT_EQ(rate(trial(0.5, 0.925, 0.525)), 0.1);
  EXPECT_EQ(rate(trial(0.5, 0.925, 0.525), true), 0.5) << "what that forgets comes back on the way back to the start";
  EXPECT_EQ(rate(trial(0.5, 0.935, 0.535)), 0.5);
  Choice choice = choice_of({trial(0.1, 0.8, 0.4), trial(0.5, 0.82, 0.42)});
  pick_trial(choice, 8, false);
  EXPECT_EQ(choice.learning_rate, 0.5) << "the usual one does not beat the start";
}

TEST(Choices, TakeTheFastestOfEqualRatesForPretrainedWeights) {
  const std::vector<Interpolation> shares = {{0.25, {0.85, 0.45}}, {0.5, {0.88, 0.5}}, {0.75, {0.9, 0.54}}};
  Trial fast = trial(0.5, 0.7, 0.3), slow = trial(0.1, 0.91, 0.53);
  fast.shares = slow.shares = shares;
  slow.shares[2].score = {0.91, 0.53};
  Choice choice = choice_of({fast, slow});
  pick_trial(choice, 8, true);
  EXPECT_EQ(choice.learning_rate, 0.5);  // whatever its last weights are worth: they are not kept
  EXPECT_EQ(choice.share, 0.75);
  EXPECT_EQ(choice.interpolations.size(), 3U);
  EXPECT_THAT(choice.reason, HasSubstr("from 80.0 to 90.0 % with weights 75 % of the way"));
  slow.shares[2].score = {0.95, 0.6};
  choice = choice_of({fast, slow});
  pick_trial(choice, 8, true);
  EXPECT_EQ(choice.learning_rate, 0.1);
}

TEST(Choices, AreClearWhereATrialBeatsTheStartByMoreThanTheTolerance) {
  const auto clear = [](HeldOutScore best, std::int64_t done = 2) {
    Trial made = trial(0.5, 0.7, 0.3, done);  // its last weights are worse
    made.shares = {{0.25, {0.8, 0.4}}, {0.5, best}};
    return clearly_helps(made, choice_of({made}));
  };
  EXPECT_TRUE(clear({.recall_at_1 = 0.82, .map_at_r = 0.42}));
  EXPECT_FALSE(clear({.recall_at_1 = 0.805, .map_at_r = 0.405}));   // chance
  EXPECT_FALSE(clear({.recall_at_1 = 0.79, .map_at_r = 0.5}));      // recall@1 has fallen
  EXPECT_FALSE(clear({.recall_at_1 = 0.82, .map_at_r = 0.42}, 1));  // given up
}

TEST(Choices, KeepAsMuchOfTheWayAsDoesNoHarm) {
  const HeldOutScore start{0.6, 0.3};
  EXPECT_EQ(pick_share({{0.25, {0.8, 0.4}}, {0.5, {0.8, 0.4}}, {0.75, {0.793, 0.4}}}, start, 0.01), 0.75);
  EXPECT_EQ(pick_share({{0.25, {0.8, 0.4}}, {0.5, {0.8, 0.4}}, {0.75, {0.787, 0.4}}}, start, 0.01), 0.5);
  EXPECT_EQ(pick_share({{0.25, {0.9, 0.4}}, {0.5, {0.8, 0.4}}, {0.75, {0.7, 0.4}}}, start, 0.01), 0.25);
  EXPECT_EQ(pick_share({}, start, 0.01), std::nullopt);
  // As good as the best, but not as the start; more MAP@R for less recall.
  EXPECT_EQ(pick_share({{0.25, {0.72, 0.32}}, {0.75, {0.69, 0.36}}}, {0.7, 0.315}, 0.02), 0.25);
  EXPECT_EQ(pick_share({{0.25, {0.69, 0.9}}}, {0.7, 0.3}, 0.02), std::nullopt);
}

TEST(Choices, AskForMoreThanChanceBringsBeforeTheyLeaveTheStart) {
  const HeldOutScore start{0.6, 0.3};
  EXPECT_EQ(pick_share({{0.25, {0.604, 0.304}}, {0.5, {0.6, 0.301}}}, start, 0.01), std::nullopt);
  EXPECT_EQ(pick_share({{0.25, {0.606, 0.306}}}, start, 0.01), 0.25);
  Choice choice = choice_of({trial(0.1, 0.804, 0.404)});
  pick_trial(choice, 8, false);
  EXPECT_EQ(choice.epochs, 0);
  EXPECT_EQ(choice.trial, "");
}

TEST(Choices, NameTheTrialThatWasBest) {
  Trial brief = trial(0.1, 0.7, 0.3), whole = trial(0.1, 0.9, 0.5);
  whole.name = "rate-0.1-epochs-8";
  Choice choice = choice_of({brief, whole});
  pick_trial(choice, 8, true);
  EXPECT_EQ(choice.trial, "rate-0.1-epochs-8");
  EXPECT_EQ(parse_choice(to_json(choice)).trial, choice.trial);
  EXPECT_THAT(choice.reason, HasSubstr("MAP@R from 40.0 to 50.0 %"));
}

TEST(Choices, KeepTheWholeWayOnlyWhereItIsClearlyBetter) {
  const HeldOutScore start{0.6, 0.3};
  EXPECT_EQ(pick_share({{0.75, {0.8, 0.4}}, {1, {0.812, 0.4}}}, start, 0.01), 1);
  EXPECT_EQ(pick_share({{0.75, {0.8, 0.4}}, {1, {0.808, 0.4}}}, start, 0.01), 0.75);
  EXPECT_EQ(pick_share({{0.75, {0.55, 0.2}}, {1, {0.62, 0.32}}}, start, 0.01), 1);  // nothing else helps
}

TEST(Choices, KeepTheStartWhereNothingBeatsIt) {
  const std::vector<Trial> worse = {trial(0.1, 0.7, 0.4), trial(0.02, 0.79, 0.41)};
  Choice choice = choice_of(worse);
  pick_trial(choice, 8, true);
  EXPECT_EQ(choice.epochs, 0);
  EXPECT_THAT(choice.reason, HasSubstr("no training beats the weights it starts from on 10 held-out classes"));
  // So too for weights that were drawn.
  choice = choice_of(worse);
  pick_trial(choice, 8, false);
  EXPECT_EQ(choice.epochs, 0);
  EXPECT_THAT(choice.reason, HasSubstr("no training beats the weights it starts from"));
}

TEST(Choices, TakeAnotherSystemOnlyWhereItIsClearlyBetter) {
  const auto picked = [](const Trial& first, const Trial& second) { return pick_system(choice_of({first, second})); };
  const Trial usual = trial_of("usual", 0.1, 0.85, 0.45);
  EXPECT_EQ(picked(usual, trial_of("other", 0.1, 0.87, 0.47)), "other");
  EXPECT_EQ(picked(usual, trial_of("other", 0.1, 0.855, 0.455)), "usual") << "chance";
  EXPECT_EQ(picked(usual, trial_of("other", 0.1, 0.84, 0.6)), "usual") << "recall@1 is lower";
  EXPECT_EQ(picked(usual, trial_of("other", 0.1, 0.95, 0.6, 1)), "usual") << "given up";
  EXPECT_EQ(picked(usual, trial_of("other", 0.1, 0.8, 0.4)), "usual");
  const Trial stopped = trial_of("usual", 0.1, 0.85, 0.45, 1), useless = trial_of("usual", 0.1, 0.803, 0.4);
  EXPECT_EQ(picked(stopped, trial_of("other", 0.1, 0.82, 0.42)), "other");
  EXPECT_EQ(picked(stopped, trial_of("other", 0.1, 0.8, 0.4)), "usual") << "neither beats the start";
  EXPECT_EQ(picked(useless, trial_of("other", 0.1, 0.806, 0.406)), "other") << "it alone beats the start";
  EXPECT_EQ(pick_system(choice_of({usual})), "usual") << "there was no time for another";
  // Each at its best: here at the higher rate.
  const std::vector<Trial> behind = {usual, trial_of("other", 0.1, 0.81, 0.41), trial_of("usual", 0.5, 0.86, 0.46)};
  EXPECT_EQ(pick_system(choice_of(behind)), "usual");
  std::vector<Trial> ahead = behind;
  ahead.push_back(trial_of("other", 0.5, 0.9, 0.5));
  EXPECT_EQ(pick_system(choice_of(ahead)), "other");
}

TEST(Choices, ComeFromTrialsOfTheChosenSystemAndSayHowItCompared) {
  // The other system's trial is a little better, within the tolerance; it has no say in the rate.
  Choice choice = choice_of({trial_of("usual", 0.1, 0.9, 0.5), trial_of("other", 0.02, 0.905, 0.505), trial_of("usual", 0.5, 0.91, 0.5)});
  choice.system = pick_system(choice);
  EXPECT_EQ(choice.system, "usual");
  pick_trial(choice, 8, false);
  EXPECT_EQ(choice.learning_rate, 0.1);
  EXPECT_THAT(
      choice.reason,
      ::testing::EndsWith("; other at 0.02 was not clearly better than usual at 0.5: a recall@1 of 90.5 instead of 91.0 % after 2 epochs"));
  choice = choice_of({trial_of("usual", 0.1, 0.85, 0.45), trial_of("other", 0.1, 0.95, 0.65), trial_of("other", 0.5, 0.99, 0.7)});
  choice.system = pick_system(choice);
  pick_trial(choice, 8, false);
  EXPECT_EQ(choice.learning_rate, 0.5);
  EXPECT_THAT(choice.reason,
              ::testing::EndsWith("; other at 0.5 was better than usual at 0.1: a recall@1 of 99.0 instead of 85.0 % after 2 epochs"));
  choice = choice_of({trial_of("usual", 0.1, 0.9, 0.5), trial_of("other", 0.1, 0.2, 0.1, 1)});
  choice.system = pick_system(choice);
  pick_trial(choice, 8, false);
  EXPECT_THAT(choice.reason, ::testing::EndsWith("from 80.0 to 90.0 %")) << "the other could not be tried to the end";
  choice = choice_of({trial_of("usual", 0.1, 0.9, 0.5)});
  choice.system = "usual";
  pick_trial(choice, 8, false);
  EXPECT_THAT(choice.reason, ::testing::EndsWith("from 80.0 to 90.0 %")) << "there was nothing to compare";
}

TEST(Choices, AreReadWhereNoSystemIsWrittenDown) {
  Choice choice = choice_of({trial_of("usual", 0.1, 0.9, 0.5)});
  choice.system = "usual";
  pick_trial(choice, 8, false);
  const Choice read = parse_choice(to_json(choice));
  EXPECT_EQ(read.system, "usual");
  EXPECT_EQ(read.trials[0].system, "usual");
  std::string earlier = to_json(choice);
  for (int i = 0; i < 2; ++i) {
    const std::size_t at = earlier.find("\"system\": \"usual\",");
    ASSERT_NE(at, std::string::npos);
    earlier.erase(at, earlier.find(',', at) + 1 - at);
  }
  const Choice old = parse_choice(earlier);
  EXPECT_EQ(old.system, "");
  EXPECT_EQ(old.trials[0].system, "");
  EXPECT_EQ(old.learning_rate, 0.1);
}

TEST(Choices, AreOneLineForPrograms) {
  Choice choice = choice_of({trial_of("usual", 0.1, 0.9, 0.5)});
  choice.system = "usual";
  pick_trial(choice, 8, false);
  const std::string line = to_json_line(choice);
  EXPECT_THAT(line, ::testing::StartsWith("{\"choice\":{\"summary\":\"on 10 held-out classes a learning rate of 0.1 "));
  EXPECT_EQ(line.find('\n'), std::string::npos);
  EXPECT_EQ(to_json(parse_choice(line.substr(10, line.size() - 11))), to_json(choice));
}

TEST(Choices, LeaveTrialsAsideThatWereGivenUp) {
  Choice choice = choice_of({trial(0.1, 0.95, 0.6, 1), trial(0.02, 0.85, 0.45)});
  pick_trial(choice, 8, true);
  EXPECT_EQ(choice.learning_rate, 0.02);
  choice = choice_of({trial(0.1, 0.95, 0.6, 1)});
  pick_trial(choice, 8, true);
  EXPECT_EQ(choice.epochs, 0);
}

TEST(Choices, SurviveTheirText) {
  Choice choice = choice_of({trial(0.1, 0.9, 0.5), trial(0.5, 1.0 / 3, 0.1, 1)});
  choice.trials[0].shares = {{.share = 0.5, .score = {0.95, 0.55}}};
  pick_trial(choice, 8, true);
  choice.share = 0.75;
  choice.dropout = 0.125;
  choice.decided = true;
  choice.kept = {.epoch = 8, .share = 0.75, .metrics = RetrievalMetrics{.split = "test", .recall_at_1 = 0.625, .nmi = 0.5}};
  EXPECT_EQ(in_words(*choice.kept), "epoch 8, 75 % of the way from the start");
  const Choice read = parse_choice(to_json(choice));
  EXPECT_EQ(to_json(read), to_json(choice));
  EXPECT_EQ(read.trials[1].score.recall_at_1, 1.0 / 3);
  EXPECT_EQ(read.share, 0.75);
  EXPECT_EQ(read.dropout, 0.125);
  EXPECT_EQ(read.kept->metrics->recall_at_1, 0.625);
  EXPECT_EQ(read.kept->metrics->split, "test");
  std::string earlier = to_json(choice);
  earlier.replace(earlier.find("\"start\""), 7, "\"untrained\"");
  EXPECT_EQ(to_json(parse_choice(earlier)), to_json(choice));
  EXPECT_THAT([] { parse_choice("{}"); }, ThrowsMessage<InvalidArgument>(HasSubstr("not the choice of a run")));
}

TEST(Choices, HoldOutAQuarterOfTheClassesButTenOrHalfAtLeastOrNone) {
  for (const std::size_t few : {0, 2, 4, 7}) EXPECT_EQ(classes_to_hold_out(few).classes, 0) << few;
  for (const std::size_t classes : {8, 15, 50, 98, 100, 1000, 100000}) {
    const HeldOut held = classes_to_hold_out(classes);
    EXPECT_GE(held.classes, 2) << classes;
    EXPECT_LE(held.classes, 50) << classes;
    EXPECT_LE(held.classes * held.block, static_cast<std::int64_t>(classes)) << "the block lies beyond the classes";
  }
  EXPECT_EQ(classes_to_hold_out(100).classes, 25);
  EXPECT_EQ(classes_to_hold_out(24).classes, 10);
  EXPECT_EQ(classes_to_hold_out(15).classes, 7);
}

TEST(Choices, ExpectMoreChanceFromFewerQueries) {
  EXPECT_GT(score_tolerance(100), score_tolerance(1000));
  EXPECT_GE(score_tolerance(1'000'000), 0.003);
}

}  // namespace
}  // namespace smartmine
