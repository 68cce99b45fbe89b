#include "smartmine/mining/batch_builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
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

/// 40 classes of 30 in families of ten, so that a batch of ten classes may be one family. Some labels are wrong: of any class.
struct Families {
  static constexpr std::size_t kClasses = 40, kEach = 30, kFamilies = 4, kDimension = 16;
  std::vector<float> values;
  std::vector<std::int64_t> labels, truth;
  NeighborLists lists;
  explicit Families(double wrong) {
    Random random(7);
    std::vector<double> families(kFamilies * kDimension), centres;
    for (double& value : families) value = 3 * random.normal();
    for (std::size_t c = 0; c < kClasses; ++c)
      for (std::size_t t = 0; t < kDimension; ++t) centres.push_back(families[c % kFamilies * kDimension + t] + 1.2 * random.normal());
    for (std::size_t i = 0; i < kClasses * kEach; ++i) {
      const std::size_t c = i / kEach;
      for (std::size_t t = 0; t < kDimension; ++t) values.push_back(static_cast<float>(centres[c * kDimension + t] + random.normal()));
      truth.push_back(static_cast<std::int64_t>(c));
      labels.push_back(static_cast<std::int64_t>(random.uniform() < wrong ? random.below(kClasses) : c));
    }
    lists = ExactKnn({.neighbors = 60, .threads = 1}).neighbors(Rows(values.data(), labels.size(), kDimension)).lists;
  }

  /// Share of the pairs of classes in a batch that are of one family.
  double purity(const ClassBatches& made, std::size_t images) const {
    double pairs = 0, alike = 0;
    for (std::size_t b = 0; b < made.batches(); ++b)
      for (std::size_t i = 0; i < made.batch_items; i += images)
        for (std::size_t j = 0; j < i; j += images) {
          const auto family = [&](std::size_t place) { return labels[made.batch(b)[place]] % static_cast<std::int64_t>(kFamilies); };
          ++pairs;
          alike += family(i) == family(j) ? 1 : 0;
        }
    return alike / pairs;
  }

  /// Of the points with a wrong label, those that come into a batch with their true class.
  double wrong_with_true(const ClassBatches& made) const {
    double count = 0, with = 0;
    for (std::size_t b = 0; b < made.batches(); ++b) {
      std::set<std::int64_t> classes;
      for (const std::uint32_t item : made.batch(b)) classes.insert(labels[item]);
      for (const std::uint32_t item : made.batch(b)) {
        if (labels[item] == truth[item]) continue;
        ++count;
        with += classes.contains(truth[item]) ? 1 : 0;
      }
    }
    return with / count;
  }
};

std::set<std::uint32_t> classes_of(std::span<const std::uint32_t> batch, const LabelIndex& labels) {
  std::set<std::uint32_t> classes;
  for (const std::uint32_t item : batch) classes.insert(labels.class_of(item));
  return classes;
}

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
  for (std::size_t b = 0; b < batches.batches(); ++b) whole += classes_of(batches.batch(b), labels).size() == 4;
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

TEST(BatchBuilder, FillsTheLastBatchOfEveryRoundSoThatNoBatchBelongsToTwo) {
  const Pairs made(7, 6);  // 14 groups of three, 4 in a batch
  const LabelIndex labels(made.labels);
  const ClassBatches batches = build_batches(made.lists, labels, {.classes = 4, .images_per_class = 3, .rounds = 3});
  EXPECT_EQ(batches.batches(), 12U);
  EXPECT_EQ(batches.items.size(), 12U * 12U);
  EXPECT_EQ(batches.stats.repeated, 3U * 6U);
  for (std::size_t round = 0; round < 3; ++round) {
    std::set<std::uint32_t> came(batches.items.begin() + static_cast<std::ptrdiff_t>(48 * round),
                                 batches.items.begin() + static_cast<std::ptrdiff_t>(48 * (round + 1)));
    EXPECT_EQ(came.size(), 42U) << "round " << round;
  }
}

