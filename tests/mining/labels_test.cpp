#include "smartmine/mining/labels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <vector>

#include "smartmine/core/error.h"
#include "smartmine/core/random.h"

namespace smartmine {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

template <class Call>
std::string message_of(const Call& call) {
  try {
    call();
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(LabelIndex, GroupsPointsByAscendingLabel) {
  const std::vector<std::int64_t> labels{5, -2, 5, 9, -2, 5};
  const LabelIndex index(labels);
  EXPECT_EQ(index.size(), 6U);
  EXPECT_EQ(index.classes(), 3U);
  EXPECT_EQ(index.label(0), -2);
  EXPECT_EQ(index.label(2), 9);
  EXPECT_THAT(index.class_ids(), ElementsAre(1, 0, 1, 2, 0, 1));
  EXPECT_THAT(index.members(0), ElementsAre(1, 4));
  EXPECT_THAT(index.members(1), ElementsAre(0, 2, 5));
  EXPECT_THAT(index.members(2), ElementsAre(3));
  EXPECT_THAT(index.by_class(), ElementsAre(1, 4, 0, 2, 5, 3));
  EXPECT_EQ(index.single_member_classes(), 1U);
  EXPECT_THAT(index.anchors(), ElementsAre(0, 1, 2, 4, 5));
}

TEST(LabelIndex, TakesAnyValuesIncludingTheExtremes) {
  constexpr auto kLow = std::numeric_limits<std::int64_t>::min();
  constexpr auto kHigh = std::numeric_limits<std::int64_t>::max();
  const std::vector<std::int64_t> labels{kHigh, 0, kLow, kHigh, kLow};
  const LabelIndex index(labels);
  EXPECT_THAT(index.class_ids(), ElementsAre(2, 1, 0, 2, 0));
  EXPECT_EQ(index.label(0), kLow);
  EXPECT_EQ(index.label(2), kHigh);
}

TEST(LabelIndex, NearAndFarLabelsGiveTheSameClasses) {
  std::vector<std::int64_t> near;
  std::vector<std::int64_t> far;
  for (std::uint64_t i = 0; i < 5000; ++i) {
    near.push_back(static_cast<std::int64_t>(Random(3, 0, i).below(800)) - 400);
    far.push_back(near.back() * 1'000'000'007);
  }
  const LabelIndex a(near);
  const LabelIndex b(far);
  std::map<std::int64_t, std::vector<std::uint32_t>> expected;
  for (std::uint32_t i = 0; i < near.size(); ++i) expected[near[i]].push_back(i);
  ASSERT_EQ(a.classes(), expected.size());
  ASSERT_EQ(b.classes(), expected.size());
  std::uint32_t label_class = 0;
  for (const auto& [label, members] : expected) {
    EXPECT_EQ(a.label(label_class), label);
    EXPECT_EQ(b.label(label_class), label * 1'000'000'007);
    EXPECT_THAT(a.members(label_class), testing::ElementsAreArray(members));
    EXPECT_THAT(b.members(label_class), testing::ElementsAreArray(members));
    ++label_class;
  }
}

TEST(LabelIndex, RefusesOneClassOnlyAndSaysWhich) {
  const std::vector<std::int64_t> labels(12, 7);
  EXPECT_THAT(message_of([&] { LabelIndex index(labels); }), HasSubstr("one class only (7 for all 12 points)"));
}

TEST(LabelIndex, RefusesNoLabels) {
  EXPECT_THAT(message_of([&] { LabelIndex index(std::span<const std::int64_t>{}); }), HasSubstr("labels are empty"));
}

TEST(LabelIndex, HasNoAnchorsIfEveryClassHasOneMember) {
  const std::vector<std::int64_t> labels{1, 2, 3};
  const LabelIndex index(labels);
  EXPECT_EQ(index.single_member_classes(), 3U);
  EXPECT_THAT(message_of([&] { (void)index.anchors(); }), HasSubstr("each of the 3 classes has one member only"));
}

TEST(LabelIndex, RefusesAnotherNumberOfEmbeddings) {
  const std::vector<std::int64_t> labels{1, 2, 1};
  const LabelIndex index(labels);
  EXPECT_NO_THROW(index.require_size(3, "embeddings"));
  EXPECT_THAT(message_of([&] { index.require_size(4, "embeddings"); }), HasSubstr("3 labels but 4 embeddings"));
}

}  // namespace
}  // namespace smartmine
