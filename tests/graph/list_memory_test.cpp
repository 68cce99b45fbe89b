#include "smartmine/graph/list_memory.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "graph/made_rows.h"

namespace smartmine {
namespace {

using test::clustered_unit_rows;
using test::MadeRows;

/// What a process like this one has at most that does `work`.
template <class Work>
double peak_bytes(const Work& work) {
  const pid_t child = fork();
  if (child == 0) {
    try {
      work();
    } catch (...) {
      _exit(1);
    }
    _exit(0);
  }
  int status = 0;
  rusage used{};
  EXPECT_EQ(wait4(child, &status, 0, &used), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  return 1024.0 * static_cast<double>(used.ru_maxrss);
}

TEST(ListMemory, IsEnoughForWhatTheOptionsAskFor) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer takes memory of its own";
#endif
  constexpr double kSpare = 8e6, kMore = 1.1;  // what threads and samples take, whatever the rows
  const MadeRows many = clustered_unit_rows(60'000, 16, 2000), some = clustered_unit_rows(16'000, 16, 500);
  const double before = peak_bytes([] {});
  const auto expect_enough = [&](const char* what, const MadeRows& made, FanngOptions options) {
    SCOPED_TRACE(what);
    options.neighbors = 100;
    options.threads = 1;
    const double taken = peak_bytes([&] { build_fanng(made.rows(), options); }) - before;
    const auto expected = static_cast<double>(list_memory_bytes(made.rows(), options));
    EXPECT_LT(taken, kMore * expected + kSpare) << taken / expected;
    RecordProperty(what, std::to_string(taken / expected));
  };
  expect_enough("lists", many, {.for_search = false});
  expect_enough("kept", many, {.for_search = false, .refreshable = true});
  expect_enough("searched", many, {.for_search = true});
  expect_enough("certified", some, {.certify = true, .refreshable = true});
}

TEST(ListMemory, GrowsWithWhatIsKept) {
  const MadeRows made = clustered_unit_rows(1000, 16, 30);
  const auto bytes_a_row = [&](const FanngOptions& options) { return list_memory_bytes(made.rows(), options) / 1000; };
  const std::uint64_t lists = bytes_a_row({.neighbors = 100, .for_search = false});
  EXPECT_EQ(lists, 800U + 96 + 250);
  EXPECT_EQ(bytes_a_row({.neighbors = 100, .for_search = false, .refreshable = true}), lists + 800);
  EXPECT_EQ(bytes_a_row({.neighbors = 100, .for_search = false, .start = Start::kPrevious, .refreshable = true}), lists + 1600);
  // 200 candidates after the list, 40 edges of its own and 64 of the graph.
  EXPECT_EQ(bytes_a_row({.neighbors = 100, .certify = true}), lists + 4 * 200 + 4 * 40 + 8 * 64);
}

}  // namespace
}  // namespace smartmine
