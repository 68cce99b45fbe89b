#include "smartmine/data/glyphs.h"

#include <gtest/gtest.h>

#include <set>

#include "smartmine/core/error.h"
#include "smartmine/core/rows.h"
#include "smartmine/graph/exact_knn.h"

namespace smartmine {
namespace {

/// Share of images whose nearest other image, pixel by pixel, is of their class.
double raw_recall(const Dataset& dataset) {
  std::vector<float> values;
  for (std::size_t i = 0; i < dataset.size(); ++i)
    for (const std::uint8_t value : grey(dataset.image(i))) values.push_back(static_cast<float>(value) / 255);
  const auto result = ExactKnn({.neighbors = 1}).neighbors(Rows(values.data(), dataset.size(), values.size() / dataset.size()));
  std::size_t right = 0;
  for (std::size_t i = 0; i < dataset.size(); ++i)
    if (dataset.label(result.lists.ids(i)[0]) == dataset.label(i)) ++right;
  return static_cast<double>(right) / static_cast<double>(dataset.size());
}

TEST(Glyphs, HalvesAreOfDifferentClasses) {
  const DataSplits splits = make_glyphs({.classes = 11, .images_per_class = 3});
  EXPECT_EQ(splits.train.size(), 15U);
  EXPECT_EQ(splits.test.size(), 18U);
  EXPECT_EQ(splits.train.classes().size(), 5U);
  EXPECT_EQ(splits.test.classes().size(), 6U);
  std::set<std::int64_t> train(splits.train.labels().begin(), splits.train.labels().end());
  for (const std::int64_t label : splits.test.labels()) EXPECT_FALSE(train.contains(label));
}

TEST(Glyphs, AreTheSameForTheSameSeedWhateverElseIsDrawn) {
  const DataSplits few = make_glyphs({.classes = 8, .images_per_class = 2, .seed = 5});
  const DataSplits many = make_glyphs({.classes = 40, .images_per_class = 7, .seed = 5});
  const DataSplits other = make_glyphs({.classes = 8, .images_per_class = 2, .seed = 6});
  EXPECT_EQ(few.train.image(3), few.train.image(3));
  EXPECT_EQ(few.train.image(3), many.train.image(8));  // the second drawing of class 1
  EXPECT_NE(few.train.image(3), other.train.image(3));
  std::set<std::vector<std::uint8_t>> pictures;
  for (std::size_t i = 0; i < many.train.size(); ++i) pictures.insert(many.train.image(i).pixels);
  EXPECT_EQ(pictures.size(), many.train.size());
}

TEST(Glyphs, AreGreyWithInkInThem) {
  for (const std::size_t size : {8, 28, 40}) {
    const DataSplits splits = make_glyphs({.classes = 60, .images_per_class = 3, .size = size});
    for (std::size_t i = 0; i < splits.train.size(); ++i) {
      const Image image = splits.train.image(i);
      ASSERT_EQ(image.width, size);
      ASSERT_EQ(image.height, size);
      std::size_t dark = 0;
      for (std::size_t p = 0; p < size * size; ++p) {
        ASSERT_EQ(image.pixels[p * 3], image.pixels[p * 3 + 1]);
        ASSERT_EQ(image.pixels[p * 3], image.pixels[p * 3 + 2]);
        if (image.pixels[p * 3] < 128) ++dark;
      }
      const double share = static_cast<double>(dark) / static_cast<double>(size * size);
      EXPECT_GT(share, 0.005) << "glyph " << i << " of size " << size;
      EXPECT_LT(share, 0.6) << "glyph " << i << " of size " << size;
    }
  }
}

TEST(Glyphs, WithoutDifferencesAllDrawingsOfAClassAreAlike) {
  const GlyphOptions alike{.classes = 10, .images_per_class = 4, .bend = 0, .tilt = 0, .shift = 0, .thickness = 0, .noise = 0};
  const DataSplits splits = make_glyphs(alike);
  for (std::size_t i = 1; i < 4; ++i) EXPECT_EQ(splits.train.image(i), splits.train.image(0));
  EXPECT_NE(splits.train.image(4), splits.train.image(0));
}

TEST(Glyphs, AreHardPixelByPixelButNotHopeless) {
  const double recall = raw_recall(make_glyphs().test);
  EXPECT_GT(recall, 0.20);
  EXPECT_LT(recall, 0.45);
  EXPECT_GT(raw_recall(make_glyphs({.bend = 0.5, .tilt = 0.3, .shift = 0.2, .noise = 0.5}).test), 0.9);
}

TEST(Glyphs, RefusesBadOptions) {
  EXPECT_THROW(make_glyphs({.classes = 3}), InvalidArgument);
  EXPECT_THROW(make_glyphs({.images_per_class = 0}), InvalidArgument);
  EXPECT_THROW(make_glyphs({.size = 7}), InvalidArgument);
  EXPECT_THROW(make_glyphs({.bend = -1}), InvalidArgument);
  EXPECT_THROW(make_glyphs({.thickness = 1.5}), InvalidArgument);
  EXPECT_THROW(make_glyphs({.noise = 4}), InvalidArgument);
}

}  // namespace
}  // namespace smartmine
