// Several processes that share one piece of work, and what becomes of them if one fails.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>
#include <algorithm>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "files.h"
#include "program.h"
#include "train/made_folder.h"

namespace smartmine::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Clock = std::chrono::steady_clock;
using Words = std::vector<std::string>;

bool with_ranks() { return smartmine({"--version"}).out.find("several ranks") != std::string::npos; }

/// A port that nobody uses now.
int free_port() {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  bind(socket, reinterpret_cast<sockaddr*>(&address), length);
  getsockname(socket, reinterpret_cast<sockaddr*>(&address), &length);
  close(socket);
  return ntohs(address.sin_port);
}

/// Children of a process, in the order in which they were started.
std::vector<pid_t> children_of(pid_t parent) {
  std::ifstream file("/proc/" + std::to_string(parent) + "/task/" + std::to_string(parent) + "/children");
  std::vector<pid_t> children;
  for (pid_t child = 0; file >> child;) children.push_back(child);
  return children;
}

class RanksOfTheProgram : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!with_ranks()) GTEST_SKIP() << "this program was built without ranks";
    make_image_folder(folder_ / "images");
  }

  Words command(const std::string& run, const Words& more = {}) const {
    const std::vector<std::pair<std::string, std::string>> usual = {{"--dataset", "folder"},    {"--data-root", folder_ / "images"},
                                                                    {"--channels", "1"},        {"--input-size", "16"},
                                                                    {"--choose", "off"},        {"--batch-size", "6"},
                                                                    {"--warmup-epochs", "1"},   {"--threads", "1"},
                                                                    {"--rank-timeout", "20"},   {"--embedding-dim", "8"},
                                                                    {"--output", folder_ / run}};
    Words words = {"train", "--quiet"};
    for (const auto& [option, value] : usual)
      if (std::find(more.begin(), more.end(), option) == more.end()) words.insert(words.end(), {option, value});
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  Outcome run(const std::string& name, const Words& more) { return smartmine(command(name, more)); }

  std::unique_ptr<Process> start(const std::string& run, const Words& more, const std::map<std::string, std::string>& environment = {}) {
    Words words = command(run, more);
    words.insert(words.begin(), SMARTMINE_PROGRAM);
    return std::make_unique<Process>(words, Surroundings{.environment = environment});
  }
  /// As torchrun would without its store.
  std::unique_ptr<Process> start_rank(int rank, int size, int port, const std::string& name, const Words& more) {
    return start(name, more,
                 {{"RANK", std::to_string(rank)},
                  {"WORLD_SIZE", std::to_string(size)},
                  {"MASTER_ADDR", "127.0.0.1"},
                  {"MASTER_PORT", std::to_string(port)}});
  }
  /// Waits until the first is there: signals are heard by then.
  bool has_checkpoint(const std::string& run, Process& process) const {
    const auto end = Clock::now() + std::chrono::seconds(90);
    while (Clock::now() < end && process.running()) {
      if (std::filesystem::exists(folder_ / (run + "/checkpoint/state.json"))) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return false;
  }
  std::string file(const std::string& name) const { return read_text(folder_ / name); }
  void expect_same_run(const std::string& a, const std::string& b) const {
    for (const char* name :
         {"checkpoint/model.safetensors", "checkpoint/optimizer.safetensors", "metrics.csv", "triplets/epoch-0002.npy"}) {
      EXPECT_FALSE(file(a + "/" + name).empty()) << name;
      EXPECT_EQ(file(a + "/" + name), file(b + "/" + name)) << a << " and " << b << ": " << name;
    }
  }

  TemporaryFolder folder_;
};

TEST_F(RanksOfTheProgram, OneAndTwoAndThreeGiveTheSameBits) {
  const Words how = {"--epochs", "2", "--shards", "3", "--save-epochs", "2", "--dropout", "0.2", "--weight-average", "0.9"};
  for (const char* ranks : {"1", "2", "3"}) {
    Words words = how;
    words.insert(words.end(), {"--ranks", ranks});
    const Outcome outcome = run(ranks, words);
    ASSERT_EQ(outcome.status, 0) << outcome.err;
  }
  expect_same_run("1", "2");
  expect_same_run("1", "3");
}

TEST_F(RanksOfTheProgram, KilledOneEndsAllAndAnotherNumberGoesOnToTheSameEnd) {
  const Words how = {"--epochs", "15", "--shards", "2", "--save-epochs", "2"};
  ASSERT_EQ(run("whole", how).status, 0);
  Words two = how;
  two.insert(two.end(), {"--ranks", "2"});
  std::unique_ptr<Process> process = start("cut", two);
  ASSERT_TRUE(has_checkpoint("cut", *process));
  const std::vector<pid_t> ranks = children_of(process->id());
  ASSERT_EQ(ranks.size(), 2U);
  kill(ranks[1], SIGKILL);
  const auto begin = Clock::now();
  const Outcome outcome = process->wait();
  EXPECT_NE(outcome.status, 0);
  EXPECT_THAT(outcome.err, HasSubstr("rank 1 was killed by signal 9"));
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(25));
  Words on = how;
  on.insert(on.end(), {"--resume", "auto", "--ranks", "3"});
  const Outcome resumed = run("cut", on);
  EXPECT_EQ(resumed.status, 0) << resumed.err;
  expect_same_run("whole", "cut");
}

