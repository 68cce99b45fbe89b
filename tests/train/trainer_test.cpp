#include "smartmine/train/trainer.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <atomic>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "smartmine/core/error.h"
#include "smartmine/core/random.h"
#include "smartmine/data/folder.h"
#include "smartmine/data/image_store.h"
#include "smartmine/graph/exact_knn.h"
#include "smartmine/loss/multisimilarity_loss.h"
#include "smartmine/loss/triplet_loss.h"
#include "smartmine/model/embed.h"
#include "smartmine/model/embedding_model.h"
#include "smartmine/model/new_layer.h"
#include "smartmine/model/weights.h"
#include "smartmine/run/checkpoint.h"
#include "smartmine/train/augment.h"
#include "smartmine/train/embed_images.h"
#include "smartmine/train/system.h"
#include "train/device_knn.h"
#include "train/made_folder.h"
#include "train/optimizer.h"

namespace smartmine {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::string bytes_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// A folder of pictures, and room for runs on it.
class Training : public ::testing::Test {
 protected:
  Training() {
    static std::atomic<int> number{0};
    root_ = std::filesystem::temp_directory_path() / ("smartmine-train-" + std::to_string(getpid()) + "-" + std::to_string(number++));
    test::make_image_folder(root_ / "images");
    config_.data.dataset = "folder";
    config_.data.root = (root_ / "images").string();
    config_.model.channels = 1;
    config_.model.input_size = 16;
    config_.model.embedding_dim = 8;
    config_.schedule.epochs = 4;
    config_.system.batch_size = 6;
    config_.system.triplets_per_anchor = 1;
    config_.mining.warmup_epochs = 1;
    config_.compute.threads = 1;
    config_.compute.device = "cpu";
  }
  ~Training() override { std::filesystem::remove_all(root_); }

  RunDirectory new_run(const std::string& name) { return RunDirectory::create(root_ / name, config_); }
  std::string model_bytes(const std::string& run) { return bytes_of(root_ / run / "checkpoint" / "model.safetensors"); }
  std::string metrics(const std::string& run) { return bytes_of(root_ / run / "metrics.csv"); }

