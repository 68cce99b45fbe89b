// Kills ranks at random moments, and cuts the network between hosts: the others end and say who, and what is resumed, with any number of
// ranks, ends with the same bits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "files.h"
#include "program.h"
#include "smartmine/core/random.h"
#include "train/made_folder.h"

namespace smartmine::test {
namespace {

using ::testing::HasSubstr;
using Clock = std::chrono::steady_clock;
using Words = std::vector<std::string>;
namespace fs = std::filesystem;

std::size_t rank_kills() {
  const char* given = std::getenv("SMARTMINE_KILLS");
  return given == nullptr ? 50 : std::strtoul(given, nullptr, 10);
}

std::vector<pid_t> children_of(pid_t parent) {
  std::ifstream file("/proc/" + std::to_string(parent) + "/task/" + std::to_string(parent) + "/children");
  std::vector<pid_t> children;
  for (pid_t child = 0; file >> child;) children.push_back(child);
  return children;
}

class RanksKill : public ::testing::Test {
 protected:
  void SetUp() override {
    if (smartmine({"--version"}).out.find("several ranks") == std::string::npos) GTEST_SKIP() << "this program was built without ranks";
  }
  /// Training on glyphs, in four shards whatever the number of ranks.
  Words command(const std::string& run, const Words& more) const {
    Words words = {"train",         "--dataset", "glyphs",   "--choose",   "off",      "--quiet", "--device", "cpu",
                   "--threads",     "1",         "--epochs", "2",          "--shards", "4",       "--resume", "auto",
                   "--save-epochs", "1,2",       "--output", folder_ / run};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  /// The same on a folder of small pictures of 40 classes, of which some are held out where there is something to choose.
  Words command_on_folder(const std::string& run, const Words& more) {
    if (!fs::exists(folder_ / "images")) make_image_folder(folder_ / "images", 40, 16);
    Words words = {"train", "--quiet", "--device", "cpu", "--threads", "1", "--shards", "4", "--resume", "auto"};
    for (const auto& [option, value] : std::vector<std::pair<std::string, std::string>>{{"--dataset", "folder"},
                                                                                        {"--data-root", folder_ / "images"},
                                                                                        {"--channels", "1"},
                                                                                        {"--input-size", "16"},
                                                                                        {"--batch-size", "24"},
                                                                                        {"--embedding-dim", "8"},
                                                                                        {"--warmup-epochs", "1"},
                                                                                        {"--epochs", "6"},
                                                                                        {"--save-epochs", "1,2"},
                                                                                        {"--output", folder_ / run}})
      words.insert(words.end(), {option, value});
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  void expect_same(const std::string& a, const std::string& b) const {
    for (const char* name : {"checkpoint/model.safetensors", "checkpoint/optimizer.safetensors", "metrics.csv", "triplets/epoch-0001.npy",
                             "triplets/epoch-0002.npy"}) {
      EXPECT_FALSE(read_text(folder_ / (a + "/" + name)).empty()) << name;
      EXPECT_EQ(read_text(folder_ / (a + "/" + name)), read_text(folder_ / (b + "/" + name))) << name;
    }
  }
  /// What starts a run, or goes on with it.
  using Command = std::function<Words(const std::string& run, const Words& more)>;
  /// Sends a signal to one of two to four ranks at random moments until it has ended so many runs, each time with a resume by another
  /// number of ranks, the last by one. Whatever comes to its end is the same as a run of one process.
  void signal_at_random(const Command& command, int signal, std::size_t times) {
    ASSERT_EQ(smartmine(command("whole", {"--ranks", "1"})).status, 0);
    const auto begin = Clock::now();
    ASSERT_EQ(smartmine(command("four", {"--ranks", "4"})).status, 0);
    const std::chrono::duration<double> time = Clock::now() - begin;
    expect_same("whole", "four");
    Random random(static_cast<std::uint64_t>(begin.time_since_epoch().count()));
    std::size_t stopped = 0, ended = 0;
    while (stopped < times) {
      const std::size_t ranks = 2 + random.below(3);
      Words words = command("cut", {"--ranks", std::to_string(ranks), "--rank-timeout", "30"});
      words.insert(words.begin(), SMARTMINE_PROGRAM);
      Process process(words);
      std::this_thread::sleep_for(time * random.uniform());
      std::vector<pid_t> children = children_of(process.id());
      while (children.empty() && process.running()) children = children_of(process.id());
      if (!children.empty()) kill(children[random.below(children.size())], signal);
      const auto at = Clock::now();
      const Outcome outcome = process.wait();
      if (outcome.status == 0) {  // it was faster
        expect_same("whole", "cut");
        fs::remove_all(folder_ / "cut");
        ++ended;
        ASSERT_LT(ended, 20 * times);
        continue;
      }
      ++stopped;
      EXPECT_LT(Clock::now() - at, std::chrono::seconds(45)) << outcome.err;
      if (signal == SIGKILL)
        EXPECT_THAT(outcome.err, HasSubstr("killed by signal 9")) << outcome.err;
      else
        EXPECT_EQ(outcome.status, 128 + signal) << outcome.err;
    }
    RecordProperty("stopped", std::to_string(stopped));
    RecordProperty("came_to_their_end", std::to_string(ended));
    const Outcome last = smartmine(command("cut", {"--ranks", "1"}));
    EXPECT_EQ(last.status, 0) << last.err;
    expect_same("whole", "cut");
  }
  TemporaryFolder folder_;
};

TEST_F(RanksKill, AnyRankAtAnyMomentAndAnotherNumberGoesOnToTheSameEnd) {
  signal_at_random([this](const std::string& run, const Words& more) { return command(run, more); }, SIGKILL, rank_kills());
}

TEST_F(RanksKill, AnyRankAtAnyMomentOfChoosingAndAnotherNumberChoosesTheSame) {
  signal_at_random(
      [this](const std::string& run, Words more) {
        more.insert(more.end(), {"--choose", "on"});
        return command_on_folder(run, more);
      },
      SIGKILL, std::max<std::size_t>(1, rank_kills() / 5));
}

// With the adaptive system, the usual one, which learns from every epoch what kappa does.
TEST_F(RanksKill, AnyRankAskedToStopAtAnyMomentAndAnotherNumberGoesOnToTheSameEnd) {
  signal_at_random(
      [this](const std::string& run, Words more) {
        more.insert(more.end(), {"--choose", "off"});
        return command_on_folder(run, more);
      },
      SIGINT, std::max<std::size_t>(1, rank_kills() / 5));
}

/// Two hosts: network namespaces with addresses and names of their own, and a cable between them. As Debian installs them, each has its own
/// name at an address that means nothing to the other.
class TwoHosts {
 public:
  explicit TwoHosts(bool as_debian = false) : name_("smartmine" + std::to_string(getpid())) {
    works_ = run("ip netns add {0}a") && run("ip netns add {0}b") && run("ip link add va netns {0}a type veth peer name vb netns {0}b") &&
             run("ip -n {0}a addr add 192.168.77.1/24 dev va") && run("ip -n {0}b addr add 192.168.77.2/24 dev vb") &&
             run("ip -n {0}a link set va up") && run("ip -n {0}b link set vb up") && run("ip -n {0}a link set lo up") &&
             run("ip -n {0}b link set lo up");
    for (const char* host : {"a", "b"}) {  // `ip netns exec` puts it in the place of /etc/hosts
      std::error_code none;
      fs::create_directories(settings(host), none);
      const auto address = [&](const char* other, const char* usual) { return as_debian && *other == *host ? "127.0.1.1" : usual; };
      std::ofstream(settings(host) / "hosts") << "127.0.0.1 localhost\n"
                                              << address("a", "192.168.77.1") << " hosta\n"
                                              << address("b", "192.168.77.2") << " hostb\n";
    }
  }
  ~TwoHosts() {
    run("ip netns del {0}a");
    run("ip netns del {0}b");
    std::error_code none;
    for (const char* host : {"a", "b"}) fs::remove_all(settings(host), none);
  }
  TwoHosts(const TwoHosts&) = delete;
  TwoHosts& operator=(const TwoHosts&) = delete;
  bool works() const { return works_; }
  void plug(bool in) { run(in ? "ip -n {0}b link set vb up" : "ip -n {0}b link set vb down"); }
  std::unique_ptr<Process> start(int rank, const Words& words, const std::string& meet_at = "192.168.77.1") const {
    Words command = {"/usr/bin/env", "ip", "netns", "exec", name_ + (rank == 0 ? "a" : "b"), SMARTMINE_PROGRAM};
    command.insert(command.end(), words.begin(), words.end());
    return std::make_unique<Process>(
        command,
        Surroundings{
            .environment = {{"RANK", std::to_string(rank)}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", meet_at}, {"MASTER_PORT", "29511"}}});
  }
  /// By torchrun, two ranks on each host, which settle by themselves who is first.
  std::unique_ptr<Process> start_by_torchrun(const std::string& host, const std::string& log, const Words& words) const {
    const std::string name = "hostname host" + host + " && exec \"$@\"";
    Words command = {"/usr/bin/env",
                     "ip",
                     "netns",
                     "exec",
                     name_ + host,
                     "unshare",
                     "-u",
                     "bash",
                     "-c",
                     name,
                     "bash",
                     "/usr/bin/python3",
                     "-m",
                     "torch.distributed.run",
                     "--redirects",
                     "1",
                     "--tee",
                     "2",
                     "--no_python",
                     "--nnodes",
                     "2",
                     "--nproc_per_node",
                     "2",
                     "--rdzv_backend",
                     "c10d",
                     "--rdzv_endpoint",
                     "hosta:29512",
                     "--rdzv_id",
                     "smartmine",
                     "--log_dir",
                     log,
                     SMARTMINE_PROGRAM};
    command.insert(command.end(), words.begin(), words.end());
    return std::make_unique<Process>(command);
  }

 private:
  fs::path settings(const std::string& host) const { return fs::path("/etc/netns") / (name_ + host); }
  bool run(std::string command) const {
    for (std::size_t at = command.find("{0}"); at != std::string::npos; at = command.find("{0}")) command.replace(at, 3, name_);
    return std::system((command + " 2>/dev/null").c_str()) == 0;
  }
  std::string name_;
  bool works_ = false;
};

TEST_F(RanksKill, HostsApartGiveTheSameBitsAndACutCableEndsBoth) {
  TwoHosts hosts;
  if (!hosts.works()) GTEST_SKIP() << "ip netns is not permitted here, or not there";
  ASSERT_EQ(smartmine(command("whole", {})).status, 0);
  for (const bool cut : {false, true}) {
    const std::string name = cut ? "cut" : "apart";
    const Words more = {"--rank-timeout", cut ? "4" : "30"};
    auto first = hosts.start(0, command(name, more)), second = hosts.start(1, command(name, more));
    if (cut) {
      while (first->running() && !fs::exists(folder_ / "cut/checkpoint/state.json"))
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      hosts.plug(false);
      const auto at = Clock::now();
      const Outcome a = first->wait(), b = second->wait();
      EXPECT_LT(Clock::now() - at, std::chrono::seconds(25));
      EXPECT_NE(a.status, 0);
      EXPECT_NE(b.status, 0);
      EXPECT_THAT(a.err, HasSubstr("rank 1 has not answered for 4 s"));
      EXPECT_THAT(b.err, HasSubstr("rank 0 has not answered for 4 s"));
      hosts.plug(true);
      first = hosts.start(0, command(name, {"--rank-timeout", "30"}));
      second = hosts.start(1, command(name, {"--rank-timeout", "30"}));
    }
    const Outcome a = first->wait(), b = second->wait();
    EXPECT_EQ(a.status, 0) << a.err;
    EXPECT_EQ(b.status, 0) << b.err;
    expect_same("whole", name);
  }
}

TEST_F(RanksKill, TorchrunOnTwoHostsGivesTheSameBits) {
  if (std::system("/usr/bin/python3 -c 'import torch.distributed.run' 2>/dev/null") != 0) GTEST_SKIP() << "there is no torchrun here";
  TwoHosts hosts;
  if (!hosts.works()) GTEST_SKIP() << "ip netns is not permitted here, or not there";
  ASSERT_EQ(smartmine(command("whole", {})).status, 0);
  auto a = hosts.start_by_torchrun("a", folder_ / "log-a", command("apart", {"--rank-timeout", "60"}));
  auto b = hosts.start_by_torchrun("b", folder_ / "log-b", command("apart", {"--rank-timeout", "60"}));
  const Outcome of_a = a->wait(), of_b = b->wait();
  EXPECT_EQ(of_a.status, 0) << of_a.err;
  EXPECT_EQ(of_b.status, 0) << of_b.err;
  expect_same("whole", "apart");
}

TEST_F(RanksKill, ListsOfHostsApartAreThoseOfOne) {
  TwoHosts hosts(true);
  if (!hosts.works()) GTEST_SKIP() << "ip netns is not permitted here, or not there";
  for (const char* file : {"a.npy", "b.npy"}) write_matrix(folder_ / file, clustered_rows(9000, 12), 9000, 12);  // of each host its own
  const auto words = [&](const char* file, const char* output) {
    return Words{
        "knn", "--embeddings", folder_ / file,  "--neighbors", "20", "--index", "fanng", "--quiet", "--threads", "1", "--rank-timeout",
        "20",  "--output",     folder_ / output};
  };
  ASSERT_EQ(smartmine(words("a.npy", "whole")).status, 0);
  for (const char* meet_at : {"192.168.77.1", "hosta"}) {
    auto first = hosts.start(0, words("a.npy", "apart"), meet_at), second = hosts.start(1, words("b.npy", "apart"), meet_at);
    const Outcome a = first->wait(), b = second->wait();
    EXPECT_EQ(a.status, 0) << a.err;
    EXPECT_EQ(b.status, 0) << b.err;
    for (const std::string end : {".ids.npy", ".distances.npy"}) {
      EXPECT_FALSE(read_text(folder_ / ("whole" + end)).empty());
      EXPECT_EQ(read_text(folder_ / ("whole" + end)), read_text(folder_ / ("apart" + end)));
      fs::remove(folder_ / ("apart" + end));
    }
  }
}

}  // namespace
}  // namespace smartmine::test
