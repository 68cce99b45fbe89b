// How ranks meet: by which addresses, and in a store that lasts from one attempt to the next, as torchrun's agents keep it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "files.h"
#include "program.h"

namespace smartmine::test {
namespace {

using ::testing::HasSubstr;
using Clock = std::chrono::steady_clock;
using Processes = std::vector<std::unique_ptr<Process>>;
namespace fs = std::filesystem;

// Says at which port it is, and then how many keys it has.
constexpr const char* kStore = R"(import datetime, os, socket, sys, time
from torch.distributed import TCPStore
free = socket.socket()
free.bind(('127.0.0.1', 0))
port = free.getsockname()[1]
free.close()
store = TCPStore('127.0.0.1', port, None, True, datetime.timedelta(seconds=60), wait_for_workers=False)
def say(name, number):
    with open(sys.argv[1] + name + '.new', 'w') as file:
        file.write(str(number))
    os.rename(sys.argv[1] + name + '.new', sys.argv[1] + name)
say('port', port)
while True:
    say('keys', store.num_keys())
    time.sleep(0.02)
)";

class RanksInALastingStore : public ::testing::Test {
 protected:
  void SetUp() override {
    if (smartmine({"--version"}).out.find("several ranks") == std::string::npos) GTEST_SKIP() << "this program was built without ranks";
    if (std::system("/usr/bin/python3 -c 'from torch.distributed import TCPStore' 2>/dev/null") != 0)
      GTEST_SKIP() << "there is no torch here";
    write_matrix(folder_ / "x.npy", clustered_rows(300, 8), 300, 8);
    write_text(folder_ / "store.py", kStore);
    store_ = std::make_unique<Process>(std::vector<std::string>{"/usr/bin/python3", folder_ / "store.py", folder_.path().string() + "/"});
    const auto end = Clock::now() + std::chrono::seconds(60);
    while (!fs::exists(folder_ / "keys") && store_->running() && Clock::now() < end) wait_a_little();
    ASSERT_TRUE(fs::exists(folder_ / "keys"));
  }
  static void wait_a_little() { std::this_thread::sleep_for(std::chrono::milliseconds(20)); }