TEST_F(RanksOfTheProgram, TorchrunStartsThemAndStartsThemAgainWhenOneDies) {
  // The redirects are a way round PyTorch 1.13, whose torchrun stumbles over Python 3.11 without; it knows no hyphens in these options.
  const Words torchrun = {"/usr/bin/env",
                          "/usr/bin/python3",
                          "-m",
                          "torch.distributed.run",
                          "--redirects",
                          "1",
                          "--tee",
                          "2",
                          "--no_python",
                          "--max_restarts",
                          "1",
                          "--nproc_per_node",
                          "2",
                          "--log_dir",
                          folder_ / "log",
                          "--master_port",
                          std::to_string(free_port())};
  if (std::system("/usr/bin/python3 -c 'import torch.distributed.run' 2>/dev/null") != 0) GTEST_SKIP() << "there is no torchrun here";
  const Words how = {"--epochs", "15", "--shards", "2", "--save-epochs", "2"};
  Words words = torchrun;
  words.push_back(SMARTMINE_PROGRAM);
  Words on = how;
  on.insert(on.end(), {"--resume", "auto"});
  for (const std::string& word : command("cut", on)) words.push_back(word);
  Process process(words, Surroundings{});
  ASSERT_TRUE(has_checkpoint("cut", process));
  const std::vector<pid_t> ranks = children_of(process.id());
  ASSERT_EQ(ranks.size(), 2U);
  kill(ranks[1], SIGKILL);
  const Outcome outcome = process.wait();
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("rank 1 is gone"));
  ASSERT_EQ(run("whole", how).status, 0);
  expect_same_run("whole", "cut");
}

TEST_F(RanksOfTheProgram, CtrlCOnOneStopsAllAndSaves) {
  const Words how = {"--epochs", "15", "--shards", "2", "--save-epochs", "2"};
  Words two = how;
  two.insert(two.end(), {"--ranks", "2"});
  std::unique_ptr<Process> process = start("cut", two);
  ASSERT_TRUE(has_checkpoint("cut", *process));
  const std::vector<pid_t> ranks = children_of(process->id());
  ASSERT_EQ(ranks.size(), 2U);
  kill(ranks[1], SIGINT);
  const Outcome outcome = process->wait();
  EXPECT_EQ(outcome.status, 130) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("stopped and saved"));
  EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  ASSERT_EQ(run("cut", {"--resume"}).status, 0);
  ASSERT_EQ(run("whole", how).status, 0);
  expect_same_run("whole", "cut");
}

TEST_F(RanksOfTheProgram, OneThatStandsStillIsNamedAfterTheTimeOut) {
  std::unique_ptr<Process> process = start("run", {"--epochs", "4000", "--ranks", "3", "--rank-timeout", "3"});
  ASSERT_TRUE(has_checkpoint("run", *process));
  const std::vector<pid_t> ranks = children_of(process->id());
  ASSERT_EQ(ranks.size(), 3U);
  kill(ranks[2], SIGSTOP);
  const auto begin = Clock::now();
  const Outcome outcome = process->wait();
  EXPECT_NE(outcome.status, 0);
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(30));
  EXPECT_THAT(outcome.err, HasSubstr("rank 2 has not answered for 3 s"));
  EXPECT_THAT(outcome.err, ::testing::Not(HasSubstr("rank 1 has not answered")));
}