  std::filesystem::path root_;
  RunConfig config_;
};

class EverySystem : public Training, public ::testing::WithParamInterface<std::string> {};

TEST_P(EverySystem, TrainsMeasuresAndKeepsARecord) {
  config_.system.name = GetParam();
  config_.output.save_epochs = {2};
  RunDirectory run = new_run("run");
  Trainer(config_, run).run();
  ASSERT_EQ(run.log().size(), 5U);
  EXPECT_EQ(run.log()[0].steps, 0);                      // the untrained network
  const bool smart_batch = GetParam() == "smart-batch";  // triplets that are mined, but all pairs in the loss
  const bool triplets = GetParam().starts_with("triplet") || smart_batch;
  const bool neighbors = GetParam().starts_with("neighbor-") || GetParam() == "memory-batch";
  const bool all_pairs = smart_batch || GetParam() == "class-batch" || (neighbors && GetParam() != "neighbor-semihard");
  const bool mines = GetParam().find("fanng") != std::string::npos || smart_batch || neighbors;
  for (const EpochRecord& record : run.log()) {
    ASSERT_TRUE(record.metrics);
    EXPECT_GT(record.metrics->recall_at_1, 0);
    EXPECT_GE(record.metrics->recall_at_8, record.metrics->recall_at_1);
    if (record.epoch == 0) continue;
    EXPECT_EQ(record.images, triplets ? 3 * 36 : record.images);
    // All systems see about as many images; of batches of near classes the last of each round is filled up, here a third of it.
    EXPECT_NEAR(static_cast<double>(record.images), 3 * 36, neighbors ? 36 : 18);
    EXPECT_TRUE(std::isfinite(record.loss()));
    EXPECT_GE(record.training_error(), 0);
    EXPECT_LE(record.training_error(), 1);
    EXPECT_EQ(record.mining.has_value(), triplets);
    EXPECT_EQ(record.kappa.has_value(), mines && record.epoch > config_.mining.warmup_epochs);
    // The pairs' loss packs these few pictures so close that kappa soon asks for negatives farther off than there are.
    if (!neighbors && (!smart_batch || record.epoch <= 2)) {
      EXPECT_EQ(record.mined_share() > 0, record.kappa.has_value());
    }
    EXPECT_EQ(record.loss_part_sums.contains("triplet"), triplets && !smart_batch);
    EXPECT_EQ(record.loss_part_sums.contains("multisimilarity"), all_pairs);
    EXPECT_EQ(record.grouping.has_value(), neighbors);
    EXPECT_EQ(record.look.has_value(), neighbors && record.kappa.has_value());
    if (record.look) {
      EXPECT_GT(record.look->batches, 0U);
      EXPECT_LE(record.look->error, 1);
      EXPECT_FALSE(record.look->together.empty());
    }
    EXPECT_EQ(record.loss_part_sums.contains("global"), triplets && GetParam().find("global") != std::string::npos);
    EXPECT_EQ(record.distances.has_value(), triplets);
    if (!triplets) continue;
    double sum = 0;
    for (const auto& [part, value] : record.loss_part_sums) sum += value;
    EXPECT_NEAR(sum, record.loss_sum, 1e-5 * record.loss_sum);
    EXPECT_EQ(record.terms, 36);  // the error is that of triplets
    EXPECT_EQ(std::accumulate(record.distances->positive.begin(), record.distances->positive.end(), std::uint64_t{0}), 36U);
    EXPECT_EQ(std::accumulate(record.distances->negative.begin(), record.distances->negative.end(), std::uint64_t{0}), 36U);
  }
  for (const EpochRecord& record : run.log()) {
    ASSERT_TRUE(record.validation_error);
    EXPECT_GE(*record.validation_error, 0);
    EXPECT_LE(*record.validation_error, 1);
  }
  EXPECT_EQ(std::filesystem::exists(root_ / "run/report/triplets-0002.json"), triplets);
  EXPECT_TRUE(std::filesystem::exists(root_ / "run/embeddings/epoch-0002.npy"));
  EXPECT_TRUE(std::filesystem::exists(root_ / "run/embeddings/epoch-0004.npy"));
  EXPECT_EQ(std::filesystem::exists(root_ / "run/triplets/epoch-0002.npy"), triplets);
  // The network did change, and the same seed changes it in the same way.
  RunDirectory again = new_run("again");
  Trainer(config_, again).run();
  EXPECT_EQ(model_bytes("run"), model_bytes("again"));
}

INSTANTIATE_TEST_SUITE_P(Names, EverySystem, ::testing::ValuesIn(system_names()), [](const auto& name) {
  std::string letters;
  for (const char c : name.param)
    if (c != '-') letters += c;
  return letters;
});

TEST_F(Training, TurnedClassesChangeTheRunAndTheSameWayTwice) {
  config_.system.name = "neighbor-semihard";
  config_.mining.kappa = 1;
  config_.data.crop = "centre";
  config_.data.flip = "off";
  std::set<std::string> different;
  for (const std::int64_t drawn : {0, 4}) {  // all epochs mined, or none
    config_.mining.warmup_epochs = drawn;
    for (const char* const run : {"straight", "turned", "again"}) {
      config_.data.turned_classes = std::string(run) != "straight";
      RunDirectory directory = new_run(fmt::format("{}{}", run, drawn));
      Trainer(config_, directory).run();
      different.insert(model_bytes(fmt::format("{}{}", run, drawn)));
    }
  }
  EXPECT_EQ(different.size(), 4U);
}

TEST(Systems, AreThoseOfTheCommandLine) {
  EXPECT_THAT(system_names(), ElementsAre("semihard", "lifted", "npairs", "clustering", "triplet-global", "triplet-fanng",
                                          "triplet-fanng-global", "triplet-fanng-global-adaptive", "hard-pairs", "smart-batch",
                                          "class-batch", "neighbor-batch", "neighbor-semihard", "neighbor-batch-adaptive", "memory-batch"));
  EXPECT_THAT([] { find_system("magic"); }, ThrowsMessage<InvalidArgument>(HasSubstr("system is 'magic'; it must be one of semihard, ")));
}

TEST(SmartBatch, LooksAtAllPairsAndCountsTriplets) {
  torch::manual_seed(3);
  torch::Tensor embeddings = torch::nn::functional::normalize(torch::randn({12, 5}));
  const std::vector<std::int64_t> labels = {0, 1, 2, 0, 0, 1, 2, 0, 1, 2, 0, 2};
  const torch::Tensor device = torch::tensor(labels, torch::kInt64),
                      items = torch::tensor({0, 1, 2, 3, 4, 5, 6, 0, 5, 9, 4, 11}, torch::kInt64);
  RunConfig config;
  config.system.margin = 0.1;
  config.system.multisimilarity_alpha = 3;
  config.system.multisimilarity_beta = 20;
  config.system.multisimilarity_base = 0.3;
  const BatchLoss loss = find_system("smart-batch").loss(embeddings, {labels, device, items}, config.system);
  const auto parts = embeddings.chunk(3);
  const BatchLoss of_triplets = triplet_loss(parts[0], parts[1], parts[2], {.margin = 0.1});
  EXPECT_EQ(loss.active.item<std::int64_t>(), of_triplets.active.item<std::int64_t>());
  EXPECT_EQ(loss.terms, 4);
  EXPECT_TRUE(loss.squared_distances.equal(of_triplets.squared_distances));
  const BatchLoss of_pairs = multisimilarity_loss(embeddings, device, items, {.alpha = 3, .beta = 20, .base = 0.3});
  EXPECT_EQ(loss.value.item<float>(), of_pairs.value.item<float>());
  const auto plan_of = [](const char* name) { return *find_system(name).plan.target<EpochPlan (*)(const PlanInput&)>(); };
  EXPECT_EQ(plan_of("smart-batch"), plan_of("triplet-fanng-global-adaptive"));
}

TEST_F(Training, OnGlyphsRaisesRecall) {
  config_ = RunConfig();
  config_.schedule.epochs = 1;
  config_.compute.threads = 1;
  config_.compute.device = "cpu";
  RunDirectory run = new_run("run");
  Trainer(config_, run).run();
  EXPECT_GT(run.log()[1].metrics->recall_at_1, run.log()[0].metrics->recall_at_1 + 0.05);
}

TEST_F(Training, ShardsPassedAtTheSameTimeOrInTurnGiveTheSameBits) {
  config_.model.dropout = 0.2;
  config_.schedule.weight_average = 0.9;  // changes the model's weights between epochs
  config_.compute.shards = 3;
  config_.compute.network_threads = 1;
  for (const std::int64_t threads : {1, 2, 3}) {
    config_.compute.threads = threads;
    RunDirectory run = new_run(fmt::format("threads{}", threads));
    Trainer(config_, run).run();
  }
  EXPECT_EQ(model_bytes("threads2"), model_bytes("threads1"));
  EXPECT_EQ(model_bytes("threads3"), model_bytes("threads1"));
  EXPECT_EQ(metrics("threads3"), metrics("threads1"));
}

/// How a resumed run is to be the same: "exact" and "fanng" as the paper has it, "beyond" with everything else that a run can be set to.
class Resuming : public Training, public ::testing::WithParamInterface<const char*> {};

TEST_P(Resuming, AnywhereEndsWithTheSameBits) {
  const bool beyond = std::string(GetParam()) == "beyond";
  config_.mining.index = beyond ? "exact" : GetParam();
  config_.model.dropout = 0.2;
  config_.mining.neighbors = 20;
  if (beyond) {
    config_.system.name = "smart-batch";
    config_.schedule.optimizer = "adamw";
    config_.schedule.rate_schedule = "cosine";
    config_.schedule.rate_warmup_epochs = 1.5;
    config_.mining.hub_limit = 1.5;
    config_.data.colour_jitter = 0.2;
    config_.mining.duplicate_distance = 1e-4;
    config_.schedule.weight_average = 0.9;
    config_.model.new_layer_start = "discriminants";
    config_.mining.find_kappa = true;
  }
  std::size_t events = 0;
  RunDirectory whole = new_run("whole");
  Trainer(config_, whole, [&](const ProgressEvent&) { return ++events > 0; }).run();
  const std::size_t whole_events = events;
  ASSERT_GT(whole_events, 20U);
  int cut_runs = 0;
  for (std::size_t stop = 3; stop < whole_events; stop += whole_events / 7) {
    const std::string name = "cut" + std::to_string(stop);
    RunDirectory run = new_run(name);
    std::size_t seen = 0;
    try {
      Trainer(config_, run, [&](const ProgressEvent&) { return ++seen < stop; }).run();
      FAIL() << "was not stopped";
    } catch (const Cancelled&) {
      ++cut_runs;
    }
    RunDirectory reopened = RunDirectory::open(root_ / name);
    Trainer(config_, reopened).run();
    EXPECT_EQ(model_bytes(name), model_bytes("whole")) << "stopped after " << stop << " events";
    EXPECT_EQ(bytes_of(root_ / name / "checkpoint/optimizer.safetensors"), bytes_of(root_ / "whole/checkpoint/optimizer.safetensors"));
    EXPECT_EQ(metrics(name), metrics("whole")) << "stopped after " << stop << " events";
    for (const char* file : {"evaluation.json", "evaluation.jpegs", "triplets-0002.json", "triplets-0003.json", "triplets-0004.json"}) {
      EXPECT_FALSE(bytes_of(root_ / name / "report" / file).empty()) << file;
      EXPECT_EQ(bytes_of(root_ / name / "report" / file), bytes_of(root_ / "whole/report" / file)) << file;
    }
    for (std::size_t i = 1; i < whole.log().size(); ++i) {
      EXPECT_EQ(reopened.log()[i].loss_part_sums, whole.log()[i].loss_part_sums);
      EXPECT_EQ(reopened.log()[i].distances->positive, whole.log()[i].distances->positive);
      EXPECT_EQ(reopened.log()[i].validation_error, whole.log()[i].validation_error);
    }
  }
  EXPECT_GE(cut_runs, 6);
}

INSTANTIATE_TEST_SUITE_P(Index, Resuming, ::testing::Values("exact", "fanng", "beyond"),
                         [](const auto& name) { return std::string(name.param); });

TEST_F(Training, ResumedAnywhereRemembersTheSame) {
  config_.system.name = "memory-batch";
  config_.mining.neighbors = 20;
  config_.mining.memory_neighbors = 5;
  config_.schedule.epochs = 3;
  std::size_t events = 0;
  RunDirectory whole = new_run("whole");
  Trainer(config_, whole, [&](const ProgressEvent&) { return ++events > 0; }).run();
  bool memory_was_saved = false;
  for (std::size_t stop = events / 2; stop < events; stop += events / 10) {
    const std::string name = "cut" + std::to_string(stop);
    RunDirectory run = new_run(name);
    std::size_t seen = 0;
    EXPECT_THROW(Trainer(config_, run, [&](const ProgressEvent&) { return ++seen < stop; }).run(), Cancelled);
    memory_was_saved = memory_was_saved || std::filesystem::exists(root_ / name / "checkpoint/memory.safetensors");
    RunDirectory reopened = RunDirectory::open(root_ / name);
    Trainer(config_, reopened).run();
    EXPECT_EQ(model_bytes(name), model_bytes("whole")) << "stopped after " << stop << " events";
    EXPECT_FALSE(std::filesystem::exists(root_ / name / "checkpoint/memory.safetensors"));
  }
  EXPECT_TRUE(memory_was_saved);
}

TEST_F(Training, KeepsTheLastEmbeddingsAndTripletsOfFixedAnchorsForAReport) {
  RunDirectory run = new_run("run");
  Trainer trainer(config_, run);
  trainer.run([&](const EpochRecord& record) {
    std::set<std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator(root_ / "run/embeddings")) files.insert(entry.path().filename().string());
    EXPECT_EQ(files, (std::set<std::string>{"labels.npy", "epoch-000" + std::to_string(record.epoch) + ".npy"}));
  });
  std::set<std::string> anchors;
  for (const int epoch : {2, 3, 4}) {
    const auto json = nlohmann::json::parse(bytes_of(root_ / ("run/report/triplets-000" + std::to_string(epoch) + ".json")));
    EXPECT_EQ(json.at("anchors").size(), 24U);  // for a report to choose six from
    std::set<std::string> classes;
    for (const auto& anchor : json.at("anchors")) {
      anchors.insert(anchor.at("name").get<std::string>());
      classes.insert(anchor.at("class").get<std::string>());
      ASSERT_EQ(anchor.at("mined").size(), 1U);
      const auto& triplet = anchor.at("mined").at(0);
      if (triplet.at("kind") != "mined") continue;
      EXPECT_EQ(triplet.at("positive").at("class"), anchor.at("class"));
      EXPECT_NE(triplet.at("negative").at("class"), anchor.at("class"));
      EXPECT_GT(triplet.at("positive").at("distance").get<double>(), 0);
    }
    EXPECT_EQ(classes.size(), 6U);  // as many as there are
  }
  EXPECT_EQ(anchors.size(), 24U);  // the same in every epoch
}

