#include "smartmine/mining/batch_builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "smartmine/core/error.h"
#include "smartmine/core/random.h"
#include "smartmine/graph/exact_knn.h"

namespace smartmine {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

/// Classes in pairs: 2c and 2c + 1 lie on each other, pairs far apart.
struct Pairs {
  std::vector<float> values;
  std::vector<std::int64_t> labels;
  NeighborLists lists;
  Pairs(std::size_t classes, std::size_t each) {
    Random random(3);
    for (std::size_t c = 0; c < classes; ++c)
      for (std::size_t i = 0; i < each; ++i) {
        for (std::size_t t = 0; t < 4; ++t)
          values.push_back(static_cast<float>((t == 0 ? 100.0 * static_cast<double>(c / 2) : 0) + random.normal()));
        labels.push_back(static_cast<std::int64_t>(c));
      }
    lists = ExactKnn({.neighbors = std::min<std::size_t>(30, labels.size() - 1), .threads = 1})
                .neighbors(Rows(values.data(), labels.size(), 4))
                .lists;
  }
};

TEST(BatchBuilder, BringsEveryPointRoundAndFillsBatchesWithDistinctClasses) {
  const Pairs made(20, 10);
  const LabelIndex labels(made.labels);
  const ClassBatches batches = build_batches(made.lists, labels, {.classes = 4, .images_per_class = 5, .rounds = 2});
  EXPECT_EQ(batches.batch_items, 20U);
  EXPECT_EQ(batches.items.size(), 400U);
  EXPECT_EQ(batches.stats.repeated, 0U);
  std::map<std::uint32_t, int> times;
  for (const std::uint32_t item : batches.items) ++times[item];
  EXPECT_EQ(times.size(), 200U);
  for (const auto& [item, count] : times) EXPECT_EQ(count, 2) << item;
  std::size_t whole = 0;
  for (std::size_t begin = 0; begin < batches.items.size(); begin += 20) {
    std::set<std::uint32_t> classes;
    for (std::size_t i = 0; i < 20; ++i) classes.insert(labels.class_of(batches.items[begin + i]));
    whole += classes.size() == 4;
  }
  EXPECT_GE(whole, 18U) << "only what is left at the end may have a class twice";
}

TEST(BatchBuilder, PutsClassesTogetherThatLieNearEachOther) {
  const Pairs made(20, 10);
  const LabelIndex labels(made.labels);
  const auto together = [&](double share) {
    const ClassBatches batches = build_batches(made.lists, labels, {.classes = 2, .images_per_class = 5, .near_share = share});
    std::size_t count = 0;
    for (std::size_t begin = 0; begin < batches.items.size(); begin += 10)
      count += labels.class_of(batches.items[begin]) / 2 == labels.class_of(batches.items[begin + 5]) / 2;
    return count;
  };
  EXPECT_EQ(together(1), 20U);
  EXPECT_LE(together(0), 5U);
  EXPECT_GT(together(0.5), together(0));
}

TEST(BatchBuilder, FillsUpTheLastGroupOfAClass) {
  const Pairs made(6, 7);
  const ClassBatches batches = build_batches(made.lists, LabelIndex(made.labels), {.classes = 3, .images_per_class = 4});
  EXPECT_EQ(batches.items.size(), 6U * 8U);
  EXPECT_EQ(batches.stats.repeated, 6U);
  EXPECT_EQ(std::set<std::uint32_t>(batches.items.begin(), batches.items.end()).size(), 42U);
}

TEST(BatchBuilder, GivesCopiesNoVote) {
  Pairs made(4, 6);
  for (float& value : made.values) value = 1;  // all are one point
  made.lists = ExactKnn({.neighbors = 10, .threads = 1}).neighbors(Rows(made.values.data(), 24, 4)).lists;
  const ClassBatches batches = build_batches(made.lists, LabelIndex(made.labels), {.classes = 2, .images_per_class = 3});
  EXPECT_EQ(batches.stats.near_groups, 0U);
  EXPECT_GT(batches.stats.copies_skipped, 0U);
}

TEST(BatchBuilder, IsTheSameForTheSameSeed) {
  const Pairs made(20, 10);
  const LabelIndex labels(made.labels);
  const auto items = [&](std::uint64_t seed) {
    return build_batches(made.lists, labels, {.classes = 4, .images_per_class = 5, .seed = seed}).items;
  };
  EXPECT_EQ(items(1), items(1));
  EXPECT_NE(items(1), items(2));
}

TEST(BatchBuilder, NamesBadOptions) {
  const Pairs made(4, 6);
  const LabelIndex labels(made.labels);
  EXPECT_THAT([&] { build_batches(made.lists, labels, {.classes = 1}); },
              ThrowsMessage<InvalidArgument>("classes is 1; it must be at least 2"));
  EXPECT_THAT([&] { build_batches(made.lists, labels, {.near_share = 2}); },
              ThrowsMessage<InvalidArgument>("near_share is 2; it must be from 0 to 1"));
  EXPECT_THAT([&] { build_batches(NeighborLists(3, 1), labels, {}); }, ThrowsMessage<InvalidArgument>(HasSubstr("lists")));
}

}  // namespace
}  // namespace smartmine
