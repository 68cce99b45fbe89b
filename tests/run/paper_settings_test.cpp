#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "smartmine/core/error.h"
#include "smartmine/run/config.h"

namespace smartmine {
namespace {

using ::testing::HasSubstr;

/// What a text of settings is refused with; empty: it is not.
std::string refusal(const std::string& text) {
  RunConfig config;
  try {
    set_from_toml(config, text);
    config.validate();
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return {};
}

TEST(PaperSettings, AStartOfTheGraphMakesAGraph) {
  RunConfig config;
  EXPECT_EQ(config.resolved().mining.index, "auto");
  set_from_toml(config, "graph-start = \"random\"\n");
  EXPECT_EQ(config.resolved().mining.index, "fanng");
  EXPECT_THAT(refusal("index = \"exact\"\ngraph-start = \"random\"\n"),
              HasSubstr("graph-start is 'random'; with index exact there is no graph"));
}

TEST(PaperSettings, TheValidationErrorNeedsImagesAndAController) {
  RunConfig config;
  EXPECT_EQ(config.resolved().data.reserved_images, 0);
  set_from_toml(config, "target = \"validation\"\n");
  EXPECT_EQ(config.resolved().data.reserved_images, 0.1);
  EXPECT_EQ(refusal("target = \"validation\"\nreserved-images = 0.2\n"), "");
  EXPECT_THAT(refusal("target = \"validation\"\nreserved-images = 0\n"), HasSubstr("reserved-images is 0; with target validation"));
  EXPECT_THAT(refusal("target = \"validation\"\nsystem = \"triplet-fanng\"\n"), HasSubstr("triplet-fanng has no controller to aim"));
  EXPECT_THAT(refusal("reserved-images = 0.6\n"), HasSubstr("reserved-images is 0.6"));
}

TEST(PaperSettings, ALongestListIsForLongerLists) {
  EXPECT_THAT(refusal("longest-list = 500\n"), HasSubstr("longest-list is 500; without longer-lists it must be auto"));
  EXPECT_THAT(refusal("longest-list = 50\nlonger-lists = true\nneighbors = 100\n"), HasSubstr("at least neighbors, 100"));
  EXPECT_EQ(refusal("longest-list = 500\nlonger-lists = true\nneighbors = 100\n"), "");
}

}  // namespace
}  // namespace smartmine
