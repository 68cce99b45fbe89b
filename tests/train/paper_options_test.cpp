#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>
#include <vector>

#include "smartmine/core/random.h"
#include "smartmine/graph/neighbor_index.h"
#include "smartmine/model/embed.h"
#include "smartmine/train/trainer.h"
#include "train/device_knn.h"
#include "train/list_record.h"
#include "train/longer_lists.h"
#include "train/made_folder.h"

// What the paper has and the defaults do not: its graph, its lists and its first idea of a target.
namespace smartmine {
namespace {

std::string bytes_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

torch::Tensor made_points(std::int64_t count) {
  Random random(1);
  torch::Tensor points = torch::empty({count, 7});
  for (std::int64_t i = 0; i < points.numel(); ++i) points.data_ptr<float>()[i] = static_cast<float>(random.normal());
  return points;
}

class PaperOptions : public ::testing::Test {
 protected:
  PaperOptions() {
    root_ = std::filesystem::temp_directory_path() / fmt::format("smartmine-paper-{}", getpid());
    test::make_image_folder(root_ / "images");
    config_.data.dataset = "folder";
    config_.data.root = (root_ / "images").string();
    config_.model.channels = 1;
    config_.model.input_size = 16;
    config_.model.embedding_dim = 8;
    config_.schedule.epochs = 3;
    config_.schedule.learning_rate = 0.05;
    config_.system.batch_size = 6;
    config_.system.triplets_per_anchor = 1;
    config_.mining.warmup_epochs = 1;
    config_.mining.neighbors = 3;
    config_.compute.threads = 1;
    config_.compute.device = "cpu";
  }
  ~PaperOptions() override { std::filesystem::remove_all(root_); }

  std::vector<EpochRecord> train(const std::string& name) {
    RunDirectory run = RunDirectory::create(root_ / name, config_);
    Trainer(config_, run).run();
    return {run.log().begin(), run.log().end()};
  }

