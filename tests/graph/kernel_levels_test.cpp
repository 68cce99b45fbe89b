#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "core/made_files.h"
#include "graph/made_rows.h"
#include "smartmine/graph/exact_knn.h"

// A process settles once which kernels it uses, so each level is tested in a process of its own: this program again, with SMARTMINE_KERNEL
// set.
namespace smartmine {
namespace {

using ::testing::HasSubstr;

struct Child {
  int status = -1;
  std::string out;
};

// Runs those tests of this program that `filter` names, at a level.
Child run_again(const std::string& level, const std::string& filter) {
  const smartmine::testing::TemporaryFolder folder;
  const std::string out = (folder / "out").string(), argument = "--gtest_filter=" + filter;
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string text = *variable;
    // What the surroundings ask of this run's tests is not meant for the child's.
    if (text.rfind("SMARTMINE_KERNEL=", 0) != 0 && text.rfind("GTEST_", 0) != 0) variables.push_back(text);
  }
  variables.push_back("SMARTMINE_KERNEL=" + level);
  std::vector<char*> environment;
  for (std::string& variable : variables) environment.push_back(variable.data());
  environment.push_back(nullptr);
  std::string program = "/proc/self/exe", filter_argument = argument;
  char* arguments[] = {program.data(), filter_argument.data(), nullptr};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  pid_t id = 0;
  const int failed = ::posix_spawn(&id, self.c_str(), &actions, nullptr, arguments, environment.data());
  posix_spawn_file_actions_destroy(&actions);
  Child child;
  if (failed != 0) {
    ADD_FAILURE() << "cannot run " << self;
    return child;
  }
  int status = 0;
  ::waitpid(id, &status, 0);
  child.status = WIFEXITED(status) ? WEXITSTATUS(status) : 1000;
  child.out = smartmine::testing::contents(out);
  return child;
}

std::vector<std::string> level_names() {
  const kernels::Kernels* tables[16];
  std::vector<std::string> names;
  for (std::size_t i = 0, count = kernels::available(tables, 16); i < count; ++i) names.emplace_back(tables[i]->name);
  return names;
}

class ProcessAtLevel : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Every, ProcessAtLevel, ::testing::ValuesIn(level_names()), [](const auto& level) { return level.param; });

TEST_P(ProcessAtLevel, UsesTheLevelItIsTold) {
  const Child child = run_again(GetParam(), "InAProcessOfItsOwn.SaysItsLevel");
  EXPECT_EQ(child.status, 0) << child.out;
  EXPECT_THAT(child.out, HasSubstr("level " + GetParam() + "!"));
}

TEST_P(ProcessAtLevel, SearchesExactly) {
  const Child child = run_again(GetParam(), "ExactKnn.*");
  EXPECT_EQ(child.status, 0) << child.out;
  EXPECT_THAT(child.out, HasSubstr("PASSED"));
}

TEST_P(ProcessAtLevel, BuildsGraphs) {
  const Child child = run_again(GetParam(),
                                "FanngFromPartition.ReachesItsTargetsOnFewRows:FanngFromPartition.ReachesItsTargetsOnRowsWithoutClusters:"
                                "FanngFromRandomEdges.IsCertifiedAndFindsTheListsBySearching:FanngFromPrevious.StartsFromTheSameRowsToo:"
                                "FanngSearch.FindsTheNearestOfQueriesOutsideTheSet:Every/FanngOnOddRows.TakesEveryDimension/partition:"
                                "FanngOnManyOddRows.TakesRowsFarFromTheOrigin");
  EXPECT_EQ(child.status, 0) << child.out;
  EXPECT_THAT(child.out, HasSubstr("PASSED"));
}

TEST(ProcessAtNoLevel, SaysWhichLevelsThereAre) {
  for (const std::string wrong : {"mmx", "AVX2", "avx512 ", "neon"}) {
    const Child child = run_again(wrong, "InAProcessOfItsOwn.SaysItsLevel");
    EXPECT_EQ(child.status, 1) << child.out;
    EXPECT_THAT(child.out, HasSubstr("SMARTMINE_KERNEL is '" + wrong + "'; this machine can run portable"));
  }
}

TEST(ProcessAtNoLevel, TakesTheBestWhenTheVariableIsEmpty) {
  const Child child = run_again("", "InAProcessOfItsOwn.SaysItsLevel");
  EXPECT_EQ(child.status, 0) << child.out;
  EXPECT_THAT(child.out, HasSubstr("level " + level_names().back() + "!"));
}

// What the processes above run.
TEST(InAProcessOfItsOwn, SaysItsLevel) {
  const test::MadeRows made = test::clustered_unit_rows(10, 4, 2);
  const std::string level = ExactKnn({.neighbors = 2}).neighbors(made.rows()).stats.kernel;
  EXPECT_EQ(level, kernels::active().name);
  std::printf("level %s!\n", level.c_str());
}

}  // namespace
}  // namespace smartmine
