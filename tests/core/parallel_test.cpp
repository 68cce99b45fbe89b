#include "smartmine/core/parallel.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "smartmine/core/error.h"

namespace smartmine {
namespace {

TEST(ResolveThreads, IsWhatWasAskedForOrAtLeastOne) {
  EXPECT_EQ(resolve_threads(3), 3U);
  EXPECT_GE(resolve_threads(0), 1U);
}

TEST(ParallelFor, VisitsEveryIndexOnceAtAnyThreadCount) {
  for (unsigned threads = 1; threads <= 8; ++threads) {
    for (const std::size_t count : {0U, 1U, 7U, 64U, 1000U}) {
      for (const std::size_t grain : {0U, 1U, 3U, 64U, 5000U}) {
        std::vector<std::atomic<int>> visits(count);
        std::atomic<bool> within{true};
        parallel_for(count, grain, threads, [&](std::size_t begin, std::size_t end, unsigned worker) {
          if (worker >= threads || begin >= end || end > count) within = false;
          for (std::size_t i = begin; i < end; ++i) ++visits[i];
        });
        EXPECT_TRUE(within);
        for (const std::atomic<int>& visit : visits) ASSERT_EQ(visit.load(), 1) << threads << ' ' << count << ' ' << grain;
      }
    }
  }
}

TEST(ParallelFor, NoTwoThreadsShareAWorkerNumber) {
  std::vector<std::thread::id> owner(4);
  std::atomic<bool> shared{false};
  parallel_for(10000, 1, 4, [&](std::size_t, std::size_t, unsigned worker) {
    if (owner[worker] == std::thread::id()) owner[worker] = std::this_thread::get_id();
    if (owner[worker] != std::this_thread::get_id()) shared = true;
  });
  EXPECT_FALSE(shared);
}

TEST(ParallelFor, RethrowsAnExceptionOfAnyPieceAndStops) {
  for (unsigned threads = 1; threads <= 8; ++threads) {
    std::atomic<std::size_t> begun{0};
    try {
      parallel_for(1000000, 1, threads, [&](std::size_t begin, std::size_t, unsigned) {
        ++begun;
        if (begin == 50) throw std::runtime_error("piece 50");
      });
      ADD_FAILURE() << "threw nothing";
    } catch (const std::runtime_error& error) {
      EXPECT_EQ(error.what(), std::string("piece 50"));
    }
    if (threads == 1) {
      EXPECT_EQ(begun.load(), 51U);
    }
  }
}

TEST(ParallelFor, ReportsProgressOnTheCallingThreadOnly) {
  const std::thread::id caller = std::this_thread::get_id();
  std::size_t last = 0;
  bool sound = true;
  parallel_for(
      1000, 10, 4, [](std::size_t, std::size_t, unsigned) { std::this_thread::yield(); },
      [&](const ProgressEvent& event) {
        sound = sound && std::this_thread::get_id() == caller && event.stage == "counting" && event.total == 1000 && event.done > last &&
                event.done <= 1000;
        last = event.done;
        return true;
      },
      "counting");
  EXPECT_TRUE(sound);
}

TEST(ParallelFor, ACallbackThatReturnsFalseCancels) {
  for (unsigned threads = 1; threads <= 8; ++threads) {
    std::atomic<int> calls{0};
    // The others hold their first piece until the caller has reported, so that there is something left to cancel.
    const auto work = [&](std::size_t, std::size_t, unsigned worker) {
      while (worker != 0 && calls.load() == 0) std::this_thread::yield();
    };
    const auto refuse = [&](const ProgressEvent&) {
      ++calls;
      return false;
    };
    EXPECT_THROW(parallel_for(1000, 1, threads, work, refuse), Cancelled);
    EXPECT_EQ(calls.load(), 1);
  }
}

TEST(ParallelFor, AsksWhetherToStopThoughTheOthersDidAllTheWork) {
  for (int trial = 0; trial < 500; ++trial)
    EXPECT_THROW(parallel_for(2, 1, 2, [](std::size_t, std::size_t, unsigned) {}, [](const ProgressEvent&) { return false; }), Cancelled);
}

TEST(ParallelFor, DoesTheWorkWithFewerThreadsWhereTheSystemGivesNoMore) {
  // In a child process, because an account given up and a limit once set stay.
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    if (::geteuid() == 0 && ::setresuid(65534, 65534, 65534) != 0) ::_exit(2);
    const rlimit none{0, 0};
    if (::setrlimit(RLIMIT_NPROC, &none) != 0) ::_exit(2);
    std::size_t visits = 0;  // one thread only, so no atomic is needed
    try {
      parallel_for(100, 1, 8, [&](std::size_t, std::size_t, unsigned) { ++visits; });
    } catch (...) {
      ::_exit(3);
    }
    ::_exit(visits == 100 ? 0 : 4);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status)) << "ended by signal " << WTERMSIG(status);
  if (WEXITSTATUS(status) == 2) GTEST_SKIP() << "no limit on threads can be set here";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(Report, AnEmptyCallbackNeverCancels) { EXPECT_NO_THROW(report({}, "stage", 1, 2)); }

}  // namespace
}  // namespace smartmine
