#include "smartmine/data/dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "core/made_files.h"
#include "data/made_images.h"
#include "smartmine/core/error.h"

namespace smartmine {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace)
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// `per_class` items of each of `classes` classes, labels 10, 11, ...
Dataset made(std::size_t classes, std::size_t per_class) {
  DatasetContents contents;
  contents.name = "made";
  contents.split = "train";
  contents.draw = [](std::uint64_t drawing) { return Image(1, 1, static_cast<std::uint8_t>(drawing)); };
  for (std::size_t c = 0; c < classes; ++c) {
    const auto label = static_cast<std::int64_t>(10 + c);
    contents.classes.push_back({label, "class " + std::to_string(label)});
    for (std::size_t i = 0; i < per_class; ++i) contents.items.push_back({"item", label, c * per_class + i});
  }
  return Dataset(std::move(contents));
}

std::set<std::int64_t> labels_of(const Dataset& dataset) { return {dataset.labels().begin(), dataset.labels().end()}; }

TEST(Dataset, KnowsItsItemsAndClasses) {
  DatasetContents contents;
  contents.name = "pets";
  contents.root = "/photos";
  contents.items = {{"b.jpg", 7, 0}, {"a.jpg", 3, 0}, {"c.jpg", 7, 0}};
  contents.classes = {{7, "cat"}, {3, "dog"}, {5, "bird"}};
  const Dataset dataset(contents);
  EXPECT_EQ(dataset.size(), 3U);
  EXPECT_THAT(dataset.labels(), ElementsAre(7, 3, 7));
  EXPECT_EQ(dataset.path(0), "/photos/b.jpg");
  ASSERT_EQ(dataset.classes().size(), 2U);  // nobody has a bird
  EXPECT_EQ(dataset.classes()[0].name, "dog");
  EXPECT_EQ(dataset.class_name(7), "cat");
  EXPECT_THROW(dataset.class_name(5), InvalidArgument);
  EXPECT_EQ(dataset.single_image_classes(), 1U);
  EXPECT_THROW(dataset.image(3), InternalError);
  EXPECT_TRUE(Dataset().empty());
}

TEST(Dataset, RefusesLabelsWithoutAClassAndClassesGivenTwice) {
  DatasetContents contents;
  contents.items = {{"b.jpg", 7, 0}};
  EXPECT_THROW(Dataset{contents}, InvalidArgument);
  contents.classes = {{7, "cat"}, {7, "dog"}};
  EXPECT_THROW(Dataset{contents}, InvalidArgument);
}

TEST(Dataset, SelectKeepsTheOrderGiven) {
  const Dataset part = made(3, 4).select(std::vector<std::size_t>{11, 0}, "few");
  EXPECT_EQ(part.split(), "few");
  EXPECT_THAT(part.labels(), ElementsAre(12, 10));
  EXPECT_EQ(part.image(0).pixels[0], 11);
  EXPECT_TRUE(part.path(0).empty());
  EXPECT_EQ(part.classes().size(), 2U);
  EXPECT_EQ(part.single_image_classes(), 2U);
}

TEST(HoldOutClasses, TakesWholeClassesByNumberOrShare) {
  const DataSplits whole{made(20, 3), made(5, 2), std::nullopt};
  for (const double classes : {5.0, 0.25}) {
    const DataSplits splits = hold_out_classes(whole, {.classes = classes, .seed = 3});
    ASSERT_TRUE(splits.validation);
    EXPECT_EQ(splits.validation->classes().size(), 5U);
    EXPECT_EQ(splits.validation->size(), 15U);
    EXPECT_EQ(splits.validation->split(), "validation");
    EXPECT_EQ(splits.train.size(), 45U);
    EXPECT_EQ(splits.test.size(), 10U);
    for (const std::int64_t label : labels_of(*splits.validation)) EXPECT_FALSE(labels_of(splits.train).contains(label));
  }
}

TEST(HoldOutClasses, DependsOnTheSeedAlone) {
  const DataSplits whole{made(50, 2), made(5, 2), std::nullopt};
  const auto held_out = [&](std::uint64_t seed) { return labels_of(*hold_out_classes(whole, {.classes = 10, .seed = seed}).validation); };
  EXPECT_EQ(held_out(1), held_out(1));
  EXPECT_NE(held_out(1), held_out(2));
  std::set<std::int64_t> ever;
  for (std::uint64_t seed = 0; seed < 60; ++seed) ever.merge(held_out(seed));
  EXPECT_EQ(ever.size(), 50U);  // every class has its chance
}

TEST(HoldOutClasses, TakesBlocksOfConsecutiveClasses) {
  const DataSplits whole{made(10, 2), made(5, 2), std::nullopt};
  const std::set<std::int64_t> all = labels_of(whole.train);
  auto next = all.begin();
  for (const std::int64_t block : {1, 2, 3}) {
    std::set<std::int64_t> expected;
    for (int i = 0; i < 3; ++i) expected.insert(*next++);
    for (const std::uint64_t seed : {1, 2})
      EXPECT_EQ(labels_of(*hold_out_classes(whole, {.classes = 3, .block = block, .seed = seed}).validation), expected);
  }
  EXPECT_THROW(hold_out_classes(whole, {.classes = 3, .block = 4}), InvalidArgument);
  EXPECT_THROW(hold_out_classes(whole, {.classes = 3, .block = -1}), InvalidArgument);
  EXPECT_THROW(hold_out_classes(whole, {.block = 1}), InvalidArgument);
}

TEST(HoldOutClasses, RefusesTooFewOnEitherSide) {
  const DataSplits whole{made(10, 2), made(5, 2), std::nullopt};
  EXPECT_FALSE(hold_out_classes(whole, {}).validation);
  for (const double classes : {-1.0, 1.0, 9.0, 10.0, 0.1, 0.95, 2.5, std::nan("")})
    EXPECT_THROW(hold_out_classes(whole, {.classes = classes}), InvalidArgument) << classes;
  const DataSplits twice = hold_out_classes(whole, {.classes = 2});
  EXPECT_THROW(hold_out_classes(twice, {.classes = 2}), InvalidArgument);
}

}  // namespace
}  // namespace smartmine