TEST_F(Training, IsResumedOnlyOnTheSameData) {
  RunDirectory run = new_run("run");
  Trainer(config_, run).run();
  std::filesystem::remove(root_ / "images/class10/0.png");
  EXPECT_THAT([&] { Trainer(config_, run); },
              ThrowsMessage<IoError>(HasSubstr("state.json: of a run on 36 training images; here are 35, so it is not the same data")));
}

TEST_F(Training, OnlyOneTrainsInADirectory) {
  RunDirectory run = new_run("run");
  RunDirectory same = RunDirectory::open(root_ / "run");
  {
    const Trainer first(config_, run);
    EXPECT_THAT([&] { Trainer(config_, same); }, ThrowsMessage<IoError>(HasSubstr("run: another process is training in it")));
  }
  EXPECT_NO_THROW(Trainer(config_, same));
}

TEST_F(Training, DoesNotBeginAgainWhenTheCheckpointIsGone) {
  RunDirectory run = new_run("run");
  Trainer(config_, run).run();
  const std::string before = metrics("run");
  std::filesystem::remove_all(root_ / "run/checkpoint");
  RunDirectory again = RunDirectory::open(root_ / "run");
  EXPECT_THAT([&] { Trainer(config_, again); }, ThrowsMessage<IoError>(HasSubstr("there is no checkpoint, though")));
  EXPECT_EQ(metrics("run"), before);
}

