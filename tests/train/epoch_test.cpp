#include "train/epoch.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>
#include <unistd.h>

#include <filesystem>
#include <optional>

#include "smartmine/mining/smart_miner.h"
#include "train/made_folder.h"

namespace smartmine {
namespace {

/// What a system was given.
struct Seen {
  bool embeddings = false, lists = false;
  double kappa = 0;
  std::size_t calls = 0;
};

class Planning : public ::testing::Test {
 protected:
  Planning() {
    root_ = std::filesystem::temp_directory_path() / fmt::format("smartmine-plan-{}", getpid());
    test::make_image_folder(root_);
    config_.data.dataset = "folder";
    config_.data.root = root_.string();
    config_.model.channels = 1;
    config_.model.input_size = 16;
    config_.model.embedding_dim = 8;
    config_.system.triplets_per_anchor = 1;
    config_.mining.warmup_epochs = 1;
    config_.compute.threads = 1;
    config_.compute.device = "cpu";
  }
  ~Planning() override { std::filesystem::remove_all(root_); }

  Seen plan(const SystemTraits& traits, std::int64_t number, KappaPolicy* policy = nullptr) {
    const RunConfig config = config_.resolved(traits);
    Seen seen;
    const System system{traits,
                        [&](const PlanInput& input) {
                          seen = {input.embeddings != nullptr, input.lists != nullptr, input.kappa, seen.calls + 1};
                          return input.kappa > 0 ? smart_plan(input) : random_plan(input);
                        },
                        {}};
    const Network network(config);
    LoadedData data = load_data(config, traits, network, {});
    NeighborIndex index({.kind = IndexKind::kExact, .neighbors = 20, .threads = 1});
    const Progress progress;
    now_ = plan_epoch({number, config, system, network, data, progress}, policy, index, 0.5);
    return seen;
  }

  /// How many plans of batches of near classes are made.
  std::size_t plan_batches(KappaPolicy& policy) {
    const SystemTraits& traits = find_traits("neighbor-batch-adaptive");
    const RunConfig config = config_.resolved(traits);
    std::size_t plans = 0;
    const System system{traits,
                        [&](const PlanInput& input) {
                          ++plans;
                          return neighbor_plan(input);
                        },
                        {}};
    const Network network(config);
    LoadedData data = load_data(config, traits, network, {});
    NeighborIndex index({.kind = IndexKind::kExact, .neighbors = 20, .threads = 1});
    const Progress progress;
    now_ = plan_epoch({2, config, system, network, data, progress}, &policy, index, 1);
    return plans;
  }

  std::filesystem::path root_;
  RunConfig config_;
  EpochUnderWay now_;
};

TEST_F(Planning, GivesASystemWhatItsTraitsNeedAndNoMore) {
  Seen seen = plan({.name = "labels", .description = {}}, 2);
  EXPECT_FALSE(seen.embeddings || seen.lists);
  EXPECT_FALSE(now_.record.stage_seconds.contains("embedding"));
  seen = plan({.name = "embeddings", .description = {}, .needs = Needs::kEmbeddings}, 2);
  EXPECT_TRUE(seen.embeddings);
  EXPECT_FALSE(seen.lists);
  seen = plan({.name = "lists", .description = {}, .needs = Needs::kLists}, 1);
  EXPECT_TRUE(seen.embeddings && seen.lists);
  EXPECT_EQ(now_.record.lists->index, "exact");
}

TEST_F(Planning, MinesOnlyAfterTheFirstEpochsAndWithThePolicysKappa) {
  const SystemTraits traits{.name = "mines", .description = {}, .needs = Needs::kLists, .mines = true};
  KappaSchedule schedule({.start = 3});
  EXPECT_FALSE(plan(traits, 1, &schedule).lists);
  EXPECT_FALSE(now_.record.kappa);
  const Seen seen = plan(traits, 2, &schedule);
  EXPECT_TRUE(seen.lists);
  EXPECT_EQ(seen.kappa, 3);
  EXPECT_EQ(seen.calls, 1U);
  EXPECT_EQ(now_.record.kappa, 3);
  EXPECT_EQ(now_.record.target_error, std::nullopt);
  EXPECT_DOUBLE_EQ(now_.record.learning_rate, 0.5 * config_.resolved(traits).schedule.rate(1.5));
  EXPECT_EQ(now_.next_step, 0U);
  EXPECT_EQ(now_.plan.items.size(), 3U * 36U);
}

TEST_F(Planning, AsksTheSystemForTripletsOfSeveralKappasToFindTheFirst) {
  const SystemTraits traits{.name = "adaptive", .description = {}, .needs = Needs::kLists, .mines = true, .adaptive = true};
  KappaController controller({.target_error = 0.6, .start = 0});
  const Seen seen = plan(traits, 2, &controller);
  EXPECT_GT(seen.calls, 1U);
  EXPECT_EQ(seen.kappa, controller.kappa());
  EXPECT_EQ(now_.record.target_error, 0.6);
}

TEST_F(Planning, LooksAtBatchesOfSeveralKappasWithoutMakingAllOfAnEpochForEach) {
  KappaController controller({.target_error = 0.3, .start = 0});
  EXPECT_EQ(plan_batches(controller), 1U) << "those that are trained on";
  EXPECT_TRUE(now_.record.look.has_value());
  EXPECT_EQ(now_.record.kappa, controller.kappa());
  EXPECT_THAT(controller.explanation(), ::testing::Not(::testing::IsEmpty()));
}

}  // namespace
}  // namespace smartmine
