// Ranks as threads of one process: what they hand each other, and what becomes of all if one differs, fails or is silent.
#include "smartmine/train/ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "smartmine/core/random.h"
#include "smartmine/graph/exact_knn.h"
#include "smartmine/graph/neighbor_index.h"
#include "smartmine/loss/triplet_loss.h"
#include "smartmine/model/embedding_model.h"
#include "smartmine/model/weights.h"
#include "smartmine/train/shared_run.h"
#include "smartmine/train/system.h"
#include "smartmine/train/trainer.h"
#include "train/longer_lists.h"
#include "train/made_folder.h"

namespace smartmine {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::ThrowsMessage;
using Clock = std::chrono::steady_clock;
using Messages = std::vector<std::string>;

TEST(RankShares, FollowEachOtherAndLeaveNothingOut) {
  for (const std::size_t count : {0U, 1U, 5U, 1000U}) {
    for (const int size : {1, 2, 3, 7}) {
      std::size_t end = 0, end_of_blocks = 0;
      for (int rank = 0; rank < size; ++rank) {
        const RankShare share = share_of(count, rank, size), blocks = share_of_blocks(count, 64, rank, size);
        EXPECT_EQ(share.begin, end);
        EXPECT_EQ(blocks.begin, end_of_blocks);
        EXPECT_TRUE(blocks.begin % 64 == 0 || blocks.begin == count);
        end = share.end;
        end_of_blocks = blocks.end;
      }
      EXPECT_EQ(end, count);
      EXPECT_EQ(end_of_blocks, count);
    }
  }
}

class RanksTogether : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!Ranks::available()) GTEST_SKIP() << "this library was built without ranks";
  }
  /// What `work` of each rank ends with; empty: all is well. As in the program, who fails tells the others why.
  static Messages run(int size, const std::function<void(const std::shared_ptr<Ranks>&)>& work, double timeout = 20) {
    RankStore store(timeout);
    Messages messages(static_cast<std::size_t>(size));
    std::vector<std::thread> threads;
    for (int rank = 0; rank < size; ++rank)
      threads.emplace_back([&, rank] {
        std::shared_ptr<Ranks> ranks;
        try {
          ranks = Ranks::join(world(rank, size, store, timeout));
          work(ranks);
        } catch (const std::exception& error) {
          messages[static_cast<std::size_t>(rank)] = error.what();
          if (ranks) ranks->fail(error.what());
        }
      });
    for (std::thread& thread : threads) thread.join();
    return messages;
  }
  static RankWorld world(int rank, int size, const RankStore& store, double timeout) {
    return {.rank = rank,
            .size = size,
            .local_rank = rank,
            .address = "127.0.0.1",
            .port = store.port(),
            .store_elsewhere = true,
            .timeout_seconds = timeout};
  }
};

TEST_F(RanksTogether, HandEachOtherWhatTheyHave) {
  static constexpr int kSize = 5;
  const Messages messages = run(kSize, [](const std::shared_ptr<Ranks>& ranks) {
    const auto me = static_cast<std::size_t>(ranks->rank());
    EXPECT_EQ(ranks->size(), kSize);
    EXPECT_EQ(ranks->local_size(), kSize);
    EXPECT_EQ(ranks->broadcast(ranks->is_first() ? "hear" : "nothing"), "hear");
    EXPECT_THAT(ranks->gather(std::string(me, 'x')), ElementsAre("", "x", "xx", "xxx", "xxxx"));
    std::vector<int> all(10, -1);
    std::vector<RankShare> shares;
    for (int rank = 0; rank < kSize; ++rank) shares.push_back(share_of(all.size(), rank, kSize));
    for (std::size_t i = shares[me].begin; i < shares[me].end; ++i) all[i] = static_cast<int>(i * i);
    ranks->gather_rows(all.data(), sizeof(int), shares);
    EXPECT_THAT(all, ElementsAre(0, 1, 4, 9, 16, 25, 36, 49, 64, 81));
    int value = ranks->rank() == 3 ? 42 : 0;
    if (ranks->rank() == 3) ranks->send(&value, sizeof value, 1);
    if (ranks->rank() == 1) ranks->receive(&value, sizeof value, 3);
    EXPECT_EQ(value, ranks->rank() == 1 || ranks->rank() == 3 ? 42 : 0);
    EXPECT_NO_THROW(ranks->expect_same("words", "one\ntwo"));
  });
  EXPECT_THAT(messages, Each(IsEmpty()));
}

TEST_F(RanksTogether, NameTheFirstThatDiffersAndInWhat) {
  const Messages messages = run(3, [](const std::shared_ptr<Ranks>& ranks) {
    ranks->expect_same("settings", ranks->rank() < 2 ? "a = 1\nb = 2\n" : "a = 1\nb = 3\n");
  });
  EXPECT_THAT(messages, Each("rank 2 has other settings than rank 0: 'b = 3' where that has 'b = 2'"));
}