TEST_F(Training, FinishedRunsStayAsTheyAreWhenResumed) {
  RunDirectory run = new_run("run");
  Trainer(config_, run).run();
  const std::string before = metrics("run");
  RunDirectory again = RunDirectory::open(root_ / "run");
  int epochs = 0;
  Trainer(config_, again).run([&](const EpochRecord&) { ++epochs; });
  EXPECT_EQ(epochs, 0);
  EXPECT_EQ(metrics("run"), before);
}

TEST_F(Training, RefusesADirectoryThatIsThere) {
  new_run("run");
  EXPECT_THAT([&] { new_run("run"); }, ThrowsMessage<IoError>(HasSubstr("run: exists already; --resume goes on")));
  EXPECT_THAT([&] { RunDirectory::open(root_ / "none"); }, ThrowsMessage<IoError>(HasSubstr("none: there is no such run")));
  EXPECT_THAT([&] { RunDirectory::open(root_ / "images"); }, ThrowsMessage<IoError>(HasSubstr("it has no config.toml")));
}

TEST_F(Training, RefusesCudaWhereThereIsNone) {
  if (torch::cuda::is_available()) GTEST_SKIP() << "there is one";
  config_.compute.device = "cuda";
  RunDirectory run = new_run("run");
  EXPECT_THAT([&] { Trainer(config_, run); },
              ThrowsMessage<InvalidArgument>(HasSubstr("device is 'cuda', but no CUDA device can be used here")));
}

TEST_F(Training, GoogLeNetsAreEmbeddedAtTheEvaluationSizeAndPooledAsTrained) {
  config_.model.backbone = "googlenet";
  config_.model.channels = 3;
  config_.model.input_size = 160;
  config_.model.image_size = 168;
  config_.model.evaluation_size = 169;
  RunDirectory run = new_run("run");
  EXPECT_THAT([&] { Trainer(config_, run); },
              ThrowsMessage<InvalidArgument>(HasSubstr("evaluation-size is 169; it must be at most image-size, here 168")));
  // A network with its weights in a file, the way eval and embed have it.
  const auto model = make_model({.backbone = "googlenet", .embedding_dimension = 8, .input_size = 160});
  write_safetensors(root_ / "model.safetensors", model->state());
  const Dataset test = load_folder(config_.data.root).test;
  const auto embedded = [&](std::int64_t evaluation_size, const char* pooling) {
    config_.model.evaluation_size.reset();
    if (evaluation_size > 0) config_.model.evaluation_size = evaluation_size;
    config_.model.pooling = pooling;
    const EmbeddedImages images = embed_images(config_, root_ / "model.safetensors", test, {});
    const Rows rows = images.embeddings.rows();
    return std::vector<float>(rows[0], rows[0] + 8);
  };
  const std::vector<float> plain = embedded(0, "average");
  EXPECT_EQ(embedded(160, "average"), plain);
  EXPECT_NE(embedded(168, "average"), plain);
  EXPECT_NE(embedded(0, "max"), plain);
}

TEST_F(Training, KeepsHubsAndCopiesOutAndSaysSoOnce) {
  config_.mining.kappa = 1;
  config_.mining.neighbors = 30;
  config_.mining.hub_limit = 1;
  config_.mining.duplicate_distance = 4;  // all are copies
  RunDirectory copies = new_run("copies");
  Trainer(config_, copies).run();
  std::size_t said = 0;
  for (const EpochRecord& record : copies.log()) {
    for (const std::string& note : record.notes) said += note.find("were taken for copies") != std::string::npos;
    if (record.epoch < 2) continue;
    EXPECT_GT(record.mining->duplicates_skipped, 0U);
    EXPECT_EQ(record.mined_share(), 0);
  }
  EXPECT_EQ(said, 1U);
  config_.mining.duplicate_distance = 0;
  config_.output.save_epochs = {3};
  RunDirectory hubs = new_run("hubs");
  Trainer(config_, hubs).run();
  EXPECT_GT(hubs.log()[3].mining->cap_skipped, 0U);
  EXPECT_GT(hubs.log()[3].mined_share(), 0);
  // What is read again from the log is what was written.
  EXPECT_EQ(RunDirectory::open(root_ / "hubs").log()[3].mining->cap_skipped, hubs.log()[3].mining->cap_skipped);
}

TEST_F(Training, MeasuresOnValidationClassesWhenAskedTo) {
  config_.data.validation_classes = 2;
  config_.schedule.epochs = 1;
  RunDirectory run = new_run("run");
  Trainer trainer(config_, run);
  EXPECT_EQ(trainer.data().training_classes, 4U);
  EXPECT_EQ(trainer.data().evaluation_classes, 2U);
  trainer.run();
  EXPECT_EQ(run.log()[1].metrics->split, "validation");
}