TEST(BatchBuilder, LeavesOutPointsThatAreAloneInTheirClass) {
  Pairs made(6, 5);
  made.labels[3] = 100;
  made.labels[17] = 101;
  const ClassBatches batches = build_batches(made.lists, LabelIndex(made.labels), {.classes = 3, .images_per_class = 2});
  EXPECT_EQ(batches.stats.alone, 2U);
  EXPECT_EQ(std::count(batches.items.begin(), batches.items.end(), 3U), 0);
  EXPECT_EQ(std::count(batches.items.begin(), batches.items.end(), 17U), 0);
  std::vector<std::int64_t> different(made.labels.size());
  for (std::size_t i = 0; i < different.size(); ++i) different[i] = static_cast<std::int64_t>(i);
  EXPECT_THROW(build_batches(made.lists, LabelIndex(different), {}), InvalidArgument);
}

TEST(BatchBuilder, BringsOneOfManyCopiesPerRound) {
  Pairs made(6, 40);
  for (std::size_t i = 0; i < 33; ++i) std::copy_n(made.values.begin(), 4, made.values.begin() + static_cast<std::ptrdiff_t>(4 * i));
  made.lists = ExactKnn({.neighbors = 20, .threads = 1}).neighbors(Rows(made.values.data(), 240, 4)).lists;  // shorter than the copies
  const LabelIndex labels(made.labels);
  const ClassBatches batches = build_batches(made.lists, labels, {.classes = 3, .images_per_class = 4, .rounds = 5});
  EXPECT_EQ(batches.stats.copies_left_out, 5U * 32U);
  for (std::size_t b = 0; b < batches.batches(); ++b) {
    std::set<std::uint32_t> copies;
    for (const std::uint32_t item : batches.batch(b))
      if (item < 33) copies.insert(item);
    EXPECT_LE(copies.size(), 1U) << "batch " << b;
  }
}

TEST(BatchBuilder, BringsEveryPointWhereAllAreCopiesHoweverShortTheLists) {
  Pairs made(4, 6);
  for (float& value : made.values) value = 0;  // lists of ten show no copy of the last two classes in their own
  made.lists = ExactKnn({.neighbors = 10, .threads = 1}).neighbors(Rows(made.values.data(), 24, 4)).lists;
  const ClassBatches batches = build_batches(made.lists, LabelIndex(made.labels), {.classes = 2, .images_per_class = 3});
  EXPECT_EQ(batches.stats.alone, 0U);
  EXPECT_EQ(batches.stats.only_copies, 0U);
  EXPECT_EQ(std::set<std::uint32_t>(batches.items.begin(), batches.items.end()).size(), 24U);
}

TEST(BatchBuilder, CountsClassesOfNothingButCopiesApartFromPointsThatAreAlone) {
  Pairs made(6, 5);
  for (std::size_t i = 10; i < 15; ++i) std::copy_n(made.values.begin() + 40, 4, made.values.begin() + static_cast<std::ptrdiff_t>(4 * i));
  made.labels[3] = 100;
  made.lists = ExactKnn({.neighbors = 20, .threads = 1}).neighbors(Rows(made.values.data(), 30, 4)).lists;
  const ClassBatches batches = build_batches(made.lists, LabelIndex(made.labels), {.classes = 3, .images_per_class = 2});
  EXPECT_EQ(batches.stats.alone, 1U);
  EXPECT_EQ(batches.stats.only_copies, 5U);
  EXPECT_EQ(std::set<std::uint32_t>(batches.items.begin(), batches.items.end()).size(), 24U);
}

