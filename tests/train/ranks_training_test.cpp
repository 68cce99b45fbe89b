// Ranks that train together: the same steps on all, and an end for all if one has other pictures, weights, threads or triplets.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "smartmine/loss/triplet_loss.h"
#include "smartmine/model/embedding_model.h"
#include "smartmine/model/weights.h"
#include "smartmine/train/shared_run.h"
#include "smartmine/train/system.h"
#include "smartmine/train/trainer.h"
#include "train/made_folder.h"
#include "train/ranks_together.h"

namespace smartmine {
namespace {

using test::Messages;
using test::RanksTogether;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

/// Ranks that train together, with a system that may be another on each.
class RanksInTraining : public RanksTogether {
 protected:
  RanksInTraining() {
    static std::atomic<int> number{0};
    root_ = std::filesystem::temp_directory_path() / ("smartmine-ranks-" + std::to_string(getpid()) + "-" + std::to_string(number++));
    test::make_image_folder(root_ / "images");
    config_.data.dataset = "folder";
    config_.data.root = (root_ / "images").string();
    config_.model.channels = 1;
    config_.model.input_size = 16;
    config_.model.embedding_dim = 8;
    config_.schedule.epochs = 2;
    config_.system.batch_size = 6;
    config_.system.triplets_per_anchor = 1;
    config_.mining.warmup_epochs = 1;
    config_.compute.threads = 1;
    config_.compute.network_threads = 1;
    config_.compute.shards = 2;
    config_.compute.device = "cpu";
  }
  ~RanksInTraining() override { std::filesystem::remove_all(root_); }