TEST_F(Training, SaysHowManyBadImagesWereSkippedAndWhichClassesHaveOne) {
  std::ofstream(root_ / "images/class10/3.png") << "not an image";
  std::filesystem::create_directories(root_ / "images/class05");
  std::filesystem::copy(root_ / "images/class11/0.png", root_ / "images/class05/0.png");
  RunDirectory run = new_run("run");
  EXPECT_THAT([&] { Trainer(config_, run); }, ThrowsMessage<IoError>(HasSubstr("class10/3.png")));
  config_.data.skip_bad_images = true;
  Trainer trainer(config_, run);
  EXPECT_THAT(trainer.notes(),
              ElementsAre(HasSubstr("1 bad images of the train half were skipped"), HasSubstr("1 training classes have a single image")));
  trainer.run();
  EXPECT_EQ(run.log().back().images, 3 * 35);  // the single one is no anchor
}

// Guards. Systems whose loss misbehaves at will.

std::int64_t loss_calls = 0;

System misbehaving(BatchLoss (*loss)(const torch::Tensor&, const BatchLabels&, const SystemOptions&)) {
  loss_calls = 0;
  System system = find_system("triplet-global");
  system.loss = loss;
  return system;
}

BatchLoss honest(const torch::Tensor& embeddings) {
  const auto parts = embeddings.chunk(3);
  return triplet_loss(parts[0], parts[1], parts[2]);
}

TEST_F(Training, SkipsAStepWhoseLossIsNotANumber) {
  const System system = misbehaving([](const torch::Tensor& embeddings, const BatchLabels&, const SystemOptions&) {
    BatchLoss loss = honest(embeddings);
    if (++loss_calls == 2) loss.value = loss.value * std::numeric_limits<double>::quiet_NaN();
    return loss;
  });
  RunDirectory run = new_run("run");
  Trainer(config_, run, system).run();
  ASSERT_EQ(run.log().size(), 5U);
  EXPECT_EQ(run.log()[1].skipped_steps, 1);
  EXPECT_THAT(run.log()[1].notes, ElementsAre(HasSubstr("1 of 6 steps were skipped")));
  EXPECT_EQ(run.log()[2].skipped_steps, 0);
  EXPECT_TRUE(std::isfinite(run.log()[4].loss()));
}

TEST_F(Training, HalvesTheRateWhenTheLossStaysNotANumberAndGoesOn) {
  const System system = misbehaving([](const torch::Tensor& embeddings, const BatchLabels&, const SystemOptions&) {
    BatchLoss loss = honest(embeddings);
    ++loss_calls;
    if (loss_calls > 6 && loss_calls <= 12) loss.value = loss.value * std::numeric_limits<double>::quiet_NaN();  // all of the second epoch
    return loss;
  });
  RunDirectory run = new_run("run");
  Trainer(config_, run, system).run();
  ASSERT_EQ(run.log().size(), 5U);
  EXPECT_THAT(run.log()[2].notes, ElementsAre(HasSubstr("epoch 2 was undone and the learning rate halved: no step had a finite loss")));
  EXPECT_DOUBLE_EQ(run.log()[2].learning_rate, run.log()[1].learning_rate / 2);
}

TEST_F(Training, StopsWithTheLastGoodCheckpointWhenNothingHelps) {
  config_.schedule.learning_rate = 1e25;  // weights become infinite
  RunDirectory run = new_run("run");
  Trainer trainer(config_, run);
  EXPECT_THAT([&] { trainer.run(); }, ThrowsMessage<TrainingStopped>(HasSubstr("the last checkpoint, of epoch 0, is kept")));
  const EmbeddedImages embedded = embed_images(config_, run.model_path(), load_folder(config_.data.root).test, {});
  EXPECT_NO_THROW(check_rows(embedded.embeddings.rows()));
}

TEST_F(Training, NoticesACollapseAndUndoesTheEpoch) {
  const System system = misbehaving([](const torch::Tensor& embeddings, const BatchLabels&, const SystemOptions&) {
    BatchLoss loss = honest(embeddings);
    const torch::Tensor alike = (embeddings - embeddings.mean(0)).pow(2).sum(1).mean();  // draws everything to one point
    loss.value = 100 * alike;
    return loss;
  });
  config_.system.triplets_per_anchor = 20;
  RunDirectory run = new_run("run");
  Trainer trainer(config_, run, system);
  EXPECT_THAT([&] { trainer.run(); }, ThrowsMessage<TrainingStopped>(HasSubstr("the embeddings have collapsed: their spread is")));
  EXPECT_LT(run.log().size(), 5U);
}

TEST_F(Training, NoticesAStuckErrorHalvesTheRateAndGivesUpInTheEnd) {
  const System system = misbehaving([](const torch::Tensor& embeddings, const BatchLabels&, const SystemOptions&) {
    BatchLoss loss = honest(embeddings);
    loss.value = 0 * loss.value;
    loss.active = torch::full({}, loss.terms, torch::kInt64);
    return loss;
  });
  config_.schedule.epochs = 50;
  config_.output.evaluate_every = 50;
  config_.schedule.rate_every = 0;
  RunDirectory run = new_run("run");
  Trainer trainer(config_, run, system);
  EXPECT_THAT([&] { trainer.run(); },
              ThrowsMessage<TrainingStopped>(HasSubstr("stopped after epoch 20: the training error has been stuck at 1.000")));
  EXPECT_THAT(run.log()[5].notes, ElementsAre(HasSubstr("stuck at 1.000 for 5 epochs; the learning rate was halved")));
  EXPECT_DOUBLE_EQ(run.log()[6].learning_rate, run.log()[1].learning_rate / 2);
  EXPECT_EQ(run.log().size(), 21U);
}