TEST_F(RanksTogether, SayWhoHasNotCome) {
  const RankStore store(1);
  const auto begin = Clock::now();
  EXPECT_THAT([&] { Ranks::join(world(1, 3, store, 1)); },
              ThrowsMessage<RankFailure>("ranks 0, 2 have not come within 1 s; 3 were expected"));
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(15));
}

TEST_F(RanksTogether, SayWhoIsSilent) {
  std::atomic<bool> over{false};
  const auto begin = Clock::now();
  const Messages messages = run(
      3,
      [&](const std::shared_ptr<Ranks>& ranks) {
        const auto until = Clock::now() + std::chrono::seconds(30);
        while (ranks->rank() == 2 && !over && Clock::now() < until) std::this_thread::sleep_for(std::chrono::milliseconds(5));
        try {
          ranks->gather("here");
        } catch (...) {
          over = true;
          throw;
        }
      },
      2);
  EXPECT_THAT(messages, Each(HasSubstr("rank 2 has not answered for 2 s")));
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(20));
}

TEST_F(RanksTogether, WaitForOneThatWorksHoweverLong) {
  const Messages messages = run(
      3,
      [](const std::shared_ptr<Ranks>& ranks) {
        const Progress progress = ranks->watched({});
        const auto until = Clock::now() + std::chrono::seconds(5);
        while (ranks->is_first() && Clock::now() < until) {
          progress({});
          std::this_thread::sleep_for(std::chrono::milliseconds(100));
        }
        ranks->gather("here");
      },
      1.5);
  EXPECT_THAT(messages, Each(IsEmpty()));
}

TEST_F(RanksTogether, ShareTheRowsOfListsOnDevices) {
  Random random(1);
  std::vector<float> values(1500 * 700);
  for (float& value : values) value = static_cast<float>(random.normal());
  const Rows rows(values.data(), 1500, 700);
  ASSERT_TRUE(sharing_pays(rows, 1));
  const NeighborLists truth = ExactKnn({.neighbors = 1, .threads = 1}).neighbors(rows).lists;
  const auto find = [&](const std::shared_ptr<Ranks>& ranks, const std::function<void(RowRange)>& before) {
    const Team team = team_of(*ranks);
    const DeviceSearch device = [&](const Rows&, RowRange wanted, std::size_t, const ListMaker&, const Progress&) {
      before(wanted);
      NeighborResult found{NeighborLists(wanted.count, 1), {}};
      for (std::size_t i = 0; i < wanted.count; ++i) {
        found.lists.ids(i)[0] = truth.ids(wanted.first + i)[0];
        found.lists.distances(i)[0] = truth.distances(wanted.first + i)[0];
      }
      return found;
    };
    NeighborIndex index({.kind = IndexKind::kDevice, .neighbors = 1, .threads = 1});
    return index.neighbors(rows, {.seed = {}, .device = device, .team = &team, .lists = {}}).lists;
  };
  Messages messages = run(2, [&](const std::shared_ptr<Ranks>& ranks) {
    const NeighborLists lists = find(ranks, [](RowRange wanted) { EXPECT_EQ(wanted.count, 750U); });
    EXPECT_TRUE(std::ranges::equal(lists.all_ids(), truth.all_ids()));
    EXPECT_TRUE(std::ranges::equal(lists.all_distances(), truth.all_distances()));
  });
  EXPECT_THAT(messages, Each(IsEmpty()));
  messages = run(2, [&](const std::shared_ptr<Ranks>& ranks) {
    find(ranks, [&](RowRange) {
      if (ranks->rank() == 1) throw Error("the GPU has too little free memory");
    });
  });
  EXPECT_THAT(messages, ElementsAre("rank 1 ended: the GPU has too little free memory", "the GPU has too little free memory"));
}

TEST_F(RanksTogether, ShareLongerLists) {
  Random random(1);
  std::vector<float> values(400 * 5);
  for (float& value : values) value = static_cast<float>(random.normal());
  const Rows rows(values.data(), 400, 5);
  const std::vector<std::uint32_t> some = {399, 0, 7, 12, 300}, one = {5};
  LongerListSearch alone(rows, {}, 1);
  const NeighborLists truth = alone.find(some, 30), of_one = alone.find(one, 40);
  const Messages messages = run(3, [&](const std::shared_ptr<Ranks>& ranks) {
    LongerListSearch shared(rows, {}, 1, ranks.get());
    for (const auto& [anchors, expected] : {std::pair(some, &truth), std::pair(one, &of_one)}) {
      const NeighborLists lists = shared.find(anchors, expected->neighbors());
      EXPECT_TRUE(std::ranges::equal(lists.all_ids(), expected->all_ids()));
      EXPECT_TRUE(std::ranges::equal(lists.all_distances(), expected->all_distances()));
    }
  });
  EXPECT_THAT(messages, Each(IsEmpty()));
}

