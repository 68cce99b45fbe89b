#include "smartmine/run/config.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "smartmine/core/error.h"
#include "smartmine/run/config_settings.h"

namespace smartmine {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(Configs, NameTheFieldTheValueAndTheRange) {
  const auto message = [](const auto& change) {
    RunConfig config;
    change(config);
    try {
      config.validate();
    } catch (const InvalidArgument& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_EQ(message([](RunConfig&) {}), "accepted");
  EXPECT_EQ(message([](RunConfig& c) { c.schedule.epochs = -1; }), "epochs is -1; it must be a whole number from 0 to 1000000");
  EXPECT_EQ(message([](RunConfig& c) { c.schedule.learning_rate = -1; }), "learning-rate is -1; it must be above 0 and finite");
  EXPECT_EQ(message([](RunConfig& c) { c.mining.mined_fraction = 1.5; }), "mined-fraction is 1.5; it must be from 0 to 1");
  EXPECT_EQ(message([](RunConfig& c) { c.schedule.momentum = 1; }), "momentum is 1; it must be at least 0 and less than 1");
  EXPECT_EQ(message([](RunConfig& c) { c.schedule.optimizer = "lion"; }), "optimizer is 'lion'; it must be one of sgd, adamw");
  EXPECT_EQ(message([](RunConfig& c) { c.schedule.rate_schedule = "stairs"; }),
            "rate-schedule is 'stairs'; it must be one of steps, cosine");
  EXPECT_EQ(message([](RunConfig& c) { c.schedule.rate_warmup_epochs = 9; }), "rate-warmup-epochs is 9; it must be from 0 to epochs, 8");
  EXPECT_EQ(message([](RunConfig& c) { c.model.new_layer_start = "zero"; }),
            "new-layer-start is 'zero'; it must be one of auto, random, components, discriminants");
  EXPECT_EQ(message([](RunConfig& c) { c.model.pooling = "max"; }),
            "pooling is 'max'; small does not pool its last layer, so it must be left at average");
  EXPECT_EQ(message([](RunConfig& c) { c.model.backbone = "googlenet", c.model.pooling = "max"; }), "accepted");
  EXPECT_EQ(message([](RunConfig& c) { c.model.backbone = "googlenet", c.model.input_size = 64; }),
            "input-size is 64; for googlenet it must be a whole number from 160 to 448");
  EXPECT_EQ(message([](RunConfig& c) { c.model.backbone = "googlenet", c.model.input_size = 288, c.model.evaluation_size = 320; }),
            "accepted");
  EXPECT_EQ(message([](RunConfig& c) { c.model.backbone = "googlenet", c.model.evaluation_size = 24; }),
            "evaluation-size is 24; for googlenet it must be a whole number from 160 to 1024");
  EXPECT_EQ(message([](RunConfig& c) { c.schedule.weight_average = 1; }), "weight-average is 1; it must be at least 0 and less than 1");
  EXPECT_EQ(message([](RunConfig& c) { c.model.input_size = 32, c.model.evaluation_size = 36; }),
            "evaluation-size is 36; small only takes images of its input-size, so it must be auto");
  EXPECT_EQ(message([](RunConfig& c) { c.mining.hub_limit = 0.5; }), "hub-limit is 0.5; it must be 0 or from 1 to 1e6");
  EXPECT_EQ(message([](RunConfig& c) { c.mining.duplicate_distance = 5; }), "duplicate-distance is 5; it must be from 0 to 4");
  EXPECT_EQ(message([](RunConfig& c) { c.data.colour_jitter = 2; }), "colour-jitter is 2; it must be from 0 to 1");
  EXPECT_EQ(message([](RunConfig& c) { c.data.turned_classes = true, c.system.name = "memory-batch"; }),
            "turned-classes is true; what memory-batch remembers is not turned, so it must be false");
  EXPECT_EQ(message([](RunConfig& c) { c.data.turned_classes = true, c.system.name = "neighbor-batch"; }), "accepted");
  EXPECT_EQ(message([](RunConfig& c) { c.data.crop = "oval"; }), "crop is 'oval'; it must be one of centre, random, resized");
  EXPECT_EQ(message([](RunConfig& c) { c.data.dataset = "cub200"; }), "data-root is not given; it must say where the images of cub200 are");
  EXPECT_EQ(message([](RunConfig& c) { c.mining.find_kappa = true, c.system.name = "triplet-fanng"; }),
            "find-kappa is true; triplet-fanng has no controller to find one, so it must be false");
  EXPECT_EQ(message([](RunConfig& c) { c.mining.longer_lists = true, c.system.name = "neighbor-batch"; }),
            "longer-lists is true; neighbor-batch mines no triplets that they could help, so it must be false");
  EXPECT_EQ(message([](RunConfig& c) { c.mining.longer_lists = true, c.system.name = "smart-batch"; }), "accepted");
  EXPECT_EQ(message([](RunConfig& c) { c.mining.kappa_fit = "cubic"; }), "kappa-fit is 'cubic'; it must be one of log-odds, linear");
  EXPECT_EQ(message([](RunConfig& c) { c.mining.kappa = 0.5; }), "kappa is 0.5; it must be auto or at least kappa-floor, 1");
}

TEST(Schedules, HalveTheRateOrTakeItToZeroAndWarmItUp) {
  RunConfig config;
  config.schedule.epochs = 10;
  config.schedule.learning_rate = 0.1;
  for (const auto& [done, rate] : {std::pair{0.01, 0.1}, {2.99, 0.1}, {3.01, 0.05}, {5.99, 0.05}, {6.5, 0.025}, {9.99, 0.0125}})
    EXPECT_EQ(config.schedule.rate(done), rate) << done;
  config.schedule.rate_every = 0;
  EXPECT_EQ(config.schedule.rate(9.5), 0.1);
  config.schedule.rate_schedule = "cosine";
  EXPECT_DOUBLE_EQ(config.schedule.rate(0), 0.1);
  EXPECT_DOUBLE_EQ(config.schedule.rate(5), 0.05);
  EXPECT_NEAR(config.schedule.rate(2.5), 0.1 * (1 + std::sqrt(0.5)) / 2, 1e-12);
  EXPECT_NEAR(config.schedule.rate(10), 0, 1e-12);
  config.schedule.rate_warmup_epochs = 2;
  EXPECT_DOUBLE_EQ(config.schedule.rate(0.5), 0.1 / 4 * (1 + std::cos(0.05 * M_PI)) / 2);
  EXPECT_DOUBLE_EQ(config.schedule.rate(5), 0.05);
  config.schedule.rate_schedule = "steps";
  EXPECT_DOUBLE_EQ(config.schedule.rate(1), 0.05);
}

TEST(Configs, HaveARateThatSuitsTheSystemAndTrainedWeights) {
  const auto rate = [](const char* system, const char* weights) {
    RunConfig config;
    config.system.name = system;
    config.model.weights = weights;
    return *config.resolved().schedule.learning_rate;
  };
  EXPECT_DOUBLE_EQ(rate("triplet-global", ""), 0.1);
  EXPECT_DOUBLE_EQ(rate("triplet-global", "some.safetensors"), 0.01);
  EXPECT_DOUBLE_EQ(rate("lifted", "some.safetensors"), 2e-5);  // its gradients are larger
  EXPECT_DOUBLE_EQ(rate("npairs", ""), 0.01);
  EXPECT_DOUBLE_EQ(rate("npairs", "some.safetensors"), 1e-5);  // and these grow with the square of the embeddings' length
}

TEST(Configs, SurviveTheirText) {
  RunConfig config;
  config.data.dataset = "folder";
  config.data.root = "/a/folder with \"quotes\"";
  config.data.skip_bad_images = true;
  config.schedule.learning_rate = 1.0 / 3;
  config.output.save_epochs = {4, 8};
  config.mining.find_kappa = true;
  config.compute.seed = ~std::uint64_t{0};
  RunConfig read;
  set_from_toml(read, to_toml(config));
  EXPECT_EQ(to_toml(read), to_toml(config));
  EXPECT_EQ(read.data.root, config.data.root);
  EXPECT_EQ(read.schedule.learning_rate, config.schedule.learning_rate);
  EXPECT_EQ(read.schedule.new_layer_rate, std::nullopt);
  EXPECT_EQ(read.output.save_epochs, config.output.save_epochs);
  EXPECT_EQ(read.compute.seed, ~std::uint64_t{0});
}

TEST(Configs, TakeTheSectionOfTheirSystemBeforeTheRest) {
  const std::string text =
      "# a comment\nepochs = 3  # and another\n[train]\nbatch-size = 5\n[ train.npairs ] # of one system\nepochs = 7\n"
      "[train.lifted]\nepochs = 9\n";
  RunConfig config;
  set_from_toml(config, text);
  EXPECT_EQ(config.schedule.epochs, 3);
  EXPECT_EQ(config.system.batch_size, 5);
  config.system.name = "npairs";
  set_from_toml(config, text);
  EXPECT_EQ(config.schedule.epochs, 7);
}

TEST(Configs, LeaveTheSystemOpenWhereItIsYetToBeChosen) {
  RunConfig config;
  EXPECT_FALSE(config.chooses_system()) << "nothing is chosen for the characters that the program draws";
  EXPECT_EQ(config.resolved().system.name, "triplet-fanng-global-adaptive");
  EXPECT_EQ(config.resolved().mining.kappa, 4);
  config.data.dataset = "folder";
  ASSERT_TRUE(config.chooses_system());
  const RunConfig open = config.resolved();
  EXPECT_EQ(open.choosing.choose, "on");
  EXPECT_EQ(open.system.name, "auto");
  EXPECT_FALSE(open.schedule.learning_rate.has_value());
  EXPECT_FALSE(open.mining.kappa.has_value());
  EXPECT_FALSE(open.mining.target_error.has_value());
  EXPECT_TRUE(open.chooses_system()) << "so a run that is gone on with knows";
  EXPECT_EQ(to_toml(open.resolved()), to_toml(open));
  EXPECT_EQ(config.resolved(find_traits("neighbor-batch")).system.name, "neighbor-batch");
  EXPECT_EQ(config.resolved(find_traits("neighbor-batch")).mining.kappa, 2);
  config.schedule.learning_rate = 0.05;
  config.choosing.choose = "on";
  EXPECT_EQ(config.resolved().schedule.learning_rate, 0.05);
  const auto settled = [](RunConfig of) { return !of.chooses_system() && of.resolved().system.name == of.system.usual_name(); };
  RunConfig other = config;
  other.system.name = "semihard";
  EXPECT_TRUE(settled(other));
  other = config;
  other.model.weights = "w.safetensors";
  EXPECT_TRUE(settled(other));
  other = config;
  other.choosing.choose = "off";
  EXPECT_TRUE(settled(other));
}

TEST(Configs, TakeTheSectionOfTheUsualSystemWhereNoneIsNamed) {
  RunConfig config;
  set_from_toml(config, "epochs = 3\n[train.triplet-fanng-global-adaptive]\nepochs = 7\n[train.neighbor-batch]\nepochs = 9\n");
  EXPECT_EQ(config.schedule.epochs, 7);
}

TEST(Configs, SayWhatIsWrongWithAText) {
  const auto message = [](const std::string& text) {
    RunConfig config;
    try {
      set_from_toml(config, text);
    } catch (const InvalidArgument& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_EQ(message("epochs = 3\nnonsense\n"), "line 2 is neither a [section] nor a name = value");
  EXPECT_EQ(message("epochs = three\n"), "line 1 is neither a [section] nor a name = value");
  EXPECT_EQ(message("epochs = \"three\"\n"), "epochs is 'three'; it must be a whole number from 0 to 1000000");
  EXPECT_EQ(message("epochs = 2.5\n"), "epochs is '2.5'; it must be a whole number from 0 to 1000000");
  EXPECT_EQ(message("epoch = 3\n"), "line 1: unknown setting epoch");
  EXPECT_EQ(message("[mine]\nepochs = 3\n"), "line 2: unknown section [mine]");
  EXPECT_EQ(message("skip-bad-images = 1\n"), "skip-bad-images is '1'; it must be true or false");
  EXPECT_EQ(message("save-epochs = [4, x]\n"), "save-epochs is '4, x'; it must be whole numbers with commas between them");
  EXPECT_EQ(message("kappa = \"auto\"\n"), "accepted");
}

TEST(Configs, AreReadFromFilesThatMessagesName) {
  const auto path = std::filesystem::temp_directory_path() / fmt::format("smartmine-config-{}.toml", getpid());
  std::ofstream(path) << "epochs = 5\nsystem = \"from outside\"\n";
  EXPECT_EQ(read_config(path).schedule.epochs, 5);
  std::ofstream(path) << "epochs = -1\n";
  EXPECT_THAT([&] { read_config(path); }, ThrowsMessage<IoError>(HasSubstr(path.string() + ": epochs is -1; it must be")));
  std::filesystem::remove(path);
  EXPECT_THAT([&] { read_config(path); }, ThrowsMessage<IoError>(HasSubstr("cannot be read")));
}

TEST(Configs, AreResumedWithOtherValuesOnlyWhereNothingComputedChanges) {
  RunConfig saved;
  saved.schedule.learning_rate = 0.1;
  const std::vector<GivenSetting> fine = {{"threads", "3"}, {"learning-rate", "auto"}, {"epochs", "8"}, {"device", "cpu"}};
  const RunConfig resumed = resumed_config(saved.resolved(), fine);
  EXPECT_EQ(resumed.compute.threads, 3);
  EXPECT_EQ(resumed.compute.device, "cpu");
  EXPECT_EQ(resumed.schedule.learning_rate, 0.1);
  const std::vector<GivenSetting> other = {{"epochs", "7"}, {"seed", "2"}};
  EXPECT_THAT([&] { resumed_config(saved, other); },
              ThrowsMessage<InvalidArgument>("--epochs is 7, the run has 8; --seed is 2, the run has 1"));
  const std::vector<GivenSetting> longer = {{"epochs", "9"}};
  EXPECT_EQ(resumed_config(saved, longer).schedule.epochs, 9);
}

TEST(Configs, KnowWhatASettingChanges) {
  EXPECT_EQ(changes_of("threads"), Changes::kNothing);
  EXPECT_EQ(changes_of("seed"), Changes::kRepetition);
  EXPECT_EQ(changes_of("save-epochs"), Changes::kOutput);
  EXPECT_EQ(changes_of("kappa"), Changes::kResult);
  EXPECT_EQ(changes_of("unheard-of"), Changes::kResult);
}

TEST(Configs, LeaveKappaAndItsTargetToTheSystem) {
  const auto mining = [](const char* system) {
    RunConfig config;
    config.system.name = system;
    return config.resolved().mining;
  };
  for (const char* system : {"neighbor-batch", "neighbor-semihard", "neighbor-batch-adaptive", "memory-batch"})
    EXPECT_EQ(mining(system).kappa, 2) << system;
  EXPECT_EQ(mining("triplet-fanng").kappa, 8);
  EXPECT_EQ(mining("smart-batch").kappa, 4);
  EXPECT_EQ(mining("smart-batch").target_error, 0.6);
  EXPECT_EQ(mining("neighbor-batch-adaptive").target_error, 0.1);
}

TEST(SystemTraits, AreThoseOfTheCommandLine) {
  EXPECT_THAT(system_names(),
              ::testing::ElementsAre("semihard", "lifted", "npairs", "clustering", "triplet-global", "triplet-fanng",
                                     "triplet-fanng-global", "triplet-fanng-global-adaptive", "hard-pairs", "smart-batch", "class-batch",
                                     "neighbor-batch", "neighbor-semihard", "neighbor-batch-adaptive", "memory-batch"));
  EXPECT_TRUE(find_traits("smart-batch").adaptive);
  EXPECT_THAT([] { find_traits("magic"); }, ThrowsMessage<InvalidArgument>(HasSubstr("system is 'magic'; it must be one of semihard, ")));
}

}  // namespace
}  // namespace smartmine
