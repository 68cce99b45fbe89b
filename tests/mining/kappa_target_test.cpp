#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "smartmine/core/error.h"
#include "smartmine/mining/kappa_controller.h"

// A target that moves, such as the validation error of the moment.
namespace smartmine {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

/// An error that falls as kappa grows, the same in every epoch.
double plant(double kappa) { return std::clamp(1.1 - 0.15 * kappa, 0.0, 1.0); }

TEST(KappaTarget, IsFollowedByBothFitsToWhereverItMoves) {
  for (const KappaFit fit : {KappaFit::kLogOdds, KappaFit::kLinear}) {
    KappaController controller({.target_error = 0.6, .start = 4, .fit = fit});
    for (const double target : {0.7, 0.5, 0.3}) {
      for (int epoch = 0; epoch < 6; ++epoch) {
        controller.aim(target);
        controller.observe(plant(controller.kappa()));
      }
      EXPECT_NEAR(plant(controller.kappa()), target, 0.03) << (fit == KappaFit::kLinear ? "linear" : "log-odds");
      EXPECT_EQ(controller.target_error(), target);
    }
  }
}

TEST(KappaTarget, OfThePaperIsTakenOnTheLineThroughTheLastPairs) {
  KappaController controller({.target_error = 0.6, .start = 3, .max_step = 10, .fit = KappaFit::kLinear});
  controller.observe(plant(3));
  controller.observe(plant(controller.kappa()));
  controller.aim(0.425);
  controller.observe(plant(controller.kappa()));
  EXPECT_NEAR(controller.kappa(), (1.1 - 0.425) / 0.15, 1e-9);
  EXPECT_THAT(controller.explanation(), HasSubstr("target 0.425"));
}

TEST(KappaTarget, SetsTheStartThatIsLookedFor) {
  KappaController controller({.target_error = 0.6, .start = 0});
  controller.aim(0.8);
  controller.begin(plant);
  EXPECT_NEAR(plant(controller.kappa()), 0.8, 0.01);
}

TEST(KappaTarget, LastsThroughASavedState) {
  for (const KappaFit fit : {KappaFit::kLogOdds, KappaFit::kLinear}) {
    const KappaControllerOptions options{.target_error = 0.6, .start = 4, .fit = fit};
    KappaController first(options), second(options);
    first.aim(0.31);
    first.observe(0.7);
    second.load(first.save());
    EXPECT_EQ(second.target_error(), 0.31);
    for (KappaController* each : {&first, &second}) each->observe(0.5);
    EXPECT_EQ(second.save(), first.save());
    second.load(KappaController(options).save());  // of one that was never aimed
    EXPECT_EQ(second.target_error(), 0.6);
  }
  KappaController controller({});
  EXPECT_THAT([&] { controller.load("smartmine kappa controller 1\nkappa 0x1p+1\ntarget 0x1p+0\npairs 0\nexplanation \n"); },
              ThrowsMessage<InvalidArgument>(HasSubstr("line 3: target 1 is not between 0 and 1")));
}

TEST(KappaTarget, IsKeptWhereATripletCanHaveItAndRefusedWhereItIsNoShare) {
  KappaController controller({});
  controller.aim(0);
  EXPECT_EQ(controller.target_error(), 0.02);
  controller.aim(1);
  EXPECT_EQ(controller.target_error(), 0.98);
  for (const double bad : {-0.1, 1.1, std::nan("")})
    EXPECT_THAT([&] { controller.aim(bad); }, ThrowsMessage<InvalidArgument>(HasSubstr("it must be from 0 to 1")));
  EXPECT_EQ(KappaSchedule({}).target_error(), std::nullopt);
}

}  // namespace
}  // namespace smartmine
