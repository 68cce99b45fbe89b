#include "smartmine/core/memory.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace smartmine {
namespace {

TEST(Memory, SaysHowMuchIsAvailable) {
  const std::uint64_t bytes = available_memory_bytes();
  const auto all = static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  EXPECT_GT(bytes, std::uint64_t{1} << 20);
  EXPECT_LE(bytes, all);
}

}  // namespace
}  // namespace smartmine