  /// One whose agent has counted so many restarts.
  std::unique_ptr<Process> start(int rank, int size, int restarts, const std::string& timeout = "30") {
    const std::vector<std::string> words = {SMARTMINE_PROGRAM, "knn",     "--embeddings",   folder_ / "x.npy", "--neighbors", "5",
                                            "--quiet",         "--index", "exact",          "--threads",       "1",           "--output",
                                            folder_ / "lists", "--json",  "--rank-timeout", timeout};
    return std::make_unique<Process>(words, Surroundings{.environment = {{"RANK", std::to_string(rank)},
                                                                         {"WORLD_SIZE", std::to_string(size)},
                                                                         {"MASTER_ADDR", "127.0.0.1"},
                                                                         {"MASTER_PORT", read_text(folder_ / "port")},
                                                                         {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                                                                         {"TORCHELASTIC_RESTART_COUNT", std::to_string(restarts)}}});
  }
  /// Until it has had nothing new to say for a while; what an earlier one has said is not new.
  void wait_until_it_waits(Process& process, const std::string& keys_before) const {
    std::string keys = keys_before;
    auto since = Clock::now();
    const auto patience = [&] { return std::chrono::milliseconds(keys == keys_before ? 6000 : 700); };
    while (process.running() && Clock::now() - since < patience()) {
      if (const std::string now = read_text(folder_ / "keys"); now != keys) {
        keys = now;
        since = Clock::now();
      }
      wait_a_little();
    }
    EXPECT_TRUE(process.running());
  }
  static void expect_to_end_well(Processes processes) {
    for (auto& process : processes) {
      const Outcome outcome = process->wait();
      EXPECT_EQ(outcome.status, 0) << outcome.err;
    }
  }

  TemporaryFolder folder_;
  std::unique_ptr<Process> store_;
};

TEST_F(RanksInALastingStore, MeetAgainHoweverTheirAgentsCount) {
  // A restart that one agent counts and the other takes for a change of members, which none counts; then such a change alone.
  for (const auto& [first, second] : {std::pair(0, 0), {1, 0}, {0, 0}}) {
    Processes all;
    all.push_back(start(0, 2, first));
    all.push_back(start(1, 2, second));
    expect_to_end_well(std::move(all));
  }
}

TEST_F(RanksInALastingStore, WaitForRankZeroToComeAgain) {
  Processes all;
  for (const int rank : {0, 1}) all.push_back(start(rank, 2, 0));
  expect_to_end_well(std::move(all));
  all.clear();
  for (const int rank : {1, 0}) {
    const std::string keys = read_text(folder_ / "keys");
    all.push_back(start(rank, 2, 0));
    if (rank == 1) wait_until_it_waits(*all.back(), keys);
  }
  expect_to_end_well(std::move(all));
}

TEST_F(RanksInALastingStore, PassOverOnesThatDiedBeforeAllHadCome) {
  for (const int dead : {0, 1}) {
    Processes all;
    const std::string keys = read_text(folder_ / "keys");
    all.push_back(start(dead, 2, 0));
    wait_until_it_waits(*all.back(), keys);
    all.back()->send(SIGKILL);
    EXPECT_NE(all.back()->wait().status, 0);
    all.clear();
    for (const int rank : {1, 2, 0}) {  // now three of them; the others come first, and rank 2 has never come before
      const std::string before = read_text(folder_ / "keys");
      all.push_back(start(rank, 3, 0));
      if (rank != 0) wait_until_it_waits(*all.back(), before);
    }
    expect_to_end_well(std::move(all));
  }
}

TEST_F(RanksInALastingStore, PassOverOnesOfAnotherNumber) {
  Processes all;
  for (const int rank : {0, 1}) all.push_back(start(rank, 2, 0));
  expect_to_end_well(std::move(all));
  all.clear();
  for (const int rank : {2, 1, 0}) {  // rank 2 has never come before, and what it finds has been met
    const std::string keys = read_text(folder_ / "keys");
    all.push_back(start(rank, 3, 0));
    if (rank != 0) wait_until_it_waits(*all.back(), keys);
  }
  expect_to_end_well(std::move(all));
}

TEST_F(RanksInALastingStore, SayWhoCameTwiceOrNotAtAll) {
  Processes all;
  for (const int rank : {0, 1, 1}) all.push_back(start(rank, 3, 0));
  for (auto& process : all) {
    const Outcome outcome = process->wait();
    EXPECT_EQ(outcome.status, 1);
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr("rank 1 has come twice"));
  }
  const Outcome late = start(1, 3, 0, "2")->wait();
  EXPECT_EQ(late.status, 1);
  EXPECT_EQ(std::count(late.err.begin(), late.err.end(), '\n'), 1) << late.err;
  EXPECT_THAT(late.err, HasSubstr("rank 0 has not come again within 2 s; all ended before: rank 1 has come twice"));
  const Outcome alone = start(0, 3, 0, "2")->wait();
  EXPECT_EQ(alone.status, 1);
  EXPECT_THAT(alone.err, HasSubstr("ranks 1, 2 have not come within 2 s; 3 were expected"));
}

// Debian writes `127.0.1.1 NAME` into a host's own /etc/hosts; ranks_kill_test.cpp has hosts that find each other in spite of that.
TEST_F(RanksInALastingStore, SayThatAnInterfaceMustBeNamedWhereOthersKnowAnAddressThatIsNotHere) {
  write_text(folder_ / "other.py", R"(import datetime, sys
from torch.distributed import TCPStore
store = TCPStore('127.0.0.1', int(sys.argv[1]), 2, False, datetime.timedelta(seconds=60))
hello = store.get('smartmine/round/1/hello/0')
store.set('smartmine/round/1/way/1', '203.0.113.7')
store.set('smartmine/round/1/hello/1', hello)
)");
  auto first = start(0, 2, 0, "8");
  const Process other({"/usr/bin/python3", folder_ / "other.py", read_text(folder_ / "port")});
  const Outcome outcome = first->wait();
  EXPECT_EQ(outcome.status, 1);
  EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("rank 0 reaches MASTER_ADDR at 127.0.0.1, others at 203.0.113.7, which is no address of this host; "
                                     "GLOO_SOCKET_IFNAME must name"));
}

}  // namespace
}  // namespace smartmine::test
