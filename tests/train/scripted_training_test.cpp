#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/script.h>
#include <torch/torch.h>

#include <filesystem>
#include <string>

#include "core/made_files.h"
#include "smartmine/core/error.h"
#include "smartmine/data/folder.h"
#include "smartmine/model/weights.h"
#include "smartmine/train/embed_images.h"
#include "smartmine/train/trainer.h"
#include "train/made_folder.h"

namespace smartmine {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

/// A network in a file, and pictures to train it on.
class ScriptedTraining : public ::testing::Test {
 protected:
  ScriptedTraining() {
    test::make_image_folder(root_ / "images");
    torch::jit::Module net("Net");
    torch::manual_seed(2);
    net.register_parameter("filters", (torch::randn({12, 3, 5, 5}) * 0.2).set_requires_grad(true), /*is_buffer=*/false);
    net.register_parameter("unused", torch::ones({2}).set_requires_grad(true), /*is_buffer=*/false);
    net.register_parameter("held", torch::ones({1}), /*is_buffer=*/false);
    net.register_buffer("passes", torch::zeros({1}, torch::kInt64));
    net.define(R"(
def forward(self, x):
  return torch.relu(torch.conv2d(x, self.filters, None, [4, 4]) * self.held).flatten(1)
)");
    net.save((root_ / "net.pt").string());
    config_.data.dataset = "folder";
    config_.data.root = (root_ / "images").string();
    config_.model.backbone = (root_ / "net.pt").string();
    config_.model.input_size = 16;
    config_.model.embedding_dim = 8;
    config_.schedule.epochs = 4;
    config_.system.batch_size = 6;
    config_.system.triplets_per_anchor = 1;
    config_.compute.threads = 1;
    config_.compute.device = "cpu";
    config_.schedule.weight_average = 0.9;
  }
  std::string bytes(const std::string& run) const { return testing::contents(root_ / run / "checkpoint/model.safetensors"); }