  Messages train(const std::string& name, const std::function<System(int rank)>& system) {
    return run(2, [&](const std::shared_ptr<Ranks>& ranks) {
      RunDirectory directory = open_shared(ranks.get(), [&] { return RunDirectory::create(root_ / name, config_); });
      Trainer(config_, directory, system(ranks->rank()), {}, ranks).run();
      const std::lock_guard lock(mutex_);
      logs_[ranks->rank()].assign(directory.log().begin(), directory.log().end());
    });
  }
  std::string weights(const std::string& run) const {
    std::ifstream file(root_ / run / "checkpoint" / "model.safetensors", std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  /// A system whose loss is not what it should be at some calls, counted from 1.
  static System misbehaving(const std::function<torch::Tensor(int call, const torch::Tensor& value, const torch::Tensor& all)>& change) {
    System system = find_system("triplet-global");
    system.loss = [change, calls = std::make_shared<int>(0)](const torch::Tensor& embeddings, const BatchLabels&, const SystemOptions&) {
      const auto parts = embeddings.chunk(3);
      BatchLoss loss = triplet_loss(parts[0], parts[1], parts[2]);
      loss.value = change(++*calls, loss.value, embeddings);
      return loss;
    };
    return system;
  }
  static torch::Tensor not_a_number(const torch::Tensor& value) { return value * std::numeric_limits<double>::quiet_NaN(); }

  std::filesystem::path root_;
  RunConfig config_;
  std::mutex mutex_;
  std::vector<EpochRecord> logs_[2];
};

TEST_F(RanksInTraining, SkipTheSameStepIfTheLossOfRankZeroIsNotFinite) {
  const auto bad_on = [](int bad) {
    return [bad](int rank) {
      return misbehaving([=](int call, const torch::Tensor& value, const torch::Tensor&) {
        return call == 2 && (bad < 0 || rank == bad) ? not_a_number(value) : value;
      });
    };
  };
  EXPECT_THAT(train("all", bad_on(-1)), Each(IsEmpty()));
  for (const auto& log : logs_) EXPECT_EQ(log.at(1).skipped_steps, 1);
  EXPECT_THAT(train("first", bad_on(0)), Each(IsEmpty()));
  for (const auto& log : logs_) EXPECT_EQ(log.at(1).skipped_steps, 1);
  EXPECT_EQ(weights("all"), weights("first"));
}

TEST_F(RanksInTraining, UndoTheSameEpochAndGiveUpTogetherWhenEmbeddingsCollapse) {
  config_.schedule.epochs = 6;
  config_.system.triplets_per_anchor = 20;
  const Messages messages = train("run", [](int) {
    return misbehaving([](int, const torch::Tensor&, const torch::Tensor& all) {
      return 100 * (all - all.mean(0)).pow(2).sum(1).mean();  // draws everything to one point
    });
  });
  EXPECT_THAT(messages, Each(HasSubstr("the embeddings have collapsed: their spread is")));
}

TEST_F(RanksInTraining, EndIfOneHasOtherTriplets) {
  const Messages messages = train("run", [](int rank) {
    System system = find_system("triplet-global");
    system.plan = [plan = system.plan, rank](const PlanInput& input) {
      EpochPlan planned = plan(input);
      if (rank == 1 && input.epoch == 2) std::swap(planned.items[0], planned.items[1]);
      return planned;
    };
    return system;
  });
  EXPECT_THAT(messages, Each(HasSubstr("rank 1 has other triplets or batches of epoch 2 than rank 0: 'digest ")));
}

TEST_F(RanksInTraining, EndIfOneHasOtherPicturesOfTheSameNames) {
  std::filesystem::copy(root_ / "images", root_ / "other", std::filesystem::copy_options::recursive);
  std::ofstream(root_ / "other/class10/3.png", std::ios::binary | std::ios::app) << "more";  // still a picture
  const Messages messages = run(2, [&](const std::shared_ptr<Ranks>& ranks) {
    RunDirectory directory = open_shared(ranks.get(), [&] { return RunDirectory::create(root_ / "run", config_); });
    RunConfig own = config_;
    if (!ranks->is_first()) own.data.root = (root_ / "other").string();
    Trainer(own, directory, {}, ranks).run();
  });
  EXPECT_THAT(messages, Each(HasSubstr("rank 1 has other images than rank 0: 'class10/3.png of ")));
}

TEST_F(RanksInTraining, EndIfOneHasOtherWeights) {
  for (const int seed : {1, 2}) {
    torch::manual_seed(seed);
    NamedTensors state = make_model({.embedding_dimension = 8, .input_size = 16, .channels = 1})->state();
    for (auto& [name, tensor] : state)
      if (tensor.is_floating_point()) tensor = torch::randn(tensor.sizes());
    write_safetensors(root_ / std::to_string(seed), state);
  }
  const Messages messages = run(2, [&](const std::shared_ptr<Ranks>& ranks) {
    RunDirectory directory = open_shared(ranks.get(), [&] { return RunDirectory::create(root_ / "run", config_); });
    RunConfig own = config_;
    own.model.weights = (root_ / (ranks->is_first() ? "1" : "2")).string();
    Trainer(own, directory, {}, ranks).run();
  });
  EXPECT_THAT(messages, Each(HasSubstr("rank 1 has other means of computing than rank 0: 'weights of ")));
}

TEST_F(RanksInTraining, EndIfOneHasOtherThreadsForTheNetwork) {
  const Messages messages = run(2, [&](const std::shared_ptr<Ranks>& ranks) {
    RunDirectory directory = open_shared(ranks.get(), [&] { return RunDirectory::create(root_ / "run", config_); });
    RunConfig own = config_;
    own.compute.network_threads.reset();  // then it has those of --threads, or its share of the cores
    own.compute.threads = 1 + ranks->rank();
    Trainer(own, directory, {}, ranks).run();
  });
  EXPECT_THAT(messages, Each(HasSubstr("rank 1 has other means of computing than rank 0: '2 threads for the network; --network-threads")));
}

TEST_F(RanksInTraining, SaveAnEpochThatIsStoppedWhileItIsMeasured) {
  config_.schedule.epochs = 4;
  const auto train_until = [&](const std::string& name, std::function<bool(const RunDirectory&, const ProgressEvent&)> go_on) {
    return run(2, [&](const std::shared_ptr<Ranks>& ranks) {
      RunDirectory directory = open_shared(ranks.get(), [&] {
        return std::filesystem::exists(root_ / name) ? RunDirectory::open(root_ / name) : RunDirectory::create(root_ / name, config_);
      });
      const Progress progress = [&](const ProgressEvent& event) { return !ranks->is_first() || go_on(directory, event); };
      Trainer(config_, directory, find_system(config_.system.name), progress, ranks).run();
    });
  };
  const auto state_of = [&](const std::string& run) {
    std::ifstream file(root_ / run / "checkpoint/state.json");
    return std::string((std::istreambuf_iterator<char>(file)), {});
  };
  const auto always = [](const RunDirectory&, const ProgressEvent&) { return true; };
  const auto in_measuring = [](const RunDirectory& run, const ProgressEvent& event) {
    return run.log().size() != 3 || event.stage != "retrieval";  // epochs 0 to 2 are told, so it is the third's
  };
  // The adaptive one learns from every epoch how kappa and its errors go together: from each once, and from a whole one.
  for (const std::string system : {"triplet-global", "triplet-fanng-global-adaptive"}) {
    config_.system.name = system;
    EXPECT_THAT(train_until("cut " + system, in_measuring), Each(Not(IsEmpty())));
    EXPECT_THAT(state_of("cut " + system), HasSubstr("\"in_epoch\": true"));
    EXPECT_THAT(train_until("cut " + system, always), Each(IsEmpty()));
    EXPECT_THAT(train_until("whole " + system, always), Each(IsEmpty()));
    EXPECT_EQ(weights("cut " + system), weights("whole " + system));
    EXPECT_EQ(state_of("cut " + system), state_of("whole " + system));
  }
}

TEST_F(RanksInTraining, ShareTheQueriesOfAMeasurement) {
  std::vector<std::size_t> shares(3);
  const Messages messages = run(3, [&](const std::shared_ptr<Ranks>& ranks) {
    RunDirectory directory = open_shared(ranks.get(), [&] { return RunDirectory::create(root_ / "run", config_); });
    Trainer(config_, directory, [&](const ProgressEvent& event) {
      if (event.stage == "retrieval") shares[static_cast<std::size_t>(ranks->rank())] = event.total;
      return true;
    }, ranks).run();
  });
  EXPECT_THAT(messages, Each(IsEmpty()));
  EXPECT_THAT(shares, Each(testing::AllOf(testing::Ge(shares[2]), testing::Le(shares[2] + 1), testing::Gt(0U))));
}

TEST_F(RanksInTraining, EndIfOneHasOtherImages) {
  std::filesystem::copy(root_ / "images", root_ / "less", std::filesystem::copy_options::recursive);
  std::filesystem::remove(root_ / "less/class10/3.png");
  const Messages messages = run(2, [&](const std::shared_ptr<Ranks>& ranks) {
    RunDirectory directory = open_shared(ranks.get(), [&] { return RunDirectory::create(root_ / "run", config_); });
    RunConfig own = config_;
    if (!ranks->is_first()) own.data.root = (root_ / "less").string();
    Trainer(own, directory, {}, ranks).run();
  });
  EXPECT_THAT(messages, Each(HasSubstr("class10/3.png")));
}

}  // namespace
}  // namespace smartmine
