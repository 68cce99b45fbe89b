#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "smartmine/core/error.h"
#include "smartmine/data/dataset.h"

namespace smartmine {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

/// Classes of these sizes.
DataSplits splits_of(const std::vector<std::size_t>& sizes) {
  DatasetContents contents{.name = "made", .split = "train", .notes = {}, .root = {}, .items = {}, .classes = {}, .draw = {}};
  for (std::size_t c = 0; c < sizes.size(); ++c) {
    contents.classes.push_back({static_cast<std::int64_t>(c), fmt::format("class {}", c)});
    for (std::size_t i = 0; i < sizes[c]; ++i) contents.items.push_back({fmt::format("{}/{}", c, i), static_cast<std::int64_t>(c), 0});
  }
  return {.train = Dataset(std::move(contents)), .test = Dataset(), .validation = std::nullopt};
}

std::map<std::int64_t, std::size_t> counts_of(const Dataset& data) {
  std::map<std::int64_t, std::size_t> counts;
  for (const std::int64_t label : data.labels()) ++counts[label];
  return counts;
}

TEST(ReservedImages, AreTheShareOfEveryClassThatCanSpareTwo) {
  const DataSplits splits = reserve_images(splits_of({60, 30, 4, 3, 1}), 0.1, 1);
  ASSERT_TRUE(splits.reserved);
  EXPECT_EQ(counts_of(*splits.reserved), (std::map<std::int64_t, std::size_t>{{0, 6}, {1, 3}, {2, 2}}));
  EXPECT_EQ(counts_of(splits.train), (std::map<std::int64_t, std::size_t>{{0, 54}, {1, 27}, {2, 2}, {3, 3}, {4, 1}}));
  EXPECT_EQ(splits.reserved->split(), "reserved");
  std::set<std::string> ids;
  for (const Dataset* part : {&splits.train, &*splits.reserved})
    for (std::size_t i = 0; i < part->size(); ++i) EXPECT_TRUE(ids.insert(part->id(i)).second) << part->id(i);
  EXPECT_EQ(ids.size(), 98U);
}

TEST(ReservedImages, AreTheSameForASeedAndOthersForAnother) {
  const auto ids_of = [](std::uint64_t seed) {
    const DataSplits splits = reserve_images(splits_of({60, 60}), 0.2, seed);
    std::set<std::string> ids;
    for (std::size_t i = 0; i < splits.reserved->size(); ++i) ids.insert(splits.reserved->id(i));
    return ids;
  };
  EXPECT_EQ(ids_of(1), ids_of(1));
  EXPECT_NE(ids_of(1), ids_of(2));
}

TEST(ReservedImages, AreNoneUnlessAskedForAndRefusedWhereNothingCanBeSpared) {
  EXPECT_FALSE(reserve_images(splits_of({9, 9}), 0, 1).reserved);
  EXPECT_THAT(
      [] {
        reserve_images(splits_of({9, 9}), 0.6, 1);
      },
      ThrowsMessage<InvalidArgument>(HasSubstr("reserved_images is 0.6; it must be from 0 to 0.5")));
  EXPECT_THAT(
      [] {
        reserve_images(splits_of({9, 3, 3}), 0.1, 1);
      },
      ThrowsMessage<InvalidArgument>(HasSubstr("only 1 training classes can spare two images")));
}

}  // namespace
}  // namespace smartmine