TEST_F(Training, FollowsTheSchedule) {
  config_.schedule.rate_schedule = "cosine";
  config_.schedule.learning_rate = 0.02;
  RunDirectory run = new_run("run");
  Trainer(config_, run).run();
  for (std::size_t epoch = 1; epoch <= 4; ++epoch)
    EXPECT_DOUBLE_EQ(run.log()[epoch].learning_rate, 0.01 * (1 + std::cos(M_PI * (static_cast<double>(epoch) - 0.5) / 4)));
  // The steps go by it: without a rate nothing changes.
  config_.schedule.learning_rate = 1e-30;
  RunDirectory still = new_run("still");
  Trainer(config_, still).run();
  EXPECT_NE(metrics("run"), metrics("still"));
}

TEST(Sgds, StepLikeTorchsOwn) {
  const auto model = make_model({.input_size = 16}), other = make_model({.input_size = 16});
  Sgd ours(*model, 0.9, 0.01, 10);
  std::vector<torch::optim::OptimizerParamGroup> groups;
  const auto options = [](double rate) {
    return std::make_unique<torch::optim::SGDOptions>(torch::optim::SGDOptions(rate).momentum(0.9).weight_decay(0.01));
  };
  groups.emplace_back(other->trunk_parameters(), options(0.1));
  groups.emplace_back(other->new_layer_parameters(), options(1));
  torch::optim::SGD theirs(groups, torch::optim::SGDOptions(0.1));
  torch::manual_seed(1);
  for (int step = 0; step < 4; ++step) {
    const torch::Tensor images = torch::randn({4, 1, 16, 16});
    ours.zero_gradients();
    theirs.zero_grad();
    model->forward(images).pow(3).sum().backward();
    other->forward(images).pow(3).sum().backward();
    ours.step(0.1);
    theirs.step();
  }
  const NamedTensors expected = other->state();
  for (const auto& [name, tensor] : model->state()) EXPECT_TRUE(torch::allclose(tensor, expected.at(name), 1e-4, 1e-6)) << name;
}

TEST(AdamWs, StepLikeTorchsOwn) {
  const auto model = make_model({.input_size = 16}), other = make_model({.input_size = 16});
  AdamW ours(*model, 2, 10);
  std::vector<torch::optim::OptimizerParamGroup> groups;
  const auto options = [](double rate) {
    return std::make_unique<torch::optim::AdamWOptions>(torch::optim::AdamWOptions(rate).weight_decay(2));
  };
  groups.emplace_back(other->trunk_parameters(), options(0.002));
  groups.emplace_back(other->new_layer_parameters(), options(0.02));
  torch::optim::AdamW theirs(groups, torch::optim::AdamWOptions(0.002));
  torch::manual_seed(1);
  const auto step = [&] {
    const torch::Tensor images = torch::randn({4, 1, 16, 16});
    ours.zero_gradients();
    theirs.zero_grad();
    model->forward(images).pow(3).sum().backward();
    other->forward(images).pow(3).sum().backward();
    ours.step(0.002);
    theirs.step();
  };
  for (int i = 0; i < 6; ++i) step();
  const NamedTensors expected = other->state();
  for (const auto& [name, tensor] : model->state()) EXPECT_TRUE(torch::allclose(tensor, expected.at(name), 1e-4, 1e-5)) << name;
}

TEST(AdamWs, AreTheSameAfterTheirStateWasSaved) {
  const auto model = make_model({.input_size = 16}), other = make_model({.input_size = 16});
  AdamW first(*model, 0.05, 10);
  const auto step = [](EmbeddingModel& of, Optimizer& optimizer, std::int64_t seed) {
    torch::manual_seed(static_cast<std::uint64_t>(seed));
    optimizer.zero_gradients();
    of.forward(torch::randn({4, 1, 16, 16})).pow(3).sum().backward();
    optimizer.step(0.002);
  };
  step(*model, first, 1);
  step(*model, first, 2);
  load_into(*other, model->state());
  AdamW second(*other, 0.05, 10);
  second.load(first.state(), "memory");
  step(*model, first, 3);
  step(*other, second, 3);
  const NamedTensors expected = model->state();
  for (const auto& [name, tensor] : other->state()) EXPECT_TRUE(tensor.equal(expected.at(name))) << name;
  NamedTensors without = first.state();
  without.erase("steps");
  EXPECT_THAT([&] { second.load(without, "file"); }, ThrowsMessage<IoError>(HasSubstr("file: has no tensor 'steps'")));
  // A checkpoint of the other optimiser is none of this one.
  Sgd sgd(*model, 0.9, 0.05, 10);
  EXPECT_THAT([&] { second.load(sgd.state(), "file"); }, ThrowsMessage<IoError>(HasSubstr("file: has no tensor 'mean/")));
}

TEST(Optimizers, KeepARunningAverageOfTheWeightsAndBuffers) {
  const auto model = make_model({.input_size = 16});
  Sgd optimizer(*model, 0.9, 0, 1);
  optimizer.keep_average(*model, 0.5);
  const auto values = [&] {
    NamedTensors all;
    for (const auto& [name, tensor] : model->state()) all.emplace(name, tensor.detach().clone());
    return all;
  };
  NamedTensors expected = values();
  for (int i = 1; i <= 20; ++i) {
    optimizer.zero_gradients();
    model->forward(torch::randn({4, 1, 16, 16}) * i).pow(3).sum().backward();
    optimizer.step(0.1);
    const double decay = std::min(0.5, i / (i + 10.0));
    for (auto& [name, tensor] : expected) tensor = decay * tensor + (1 - decay) * model->state().at(name).detach();
  }
  const NamedTensors trained = values();
  ASSERT_GT(trained.size(), model->trunk_parameters().size() + model->new_layer_parameters().size()) << "there are no buffers";
  optimizer.swap_average();
  for (const auto& [name, tensor] : model->state()) {
    EXPECT_TRUE(torch::allclose(tensor, expected.at(name), 1e-4, 1e-6)) << name;
    EXPECT_FALSE(torch::equal(tensor, trained.at(name))) << name;
    EXPECT_TRUE(optimizer.state().at("average/" + name).equal(trained.at(name))) << name;
  }
  optimizer.swap_average();
  for (const auto& [name, tensor] : model->state()) EXPECT_TRUE(tensor.equal(trained.at(name))) << name;
}