TEST_F(RanksOfTheProgram, OneThatStandsStillIsNamedThoughItComesBack) {
  std::unique_ptr<Process> process = start("run", {"--epochs", "4000", "--ranks", "3", "--rank-timeout", "3"});
  ASSERT_TRUE(has_checkpoint("run", *process));
  const std::vector<pid_t> ranks = children_of(process->id());
  ASSERT_EQ(ranks.size(), 3U);
  kill(ranks[1], SIGSTOP);
  std::this_thread::sleep_for(std::chrono::milliseconds(4200));  // the others have begun to ask who is silent
  kill(ranks[1], SIGCONT);
  const Outcome outcome = process->wait();
  EXPECT_NE(outcome.status, 0);
  EXPECT_THAT(outcome.err, HasSubstr("rank 1 has not answered for 3 s"));
  EXPECT_THAT(outcome.err, ::testing::Not(HasSubstr("is gone")));
  EXPECT_THAT(outcome.err, ::testing::Not(HasSubstr("rank 0 has not answered")));
}

TEST_F(RanksOfTheProgram, AllNameRankZeroWhenItDies) {
  const int port = free_port();
  std::vector<std::unique_ptr<Process>> all;
  for (const int rank : {0, 1, 2, 3}) all.push_back(start_rank(rank, 4, port, "run", {"--epochs", "4000", "--rank-timeout", "60"}));
  ASSERT_TRUE(has_checkpoint("run", *all[0]));
  all[0]->send(SIGKILL);  // rank 3 waits for rank 2 when rank 2 waits for rank 0
  const auto begin = Clock::now();
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    const Outcome outcome = all[rank]->wait();
    EXPECT_EQ(outcome.status, 1);
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr("rank 0 is gone"));
  }
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(50));
}

TEST_F(RanksOfTheProgram, OneThatLooksUpLateHearsWhyAllEnded) {
  const int port = free_port();
  std::vector<std::unique_ptr<Process>> all;
  for (const int rank : {0, 1, 2}) all.push_back(start_rank(rank, 3, port, "run", {"--epochs", "4000", "--rank-timeout", "60"}));
  ASSERT_TRUE(has_checkpoint("run", *all[0]));
  all[2]->send(SIGSTOP);  // as if it had much to do
  all[1]->send(SIGKILL);
  std::this_thread::sleep_for(std::chrono::seconds(5));
  all[2]->send(SIGCONT);
  const auto begin = Clock::now();
  for (const std::size_t rank : {std::size_t{0}, std::size_t{2}}) {
    const Outcome outcome = all[rank]->wait();
    EXPECT_EQ(outcome.status, 1);
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
    // Rank 2 as well, though it may have been waiting for rank 0, which keeps its connections until all have heard.
    EXPECT_THAT(outcome.err, HasSubstr("rank 1 is gone"));
  }
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(50));
}

TEST_F(RanksOfTheProgram, RankZeroSaysAtOnceThatTwoAreDeadAndWaitsForNeither) {
  const int port = free_port();
  std::vector<std::unique_ptr<Process>> all;
  for (const int rank : {0, 1, 2}) all.push_back(start_rank(rank, 3, port, "run", {"--epochs", "4000", "--rank-timeout", "60"}));
  ASSERT_TRUE(has_checkpoint("run", *all[0]));
  for (const std::size_t rank : {std::size_t{1}, std::size_t{2}}) all[rank]->send(SIGKILL);
  const auto begin = Clock::now();
  EXPECT_TRUE(all[0]->wait_for_error_text("is gone")) << "while it waits for the others to hear it";
  const Outcome outcome = all[0]->wait();
  EXPECT_EQ(outcome.status, 1);
  EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(40));
}

