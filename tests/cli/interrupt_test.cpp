#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <set>
#include <string>
#include <vector>

#include "files.h"
#include "program.h"

namespace smartmine::test {
namespace {

using ::testing::HasSubstr;

class Interrupt : public ::testing::TestWithParam<int> {};

TEST_P(Interrupt, StopsALongRunWithoutLeavingFiles) {
  const TemporaryFolder folder;
  write_matrix(folder / "x.npy", clustered_rows(30000, 32), 30000, 32);
  write_text(folder / "y.ids.npy", "earlier ids");
  // The paper's build is slow by nature: this would take minutes.
  Process process({SMARTMINE_PROGRAM, "knn", "--embeddings", folder / "x.npy", "--neighbors", "50", "--start", "random", "--success-rate",
                   "0.999", "--graph", folder / "g", "--output", folder / "y"});
  ASSERT_TRUE(process.wait_for_error_text("smartmine: ")) << process.wait().err;  // the first progress line
  process.send(GetParam());
  if (GetParam() == SIGTERM) process.send(GetParam());  // to the process and to its group, say
  const Outcome outcome = process.wait();
  EXPECT_EQ(outcome.status, 128 + GetParam());
  EXPECT_THAT(outcome.err, HasSubstr("smartmine: stopped"));
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(folder.names(), (std::set<std::string>{"x.npy", "y.ids.npy"}));
  EXPECT_EQ(read_text(folder / "y.ids.npy"), "earlier ids");
}

INSTANTIATE_TEST_SUITE_P(Signals, Interrupt, ::testing::Values(SIGINT, SIGTERM, SIGHUP), [](const auto& signal) {
  return signal.param == SIGINT ? "CtrlC" : signal.param == SIGTERM ? "Terminate" : "HangUp";
});

}  // namespace
}  // namespace smartmine::test
