#include "smartmine/core/rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "smartmine/core/error.h"

namespace smartmine {
namespace {

using ::testing::HasSubstr;

/// The message of the InvalidArgument that `work` must throw.
template <class Work>
std::string refusal(const Work& work) {
  try {
    work();
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  ADD_FAILURE() << "threw nothing";
  return "";
}

TEST(Rows, LayRowAfterRow) {
  const std::vector<float> values = {1, 2, 3, 4, 5, 6};
  const Rows rows(values.data(), 2, 3);
  EXPECT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows.dimension(), 3U);
  EXPECT_EQ(rows[1], values.data() + 3);
  EXPECT_THAT(rows.row(1), ::testing::ElementsAre(4, 5, 6));
}

TEST(Rows, RefuseSizesOutOfRangeNamingThem) {
  const float value = 0;
  EXPECT_THAT(refusal([&] { Rows(&value, 0, 1); }), HasSubstr("no rows"));
  EXPECT_THAT(refusal([&] { Rows(&value, 1, 0); }), HasSubstr("dimension 0; it must be from 1 to 65535"));
  EXPECT_THAT(refusal([&] { Rows(&value, 1, 65536); }), HasSubstr("dimension 65536"));
  EXPECT_THAT(refusal([&] { Rows(&value, std::size_t{1} << 31, 1); }), HasSubstr("2147483648 rows; at most 2147483647"));
  EXPECT_THAT(refusal([&] { Rows(nullptr, 1, 1); }), HasSubstr("no data"));
  EXPECT_NO_THROW(Rows(&value, kMaxRows, kMaxDimension));  // only looks at the numbers
}

TEST(CheckRows, TellsUnitRowsFromOthers) {
  std::vector<float> values = {1, 0, 0.6F, 0.8F, 0, -1};
  RowsSummary summary = check_rows({values.data(), 3, 2});
  EXPECT_TRUE(summary.unit_norm);
  EXPECT_NEAR(summary.min_norm, 1, 1e-6);
  EXPECT_NEAR(summary.max_norm, 1, 1e-6);
  values[0] = 1.0005F;
  EXPECT_TRUE(check_rows({values.data(), 3, 2}).unit_norm);
  values[0] = 1.002F;
  EXPECT_FALSE(check_rows({values.data(), 3, 2}).unit_norm);
  values[0] = 0;
  summary = check_rows({values.data(), 3, 2});
  EXPECT_FALSE(summary.unit_norm);
  EXPECT_EQ(summary.min_norm, 0);
  values = {3, 4, 0, 1};
  summary = check_rows({values.data(), 2, 2});
  EXPECT_FALSE(summary.unit_norm);
  EXPECT_NEAR(summary.min_norm, 1, 1e-6);
  EXPECT_NEAR(summary.max_norm, 5, 1e-6);
}

TEST(CheckRows, NamesTheFirstBadRowAndColumnAtAnyThreadCount) {
  constexpr std::size_t kRows = 20000;
  constexpr std::size_t kColumns = 3;
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity()}) {
    std::vector<float> values(kRows * kColumns, 0.5F);
    for (const std::size_t row : {7000U, 7001U, 15000U, 19999U}) values[row * kColumns + 2] = bad;
    values[7000 * kColumns + 1] = bad;
    for (unsigned threads = 1; threads <= 8; ++threads) {
      const std::string message = refusal([&] { check_rows({values.data(), kRows, kColumns}, threads); });
      EXPECT_THAT(message, HasSubstr("row 7000, column 1 (counted from 0)"));
      EXPECT_THAT(message, HasSubstr(std::isnan(bad) ? "NaN" : "infinite"));
    }
  }
}

TEST(CheckRows, RefusesRowsWhoseSquaredDistancesOverflow) {
  std::vector<float> values = {1, 1, 1e19F, 1};
  EXPECT_THAT(refusal([&] { check_rows({values.data(), 2, 2}); }), HasSubstr("row 1"));
  values[2] = 4e18F;  // twice this, squared, is a float
  EXPECT_NO_THROW(check_rows({values.data(), 2, 2}));
}

TEST(SquaredDistance, SumsSquaredDifferencesInThePrecisionAskedFor) {
  const float a[] = {1, 2, 4096}, b[] = {4, -2, 0};
  EXPECT_EQ(squared_distance(a, b, 2), 25);
  EXPECT_EQ(squared_distance(a, b, 3), 16777216.0F + 25 - 1);  // a float has no 16777241
  EXPECT_EQ(squared_distance<double>(a, b, 3), 16777241.0);
}

}  // namespace
}  // namespace smartmine