TEST_F(RanksOfTheProgram, RankZeroThatStandsStillIsNamedSoonThoughItHasTheStore) {
  const int port = free_port();
  std::vector<std::unique_ptr<Process>> all;
  for (const int rank : {0, 1, 2}) all.push_back(start_rank(rank, 3, port, "run", {"--epochs", "4000", "--rank-timeout", "6"}));
  ASSERT_TRUE(has_checkpoint("run", *all[0]));
  all[0]->send(SIGSTOP);
  const auto begin = Clock::now();
  for (const std::size_t rank : {std::size_t{1}, std::size_t{2}}) {
    const Outcome outcome = all[rank]->wait();
    EXPECT_EQ(outcome.status, 1);
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr("rank 0 has not answered for 6 s"));
  }
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(15)) << "each question to a store that is silent may take two seconds";
}

TEST_F(RanksOfTheProgram, OneThatWasKilledIsNamedOnceByWhoStartedIt) {
  std::unique_ptr<Process> process = start("run", {"--epochs", "4000", "--ranks", "3"});
  ASSERT_TRUE(has_checkpoint("run", *process));
  const std::vector<pid_t> ranks = children_of(process->id());
  ASSERT_EQ(ranks.size(), 3U);
  kill(ranks[2], SIGKILL);
  const Outcome outcome = process->wait();
  const std::string line = "rank 2 was killed by signal 9\n";
  EXPECT_THAT(outcome.err, HasSubstr("smartmine: " + line));
  EXPECT_EQ(outcome.err.find(line), outcome.err.rfind(line)) << outcome.err;
}

TEST_F(RanksOfTheProgram, ASignalEndsAllThoughOneStandsStill) {
  std::unique_ptr<Process> process = start("run", {"--epochs", "4000", "--ranks", "3", "--rank-timeout", "3"});
  ASSERT_TRUE(has_checkpoint("run", *process));
  const std::vector<pid_t> ranks = children_of(process->id());
  ASSERT_EQ(ranks.size(), 3U);
  kill(ranks[2], SIGSTOP);
  process->send(SIGTERM);
  const auto end = Clock::now() + std::chrono::seconds(60);
  while (process->running() && Clock::now() < end) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(process->running());
  if (process->running()) process->send(SIGKILL);
  EXPECT_NE(process->wait().status, 0);
}

TEST_F(RanksOfTheProgram, AnotherProgramAtThePortIsToldFromARank) {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  ASSERT_EQ(bind(socket, reinterpret_cast<sockaddr*>(&address), length), 0);
  ASSERT_EQ(listen(socket, 5), 0);  // and says nothing
  getsockname(socket, reinterpret_cast<sockaddr*>(&address), &length);
  const int port = ntohs(address.sin_port);
  const Outcome outcome = start_rank(1, 2, port, "run", {"--rank-timeout", "3"})->wait();
  close(socket);
  EXPECT_EQ(outcome.status, 1);
  EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("port " + std::to_string(port) + ", has not answered as rank 0 does within 3 s"));
}

TEST_F(RanksOfTheProgram, OneThatComesButDoesNotConnectIsNamed) {
  if (std::system("/usr/bin/python3 -c 'from torch.distributed import TCPStore' 2>/dev/null") != 0)
    GTEST_SKIP() << "there is no torch here";
  const int port = free_port();
  std::vector<std::unique_ptr<Process>> all;
  for (const int rank : {0, 1}) all.push_back(start_rank(rank, 3, port, "run", {"--rank-timeout", "8"}));
  write_text(folder_ / "hello.py", R"(import sys, datetime
from torch.distributed import TCPStore
store = TCPStore('127.0.0.1', int(sys.argv[1]), 3, False, datetime.timedelta(seconds=60))
store.set('smartmine/0/hello/2', store.get('smartmine/0/hello/0'))
)");
  ASSERT_EQ(std::system(("/usr/bin/python3 " + (folder_ / "hello.py") + " " + std::to_string(port)).c_str()), 0);
  for (auto& process : all) {
    const Outcome outcome = process->wait();
    EXPECT_EQ(outcome.status, 1);
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr("rank 2 has not connected to the others within 8 s"));
  }
}