TEST_F(Training, MeasuresAndSavesTheAverageOfWeights) {
  config_.schedule.weight_average = 0.9;
  RunDirectory run = new_run("run");
  Trainer(config_, run).run();
  const Dataset test = load_folder(config_.data.root).test;
  const EmbeddedImages again = embed_images(config_, root_ / "run/checkpoint/model.safetensors", test, {});
  const Embeddings measured = read_embeddings(root_ / ("run/embeddings/epoch-000" + std::to_string(config_.schedule.epochs) + ".npy"));
  ASSERT_EQ(measured.rows().size(), again.embeddings.rows().size());
  for (std::size_t row = 0; row < measured.rows().size(); ++row)
    for (std::size_t i = 0; i < measured.rows().dimension(); ++i)
      ASSERT_NEAR(measured.rows()[row][i], again.embeddings.rows()[row][i], 1e-5);
}

TEST_F(Training, StartsToMineAtTheTargetErrorAndSaysHowKappaCameAbout) {
  config_.mining.neighbors = 35;  // all, so that any kappa finds what there is
  config_.system.margin = 0.001;
  config_.mining.find_kappa = true;
  config_.mining.target_error = 0.9;  // these few pictures are hard to tell apart
  RunDirectory run = new_run("run");
  Trainer(config_, run).run();
  const EpochRecord& first = run.log()[2];
  ASSERT_TRUE(first.kappa);
  EXPECT_GT(*first.kappa, 1);
  EXPECT_LT(*first.kappa, 4);
  double kappa = 0, expected = 0;
  ASSERT_EQ(std::sscanf(first.kappa_reason.c_str(), "triplets of kappa %lf have an error of %lf before", &kappa, &expected), 2)
      << first.kappa_reason;
  EXPECT_NEAR(kappa, *first.kappa, 1e-3 * kappa);
  EXPECT_NEAR(expected, 0.9, 1.01 / 36);  // a triplet more or less
  EXPECT_THAT(run.log()[3].kappa_reason, AllOf(HasSubstr("training error"), HasSubstr("target 0.900"), HasSubstr("->")));
  EXPECT_EQ(run.log()[1].kappa_reason, "");  // random triplets
  config_.mining.find_kappa = false;
  config_.mining.kappa = 3;
  config_.mining.kappa_fit = "linear";
  RunDirectory given = new_run("given");
  Trainer(config_, given).run();
  EXPECT_THAT(run.log()[3].kappa_reason, HasSubstr("near the initial one"));
  EXPECT_THAT(given.log()[3].kappa_reason, HasSubstr("step by the initial slope"));  // so the paper's fit says it
  EXPECT_EQ(given.log()[2].kappa, 3);
  EXPECT_EQ(given.log()[2].kappa_reason, "");
}

TEST_F(Training, SaysOnceWhenRandomTripletsAreHarderThanTheTarget) {
  config_.system.margin = 2.5;  // more than distances can differ by
  config_.mining.kappa = 64;
  config_.schedule.epochs = 6;
  RunDirectory run = new_run("run");
  Trainer(config_, run).run();
  std::vector<std::int64_t> idle, said;
  for (const EpochRecord& record : run.log()) {
    if (record.kappa && record.mined_share() <= 0.05) idle.push_back(record.epoch);
    for (const std::string& note : record.notes)
      if (note.starts_with("random triplets are harder than the target: 0 % are mined, and the training error is 1.000 instead of 0.600. "))
        said.push_back(record.epoch);
  }
  ASSERT_GE(idle.size(), 2U);
  EXPECT_EQ(said, std::vector<std::int64_t>{idle.front()});
  EXPECT_EQ(run.log().back().kappa, run.log()[static_cast<std::size_t>(idle.front())].kappa);  // it stays
}

