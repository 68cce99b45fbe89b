#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <filesystem>

#include "smartmine/core/error.h"
#include "smartmine/model/weights.h"
#include "smartmine/run/run_data.h"
#include "smartmine/train/choose.h"
#include "smartmine/train/trainer.h"
#include "train/choosing.h"
#include "train/measure_weights.h"

namespace smartmine {
namespace {

using ::testing::HasSubstr;

/// What is kept after a training, with choices made by hand.
class Keeping : public Choosing {
 protected:
  /// A run that has been trained for a choice, up to where it keeps something.
  RunDirectory trained(const Choice& choice, const std::string& name = "run") const {
    RunDirectory run = new_run(name);
    write_choice(run.path(), choice);
    const RunConfig chosen = chosen_config(config_, choice);
    run.change_config(chosen);
    Trainer(chosen, run).run();
    return run;
  }
  static Choice decided(std::int64_t epochs, double share) {
    Choice choice;
    choice.decided = true;
    choice.learning_rate = 0.02;
    choice.epochs = epochs;
    choice.share = share;
    return choice;
  }
};

TEST_F(Keeping, WithAValidationSplitPicksTheShareOfTheTrainingOnItAndMeasuresOnTheTestClasses) {
  make_table(10, 5);
  RunDirectory run = new_run("run");
  Choice choice;
  choice.decided = true;
  choice.held_out_classes = 5;
  choice.held_out_images = 100;
  choice.tolerance = score_tolerance(100);
  choice.learning_rate = 0.02;
  choice.epochs = 1;
  choice.share = 0.5;
  write_choice(run.path(), choice);
  train(run);
  const Choice known = *read_choice(run.path());
  ASSERT_EQ(known.interpolations.size(), 4U);
  ASSERT_NE(share_to_keep(known.interpolations, choice), 0.5) << "as chosen: nothing would be tested";
  const DataSplits splits = load_run_data(config_);
  WeightMeasure measure(config_.resolved(), *splits.validation, {});
  const NamedTensors start = read_safetensors(run.start_path()), last = read_safetensors(run.last_model_path());
  for (const Interpolation& each : known.interpolations)
    EXPECT_EQ(each.score.map_at_r, measure.score(mixed(start, last, each.share)).map_at_r) << each.share;
  EXPECT_EQ(known.kept->share, share_to_keep(known.interpolations, choice));
  EXPECT_EQ(known.share, known.kept->share) << "that of the trial was chosen by other figures than those that stand beside it";
  for (const EpochRecord& record : run.log()) EXPECT_EQ(record.metrics->split, "test");
  EXPECT_EQ(known.kept->metrics->split, "test");
  // Again, as for a run that was killed here: the same.
  keep_chosen(chosen_config(config_, choice), run, known);
  EXPECT_EQ(to_json(*read_choice(run.path())), to_json(known));
  // Where nothing of the training beats the start on these classes, the start is kept.
  choice.start = {.recall_at_1 = 1, .map_at_r = 1};
  keep_chosen(chosen_config(config_, choice), run, choice);
  EXPECT_EQ(run.weights_in_words(), "those that the run starts from");
}

TEST_F(Keeping, KeepsWeightsOnTheWayFromTheStart) {
  RunDirectory run = new_run("run");
  const Choice choice = decided(1, 0.25);
  write_choice(run.path(), choice);
  const Choice read = train(run);
  EXPECT_EQ(read.share, 0.25);
  EXPECT_EQ(run.model_path(), run.kept_path());
  const NamedTensors start = read_safetensors(run.start_path()), last = read_safetensors(run.last_model_path()),
                     kept = read_safetensors(run.kept_path());
  const torch::Tensor expected = start.at("conv1.weight") + 0.25 * (last.at("conv1.weight") - start.at("conv1.weight"));
  EXPECT_TRUE(torch::allclose(kept.at("conv1.weight"), expected, 1e-5, 1e-7));
  EXPECT_FALSE(last.at("conv1.weight").equal(start.at("conv1.weight")));
}

TEST_F(Keeping, KeepsTheStartWhenTheChoiceSaysSo) {
  RunDirectory run = new_run("run");
  Choice choice;
  choice.decided = true;
  choice.epochs = 0;
  write_choice(run.path(), choice);
  train(run);
  ASSERT_EQ(run.log().size(), 1U);
  EXPECT_TRUE(std::filesystem::exists(run.model_path()));
}

TEST_F(Keeping, KeepsTheStartOfATrainingThatHadToBeStopped) {
  RunDirectory run = new_run("run");
  const Choice choice = decided(2, 0.5);
  write_choice(run.path(), choice);
  train(run);
  std::filesystem::remove_all(run.path() / "checkpoint");  // it may have been stopped before its first
  keep_start(chosen_config(config_, choice), run, choice);
  const NamedTensors kept = read_safetensors(run.model_path()), start = read_safetensors(run.start_path());
  ASSERT_EQ(kept.size(), start.size());
  for (const auto& [name, tensor] : start) EXPECT_TRUE(torch::equal(kept.at(name), tensor)) << name;
  EXPECT_EQ(run.weights_in_words(), "those that the run starts from");
  EXPECT_EQ(read_choice(run.path())->share, 0.5);  // what was chosen stays, for one that goes on
  EXPECT_EQ(read_choice(run.path())->kept->metrics->recall_at_1, run.log().front().metrics->recall_at_1);
}

TEST_F(Keeping, ATrainingThatHadToBeStoppedOnTheWholeWayKeepsTheStartUntilItHasGoneOn) {
  RunDirectory run = new_run("run");
  const Choice choice = decided(2, 1);
  write_choice(run.path(), choice);
  train(run);
  keep_start(chosen_config(config_, choice), run, choice);
  const NamedTensors kept = read_safetensors(run.model_path()), start = read_safetensors(run.start_path());
  for (const auto& [name, tensor] : start) EXPECT_TRUE(torch::equal(kept.at(name), tensor)) << name;
  EXPECT_EQ(run.weights_in_words(), "those that the run starts from");
  keep_chosen(chosen_config(config_, choice), run, choice);
  EXPECT_EQ(run.model_path(), run.last_model_path());
  EXPECT_EQ(run.weights_in_words(), "epoch 2");
}

TEST_F(Keeping, StoppedWhileItMeasuresHasWrittenWhatItKeeps) {
  const Choice choice = decided(1, 0.5);
  RunDirectory run = trained(choice);
  const RunConfig chosen = chosen_config(config_, choice);
  EXPECT_THAT(run.weights_in_words(), HasSubstr("epoch 1; what to keep is not settled"));
  EXPECT_THROW(keep_chosen(chosen, run, choice, [](const ProgressEvent&) { return false; }), Cancelled);
  EXPECT_EQ(run.model_path(), run.kept_path());
  const Choice known = *read_choice(run.path());
  ASSERT_TRUE(known.kept.has_value());
  EXPECT_EQ(known.kept->share, 0.5);
  EXPECT_FALSE(known.kept->metrics.has_value());
  EXPECT_EQ(run.weights_in_words(), "epoch 1, 50 % of the way from the start");
  keep_chosen(chosen, run, known);
  EXPECT_TRUE(read_choice(run.path())->kept->metrics.has_value());
}

TEST_F(Keeping, OfARunMadeLongerSaysNothingOfTheFormerWeightsOnceItHasOthers) {
  const Choice choice = decided(1, 0.5);
  RunDirectory run = trained(choice);
  keep_chosen(chosen_config(config_, choice), run, choice);
  RunConfig longer = chosen_config(config_, choice);
  longer.schedule.epochs = 2;
  run.change_config(longer);
  Trainer(longer, run).run();
  EXPECT_EQ(run.weights_in_words(), "epoch 1, 50 % of the way from the start") << "these are still there";
  EXPECT_THROW(keep_chosen(longer, run, *read_choice(run.path()), [](const ProgressEvent&) { return false; }), Cancelled);
  EXPECT_EQ(run.weights_in_words(), "epoch 2, 50 % of the way from the start");
  EXPECT_FALSE(read_choice(run.path())->kept->metrics.has_value()) << "those of the former weights";
  EXPECT_FALSE(std::filesystem::exists(run.path() / "embeddings/kept.npy")) << "those of the former weights";
}

}  // namespace
}  // namespace smartmine