TEST_F(RanksOfTheProgram, OneThatStandsStillWhileAllConnectIsNamedWithinTheTimeOut) {
  if (std::system("/usr/bin/python3 -c 'from torch.distributed import TCPStore' 2>/dev/null") != 0)
    GTEST_SKIP() << "there is no torch here";
  const int port = free_port();
  std::vector<std::unique_ptr<Process>> all;
  for (const int rank : {0, 1}) all.push_back(start_rank(rank, 3, port, "run", {"--rank-timeout", "5"}));
  // It has said where it can be reached, in Gloo's own way, at an address behind the others', so that these wait for it to connect.
  write_text(folder_ / "address.py", R"(import sys, datetime
from torch.distributed import TCPStore
store = TCPStore('127.0.0.1', int(sys.argv[1]), 3, False, datetime.timedelta(seconds=60))
store.set('smartmine/0/hello/2', store.get('smartmine/0/hello/0'))
store.set('smartmine/0/0/2', store.get('smartmine/0/0/1').replace(bytes([127, 0, 0, 1]), bytes([127, 255, 255, 254])))
)");
  ASSERT_EQ(std::system(("/usr/bin/python3 " + (folder_ / "address.py") + " " + std::to_string(port)).c_str()), 0);
  const auto begin = Clock::now();
  for (auto& process : all) {
    const Outcome outcome = process->wait();
    EXPECT_EQ(outcome.status, 1);
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr("rank 2 has not connected to the others within 5 s"));
  }
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(18)) << "Gloo alone waits for five times the time-out";
}

