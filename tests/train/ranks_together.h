#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "smartmine/train/ranks.h"

namespace smartmine::test {

using Messages = std::vector<std::string>;

/// Ranks as threads of one process.
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

}  // namespace smartmine::test