TEST(BatchBuilder, BringsOneOfManyNearCopiesPerRound) {
  // Two thirds of each class are nearly one picture.
  Families made(0);
  constexpr std::size_t kEach = Families::kEach, kSize = Families::kDimension;
  for (std::size_t i = 0; i < made.labels.size(); ++i)
    if (i % kEach < 20)
      for (std::size_t t = 0; t < kSize; ++t)
        made.values[i * kSize + t] = made.values[i / kEach * kEach * kSize + t] + (t == i % kEach % 16 ? 0.01F : 0.0F);
  made.lists = ExactKnn({.neighbors = 60, .threads = 1}).neighbors(Rows(made.values.data(), made.labels.size(), kSize)).lists;
  const LabelIndex labels(made.labels);
  EXPECT_EQ(build_batches(made.lists, labels, {.classes = 10}).stats.copies_left_out, Families::kClasses * 3U) << "those that are the same";
  const ClassBatches batches = build_batches(made.lists, labels, {.classes = 10, .duplicate_distance = 0.01});
  EXPECT_EQ(batches.stats.copies_left_out, Families::kClasses * 19U);
  EXPECT_EQ(batches.stats.only_copies, 0U);
  EXPECT_GT(made.purity(batches, 4), 0.9);
  for (std::size_t b = 0; b < batches.batches(); ++b)
    for (std::size_t group = 0; group < batches.batch_items; group += 4) {
      std::set<std::uint32_t> copies;
      for (const std::uint32_t item : batches.batch(b).subspan(group, 4))
        if (item % kEach < 20) copies.insert(item);
      ASSERT_LE(copies.size(), 1U) << "batch " << b;
    }
}

TEST(BatchBuilder, KeepsAClassThatOnlyLiesCloseTogether) {
  Pairs made(6, 5);
  for (std::size_t i = 0; i < 20; ++i) made.values[i] = 1 + 0.001F * static_cast<float>(i);  // class 0
  made.lists = ExactKnn({.neighbors = 20, .threads = 1}).neighbors(Rows(made.values.data(), 30, 4)).lists;
  const ClassBatches batches =
      build_batches(made.lists, LabelIndex(made.labels), {.classes = 3, .images_per_class = 2, .duplicate_distance = 0.01});
  EXPECT_EQ(batches.stats.only_copies, 0U);
  EXPECT_EQ(std::set<std::uint32_t>(batches.items.begin(), batches.items.end()).size(), 30U);
}

TEST(BatchBuilder, ComparesCentresWhereListsHoldNoOtherClass) {
  // Classes of 60, far enough from each other that lists of twenty hold nothing else; two each are neighbours.
  constexpr std::size_t kClasses = 12, kEach = 60;
  std::vector<float> values;
  std::vector<std::int64_t> of;
  Random random(11);
  for (std::size_t i = 0; i < kClasses * kEach; ++i) {
    const std::size_t c = i / kEach;
    for (std::size_t t = 0; t < 3; ++t)
      values.push_back(static_cast<float>((t == 0 ? 300.0 * static_cast<double>(c / 2) + (c % 2 == 0 ? 0 : 30) : 0) + random.normal()));
    of.push_back(static_cast<std::int64_t>(c * 7 % kClasses));
  }
  const Rows rows(values.data(), of.size(), 3);
  const NeighborLists lists = ExactKnn({.neighbors = 20, .threads = 1}).neighbors(rows).lists;
  const LabelIndex labels(of);
  const auto made = [&](const Rows* given, unsigned threads) {
    return build_batches(lists, labels, {.classes = 2, .threads = threads}, given);
  };
  const auto together = [&](const ClassBatches& batches) {
    std::size_t count = 0;
    for (std::size_t b = 0; b < batches.batches(); ++b) count += batches.batch(b)[0] / kEach / 2 == batches.batch(b)[4] / kEach / 2;
    return count;
  };
  const ClassBatches by_centre = made(&rows, 1), drawn = made(nullptr, 1);
  EXPECT_EQ(together(by_centre), by_centre.batches());
  EXPECT_LT(2 * together(drawn), drawn.batches());
  EXPECT_EQ(drawn.stats.near_groups, 0U);
  EXPECT_EQ(by_centre.stats.classes_by_centre, kClasses);
  EXPECT_EQ(by_centre.stats.lists_without_negative, of.size());
  EXPECT_EQ(by_centre.stats.note,
            "100 % of the lists hold no point of another class, most of those of 12 classes: their centres are compared too");
  EXPECT_THAT(drawn.stats.note, HasSubstr("what is near them is drawn; longer lists or embeddings tell more"));
  EXPECT_EQ(made(&rows, 4).items, by_centre.items);
  const Pairs near(20, 10);
  EXPECT_EQ(build_batches(near.lists, LabelIndex(near.labels), {}).stats.note, "");
}

