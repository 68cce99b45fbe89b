#include "smartmine/core/memory.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "core/made_files.h"

namespace smartmine {
namespace {

TEST(Memory, SaysHowMuchIsAvailable) {
  const std::uint64_t bytes = available_memory_bytes();
  const auto all = static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  EXPECT_GT(bytes, std::uint64_t{1} << 20);
  EXPECT_LE(bytes, all);
}

// A system of 64 GiB, where a process is in a group of a slice of the root.
class MadeSystem {
 public:
  explicit MadeSystem(const std::string& membership) {
    write("proc/meminfo", "MemTotal: 67108864 kB\nMemAvailable: 50331648 kB\n");
    write("proc/self/cgroup", membership);
  }
  void write(const std::filesystem::path& path, const std::string& text) const {
    const std::filesystem::path whole = std::filesystem::path(folder_ / "root") / path;
    std::filesystem::create_directories(whole.parent_path());
    std::ofstream(whole) << text;
  }
  std::uint64_t mebibytes() const { return available_memory_bytes(folder_ / "root") >> 20; }

 private:
  testing::TemporaryFolder folder_;
};

TEST(Memory, IsWhatAnyOfTheGroupsAroundAProcessLeaves) {
  const std::string groups = "sys/fs/cgroup/";
  const auto mebibytes = [](int count) { return std::to_string(std::uint64_t(count) << 20) + "\n"; };
  const MadeSystem made("0::/user.slice/task.scope/worker\n");
  EXPECT_EQ(made.mebibytes(), 48U * 1024);
  for (const std::string group : {"user.slice", "user.slice/task.scope", "user.slice/task.scope/worker"}) {
    made.write(groups + group + "/memory.max", "max\n");
    made.write(groups + group + "/memory.current", mebibytes(100));
  }
  EXPECT_EQ(made.mebibytes(), 48U * 1024);
  made.write(groups + "user.slice/memory.max", mebibytes(900));
  EXPECT_EQ(made.mebibytes(), 800U);
  made.write(groups + "user.slice/task.scope/memory.max", mebibytes(700));
  made.write(groups + "user.slice/task.scope/memory.stat", "anon 1\ninactive_file " + mebibytes(40));
  EXPECT_EQ(made.mebibytes(), 640U);
  made.write(groups + "user.slice/task.scope/worker/memory.max", mebibytes(300));
  EXPECT_EQ(made.mebibytes(), 200U);
  made.write(groups + "memory.max", mebibytes(150));
  made.write(groups + "memory.current", mebibytes(149));
  EXPECT_EQ(made.mebibytes(), 1U);
}

TEST(Memory, IsWhatGroupsOfTheFirstKindLeaveToo) {
  const MadeSystem made("5:cpu,cpuacct:/a\n4:memory:/a/b\n");
  made.write("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "8388608\n");
  made.write("sys/fs/cgroup/memory/a/memory.usage_in_bytes", "1048576\n");
  EXPECT_EQ(made.mebibytes(), 7U);
}

}  // namespace
}  // namespace smartmine
