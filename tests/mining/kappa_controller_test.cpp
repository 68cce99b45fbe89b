#include "smartmine/mining/kappa_controller.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "mining/simulated_training.h"
#include "smartmine/core/error.h"
#include "smartmine/core/random.h"

namespace smartmine {
namespace {

using testing::HasSubstr;

template <class Call>
std::string message_of(const Call& call) {
  try {
    call();
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "nothing was thrown";
}

double log_odds(double error) { return std::log(error / (1 - error)); }

TEST(KappaController, BringsEveryPlantToItsTargetInFourEpochsAndHoldsItThere) {
  for (const Plant& plant : plants()) {
    KappaController controller({.target_error = plant.target, .start = 4});
    const Track track = follow(controller, plant, 0, 0, 1);
    EXPECT_LE(track.arrived, 4U) << plant.name;
    EXPECT_LE(track.worst_late, 0.05) << plant.name;
    EXPECT_NEAR(controller.kappa(), plant.settling, 0.1 * plant.settling) << plant.name;
  }
}

TEST(KappaController, BringsTheMeasuredTrainingHomeFromAnySaneStart) {
  // As measured: kappa settles near 2.1 at a target of 0.6.
  for (const Plant& plant : plants()) {
    if (plant.target != 0.6 || plant.settling != 2.1) continue;
    for (const double start : {1.0, 1.5, 3.0, 5.0, 6.0, 8.0}) {
      KappaController controller({.target_error = 0.6, .start = start});
      const Track track = follow(controller, plant, 0, 0, 1);
      // From four times too much, an error of 0.01 tells little and bounded steps take one epoch more.
      EXPECT_LE(track.arrived, start < 8 ? 4U : 5U) << plant.name << " from " << start;
      EXPECT_LE(track.worst_late, 0.05) << plant.name << " from " << start;
    }
  }
}

TEST(KappaController, HoldsANoisyDriftingTraining) {
  std::size_t late = 0;
  std::size_t off = 0;
  std::size_t runs = 0;
  for (const Plant& plant : plants()) {
    if (plant.settling < 2) continue;  // it drifts below the range
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
      KappaController controller({.target_error = plant.target, .start = 4, .min_kappa = 0.5});
      const Track track = follow(controller, plant, 0.01, 0.03, seed);
      ++runs;
      late += track.arrived > 4;
      off += track.epochs_off;
    }
  }
  EXPECT_LE(late, runs / 20);
  EXPECT_LE(off, 16 * runs / 50);  // at most 2 % of the epochs
}

TEST(KappaController, HoldsADriftThatThePlainFitOfThePaperLoses) {
  std::size_t off_log = 0;
  std::size_t off_linear = 0;
  for (const Plant& plant : plants())
    for (const double drift : {-0.03, 0.03}) {
      if (plant.settling < 2) continue;
      KappaController log({.target_error = plant.target, .min_kappa = 0.5});
      KappaController linear({.target_error = plant.target, .min_kappa = 0.5, .fit = KappaFit::kLinear});
      off_log += follow(log, plant, 0.01, drift, 7).epochs_off;
      off_linear += follow(linear, plant, 0.01, drift, 7).epochs_off;
    }
  RecordProperty("epochs_off_log", static_cast<int>(off_log));
  RecordProperty("epochs_off_linear", static_cast<int>(off_linear));
  EXPECT_LT(5 * off_log, off_linear);
}

TEST(KappaController, ComesBackSoonWhereThePairsHardlyCount) {
  // A batch's error: high at first, whatever kappa, then it falls by itself, which pairs take for the work of kappa.
  const auto kappas = [](double spread) {
    KappaController controller({.target_error = 0.1, .start = 2, .max_step = 4, .initial_slope = -2, .initial_spread = spread});
    std::vector<double> seen;
    for (const double error : {0.396, 0.151, 0.059, 0.03, 0.019}) {
      controller.observe(error);
      seen.push_back(controller.kappa());
    }
    return seen;
  };
  const std::vector<double> soon = kappas(10), late = kappas(0.2);
  EXPECT_EQ(soon[0], 8);
  EXPECT_EQ(late[0], 8);
  EXPECT_LT(soon[3], 2);
  EXPECT_EQ(soon[4], 1);
  EXPECT_GT(late[4], 3);
}

TEST(KappaController, ThePaperFitTakesThePlainLeastSquaresLineAtTheTarget) {
  KappaController controller({.target_error = 0.6, .start = 4, .max_step = 100, .window = 4, .fit = KappaFit::kLinear});
  std::vector<std::pair<double, double>> pairs;
  for (const double error : {0.3, 0.45, 0.7, 0.52}) {
    pairs.emplace_back(error, controller.kappa());
    controller.observe(error);
  }
  // Normal equations over all four, written out.
  double n = 0, e = 0, k = 0, ee = 0, ek = 0;
  for (const auto& [error, kappa] : pairs) {
    n += 1;
    e += error;
    k += kappa;
    ee += error * error;
    ek += error * kappa;
  }
  const double alpha = (n * ek - e * k) / (n * ee - e * e);
  const double beta = (k - alpha * e) / n;
  ASSERT_LT(alpha, 0);
  EXPECT_NEAR(controller.kappa(), std::clamp(alpha * 0.6 + beta, 1.0, 64.0), 1e-9);
  EXPECT_THAT(controller.explanation(), HasSubstr("from the last 4 pairs asks for"));
}

TEST(KappaController, ThePaperFitReachesALinearPlantInTheThirdEpoch) {
  std::size_t tried = 0;
  for (const Plant& plant : plants()) {
    if (!plant.name.starts_with("linear")) continue;
    KappaController controller({.target_error = plant.target, .max_step = 8, .fit = KappaFit::kLinear});
    bool saturated = false;
    for (int epoch = 0; epoch < 2; ++epoch) {
      const double error = std::clamp(plant.error(controller.kappa()), 0.0, 1.0);
      saturated = saturated || error == 0 || error == 1;
      controller.observe(error);
    }
    if (saturated) continue;  // two honest pairs make a line
    ++tried;
    EXPECT_NEAR(plant.error(controller.kappa()), plant.target, 1e-9) << plant.name;
  }
  EXPECT_GE(tried, 20U);
}

TEST(KappaController, RaisesKappaWhenTheErrorIsTooHighAndLowersItWhenTooLow) {
  for (const KappaFit fit : {KappaFit::kLogOdds, KappaFit::kLinear}) {
    KappaController high({.target_error = 0.6, .start = 4, .fit = fit});
    high.observe(0.7);
    EXPECT_NEAR(high.kappa(), 4 * std::exp(0.375 * (log_odds(0.7) - log_odds(0.6))), 1e-9);
    EXPECT_THAT(high.explanation(), HasSubstr("training error 0.700, target 0.600: kappa 4 -> 4.72"));
    EXPECT_THAT(high.explanation(), HasSubstr("one pair gives no slope yet"));
    KappaController low({.target_error = 0.6, .start = 4, .fit = fit});
    low.observe(0.5);
    EXPECT_NEAR(low.kappa(), 4 * std::exp(0.375 * (log_odds(0.5) - log_odds(0.6))), 1e-9);
  }
}

TEST(KappaController, SaysWhenErrorsAreTooAlikeForASlope) {
  for (const KappaFit fit : {KappaFit::kLogOdds, KappaFit::kLinear}) {
    KappaController controller({.target_error = 0.6, .start = 4, .fit = fit});
    controller.observe(0.5);
    controller.observe(0.5);
    EXPECT_THAT(controller.explanation(), HasSubstr("the last 2 errors are too alike for a slope"));
    EXPECT_NEAR(controller.kappa(), 4 * std::exp(0.75 * (log_odds(0.5) - log_odds(0.6))), 1e-9);
  }
}

TEST(KappaController, SaysWhenKappaDidNotChange) {
  KappaController controller({.target_error = 0.6, .start = 1, .fit = KappaFit::kLinear});
  controller.observe(0.3);  // wants less than the range allows
  EXPECT_THAT(controller.explanation(), HasSubstr("held at the lower end of the range, 1"));
  EXPECT_EQ(controller.kappa(), 1);
  controller.observe(0.4);
  EXPECT_THAT(controller.explanation(), HasSubstr("kappa was the same in the last 2 epochs"));
}

TEST(KappaController, DoesNotBelieveASlopeOfTheWrongSign) {
  for (const KappaFit fit : {KappaFit::kLogOdds, KappaFit::kLinear}) {
    KappaController controller({.target_error = 0.6, .start = 4, .fit = fit});
    controller.observe(0.5);
    const double before = controller.kappa();
    ASSERT_LT(before, 4);
    controller.observe(0.4);  // a smaller kappa, and fewer errors
    EXPECT_THAT(controller.explanation(), HasSubstr("does not fall as kappa grows, which is not believed"));
    EXPECT_LT(controller.kappa(), before);  // too easy still: go on
    EXPECT_GE(controller.kappa(), before / 2);
  }
}

TEST(KappaController, TakesAFullStepFromSaturatedErrorsAndKeepsThemOutOfTheFit) {
  for (const KappaFit fit : {KappaFit::kLogOdds, KappaFit::kLinear}) {
    KappaController controller({.target_error = 0.6, .start = 4, .max_step = 1.5, .fit = fit});
    controller.observe(1);
    EXPECT_DOUBLE_EQ(controller.kappa(), 6);
    EXPECT_THAT(controller.explanation(), HasSubstr("every triplet has a loss"));
    controller.observe(1);
    EXPECT_DOUBLE_EQ(controller.kappa(), 9);
    controller.observe(0);
    EXPECT_DOUBLE_EQ(controller.kappa(), std::sqrt(6.0 * 9.0));
    EXPECT_THAT(controller.explanation(), HasSubstr("no triplet has a loss: half the way to 6, which was too small"));
    controller.observe(0.6);
    EXPECT_THAT(controller.explanation(), HasSubstr("one pair gives no slope yet"));
    EXPECT_DOUBLE_EQ(controller.kappa(), std::sqrt(6.0 * 9.0));
  }
}

TEST(KappaController, StaysWhereNothingIsLeftToMakeEasier) {
  KappaController controller({.target_error = 0.6, .start = 4});
  for (const double mined : {0.05, 0.001, 0.0}) controller.observe(0.9, mined);
  EXPECT_EQ(controller.kappa(), 4);
  EXPECT_THAT(controller.explanation(), HasSubstr("kappa 4 stays; 0 % are mined, so the error is that of random triplets"));
  KappaController fresh({.target_error = 0.6, .start = 4});
  for (KappaController* each : {&controller, &fresh}) each->observe(0.55, 0);  // learnt so far: now harder ones are wanted
  EXPECT_LT(controller.kappa(), 4);
  EXPECT_EQ(controller.save(), fresh.save());  // what was said of random triplets is not held against it
  controller.observe(0.9, 0.06);
  EXPECT_GT(controller.kappa(), 4);
  EXPECT_THAT(message_of([&] { controller.observe(0.5, 1.5); }), HasSubstr("mined share is 1.5; it must be from 0 to 1"));
}

TEST(KappaController, BoundsTheStepAndTheRangeWhateverItIsTold) {
  for (const KappaFit fit : {KappaFit::kLogOdds, KappaFit::kLinear})
    for (std::uint64_t seed = 1; seed <= 50; ++seed) {
      KappaController controller({.target_error = 0.6, .start = 4, .min_kappa = 1.5, .max_kappa = 20, .max_step = 1.7, .fit = fit});
      Random random(seed);
      for (int epoch = 0; epoch < 40; ++epoch) {
        const double before = controller.kappa();
        const std::uint64_t kind = random.below(10);
        controller.observe(kind == 0 ? 0.0 : kind == 1 ? 1.0 : random.uniform());
        ASSERT_GE(controller.kappa(), 1.5);
        ASSERT_LE(controller.kappa(), 20);
        ASSERT_LE(controller.kappa(), before * 1.7 * (1 + 1e-12));
        ASSERT_GE(controller.kappa(), before / 1.7 * (1 - 1e-12));
        ASSERT_FALSE(controller.explanation().empty());
        ASSERT_EQ(controller.explanation().find('\n'), std::string::npos);
      }
    }
}

TEST(KappaController, SaysWhenTheStepIsBounded) {
  KappaController controller({.target_error = 0.6, .start = 8});
  controller.observe(0.01);
  EXPECT_EQ(controller.kappa(), 4);
  EXPECT_THAT(controller.explanation(), HasSubstr("step held to a factor of 2"));
}

TEST(KappaController, RefusesAnErrorThatIsNone) {
  KappaController controller({});
  for (const double error : {-0.01, 1.01, std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_THAT(message_of([&] { controller.observe(error); }), HasSubstr("training error is"));
    EXPECT_EQ(controller.kappa(), 4);
  }
}

TEST(KappaController, RefusesBadOptionsByName) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  const auto message = [](const KappaControllerOptions& options) { return message_of([&] { KappaController controller(options); }); };
  for (const double target : {0.0, 1.0, kNan}) EXPECT_THAT(message({.target_error = target}), HasSubstr("target_error is"));
  EXPECT_THAT(message({.start = 0.5}), HasSubstr("start is 0.5; it must be 0, or from min_kappa, 1, to max_kappa, 64"));
  EXPECT_THAT(message({.min_kappa = 0}), HasSubstr("min_kappa is 0"));
  EXPECT_THAT(message({.min_kappa = 5, .max_kappa = 5}), HasSubstr("max_kappa is 5"));
  EXPECT_THAT(message({.max_step = 1}), HasSubstr("max_step is 1"));
  EXPECT_THAT(message({.window = 1}), HasSubstr("window is 1; it must be from 2 to 100"));
  EXPECT_THAT(message({.initial_spread = 0}), HasSubstr("initial_spread is 0; it must be from 0.01 to 100"));
  EXPECT_THAT(message({.initial_slope = 0.5}), HasSubstr("initial_slope is 0.5"));
}

TEST(KappaController, ContinuesBitForBitFromASavedState) {
  for (const KappaFit fit : {KappaFit::kLogOdds, KappaFit::kLinear})
    for (std::size_t saved_after = 0; saved_after < 8; ++saved_after) {
      const KappaControllerOptions options{.target_error = 0.6, .start = 5.3, .fit = fit};
      KappaController first(options);
      Random random(saved_after + 1);
      for (std::size_t epoch = 0; epoch < saved_after; ++epoch) first.observe(random.uniform());
      KappaController second(options);
      second.observe(0.9);  // something to be replaced
      second.load(first.save());
      EXPECT_EQ(second.save(), first.save());
      EXPECT_EQ(second.explanation(), first.explanation());
      for (int epoch = 0; epoch < 8; ++epoch) {
        EXPECT_EQ(second.kappa(), first.kappa());
        const double error = random.uniform();
        first.observe(error);
        second.observe(error);
      }
      EXPECT_EQ(second.save(), first.save());
    }
}

TEST(KappaController, NamesTheLineOfADamagedState) {
  KappaController controller({});
  controller.observe(0.5);
  controller.observe(0.55);
  const std::string sound = controller.save();
  const auto message = [&](const std::string& state) {
    const std::string result = message_of([&] { controller.load(state); });
    EXPECT_EQ(controller.save(), sound);  // as it was
    return result;
  };
  EXPECT_THAT(message(""), HasSubstr("line 1: the text ends too early"));
  EXPECT_THAT(message("smartmine kappa controller 2\n"), HasSubstr("line 1: 'smartmine kappa controller 2' instead of"));
  const std::string head = "smartmine kappa controller 1\n";
  EXPECT_THAT(message(head + "kappa x\n"), HasSubstr("line 2: 'x' is not a number"));
  EXPECT_THAT(message(head + "kappa -0x1p+1\n"), HasSubstr("line 2"));
  EXPECT_THAT(message(head + "kappa 0x0p+0\n"), HasSubstr("line 2: kappa 0 is not positive"));
  EXPECT_THAT(message(head + "kappa inf\n"), HasSubstr("line 2: 'inf' is not a number"));
  EXPECT_THAT(message(head + "kappa 0x1p+1\npairs 4\n"), HasSubstr("line 3: '4' is not a number of pairs from 0 to the window, 3"));
  EXPECT_THAT(message(head + "kappa 0x1p+1\npairs 1\npair 0x1p-1\n"), HasSubstr("line 4: '0x1p-1' is not an error and a kappa"));
  EXPECT_THAT(message(head + "kappa 0x1p+1\npairs 1\npair 0x1p+1 0x1p+1\n"), HasSubstr("line 4: error 2 is not from 0 to 1"));
  EXPECT_THAT(message(sound + "more\n"), HasSubstr("line 7: there is more text"));
  for (std::size_t length = 0; length < sound.size(); ++length)
    EXPECT_THAT(message(sound.substr(0, length)), HasSubstr("saved state of kappa, line"));
}

TEST(KappaSchedule, DecaysByItsFactorToItsFloor) {
  const std::unique_ptr<KappaPolicy> policy =
      std::make_unique<KappaSchedule>(KappaScheduleOptions{.start = 8, .factor = 0.5, .floor = 1.5});
  std::vector<double> kappas;
  for (const double error : {0.9, 0.1, 1.0, 0.0}) {
    kappas.push_back(policy->kappa());
    policy->observe(error);
  }
  EXPECT_THAT(kappas, testing::ElementsAre(8, 4, 2, 1.5));
  EXPECT_EQ(policy->kappa(), 1.5);
  EXPECT_THAT(policy->explanation(), HasSubstr("kappa 1.5 -> 1.5, the floor"));
  EXPECT_THAT(message_of([&] { policy->observe(2); }), HasSubstr("training error is 2"));
}

TEST(KappaSchedule, ContinuesFromASavedStateAndRefusesTheControllers) {
  KappaSchedule first({.start = 7, .factor = 0.9, .floor = 1});
  first.observe(0.5);
  first.observe(0.5);
  KappaSchedule second({.start = 7, .factor = 0.9, .floor = 1});
  second.load(first.save());
  EXPECT_EQ(second.kappa(), first.kappa());
  EXPECT_EQ(second.save(), first.save());
  EXPECT_THAT(message_of([&] { second.load(KappaController({}).save()); }), HasSubstr("line 1: 'smartmine kappa controller 1' instead of"));
}

TEST(KappaSchedule, RefusesBadOptionsByName) {
  const auto message = [](const KappaScheduleOptions& options) { return message_of([&] { KappaSchedule schedule(options); }); };
  EXPECT_THAT(message({.start = 0}), HasSubstr("start is 0"));
  EXPECT_THAT(message({.factor = 1.1}), HasSubstr("factor is 1.1"));
  EXPECT_THAT(message({.start = 2, .floor = 3}), HasSubstr("floor is 3; it must be positive and at most start, 2"));
}

TEST(KappaController, FindsItsStartWhereTheTargetIsExpected) {
  for (const Plant& plant : plants()) {
    SCOPED_TRACE(plant.name);
    KappaController controller({.target_error = plant.target, .start = 0});
    int asked = 0;
    controller.begin([&](double kappa) {
      ++asked;
      EXPECT_GE(kappa, 1);
      EXPECT_LE(kappa, 4);
      return plant.error(kappa);
    });
    EXPECT_NEAR(controller.kappa(), std::min(plant.settling, 4.0), 0.002 * plant.settling);
    EXPECT_LT(asked, 20);  // each asks for a whole selection
    EXPECT_THAT(controller.explanation(), HasSubstr("starts there"));
  }
}

TEST(KappaController, StartsAtAnEndIfTheTargetIsBeyondIt) {
  KappaController too_easy({.target_error = 0.7, .start = 0});
  too_easy.begin([](double) { return 0.2; });
  EXPECT_NEAR(too_easy.kappa(), 1, 0.01);
  KappaController too_hard({.target_error = 0.7, .start = 0});
  too_hard.begin([](double) { return 0.9; });
  EXPECT_EQ(too_hard.kappa(), 4);
  KappaController narrow({.target_error = 0.7, .start = 0, .min_kappa = 5, .max_kappa = 6});
  narrow.begin([](double) { return 0.2; });
  EXPECT_EQ(narrow.kappa(), 5);
}

TEST(KappaController, AsksForAStartOnlyIfNoneWasGivenAndNothingWasSeen) {
  const auto harder = [](double kappa) { return kappa < 2 ? 0.9 : 0.1; };
  KappaController given({.start = 5});
  given.begin(harder);
  EXPECT_EQ(given.kappa(), 5);
  EXPECT_EQ(given.explanation(), "");
  KappaController found({.start = 0});
  EXPECT_EQ(found.kappa(), 4);
  found.begin(harder);
  EXPECT_NEAR(found.kappa(), 2, 0.01);
  KappaController resumed({.start = 0});  // in the middle of that epoch
  resumed.load(found.save());
  EXPECT_EQ(resumed.kappa(), found.kappa());
  found.observe(0.5);
  const double after = found.kappa();
  found.begin(harder);
  EXPECT_EQ(found.kappa(), after);
  KappaSchedule schedule({.start = 8});
  schedule.begin(harder);
  EXPECT_EQ(schedule.kappa(), 8);
}

}  // namespace
}  // namespace smartmine
