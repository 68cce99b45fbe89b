// Ranks as threads of one process: what they hand each other, and what becomes of all if one differs, fails or is silent.
#include "smartmine/train/ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "smartmine/core/random.h"
#include "smartmine/graph/exact_knn.h"
#include "smartmine/graph/neighbor_index.h"
#include "train/longer_lists.h"
#include "train/ranks_together.h"

namespace smartmine {
namespace {

using test::Messages;
using test::RanksTogether;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;
using Clock = std::chrono::steady_clock;

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

}  // namespace
}  // namespace smartmine
