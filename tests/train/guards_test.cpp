#include "train/guards.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "smartmine/train/trainer.h"
#include "train/recorder.h"
#include "train/stepper.h"

namespace smartmine {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

EpochRecord with_error(std::int64_t active, std::int64_t terms) {
  EpochRecord record;
  record.steps = 1;
  record.active = active;
  record.terms = terms;
  return record;
}

TEST(Guards, HalveTheRateThreeTimesAndThenGiveUp) {
  TrainState state;
  state.epochs_done = 4;
  for (const double rate : {0.5, 0.25, 0.125}) {
    back_off(state, "it burns");
    EXPECT_EQ(state.rate_scale, rate);
  }
  EXPECT_THAT([&] { back_off(state, "it burns"); },
              ThrowsMessage<TrainingStopped>(HasSubstr("stopped in epoch 5: it burns, though the learning rate was halved 3 times")));
}

TEST(Guards, NoticeAnErrorThatStaysAtOne) {
  const SystemTraits counts{.name = "some", .description = {}, .error_counts = true}, other{.name = "other", .description = {}};
  TrainState state;
  for (int epoch = 1; epoch < 5; ++epoch) EXPECT_FALSE(watch_error(state, counts, with_error(10, 10)));
  EXPECT_FALSE(watch_error(state, counts, with_error(9, 10)));  // begins to count anew
  for (int epoch = 1; epoch < 5; ++epoch) EXPECT_FALSE(watch_error(state, counts, with_error(10, 10)));
  EXPECT_THAT(*watch_error(state, counts, with_error(10, 10)), HasSubstr("stuck at 1.000 for 5 epochs"));
  EXPECT_EQ(state.rate_scale, 0.5);
  EXPECT_NO_THROW(stop_if_hopeless(state, 9, "stuck"));
  state.times_backed_off = 4;
  EXPECT_THAT([&] { stop_if_hopeless(state, 9, "stuck"); }, ThrowsMessage<TrainingStopped>(HasSubstr("stopped after epoch 9: stuck")));
  for (int epoch = 1; epoch < 9; ++epoch) EXPECT_FALSE(watch_error(state, other, with_error(10, 10)));
}

TEST(Guards, NoticeACollapse) {
  EXPECT_FALSE(trouble_with_spread(0.5));
  EXPECT_THAT(*trouble_with_spread(1e-5), HasSubstr("collapsed"));
  EXPECT_THAT(*trouble_with_spread(std::numeric_limits<double>::quiet_NaN()), HasSubstr("no longer finite"));
}

TEST(Guards, SayWhenTheControllerHasNothingToDo) {
  const SystemTraits traits{.name = "some", .description = {}, .mines = true, .adaptive = true};
  const MiningOptions options;
  EpochRecord record = with_error(9, 10);
  EXPECT_FALSE(idle_mining(traits, options, record)) << "no kappa, so nothing was to be mined";
  record.kappa = 4;
  EXPECT_THAT(*idle_mining(traits, options, record), HasSubstr("random triplets are harder than the target: 0 % are mined"));
  record.mining.emplace();
  record.mining->triplets = 10;
  record.mining->mined = 5;
  EXPECT_FALSE(idle_mining(traits, options, record));
}

TEST(Guards, SpeakOfClassesWhereBatchesAreMadeOfThem) {
  const SystemTraits traits{.name = "some", .description = {}, .mines = true, .adaptive = true, .groups = true};
  EpochRecord record = with_error(9, 10);
  record.kappa = 4;
  record.grouping.emplace();
  const std::string note = idle_mining(traits, {}, record).value_or("");
  EXPECT_THAT(note, HasSubstr("batches of drawn classes are harder than the target: 0 % of their classes are near ones"));
  EXPECT_THAT(note, HasSubstr("--target-error"));
  EXPECT_THAT(note, ::testing::Not(::testing::AnyOf(HasSubstr("triplets"), HasSubstr("--margin"))));
}

TEST(Guards, SayWhenKappaIsAtItsFloorAndTheErrorUnderTheTarget) {
  const SystemTraits traits{.name = "some", .description = {}, .mines = true, .adaptive = true, .groups = true};
  const MiningOptions options;
  EpochRecord record = with_error(1, 20);
  record.kappa = 1;
  EXPECT_FALSE(kappa_at_floor(traits, options, record)) << "nothing was aimed at";
  record.target_error = 0.1;
  EXPECT_EQ(*kappa_at_floor(traits, options, record),
            "kappa is at its floor, 1, and the training error, 0.050, is under the target, 0.100, all the same: batches of the nearest "
            "classes are the hardest there are");
  record.kappa = 1.5;
  EXPECT_FALSE(kappa_at_floor(traits, options, record));
  record.kappa = 1;
  record.target_error = 0.05;
  EXPECT_FALSE(kappa_at_floor(traits, options, record));
}

TEST(Recorders, TellANoteOfAKindOnce) {
  TrainState state;
  EpochRecord first, second;
  Recorder::tell_once(state, "mining", "a note", first);
  Recorder::tell_once(state, "mining", "another", second);
  Recorder::tell_once(state, "other", "a third", second);
  EXPECT_THAT(first.notes, ::testing::ElementsAre("a note"));
  EXPECT_THAT(second.notes, ::testing::ElementsAre("a third"));
}

}  // namespace
}  // namespace smartmine