  testing::TemporaryFolder root_;
  RunConfig config_;
};

TEST_F(ScriptedTraining, GoesOnAndEmbedsTheSameWhenTheFileIsGone) {
  RunDirectory whole = RunDirectory::create(root_ / "whole", config_.resolved());
  Trainer(config_, whole).run();
  EXPECT_EQ(whole.log().size(), 5U);

  RunDirectory run = RunDirectory::create(root_ / "run", config_.resolved());
  bool stop = false;
  const Progress progress = [&](const ProgressEvent&) { return !stop; };
  {
    Trainer first(config_, run, progress);
    EXPECT_THROW(first.run([&](const EpochRecord& record) { stop = record.epoch == 2; }), Cancelled);
  }
  std::filesystem::remove(config_.model.backbone);
  RunDirectory again = RunDirectory::open(root_ / "run");
  Trainer(config_, again).run();
  EXPECT_EQ(bytes("run"), bytes("whole"));

  const NamedTensors state = read_safetensors(again.model_path());
  EXPECT_TRUE(state.contains("backbone.filters"));
  EXPECT_TRUE(state.contains("backbone.passes"));
  EXPECT_TRUE(state.at("backbone.unused").equal(torch::ones({2})));
  EXPECT_TRUE(state.at("backbone.held").equal(torch::ones({1})));
  torch::manual_seed(2);
  EXPECT_FALSE(state.at("backbone.filters").equal(torch::randn({12, 3, 5, 5}) * 0.2)) << "nothing was trained";
  const EmbeddedImages embedded = embed_images(again.with_own_backbone(config_), again.model_path(), load_folder(config_.data.root).test);
  EXPECT_EQ(embedded.embeddings.rows().dimension(), 8U);
}

TEST_F(ScriptedTraining, TakesWeightsThatPythonSavedInsideAWrapper) {
  config_.model.weights = (root_ / "wrapped.safetensors").string();
  const NamedTensors own = {
      {"filters", torch::ones({12, 3, 5, 5})}, {"unused", torch::ones({2})}, {"held", torch::ones({1})}, {"passes", torch::zeros({1})}};
  NamedTensors wrapped;
  for (const auto& [name, tensor] : own) wrapped.emplace("module." + name, tensor);
  write_safetensors(config_.model.weights, wrapped);
  EXPECT_NO_THROW(check_network(config_));
  config_.model.backbone = "small";  // of another network: seen before anything is begun
  EXPECT_THAT([&] { check_network(config_); }, ThrowsMessage<IoError>(HasSubstr("wrapped.safetensors")));
}

TEST_F(ScriptedTraining, TryingAFileTellsHowManyFeaturesItHas) {
  EXPECT_EQ(check_network(config_), 12 * 3 * 3);
  config_.model.backbone = "small";
  EXPECT_EQ(check_network(config_), std::nullopt);
}

TEST_F(ScriptedTraining, PassesOfALargeNetworkOnACpuTellOftenHowFarTheyAre) {
  config_.model.input_size = 96;
  config_.model.new_layer_start = "random";
  config_.schedule.epochs = 0;
  RunDirectory run = RunDirectory::create(root_ / "run", config_.resolved());
  std::vector<std::size_t> told;
  Trainer(config_, run, [&](const ProgressEvent& event) {
    if (event.stage == "evaluation" && event.total == 36 && event.unit == "images") told.push_back(event.done);
    return true;
  }).run();
  ASSERT_GE(told.size(), 2U);
  EXPECT_LT(told.front(), 36U);
}

TEST_F(ScriptedTraining, AFileIsTakenForPretrained) {
  const RunConfig full = config_.resolved();
  EXPECT_EQ(full.model.batch_norm, "frozen");
  EXPECT_EQ(full.schedule.new_layer_rate, 10);
  EXPECT_EQ(full.mining.warmup_epochs, 2);
  config_.model.backbone = "resnet18";
  config_.model.input_size.reset();
  EXPECT_EQ(config_.resolved().model.batch_norm, "batch");
  config_.model.weights = "resnet18.pth";
  EXPECT_EQ(config_.resolved().model.batch_norm, "frozen");
}

TEST_F(ScriptedTraining, ANewRunNeedsTheFileAndABadOneLeavesNothing) {
  config_.model.backbone = (root_ / "none.pt").string();
  EXPECT_THAT([&] { RunDirectory::create(root_ / "run", config_); }, ThrowsMessage<IoError>(HasSubstr("none.pt")));
  EXPECT_FALSE(std::filesystem::exists(root_ / "run"));
  testing::save(config_.model.backbone, "no network");
  RunDirectory run = RunDirectory::create(root_ / "run", config_);
  EXPECT_THAT([&] { Trainer(config_, run); }, ThrowsMessage<IoError>(HasSubstr("not a TorchScript file")));
  run.remove_if_unused();
  EXPECT_FALSE(std::filesystem::exists(root_ / "run"));
}

TEST_F(ScriptedTraining, SettingsThatDoNotSuitABackboneAreNamed) {
  const auto message = [](const auto& change) -> std::string {
    RunConfig config;
    change(config);
    try {
      config.validate();
    } catch (const InvalidArgument& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_THAT(message([](RunConfig& c) { c.model.backbone = "resnet"; }),
              "backbone is 'resnet'; it must be one of googlenet, resnet18, resnet50, small, or a TorchScript file, such as net.pt");
  EXPECT_EQ(message([](RunConfig& c) {
              c.model.backbone = "resnet50", c.model.pooling = "both", c.model.input_size = 160, c.model.evaluation_size = 256;
            }),
            "accepted");
  EXPECT_EQ(message([](RunConfig& c) { c.model.backbone = "resnet50", c.model.input_size = 32; }),
            "input-size is 32; for resnet50 it must be a whole number from 64 to 448");
  EXPECT_EQ(message([](RunConfig& c) { c.model.backbone = "net.pt", c.model.input_mean = "0.5", c.model.input_deviation = "0.2,0.2,0.3"; }),
            "accepted");
  EXPECT_THAT(message([](RunConfig& c) { c.model.backbone = "net.pt", c.model.input_mean = "half"; }), HasSubstr("input-mean is 'half'"));
  EXPECT_EQ(message([](RunConfig& c) { c.model.backbone = "net.pt", c.model.input_mean = "-1,0,1", c.model.input_deviation = "1"; }),
            "accepted");
  EXPECT_EQ(message([](RunConfig& c) { c.model.backbone = "net.pt", c.model.input_mean = "123,117,104"; }),
            "input-mean is '123,117,104'; it must be from -1 to 1, for values of images are from 0 to 1: divide those for 0 to 255 by 255");
  EXPECT_EQ(message([](RunConfig& c) { c.model.backbone = "net.pt", c.model.input_mean = "0.5,-1.01,0"; }).substr(0, 36),
            "input-mean is '0.5,-1.01,0'; it must");
  for (const char* deviation : {"0,0,0", "-0.2", "0.2,0.2,0", "58.4,57.1,57.4"})
    EXPECT_EQ(message([&](RunConfig& c) { c.model.backbone = "resnet18", c.model.input_deviation = deviation; }),
              fmt::format("input-deviation is '{}'; it must be above 0 and at most 1, for values of images are from 0 to 1: divide those "
                          "for 0 to 255 by 255",
                          deviation));
  EXPECT_THAT(message([](RunConfig& c) { c.model.input_mean = "0.5"; }), HasSubstr("small has its own, so they must be empty"));
  EXPECT_EQ(message([](RunConfig& c) { c.model.batch_norm = "frozen"; }), "batch-norm is 'frozen'; with small it must be left at auto");
  EXPECT_EQ(message([](RunConfig& c) { c.model.backbone = "resnet18", c.model.batch_norm = "on"; }),
            "batch-norm is 'on'; it must be one of auto, frozen, batch");
}

}  // namespace
}  // namespace smartmine
