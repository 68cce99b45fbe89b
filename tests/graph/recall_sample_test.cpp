#include "graph/recall_sample.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "graph/kernels/kernels.h"
#include "graph/made_rows.h"

namespace smartmine {
namespace {

// Every fourth row may be of another kind.
TEST(RecallSample, HasRowsOfAllKindsThatComeInTurns) {
  const test::MadeRows made = test::clouds_of_rows(4000, 8, 10, 0.5);
  const Progress none;
  const BuildTask task{made.rows(), {.neighbors = 5, .recall_sample = 1000}, kernels::active(), none};
  std::uint64_t computed = 0;
  const RecallSample sample = sample_recall(task, computed);
  ASSERT_EQ(sample.points().size(), 1000U);
  std::array<std::size_t, 4> counts{};
  for (const std::uint32_t point : sample.points()) ++counts[point % 4];
  for (const std::size_t count : counts) EXPECT_GT(count, 150U);
  EXPECT_TRUE(std::is_sorted(sample.points().begin(), sample.points().end()));
}

}  // namespace
}  // namespace smartmine