TEST(BatchBuilder, FindsNearCentresAmongManyClassesOfShortLists) {
  // Pairs of tight classes, with lists that hold nothing but their own: so many that their centres go through the index.
  constexpr std::size_t kClasses = 12'000, kEach = 4, kDimension = 8;
  std::vector<float> values;
  std::vector<std::int64_t> of;
  NeighborLists lists(kClasses * kEach, kEach - 1);
  for (std::size_t i = 0; i < kClasses * kEach; ++i) {
    const std::size_t c = i / kEach;
    Random of_pair(1, 1, c / 2), of_class(1, 2, c), of_point(1, 3, i);
    for (std::size_t t = 0; t < kDimension; ++t)
      values.push_back(static_cast<float>(of_pair.normal() + 0.1 * of_class.normal() + 0.01 * of_point.normal()));
    of.push_back(static_cast<std::int64_t>(c));
    for (std::size_t j = 0; j < kEach - 1; ++j) {
      lists.ids(i)[j] = static_cast<std::uint32_t>(c * kEach + (i + 1 + j) % kEach);
      lists.distances(i)[j] = 0.01F;
    }
  }
  const Rows rows(values.data(), of.size(), kDimension);
  const LabelIndex labels(of);
  const auto made = [&](unsigned threads) {
    return build_batches(lists, labels, {.classes = 2, .images_per_class = 4, .threads = threads}, &rows);
  };
  const ClassBatches batches = made(2);
  EXPECT_EQ(batches.stats.classes_by_centre, kClasses);
  std::size_t pairs = 0;
  for (std::size_t b = 0; b < batches.batches(); ++b)
    pairs += labels.class_of(batches.batch(b)[0]) / 2 == labels.class_of(batches.batch(b)[4]) / 2 ? 1 : 0;
  EXPECT_GT(pairs, batches.batches() * 9 / 10);
  EXPECT_EQ(made(1).items, batches.items);
}

TEST(BatchBuilder, FindsCopiesOfAClassThroughThoseOfAnother) {
  // Twelve copies of class 0 come first in all lists of ten, then three of class 1 that no list has.
  Pairs made(4, 15);
  for (std::size_t i = 0; i < 12; ++i) std::copy_n(made.values.begin(), 4, made.values.begin() + static_cast<std::ptrdiff_t>(4 * i));
  for (std::size_t i = 15; i < 18; ++i) std::copy_n(made.values.begin(), 4, made.values.begin() + static_cast<std::ptrdiff_t>(4 * i));
  made.lists = ExactKnn({.neighbors = 10, .threads = 1}).neighbors(Rows(made.values.data(), 60, 4)).lists;
  const ClassBatches batches = build_batches(made.lists, LabelIndex(made.labels), {.classes = 2, .images_per_class = 3});
  EXPECT_EQ(batches.stats.copies_left_out, 11U + 2U);
}