TEST_F(Training, StartsTheNewLayerFromTheFeaturesOfTheTrainingImages) {
  config_.schedule.epochs = 1;
  config_.schedule.learning_rate = 1e-30;  // what is saved is the start
  config_.schedule.weight_average = 0.5;   // which the average must know of too
  std::map<std::string, NamedTensors> started;
  const auto start_as = [&](const std::string& start, const std::string& name) {
    config_.model.new_layer_start = start;
    RunDirectory run = new_run(name);
    Trainer(config_, run).run();
    started[name] = read_safetensors(root_ / name / "checkpoint/model.safetensors");
  };
  for (const std::string start : {"random", "components", "discriminants"}) start_as(start, start);
  // The same by hand.
  const auto model = make_model({.embedding_dimension = 8, .input_size = 16, .channels = 1});
  ImageStore store(load_folder(config_.data.root).train, {.width = 18, .height = 18, .channels = 1});
  std::vector<std::size_t> items(store.dataset().size());
  std::iota(items.begin(), items.end(), std::size_t{0});
  torch::Tensor pixels = torch::empty({static_cast<std::int64_t>(items.size()), 18, 18, 1}, torch::kUInt8);
  store.get(items, pixels.data_ptr<std::uint8_t>());
  model->eval();
  const torch::Tensor features =
      model->backbone().forward(Augmenter(model->input(), AugmentOptions{}).evaluation(pixels, torch::kFloat32)).detach();
  const auto expect_layer = [&](const std::string& start, const LayerValues& expected) {
    EXPECT_TRUE(torch::allclose(started[start].at("embedding.weight"), expected.weight.to(torch::kFloat32), 1e-3, 1e-5)) << start;
    EXPECT_TRUE(torch::allclose(started[start].at("embedding.bias"), expected.bias.to(torch::kFloat32), 1e-3, 1e-5)) << start;
    EXPECT_TRUE(started[start].at("conv1.weight").equal(started["random"].at("conv1.weight"))) << start;
  };
  expect_layer("random", {model->state().at("embedding.weight"), model->state().at("embedding.bias")});
  expect_layer("components", principal_components(features, 8));
  expect_layer("discriminants", discriminants(features, store.dataset().labels(), 8));

  // Left alone it is drawn for a network of random weights, and computed for one of weights that have no such layer, if it can be.
  start_as("auto", "auto");
  EXPECT_TRUE(started["auto"].at("embedding.weight").equal(started["random"].at("embedding.weight")));
  NamedTensors trunk = make_model({.embedding_dimension = 8, .input_size = 16, .channels = 1})->state();
  trunk.erase("embedding.weight");
  trunk.erase("embedding.bias");
  write_safetensors(root_ / "trunk.safetensors", trunk);
  config_.model.weights = (root_ / "trunk.safetensors").string();
  start_as("auto", "auto with weights");
  expect_layer("auto with weights", principal_components(features, 8));
  config_.model.embedding_dim = model->backbone().feature_dimension() + 1;
  start_as("auto", "auto with too few features");
  EXPECT_LT(started["auto with too few features"].at("embedding.bias").abs().max().item<float>(), 1e-20);
  config_.model.embedding_dim = 20;  // and more images than twice that
  start_as("auto", "auto with too few images");
  EXPECT_LT(started["auto with too few images"].at("embedding.bias").abs().max().item<float>(), 1e-20);
  config_.model.embedding_dim = model->backbone().feature_dimension() + 1;
  EXPECT_THAT(
      [&] { start_as("components", "components of too few features"); },
      ThrowsMessage<InvalidArgument>(HasSubstr(fmt::format("embedding-dim is {}; a new layer that starts from components of {} features",
                                                           config_.model.embedding_dim, config_.model.embedding_dim - 1))));
  config_.model.embedding_dim = 8;

  // A layer that comes with the weights stays, and that is said to those who asked for another.
  config_.model.new_layer_start = "discriminants";
  config_.model.weights = (root_ / "components/checkpoint/model.safetensors").string();
  RunDirectory run = new_run("given");
  Trainer trainer(config_, run);
  EXPECT_THAT(trainer.notes(), ::testing::Contains(HasSubstr("the weights have a new layer already")));
  trainer.run();
  const NamedTensors kept = read_safetensors(root_ / "given/checkpoint/model.safetensors");
  EXPECT_TRUE(torch::allclose(kept.at("embedding.weight"), started["components"].at("embedding.weight")));
}

TEST_F(Training, StartsAtRandomFromImagesThatAreAllAlike) {
  const std::filesystem::path images = config_.data.root;
  std::filesystem::path first;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(images)) {
    if (!entry.is_regular_file()) continue;
    if (first.empty()) first = entry.path();
    if (entry.path() != first) std::filesystem::copy_file(first, entry.path(), std::filesystem::copy_options::overwrite_existing);
  }
  NamedTensors trunk = make_model({.embedding_dimension = 8, .input_size = 16, .channels = 1})->state();
  trunk.erase("embedding.weight");
  trunk.erase("embedding.bias");
  write_safetensors(root_ / "trunk.safetensors", trunk);
  config_.model.weights = (root_ / "trunk.safetensors").string();
  RunDirectory run = new_run("run");
  EXPECT_THAT(Trainer(config_, run).notes(),
              ::testing::Contains(HasSubstr("starts at random: the features of all training images are alike")));
  config_.model.new_layer_start = "components";
  RunDirectory chosen = new_run("chosen");
  EXPECT_THAT([&] { Trainer(config_, chosen); }, ThrowsMessage<InvalidArgument>(HasSubstr("new-layer-start must be random here")));
}

TEST(DeviceKnn, FindsTheSameListsForSomeRowsAsForAll) {
  Random random(1);
  constexpr std::size_t kRows = 300, kChunk = 64;
  torch::Tensor points = torch::empty({kRows, 3});
  for (std::int64_t i = 0; i < points.numel(); ++i) points.data_ptr<float>()[i] = static_cast<float>(random.normal());
  const NeighborLists all = device_neighbors(points, {0, kRows}, 3, {}, kChunk).lists;
  for (const RowRange wanted : {RowRange{60, 100}, RowRange{290, 10}, RowRange{5, 1}}) {
    const NeighborLists some = device_neighbors(points, wanted, 3, {}, kChunk).lists;
    ASSERT_EQ(some.size(), wanted.count);
    for (std::size_t i = 0; i < wanted.count; ++i) {
      ASSERT_THAT(some.ids(i), ::testing::ElementsAreArray(all.ids(wanted.first + i)));
      ASSERT_THAT(some.distances(i), ::testing::ElementsAreArray(all.distances(wanted.first + i)));
    }
  }
}

TEST(DeviceKnn, FindsWhatExactSearchFinds) {
  Random random(1);
  torch::Tensor points = torch::empty({300, 7});
  for (std::int64_t i = 0; i < points.numel(); ++i) points.data_ptr<float>()[i] = static_cast<float>(random.normal());
  points.narrow(0, 20, 20).copy_(points.narrow(0, 0, 20));  // equal distances go by id
  const NeighborResult found = device_neighbors(points, {0, 300}, 25);
  const NeighborResult truth = ExactKnn({.neighbors = 25}).neighbors(rows_of(points));
  found.lists.validate();
  for (std::size_t i = 0; i < 300; ++i)
    for (std::size_t j = 0; j < 25; ++j) {
      EXPECT_NEAR(found.lists.distances(i)[j], truth.lists.distances(i)[j], 1e-5);
    }
  // The last one may be another at the same distance.
  for (std::size_t i = 0; i < 300; ++i)
    for (std::size_t j = 0; j < 24; ++j) EXPECT_EQ(found.lists.ids(i)[j], truth.lists.ids(i)[j]) << i << " " << j;
}

}  // namespace
}  // namespace smartmine