TEST_F(RanksTogether, KnowTheirPlaceOnTheHostWithoutBeingTold) {
  RankStore store(20);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank)
    threads.emplace_back([&, rank] {
      RankWorld place = world(rank, 3, store, 20);
      place.local_rank.reset();
      const std::shared_ptr<Ranks> ranks = Ranks::join(place);
      EXPECT_EQ(ranks->local_rank(), rank);
      EXPECT_EQ(ranks->local_size(), 3);
      ranks->gather("here");
    });
  for (std::thread& thread : threads) thread.join();
}

TEST_F(RanksTogether, SayWhyOneFailed) {
  const auto work = [](const std::shared_ptr<Ranks>& ranks) {
    if (ranks->rank() == 1) throw IoError("the disk is full");
    ranks->gather("here");
  };
  const Messages messages = run(3, work, 3);  // a process that ends closes its connections, a thread does not
  EXPECT_THAT(messages, ElementsAre("rank 1 ended: the disk is full", "the disk is full", "rank 1 ended: the disk is full"));
}

TEST_F(RanksTogether, DoNotWaitForOneThatWaitsWhenAnotherHasFailed) {
  const auto begin = Clock::now();
  const Messages messages = run(
      3,
      [](const std::shared_ptr<Ranks>& ranks) {
        if (ranks->rank() == 1) throw IoError("the disk is full");
        int value = 0;
        ranks->receive(&value, sizeof value, 2 - ranks->rank());  // ranks 0 and 2 wait for each other, and rank 1 keeps its connections
      },
      60);
  EXPECT_THAT(messages, ElementsAre("rank 1 ended: the disk is full", "the disk is full", "rank 1 ended: the disk is full"));
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(40));
}

TEST_F(RanksTogether, AreNotEndedByTheSignalOfAClosedConnection) {
  run(2, [](const std::shared_ptr<Ranks>& ranks) { ranks->gather("here"); });
  struct sigaction now {};
  ASSERT_EQ(sigaction(SIGPIPE, nullptr, &now), 0);
  EXPECT_EQ(now.sa_handler, SIG_IGN);
}

TEST_F(RanksTogether, AllStopWhenOneIsAskedTo) {
  std::atomic<int> stopped{0};
  run(3, [&](const std::shared_ptr<Ranks>& ranks) {
    const Progress progress = ranks->watched([&](const ProgressEvent&) { return ranks->rank() != 2; });
    EXPECT_TRUE(progress({}));
    try {
      ranks->gather("here");
    } catch (const Cancelled&) {
      ++stopped;
    }
  });
  EXPECT_EQ(stopped, 3);
}

TEST(RankWorlds, AreReadFromTheEnvironment) {
  const std::vector<const char*> names = {
      "RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", kStartersStore, "TORCHELASTIC_USE_AGENT_STORE"};
  for (const char* name : names) unsetenv(name);
  EXPECT_FALSE(world_of_environment());
  const auto expect_refused = [](const std::string& message) {
    EXPECT_THAT([] { world_of_environment(); }, ThrowsMessage<InvalidArgument>(HasSubstr(message)));
  };
  setenv("RANK", "0", 1);
  expect_refused("WORLD_SIZE is not set");
  setenv("WORLD_SIZE", "1", 1);
  EXPECT_FALSE(world_of_environment()) << "a world of one has no ranks";
  setenv("WORLD_SIZE", "4", 1);
  expect_refused("MASTER_ADDR is not set");
  setenv("MASTER_ADDR", "host0", 1);
  expect_refused("MASTER_PORT is not set");
  setenv("MASTER_PORT", "99999", 1);
  expect_refused("MASTER_PORT is '99999'; it must be from 1 to 65535");
  setenv("MASTER_PORT", "29500", 1);
  setenv("RANK", "4", 1);
  expect_refused("RANK is '4'; it must be from 0 to 3");
  setenv("RANK", "three", 1);
  expect_refused("RANK is 'three'");
  setenv("RANK", "3", 1);
  setenv("LOCAL_RANK", "1", 1);
  const auto world = world_of_environment();
  ASSERT_TRUE(world);
  EXPECT_EQ(world->rank, 3);
  EXPECT_EQ(world->size, 4);
  EXPECT_EQ(world->local_rank, 1);
  EXPECT_EQ(world->address, "host0");
  EXPECT_EQ(world->port, 29500);
  EXPECT_FALSE(world->store_elsewhere);
  // An agent of torchrun keeps its store from one attempt to the next.
  setenv("TORCHELASTIC_USE_AGENT_STORE", "True", 1);
  EXPECT_TRUE(world_of_environment()->store_elsewhere);
  EXPECT_TRUE(world_of_environment()->store_lasts);
  setenv("TORCHELASTIC_USE_AGENT_STORE", "False", 1);
  EXPECT_FALSE(world_of_environment()->store_elsewhere);
  setenv(kStartersStore, "True", 1);
  EXPECT_TRUE(world_of_environment()->store_elsewhere);
  EXPECT_FALSE(world_of_environment()->store_lasts);
  for (const char* name : names) unsetenv(name);
}

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
