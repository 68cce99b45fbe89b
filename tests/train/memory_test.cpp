#include "train/memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <limits>
#include <numeric>

#include "smartmine/core/error.h"
#include "smartmine/graph/exact_knn.h"

namespace smartmine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

/// Eight points on a line, point i at i, of classes 0 and 1 by turns.
struct Line {
  torch::Tensor rows = torch::arange(8, torch::kFloat32).unsqueeze(1).contiguous();
  std::vector<std::int64_t> values = {0, 1, 0, 1, 0, 1, 0, 1};
  LabelIndex labels{values};
  NeighborLists lists = ExactKnn({.neighbors = 4, .threads = 1}).neighbors(Rows(rows.data_ptr<float>(), 8, 1)).lists;
  std::filesystem::path file = std::filesystem::temp_directory_path() / "smartmine-memory-test.safetensors";
  ~Line() { std::filesystem::remove(file); }
};

std::vector<std::int64_t> numbers(const torch::Tensor& tensor) {
  const torch::Tensor whole = tensor.to(torch::kInt64).flatten().contiguous();
  return {whole.data_ptr<std::int64_t>(), whole.data_ptr<std::int64_t>() + whole.numel()};
}

TEST(Memory, GivesTheNearestOfABatchThatAreNotInItEachOnce) {
  const Line line;
  const Memory memory(line.rows, line.lists, line.labels, 2);
  const ReferenceRows near = memory.recall(std::vector<std::uint32_t>{3, 4});
  // Of 3 the negatives 2 and 4 and the positive 1, of 4 the negatives 3 and 5 and the positive 2.
  EXPECT_THAT(numbers(near.items), ElementsAre(1, 2, 5));
  EXPECT_THAT(numbers(near.rows), ElementsAre(1, 2, 5));
  EXPECT_THAT(numbers(near.labels), ElementsAre(1, 0, 1));
  std::vector<std::uint32_t> all(8);
  std::iota(all.begin(), all.end(), 0U);
  EXPECT_FALSE(memory.recall(all).rows.defined()) << "the batch has them all";
}

TEST(Memory, TakesInWhereABatchHasCome) {
  const Line line;
  Memory memory(line.rows, line.lists, line.labels, 4);
  const torch::Tensor moved = torch::tensor({{20.0F}, {50.0F}, {21.0F}});
  memory.refresh(std::vector<std::uint32_t>{2, 5, 2}, moved);
  const ReferenceRows near = memory.recall(std::vector<std::uint32_t>{3, 4});
  EXPECT_THAT(numbers(near.items), ElementsAre(1, 2, 5));
  EXPECT_THAT(numbers(near.rows), ElementsAre(1, 21, 50)) << "of point 2, which came twice, the last";
  EXPECT_EQ(line.rows[2].item<float>(), 2) << "the embeddings themselves are not touched";
}

TEST(Memory, HasTheNearestNegativesOfAClassThatLiesCloseTogether) {
  // Fifty points of class 0 within one of each other, then ten of classes 1 and 2 at 100 and on.
  constexpr std::int64_t kTight = 50, kAll = 60;
  torch::Tensor rows = torch::arange(kAll, torch::kFloat32).unsqueeze(1).contiguous();
  rows.narrow(0, 0, kTight).mul_(0.02);
  rows.narrow(0, kTight, kAll - kTight).add_(50);
  std::vector<std::int64_t> values(kAll, 0);
  for (std::size_t i = kTight; i < values.size(); ++i) values[i] = 1 + static_cast<std::int64_t>(i % 2);
  const LabelIndex labels(values);
  const auto lists = [&](std::size_t neighbors) {
    return ExactKnn({.neighbors = neighbors, .threads = 1}).neighbors(Rows(rows.data_ptr<float>(), kAll, 1)).lists;
  };
  const Memory memory(rows, lists(58), labels, 4);
  EXPECT_THAT(numbers(memory.recall(std::vector<std::uint32_t>{10}).items), ElementsAre(9, 50, 51, 52, 53));
  EXPECT_THAT(numbers(Memory(rows, lists(20), labels, 4).recall(std::vector<std::uint32_t>{10}).items), ElementsAre(9))
      << "a list too short to hold another class";
}

TEST(Memory, KeepsARowThatIsFiniteRatherThanOneThatIsNot) {
  const Line line;
  Memory memory(line.rows, line.lists, line.labels, 2);
  const float no_number = std::numeric_limits<float>::quiet_NaN();
  memory.refresh(std::vector<std::uint32_t>{2, 5}, torch::tensor({{no_number}, {50.0F}}));
  EXPECT_THAT(numbers(memory.recall(std::vector<std::uint32_t>{3, 4}).rows), ElementsAre(1, 2, 50));
}

TEST(Memory, ComesBackFromAFileAndRefusesOneThatDoesNotFit) {
  const Line line;
  Memory memory(line.rows, line.lists, line.labels, 3);
  memory.refresh(std::vector<std::uint32_t>{4}, torch::tensor({{40.0F}}));
  memory.save(line.file);
  const Memory back(line.file, line.labels, torch::kCPU);
  const std::vector<std::uint32_t> batch = {3, 6};
  EXPECT_EQ(numbers(back.recall(batch).items), numbers(memory.recall(batch).items));
  EXPECT_EQ(numbers(back.recall(batch).rows), numbers(memory.recall(batch).rows));
  const std::vector<std::int64_t> fewer = {0, 1, 0, 1};
  const LabelIndex other(fewer);
  EXPECT_THAT([&] { Memory(line.file, other, torch::kCPU); }, ThrowsMessage<IoError>(HasSubstr("damaged")));
}

}  // namespace
}  // namespace smartmine