TEST_F(RanksOfTheProgram, OneAskedToStopStopsListsOfAll) {
  write_matrix(folder_ / "x.npy", clustered_rows(20000, 16), 20000, 16);
  const int port = free_port();
  std::vector<std::unique_ptr<Process>> all;
  for (const char* rank : {"0", "1"}) {
    const Words words = {SMARTMINE_PROGRAM,
                         "knn",
                         "--embeddings",
                         folder_ / "x.npy",
                         "--neighbors",
                         "20",
                         "--certify",
                         "--success-rate",
                         "0.999",
                         "--threads",
                         "1",
                         "--rank-timeout",
                         "60",
                         "--output",
                         folder_ / "lists"};
    all.push_back(std::make_unique<Process>(
        words,
        Surroundings{
            .environment = {{"RANK", rank}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", std::to_string(port)}}}));
  }
  ASSERT_TRUE(all[0]->wait_for_error_text("traverse-add"));  // what each does for itself, and the last of it
  all[1]->send(SIGINT);
  for (auto& process : all) EXPECT_EQ(process->wait().status, 130);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "lists.ids.npy"));
}

TEST_F(RanksOfTheProgram, OtherInstructionsForListsAreNamed) {
  write_matrix(folder_ / "x.npy", clustered_rows(700, 12), 700, 12);
  const Words knn = {"knn", "--embeddings", folder_ / "x.npy", "--neighbors", "20", "--output", folder_ / "lists"};
  Words alone = knn;
  alone.push_back("--json");
  if (smartmine(alone).out.find("\"portable\"") != std::string::npos) GTEST_SKIP() << "this machine has no other instructions";
  std::filesystem::remove(folder_ / "lists.ids.npy");
  for (const bool train : {true, false}) {
    const std::string port = std::to_string(free_port());
    std::vector<std::unique_ptr<Process>> all;
    for (const char* rank : {"0", "1"}) {
      Surroundings surroundings{.environment = {{"RANK", rank}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", port}}};
      if (*rank == '1') surroundings.environment["SMARTMINE_KERNEL"] = "portable";
      Words words = train ? command("run") : knn;
      words.insert(words.begin(), SMARTMINE_PROGRAM);
      all.push_back(std::make_unique<Process>(words, surroundings));
    }
    for (auto& process : all) {
      const Outcome outcome = process->wait();
      EXPECT_EQ(outcome.status, 1);
      EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
      EXPECT_THAT(outcome.err,
                  HasSubstr("rank 1 has other means of computing than rank 0: 'lists by portable; SMARTMINE_KERNEL sets that'"));
    }
  }
  EXPECT_FALSE(std::filesystem::exists(folder_ / "run"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "lists.ids.npy"));
}

TEST_F(RanksOfTheProgram, OnlyTheFirstNeedsThePlaceOfTheLists) {
  write_matrix(folder_ / "x.npy", clustered_rows(700, 12), 700, 12);
  std::filesystem::create_directory(folder_ / "there");
  const auto knn = [this](const char* rank, int port, const std::string& output) {
    const Words words = {SMARTMINE_PROGRAM, "knn", "--embeddings",   folder_ / "x.npy", "--neighbors", "20",
                         "--quiet",         "--threads", "1",        "--rank-timeout",  "20",          "--output",
                         folder_ / output};
    return std::make_unique<Process>(
        words,
        Surroundings{
            .environment = {{"RANK", rank}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", std::to_string(port)}}});
  };
  int port = free_port();  // another host has no such folder
  auto first = knn("0", port, "there/lists"), second = knn("1", port, "elsewhere/lists");
  for (auto* process : {&first, &second}) {
    const Outcome outcome = (*process)->wait();
    EXPECT_EQ(outcome.status, 0) << outcome.err;
  }
  EXPECT_TRUE(std::filesystem::exists(folder_ / "there/lists.ids.npy"));
  port = free_port();  // and where the first has none, the others hear why it ends
  first = knn("0", port, "elsewhere/lists"), second = knn("1", port, "there/lists");
  for (auto* process : {&first, &second}) {
    const Outcome outcome = (*process)->wait();
    EXPECT_NE(outcome.status, 0);
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr("elsewhere/lists.ids.npy"));
  }
}

TEST_F(RanksOfTheProgram, WrongWorldsEndEverywhereWithOneLine) {
  const auto expect_end = [](std::vector<std::unique_ptr<Process>> processes, const std::string& text) {
    for (auto& process : processes) {
      const Outcome outcome = process->wait();
      EXPECT_NE(outcome.status, 0) << text;
      EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
      EXPECT_THAT(outcome.err, HasSubstr(text));
    }
  };
  std::vector<std::unique_ptr<Process>> all;
  int port = free_port();
  for (const int rank : {0, 1, 1}) all.push_back(start_rank(rank, 3, port, "twice", {}));
  expect_end(std::move(all), "rank 1 has come twice");
  all.clear();
  port = free_port();
  for (const int rank : {0, 1}) all.push_back(start_rank(rank, 2, port, "other", {"--margin", rank == 0 ? "0.2" : "0.3"}));
  expect_end(std::move(all), "rank 1 has other settings than rank 0: 'margin = 0.3' where that has 'margin = 0.2'");
  all.clear();
  port = free_port();
  all.push_back(start_rank(0, 2, port, "mode", {}));
  all.push_back(start_rank(1, 2, port, "mode", {"--resume", "auto"}));
  expect_end(std::move(all), "rank 1 has other work than rank 0: 'train, --resume auto' where that has 'train, a new run'");
  all.clear();
  port = free_port();
  std::filesystem::copy(folder_ / "images", folder_ / "less", std::filesystem::copy_options::recursive);
  std::filesystem::remove(folder_ / "less/class10/3.png");
  for (const int rank : {0, 1})
    all.push_back(start_rank(rank, 2, port, "data", {"--data-root", folder_ / (rank == 0 ? "images" : "less")}));
  expect_end(std::move(all), "class10/3.png");
  all.clear();
  all.push_back(start_rank(1, 2, free_port(), "alone", {"--rank-timeout", "2"}));
  expect_end(std::move(all), "rank 0 cannot be reached at 127.0.0.1");
  all.clear();
  all.push_back(start("no address", {}, {{"RANK", "0"}, {"WORLD_SIZE", "2"}}));
  expect_end(std::move(all), "MASTER_ADDR is not set");
  all.clear();
  for (const char* rank : {"0", "1"})
    all.push_back(start("unknown", {"--rank-timeout", "2"},
                        {{"RANK", rank}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "no.such.host.invalid"}, {"MASTER_PORT", "29500"}}));
  expect_end(std::move(all), "MASTER_ADDR is 'no.such.host.invalid': no host of that name");
  all.clear();
  port = free_port();
  for (const char* rank : {"0", "1"})
    all.push_back(start("interface", {},
                        {{"RANK", rank},
                         {"WORLD_SIZE", "2"},
                         {"MASTER_ADDR", "127.0.0.1"},
                         {"MASTER_PORT", std::to_string(port)},
                         {"GLOO_SOCKET_IFNAME", "nonesuch0"}}));
  expect_end(std::move(all), "has no network interface 'nonesuch0' with an address");
  for (const char* run : {"twice", "other", "mode", "data", "alone", "no address", "unknown", "interface"})
    EXPECT_FALSE(std::filesystem::exists(folder_ / run)) << run;
}

TEST_F(RanksOfTheProgram, AnImageThatOneCannotReadIsNamedByAll) {
  std::filesystem::copy(folder_ / "images", folder_ / "bad", std::filesystem::copy_options::recursive);
  for (const char* image : {"class10/4.png", "class15/5.png"})  // of the first and of the last share
    std::filesystem::resize_file(folder_ / (std::string("bad/") + image), 40);
  const int port = free_port();
  std::vector<std::unique_ptr<Process>> all;
  for (const int rank : {0, 1}) all.push_back(start_rank(rank, 2, port, "run", {"--data-root", folder_ / (rank == 0 ? "images" : "bad")}));
  for (auto& process : all) {
    const Outcome outcome = process->wait();
    EXPECT_NE(outcome.status, 0);
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr("on rank 1"));
  }
}

std::string whole_program() { return (std::filesystem::path(SMARTMINE_PROGRAM).parent_path() / "smartmine-torch").string(); }

/// Ranks 0 and 1, of which the second is of a copy of the program that says something else of itself, wherever that stands in the file.
class RanksOfTwoPrograms : public RanksOfTheProgram {
 protected:
  void expect_named(const std::string& before, const std::string& own, const std::string& other) {
    std::string bytes = read_text(whole_program());
    for (std::size_t at = bytes.find(own); at != std::string::npos; at = bytes.find(own, at)) bytes.replace(at, other.size(), other);
    const std::string path = folder_ / "other-torch";
    std::ofstream(path, std::ios::binary) << bytes;
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    const int port = free_port();
    std::vector<std::unique_ptr<Process>> all;
    all.push_back(start_rank(0, 2, port, "run", {}));
    Words words = command("run");
    words.insert(words.begin(), path);
    const std::map<std::string, std::string> second = {
        {"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", std::to_string(port)}};
    all.push_back(std::make_unique<Process>(words, Surroundings{.environment = second}));
    for (auto& process : all) {
      const Outcome outcome = process->wait();
      EXPECT_EQ(outcome.status, 1);
      EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
      EXPECT_THAT(outcome.err, HasSubstr("rank 1 is of 'smartmine " + before + other));
      EXPECT_THAT(outcome.err, HasSubstr("rank 0 is of 'smartmine " + before + own));
    }
    EXPECT_FALSE(std::filesystem::exists(folder_ / "run"));
  }
  static std::string version() {
    const std::string told = smartmine({"--version"}).out;  // "smartmine 0.1.0 ..."
    const std::size_t begin = told.find_first_of("0123456789");
    return told.substr(begin, told.find_first_not_of("0123456789.", begin) - begin);
  }
};

TEST_F(RanksOfTwoPrograms, AnotherVersionIsNamedByAll) {
  const std::string own = version();
  expect_named("", own, "9" + own.substr(1));
}

TEST_F(RanksOfTwoPrograms, OtherSourcesOfTheSameVersionAreNamedByAll) {
  constexpr std::size_t kLength = std::string_view("sources 0123456789ab").size();
  const std::string program = read_text(whole_program());
  std::string own;
  for (std::size_t at = program.find("sources "); at != std::string::npos && own.empty(); at = program.find("sources ", at + 1)) {
    const std::string text = program.substr(at, kLength);
    if (text.find_first_not_of("0123456789abcdef", std::string_view("sources ").size()) == std::string::npos) own = text;
  }
  ASSERT_EQ(own.size(), kLength) << "the program does not say what it was built from";
  expect_named(version() + " (", own, own.substr(0, kLength - 1) + (own.back() == '0' ? '1' : '0'));
}

TEST_F(RanksOfTheProgram, APortInUseIsNamed) {
  const int port = free_port();
  std::unique_ptr<Process> first = start_rank(0, 2, port, "first", {"--rank-timeout", "15"});
  for (int wait = 0; wait < 500; ++wait) {  // until it listens
    const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    const bool listens = connect(socket, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
    close(socket);
    if (listens) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  const Outcome second = start_rank(0, 2, port, "second", {})->wait();
  EXPECT_EQ(second.status, 1);
  EXPECT_EQ(std::count(second.err.begin(), second.err.end(), '\n'), 1) << second.err;
  EXPECT_THAT(second.err, AllOf(HasSubstr("port " + std::to_string(port)), HasSubstr("in use")));
  first->send(SIGKILL);
}

TEST_F(RanksOfTheProgram, TwoChooseWhatOneChooses) {
  make_image_folder(folder_ / "many", 40, 16);  // enough to hold some classes out
  for (const char* ranks : {"1", "2"}) {
    const Outcome outcome = run(ranks, {"--choose", "on", "--data-root", folder_ / "many", "--epochs", "2", "--shards", "2",
                                        "--save-epochs", "2", "--ranks", ranks});
    ASSERT_EQ(outcome.status, 0) << outcome.err;
  }
  expect_same_run("1", "2");
  EXPECT_THAT(file("1/choice.json"), HasSubstr("\"trials\"")) << "there was nothing to choose";
  const auto without_times = [this](const std::string& name) {
    std::istringstream lines(file(name));
    std::string kept;
    for (std::string line; std::getline(lines, line);)
      if (line.find("\"seconds\"") == std::string::npos) kept += line + '\n';
    return kept;
  };
  EXPECT_EQ(without_times("1/choice.json"), without_times("2/choice.json"));
  EXPECT_EQ(file("1/kept.safetensors"), file("2/kept.safetensors"));
}

TEST_F(RanksOfTheProgram, OneAndTwoAndFourGiveTheSameBitsOnGlyphs) {
  for (const char* ranks : {"1", "2", "4"}) {
    const Outcome outcome =
        smartmine({"train",   "--dataset", "glyphs",   "--device",        "cpu", "--choose", "off", "--quiet",       "--threads",
                   "1",       "--epochs",  "1",        "--warmup-epochs", "0",   "--shards", "4",   "--save-epochs", "1",
                   "--ranks", ranks,       "--output", folder_ / ranks});
    ASSERT_EQ(outcome.status, 0) << outcome.err;
  }
  for (const char* name : {"checkpoint/model.safetensors", "checkpoint/optimizer.safetensors", "metrics.csv", "triplets/epoch-0001.npy"}) {
    EXPECT_FALSE(file(std::string("1/") + name).empty()) << name;
    for (const char* other : {"2/", "4/"}) EXPECT_EQ(file(std::string("1/") + name), file(other + std::string(name))) << other << name;
  }
}

TEST_F(RanksOfTheProgram, ListsByTwoAreThoseOfOne) {
  write_matrix(folder_ / "few.npy", clustered_rows(700, 12), 700, 12);
  write_matrix(folder_ / "many.npy", clustered_rows(9000, 12), 9000, 12);
  for (const auto& [name, index] : {std::pair("few", "exact"), {"many", "fanng"}}) {
    for (const char* ranks : {"1", "2"}) {
      const std::string prefix = folder_ / (std::string(name) + ranks);
      const Outcome outcome = smartmine({"knn", "--embeddings", folder_ / (std::string(name) + ".npy"), "--neighbors", "20", "--index",
                                         index, "--quiet", "--output", prefix, "--ranks", ranks, "--rank-timeout", "20"});
      ASSERT_EQ(outcome.status, 0) << outcome.err;
    }
    for (const char* end : {".ids.npy", ".distances.npy"})
      EXPECT_EQ(file(std::string(name) + "1" + end), file(std::string(name) + "2" + end)) << name << end;
  }
}

}  // namespace
}  // namespace smartmine::test