TEST(BatchBuilder, RefusesLabelsOfWhichOnlyOneClassHasTwoPoints) {
  const Pairs made(2, 3);
  const auto message = [&](const std::vector<std::int64_t>& labels) {
    try {
      build_batches(made.lists, LabelIndex(labels), {.near_share = 0});
    } catch (const InvalidArgument& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(message({5, 6, 7, 7, 7, 8}), "of the 4 classes only that of label 7 has more than one member; batches need two such classes");
  EXPECT_EQ(message({1, 2, 3, 4, 5, 6}), "each of the 6 classes has one member only; batches need two classes of two points or more");
  EXPECT_EQ(message({1, 1, 2, 2, 5, 6}), "");
}

TEST(BatchBuilder, CountsAPointWithAWrongLabelOnceHoweverManyVoteForIt) {
  // A ring of class 0, one of class 1 around it, and in the middle, nearest to all of class 0, a point of a class that lies elsewhere. If
  // votes for it were added up, its group would come before those of class 1 in 36 of these 50 rounds.
  std::vector<float> values;
  std::vector<std::int64_t> of;
  const auto add = [&](double x, double y, std::int64_t label) {
    values.insert(values.end(), {static_cast<float>(x), static_cast<float>(y)});
    of.push_back(label);
  };
  for (int i = 0; i < 16; ++i) add(std::cos(0.3927 * i), std::sin(0.3927 * i), 0);
  for (int i = 0; i < 16; ++i) add(2.2 * std::cos(0.3927 * i + 0.1), 2.2 * std::sin(0.3927 * i + 0.1), 1);
  for (int c = 2; c < 6; ++c)
    for (int i = 0; i < 16; ++i) add(100 * c + 0.1 * i, c, c);
  add(0, 0, 2);
  const NeighborLists lists = ExactKnn({.neighbors = 40, .threads = 1}).neighbors(Rows(values.data(), of.size(), 2)).lists;
  const LabelIndex labels(of);
  std::size_t wrong = 0;
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    const ClassBatches batches = build_batches(lists, labels, {.classes = 2, .images_per_class = 4, .seed = seed});
    for (std::size_t b = 0; b < batches.batches(); ++b) {
      const auto batch = batches.batch(b);
      wrong += classes_of(batch, labels).contains(0) && std::count(batch.begin(), batch.end(), 96U) > 0;
    }
  }
  EXPECT_LE(wrong, 30U);
}

TEST(BatchBuilder, KeepsFamiliesOfClassesTogetherThoughLabelsAreWrong) {
  const auto made = [](const Families& families, double share) {
    return build_batches(families.lists, LabelIndex(families.labels), {.classes = 10, .near_share = share, .rounds = 4});
  };
  const Families clean(0), some(0.05), more(0.1);
  EXPECT_GT(clean.purity(made(clean, 1), 4), 0.95);
  EXPECT_GT(some.purity(made(some, 1), 4), 0.9);
  EXPECT_GT(more.purity(made(more, 1), 4), 0.9);
  // Of a wrong label's batches a quarter hold the true class by chance, as do those drawn.
  EXPECT_LT(some.wrong_with_true(made(some, 1)), some.wrong_with_true(made(some, 0)) + 0.1);
}

TEST(BatchBuilder, HearsNoPointThatHasACopyInAnotherClass) {
  // A tenth of every class are pictures of a class of another family too: a copy each, or nearly one.
  Families families(0);
  constexpr std::size_t kEach = Families::kEach, kSize = Families::kDimension;
  for (std::size_t c = 0; c < Families::kClasses; ++c)
    for (std::size_t i = 0; i < 6; ++i) {
      const std::size_t other = (c + 5) % Families::kClasses;
      for (std::size_t t = 0; t < kSize; ++t)
        families.values[(c * kEach + i) * kSize + t] = families.values[(other * kEach + 20 + i) * kSize + t] + (t == i ? 0.02F : 0.0F);
    }
  families.lists = ExactKnn({.neighbors = 60, .threads = 1}).neighbors(Rows(families.values.data(), families.labels.size(), kSize)).lists;
  const ClassBatches batches = build_batches(families.lists, LabelIndex(families.labels), {.classes = 10, .duplicate_distance = 0.01});
  EXPECT_EQ(batches.stats.copies_skipped, 2U * 6U * Families::kClasses);
  EXPECT_GT(families.purity(batches, 4), 0.9);
}

TEST(BatchBuilder, GivesALargeClassSeveralGroupsRatherThanBatchesOfItsOwn) {
  Pairs made(10, 40);
  for (std::size_t i = 0; i < 200; ++i) made.labels[i] = 0;  // half of all
  const LabelIndex labels(made.labels);
  const ClassBatches batches = build_batches(made.lists, labels, {.classes = 6, .images_per_class = 4});
  for (std::size_t b = 0; b < batches.batches(); ++b) EXPECT_GE(classes_of(batches.batch(b), labels).size(), 2U) << "batch " << b;
}

TEST(BatchBuilder, GivesEveryBatchTwoClassesHoweverUnequalTheyAre) {
  for (const std::vector<std::size_t>& sizes : {std::vector<std::size_t>{1000, 4}, {1000, 100}, {1000, 100, 100}, {600, 600, 3, 3}}) {
    std::vector<std::int64_t> of;
    for (std::size_t c = 0; c < sizes.size(); ++c) of.insert(of.end(), sizes[c], static_cast<std::int64_t>(c));
    Random random(5);
    std::vector<float> values(4 * of.size());
    for (float& value : values) value = static_cast<float>(random.normal());
    const NeighborLists lists = ExactKnn({.neighbors = 50, .threads = 1}).neighbors(Rows(values.data(), of.size(), 4)).lists;
    const LabelIndex labels(of);
    for (const double near : {1.0, 0.0}) {
      const ClassBatches made = build_batches(lists, labels, {.near_share = near});
      std::set<std::uint32_t> came(made.items.begin(), made.items.end());
      EXPECT_EQ(came.size(), of.size());
      std::size_t lone = 0;
      for (std::size_t b = 0; b < made.batches(); ++b) lone += classes_of(made.batch(b), labels).size() < 2;
      EXPECT_EQ(lone, 0U) << sizes[0] << " and " << sizes[1] << " of " << sizes.size() << " classes";
      // The large class comes once, whatever else comes again, or is in what fills the last batch.
      std::size_t large = 0;
      for (const std::uint32_t item : made.items) large += labels.class_of(item) == 0;
      EXPECT_LE(large, sizes[0] + made.batch_items);
    }
  }
}

/// Classes of one size about centres drawn at random: those in the middle are near to many others.
struct Cloud {
  std::vector<float> values;
  std::vector<std::int64_t> labels;
  NeighborLists lists;
  Cloud(std::size_t classes, std::size_t each) {
    constexpr std::size_t kDimension = 5;
    Random random(5);
    for (std::size_t c = 0; c < classes; ++c) {
      std::vector<double> centre(kDimension);
      for (double& value : centre) value = 2.5 * random.normal();
      for (std::size_t i = 0; i < each; ++i) {
        for (const double value : centre) values.push_back(static_cast<float>(value + random.normal()));
        labels.push_back(static_cast<std::int64_t>(c));
      }
    }
    lists = ExactKnn({.neighbors = std::min<std::size_t>(100, labels.size() - 1), .threads = 1}).neighbors(rows()).lists;
  }
  Rows rows() const { return {values.data(), labels.size(), values.size() / labels.size()}; }

  /// Share of the points of a batch whose nearest other one is of another class.
  double error(std::span<const std::uint32_t> batch) const {
    double wrong = 0;
    for (const std::uint32_t point : batch) {
      float least = std::numeric_limits<float>::infinity();
      std::int64_t of = labels[point];
      for (const std::uint32_t other : batch) {
        const float distance = squared_distance(rows()[point], rows()[other], rows().dimension());
        if (other == point || !(distance < least)) continue;
        least = distance;
        of = labels[other];
      }
      wrong += of != labels[point] ? 1 : 0;
    }
    return wrong / static_cast<double>(batch.size());
  }
};

TEST(BatchBuilder, MakesBatchesAsHardAtTheEndOfARoundAsAtItsBegin) {
  const Cloud made(60, 24);
  constexpr std::size_t kRounds = 12;
  const ClassBatches batches = build_batches(made.lists, LabelIndex(made.labels), {.classes = 6, .images_per_class = 4, .rounds = kRounds});
  const std::size_t of_round = batches.batches() / kRounds;
  ASSERT_EQ(batches.batches(), kRounds * 60U);
  std::vector<double> sixths(6);
  std::vector<double> each;
  for (std::size_t b = 0; b < batches.batches(); ++b) {
    each.push_back(made.error(batches.batch(b)));
    sixths[b % of_round * 6 / of_round] += each.back() / static_cast<double>(batches.batches() / 6);
  }
  const auto [least, most] = std::minmax_element(sixths.begin(), sixths.end());
  EXPECT_LT(*most - *least, 0.08) << "they come in the order in which they were made";
  // And the easiest are not those that were made of what was left.
  std::sort(each.begin(), each.end());
  const double mean = std::accumulate(each.begin(), each.end(), 0.0) / static_cast<double>(each.size());
  const double easiest = std::accumulate(each.begin(), each.begin() + static_cast<std::ptrdiff_t>(each.size() / 6), 0.0) /
                         static_cast<double>(each.size() / 6);
  EXPECT_GT(easiest, 0.2 * mean);
  EXPECT_GT(mean, 0.2);
}

TEST(BatchBuilder, CarriesWhatDoesNotFillAGroupIntoTheNextRound) {
  for (const auto& [each, images] : {std::pair<std::size_t, std::size_t>{5, 4}, {10, 8}, {3, 8}, {7, 3}}) {
    std::set<std::size_t> sizes;
    for (const double near : {1.0, 0.0}) {
      const Cloud made(40, each);
      const LabelIndex labels(made.labels);
      const std::size_t rounds = images;  // so that each class comes out even in the end
      constexpr std::size_t kClasses = 5;
      const ClassBatches batches =
          build_batches(made.lists, labels, {.classes = kClasses, .images_per_class = images, .near_share = near, .rounds = rounds});
      std::vector<std::size_t> times(labels.size());
      for (const std::uint32_t item : batches.items) ++times[item];
      EXPECT_GE(*std::min_element(times.begin(), times.end()), rounds) << each << " by " << images;
      // What fills the last batch of each round is all that comes more often.
      EXPECT_EQ(batches.items.size(), rounds * labels.size() + batches.stats.repeated);
      EXPECT_LE(batches.stats.repeated, rounds * (kClasses - 1) * images) << each << " by " << images;
      for (std::size_t begin = 0; begin < batches.items.size(); begin += images) {
        const std::set<std::uint32_t> group(batches.items.begin() + static_cast<std::ptrdiff_t>(begin),
                                            batches.items.begin() + static_cast<std::ptrdiff_t>(begin + images));
        ASSERT_EQ(group.size(), std::min(each, images)) << "a point twice where another could have come";
      }
      sizes.insert(batches.items.size());
    }
    EXPECT_EQ(sizes.size(), 1U) << "near and drawn classes are to be compared with equally many images";
  }
}

TEST(BatchBuilder, GivesBatchesTwoClassesWhereARoundHasGroupsOfOneOnlyOrNone) {
  const Cloud made(2, 3);
  const LabelIndex labels(made.labels);
  for (const double near : {1.0, 0.0})
    for (std::uint64_t seed = 1; seed <= 10; ++seed) {
      const ClassBatches batches =
          build_batches(made.lists, labels, {.classes = 2, .images_per_class = 8, .near_share = near, .rounds = 8, .seed = seed});
      ASSERT_GT(batches.batches(), 0U);
      for (std::size_t b = 0; b < batches.batches(); ++b) EXPECT_EQ(classes_of(batches.batch(b), labels).size(), 2U) << "batch " << b;
    }
}

TEST(BatchBuilder, FillsTheLastGroupOfAClassOnceForAllRounds) {
  const Cloud made(40, 5);
  const ClassBatches batches =
      build_batches(made.lists, LabelIndex(made.labels), {.classes = 5, .images_per_class = 4, .near_share = 0, .rounds = 3});
  EXPECT_GE(batches.stats.repeated, 40U) << "of 15 in groups of four";
  EXPECT_LE(batches.stats.repeated, 40U + 3 * 4 * 4);
}

TEST(BatchBuilder, DrawsEachRoundOfEachSeedApart) {
  // In batches of two classes, those chosen by the lists are a pair. Which are was once drawn by the sum of seed and round.
  const Pairs made(40, 40);
  const LabelIndex labels(made.labels);
  const auto chosen = [&](std::uint64_t seed, std::size_t round) {
    const ClassBatches batches =
        build_batches(made.lists, labels, {.classes = 2, .images_per_class = 4, .near_share = 0.5, .rounds = 2, .seed = seed});
    std::vector<bool> pairs;
    for (std::size_t b = 0; b < 50; ++b) {
      const auto batch = batches.batch(round * batches.batches() / 2 + b);
      pairs.push_back(labels.class_of(batch[0]) / 2 == labels.class_of(batch[4]) / 2);
    }
    return pairs;
  };
  std::size_t equal = 0;
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    const auto first = chosen(seed, 1), second = chosen(seed + 1, 0);
    for (std::size_t b = 0; b < first.size(); ++b) equal += first[b] == second[b] ? 1 : 0;
  }
  EXPECT_LT(equal, 140U) << "of 200";
}