  std::filesystem::path root_;
  RunConfig config_;
};

TEST_F(PaperOptions, LongerListsAreSearchedWhereShortOnesYieldNothingAndMoreIsMined) {
  config_.mining.kappa = 2;
  const EpochRecord without = train("short").at(2);
  config_.mining.longer_lists = true;
  const EpochRecord with = train("longer").at(2);
  ASSERT_LT(without.mined_share(), 0.6) << "lists of three are long enough to tell nothing";
  EXPECT_GT(with.mined_share(), without.mined_share() + 0.2);
  EXPECT_EQ(without.mining->extended_anchors, 0U);
  EXPECT_GT(with.mining->extended_anchors, 0U);
  EXPECT_EQ(with.mining->extended_neighbors, 35U);  // all others: 16 times three would be more
  for (const auto& [stage, seconds] : with.stage_seconds) EXPECT_GE(seconds, 0) << stage;
  EXPECT_FALSE(without.stage_seconds.contains("longer_lists"));
  EXPECT_GT(with.stage_seconds.at("longer_lists"), 0) << "told apart from the lists that all images have";
  config_.mining.longest_list = 6;
  EXPECT_EQ(train("bounded").at(2).mining->extended_neighbors, 6U);
}

TEST_F(PaperOptions, EveryEpochsGraphOfThePaperIsInItsRecord) {
  config_.mining.index = "fanng";
  config_.mining.graph_start = "random";
  config_.mining.success_rate = 0.9;
  const std::vector<EpochRecord> log = train("run");
  EXPECT_FALSE(log.at(1).lists);
  for (const std::size_t epoch : {2U, 3U}) {
    const ListRecord& lists = log.at(epoch).lists.value();
    EXPECT_EQ(lists.index, "fanng");
    EXPECT_EQ(lists.start, "random");
    EXPECT_GE(lists.success_bound.value(), 0.9);
    EXPECT_GE(lists.success_rate.value(), lists.success_bound.value());
    EXPECT_GT(lists.mean_degree.value(), 1);
    const ListRecord read = parse_record(to_json_line(log[epoch])).lists.value();
    EXPECT_EQ(read.start, lists.start);
    EXPECT_EQ(read.success_rate, lists.success_rate);
    EXPECT_EQ(read.success_bound, lists.success_bound);
    EXPECT_EQ(read.mean_degree, lists.mean_degree);
  }
  EXPECT_FALSE(std::filesystem::exists(root_ / "run/checkpoint/graph.fanng"));  // each is built anew
}

TEST_F(PaperOptions, AMissedSuccessRateIsNotedInTheRecord) {
  config_.mining.index = "fanng";
  config_.mining.graph_start = "random";
  config_.mining.success_rate = 0.999999;  // a few hundred thousand pairs cannot prove that much
  const EpochRecord record = train("run").at(2);
  EXPECT_LT(record.lists->success_bound.value(), 0.999999);
  EXPECT_THAT(record.notes, ::testing::Contains(::testing::HasSubstr("under the 1.0000 asked for")));
}

TEST(ListRecord, NamesExactSearchWhereTheGraphDidNotDo) {
  NeighborStats stats;
  stats.index = "fanng";
  stats.success_rate = 0.97;
  stats.success_bound = 0.96;
  stats.success_target = 0.98;
  stats.success_pairs = 1000;
  stats.success_reached = false;
  stats.mean_degree = 20;
  EXPECT_EQ(list_record(stats, "random").index, "fanng");
  stats.stage_seconds["all_pairs"] = 1;
  stats.note = "all pairs were looked at";
  const ListRecord record = list_record(stats, "random");
  EXPECT_EQ(record.index, "exact");
  EXPECT_EQ(record.start, "random");
  EXPECT_EQ(record.success_bound, 0.96);
  const char* missed = "the graph's success rate is 0.9700, at least 0.9600 with 95 % confidence: under the 0.9800 asked for";
  EXPECT_THAT(list_notes(stats, true), ::testing::ElementsAre("lists: all pairs were looked at", missed));
  EXPECT_THAT(list_notes(stats, false), ::testing::SizeIs(1)) << "who wants lists alone has no use for it";
}

TEST_F(PaperOptions, TheControllerAimsAtTheErrorOfReservedImages) {
  config_.mining.target = "validation";
  config_.data.reserved_images = 0.3;
  const std::vector<EpochRecord> log = train("run");
  EXPECT_FALSE(log.at(0).reserved_error);
  for (std::size_t epoch = 1; epoch < log.size(); ++epoch) EXPECT_TRUE(log[epoch].reserved_error) << epoch;
  for (const std::size_t epoch : {2U, 3U}) {
    const double before = std::clamp(*log[epoch - 1].reserved_error, 0.02, 0.98);
    EXPECT_DOUBLE_EQ(log[epoch].target_error.value(), before) << epoch;
    EXPECT_EQ(log[epoch].mining->anchors, 6U * 4U);  // two of six images of a class are not trained on
  }
}

TEST_F(PaperOptions, AllOfThemTogetherAreResumedAnywhereWithTheSameBits) {
  config_.mining.target = "validation";
  config_.mining.kappa_fit = "linear";
  config_.data.reserved_images = 0.3;
  config_.mining.longer_lists = true;
  config_.mining.index = "fanng";
  config_.mining.graph_start = "random";
  config_.mining.find_kappa = true;
  std::size_t events = 0;
  RunDirectory whole = RunDirectory::create(root_ / "whole", config_);
  Trainer(config_, whole, [&](const ProgressEvent&) { return ++events > 0; }).run();
  for (std::size_t stop = 3; stop < events; stop += events / 4) {
    const std::string name = fmt::format("cut{}", stop);
    RunDirectory run = RunDirectory::create(root_ / name, config_);
    std::size_t seen = 0;
    EXPECT_THROW(Trainer(config_, run, [&](const ProgressEvent&) { return ++seen < stop; }).run(), Cancelled);
    RunDirectory reopened = RunDirectory::open(root_ / name);
    Trainer(config_, reopened).run();
    EXPECT_EQ(bytes_of(root_ / name / "checkpoint/model.safetensors"), bytes_of(root_ / "whole/checkpoint/model.safetensors")) << stop;
    for (std::size_t epoch = 0; epoch < whole.log().size(); ++epoch) {
      EXPECT_EQ(reopened.log()[epoch].reserved_error, whole.log()[epoch].reserved_error);
      EXPECT_EQ(reopened.log()[epoch].kappa, whole.log()[epoch].kappa);
    }
  }
}

TEST(LongerLists, OfADeviceAreThoseOfExactSearch) {
  const torch::Tensor points = made_points(300);
  const std::vector<std::uint32_t> some = {0, 3, 77, 299};
  const NeighborLists found = device_lists_of_some(points, some, 150).lists;
  const NeighborLists truth = lists_of_some(rows_of(points), some, 150).lists;
  for (std::size_t i = 0; i < some.size(); ++i)
    for (std::size_t j = 0; j < 149; ++j) {  // the last may be another at the same distance
      EXPECT_EQ(found.ids(i)[j], truth.ids(i)[j]) << i << " " << j;
      EXPECT_NEAR(found.distances(i)[j], truth.distances(i)[j], 1e-5);
    }
}

TEST(LongerLists, AreSearchedOnceAndServedAtAnyLength) {
  const torch::Tensor points = made_points(200);
  const Rows rows = rows_of(points);
  LongerListSearch search(rows, points, 1);
  const std::vector<std::uint32_t> some = {5, 9, 100}, more = {5, 8, 100};
  std::vector<std::uint32_t> all(200);
  std::iota(all.begin(), all.end(), 0U);
  const NeighborLists truth = lists_of_some(rows, all, 60).lists;
  const auto same = [&](std::span<const std::uint32_t> points_asked, std::size_t length) {
    const NeighborLists found = search.find(points_asked, length);
    for (std::size_t i = 0; i < points_asked.size(); ++i)
      for (std::size_t j = 0; j < length; ++j) EXPECT_EQ(found.ids(i)[j], truth.ids(points_asked[i])[j]);
  };
  same(some, 40);
  const double spent = search.seconds();
  EXPECT_GT(spent, 0);
  same(some, 20);  // shorter than what is known
  same(more, 60);  // one is new, the others are too short
}

}  // namespace
}  // namespace smartmine