TEST(BatchBuilder, IsTheSameAtAnyNumberOfThreads) {
  const Pairs made(20, 10);
  const LabelIndex labels(made.labels);
  const auto items = [&](unsigned threads) {
    return build_batches(made.lists, labels, {.classes = 4, .images_per_class = 3, .near_share = 0.7, .rounds = 5, .threads = threads})
        .items;
  };
  const auto one = items(1);
  for (const unsigned threads : {2U, 3U, 8U}) EXPECT_EQ(items(threads), one) << threads;
}

TEST(BatchSurvey, MeasuresHowHardBatchesAreAndNamesTheClassesThatComeTogether) {
  const Pairs made(20, 10);
  const LabelIndex labels(made.labels);
  const Rows rows(made.values.data(), made.labels.size(), 4);
  const ClassBatches near = build_batches(made.lists, labels, {.classes = 2, .images_per_class = 5});
  const ClassBatches drawn = build_batches(made.lists, labels, {.classes = 2, .images_per_class = 5, .near_share = 0});
  const BatchSurvey hard = survey_batches(near, labels, &rows, 1000), easy = survey_batches(drawn, labels, &rows, 1000);
  EXPECT_EQ(hard.batches, 20U);
  EXPECT_GT(hard.error, 0.3) << "two classes lie on each other";
  EXPECT_LT(easy.error, 0.2);
  EXPECT_LT(hard.negative_distance, 10);
  EXPECT_GT(easy.negative_distance, 100);
  ASSERT_EQ(hard.pairs.size(), 6U);
  for (const ClassPair& pair : hard.pairs) {
    EXPECT_EQ(pair.first / 2, pair.second / 2);
    EXPECT_EQ(pair.batches, 2U);
  }
  EXPECT_EQ(hard.points, 200U);
  EXPECT_EQ(survey_batches(near, labels, &rows, 3).batches, 3U);
  const Rows others(made.values.data(), 10, 4);
  EXPECT_THROW(survey_batches(near, labels, &others), InvalidArgument);
  const BatchSurvey blind = survey_batches(near, labels, nullptr, 1000);
  EXPECT_EQ(blind.points, 0U);
  ASSERT_EQ(blind.pairs.size(), 6U);
  EXPECT_EQ(blind.pairs[3].second, hard.pairs[3].second);
}

TEST(BatchSurvey, LooksAtSomePointsAndClassesOfLargeBatches) {
  constexpr std::size_t kClasses = 1500, kEach = 6;
  std::vector<float> values;
  std::vector<std::int64_t> of;
  Random random(2);
  for (std::size_t i = 0; i < kClasses * kEach; ++i) {
    for (std::size_t t = 0; t < 2; ++t) values.push_back(static_cast<float>(random.normal()));
    of.push_back(static_cast<std::int64_t>(i / kEach));
  }
  const LabelIndex labels(of);
  const Rows rows(values.data(), of.size(), 2);
  const ClassBatches made =
      build_batches(NeighborLists(of.size(), 1), labels, {.classes = kClasses, .images_per_class = kEach, .near_share = 0, .rounds = 16});
  const BatchSurvey survey = survey_batches(made, labels, &rows);
  EXPECT_EQ(survey.batches, 16U);
  EXPECT_LE(survey.points * made.batch_items, kMostSurveyed);
  EXPECT_GT(survey.points, 16U * 20U);
  EXPECT_GT(survey.error, 0.9) << "the labels mean nothing";
  ASSERT_EQ(survey.pairs.size(), 6U);
  EXPECT_EQ(survey.pairs[0].batches, 16U);
  EXPECT_GT(survey.seconds, 0);
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
