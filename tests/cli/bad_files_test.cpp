#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "files.h"
#include "program.h"

namespace smartmine::test {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class BadFiles : public ::testing::Test {
 protected:
  // One clear line, status 1, and not a file more than before.
  void expect_failure(const std::vector<std::string>& parts, std::vector<std::string> more = {}, const Surroundings& surroundings = {}) {
    std::vector<std::string> arguments = {"knn", "--embeddings", folder_ / "x.npy", "--neighbors", "3", "--quiet"};
    if (std::find(more.begin(), more.end(), "--output") == more.end()) more.insert(more.end(), {"--output", folder_ / "y"});
    arguments.insert(arguments.end(), more.begin(), more.end());
    const std::set<std::string> before = folder_.names();
    const Outcome outcome = smartmine(arguments, surroundings);
    EXPECT_EQ(outcome.status, 1) << outcome.err;
    EXPECT_THAT(outcome.err, StartsWith("smartmine: "));
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
    for (const std::string& part : parts) EXPECT_THAT(outcome.err, HasSubstr(part));
    EXPECT_EQ(outcome.out, "");
    EXPECT_EQ(folder_.names(), before);
  }
  void write_good(std::size_t rows = 40, std::size_t columns = 8) {
    write_matrix(folder_ / "x.npy", clustered_rows(rows, columns), rows, columns);
  }
  TemporaryFolder folder_;
};

TEST_F(BadFiles, NamesTheRowAndColumnOfTheFirstValueThatIsNotFinite) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    std::vector<float> values = clustered_rows(40, 8);
    values[33 * 8 + 2] = bad;
    values[17 * 8 + 5] = bad;
    write_matrix(folder_ / "x.npy", values, 40, 8);
    for (const char* index : {"exact", "fanng"}) {
      SCOPED_TRACE(index);
      expect_failure({"x.npy: embeddings hold ", "row 17", "column 5"}, {"--index", index});
    }
  }
}

TEST_F(BadFiles, NamesTheFileWhoseRowsAreTooLongForTheirDistances) {
  std::vector<float> values = clustered_rows(40, 8);
  values[9 * 8 + 1] = 1e30F;
  write_matrix(folder_ / "x.npy", values, 40, 8);
  for (const char* index : {"exact", "fanng"}) {
    SCOPED_TRACE(index);
    expect_failure({"x.npy: row 9 ", "overflow"}, {"--index", index});
  }
}

TEST_F(BadFiles, RefusesAFileThatIsNotThere) { expect_failure({"x.npy"}); }

TEST_F(BadFiles, RefusesAnEmptyFile) {
  write_text(folder_ / "x.npy", "");
  expect_failure({"x.npy"});
}

TEST_F(BadFiles, RefusesAFolder) {
  std::filesystem::create_directory(folder_ / "x.npy");
  expect_failure({"x.npy"});
}

TEST_F(BadFiles, RefusesNoRows) {
  write_matrix(folder_ / "x.npy", {}, 0, 8);
  expect_failure({"x.npy", "no rows"});
}

TEST_F(BadFiles, RefusesNoColumns) {
  write_matrix(folder_ / "x.npy", {}, 8, 0);
  expect_failure({"x.npy", "dimension 0"});
}

TEST_F(BadFiles, RefusesTooManyColumns) {
  write_matrix(folder_ / "x.npy", std::vector<float>(2 * 65536), 2, 65536);
  expect_failure({"x.npy", "65536"});
}

TEST_F(BadFiles, RefusesASingleRow) {
  write_good(1);
  expect_failure({"x.npy", "1 row"});
}

TEST_F(BadFiles, RefusesTruncatedValues) {
  write_good();
  const std::string whole = read_text(folder_ / "x.npy");
  for (const std::size_t size : {whole.size() - 1, whole.size() - 100, std::size_t{128}, std::size_t{60}, std::size_t{9}, std::size_t{3}}) {
    SCOPED_TRACE(size);
    write_text(folder_ / "x.npy", whole.substr(0, size));
    expect_failure({"x.npy"});
  }
}

TEST_F(BadFiles, RefusesUnknownTypes) {
  for (const char* type : {"<c8", "|O", "|S4", "<f2x", ">f4"}) {
    SCOPED_TRACE(type);
    write_raw_npy(folder_ / "x.npy", std::string("{'descr': '") + type + "', 'fortran_order': False, 'shape': (10, 4), }",
                  std::string(320, '\0'));
    expect_failure({"x.npy"});
  }
}

TEST_F(BadFiles, RefusesFortranOrderWithAHint) {
  write_raw_npy(folder_ / "x.npy", "{'descr': '<f4', 'fortran_order': True, 'shape': (10, 4), }", std::string(160, '\0'));
  expect_failure({"x.npy", "ascontiguousarray"});
}

TEST_F(BadFiles, RefusesHugeShapes) {
  for (const char* shape :
       {"(1000000000000, 64)", "(18446744073709551615, 2)", "(4294967296, 4294967296)", "(99999999999999999999999, 4)", "(-1, 4)"}) {
    SCOPED_TRACE(shape);
    write_raw_npy(folder_ / "x.npy", std::string("{'descr': '<f4', 'fortran_order': False, 'shape': ") + shape + ", }",
                  std::string(160, '\0'));
    expect_failure({"x.npy"});
  }
}

TEST_F(BadFiles, RefusesShapesThatAreNoMatrix) {
  for (const char* shape : {"()", "(40,)", "(2, 4, 5)"}) {
    SCOPED_TRACE(shape);
    write_raw_npy(folder_ / "x.npy", std::string("{'descr': '<f4', 'fortran_order': False, 'shape': ") + shape + ", }",
                  std::string(160, '\0'));
    expect_failure({"x.npy"});
  }
}

TEST_F(BadFiles, SaysThatTheOutputFolderIsMissingBeforeAnyWork) {
  // The embeddings are missing too: it is the folder that is complained of, so it was looked at first.
  expect_failure({"nowhere"}, {"--output", folder_ / "nowhere/y"});
  expect_failure({"nowhere"}, {"--graph", folder_ / "nowhere/g"});
}

TEST_F(BadFiles, RefusesAReadOnlyOutputFolder) {
  if (geteuid() == 0) GTEST_SKIP() << "root may write everywhere";
  write_good();
  const std::string locked = folder_ / "locked";
  std::filesystem::create_directory(locked);
  std::filesystem::permissions(locked, std::filesystem::perms::owner_read | std::filesystem::perms::owner_exec);
  expect_failure({"locked"}, {"--output", locked + "/y"});
  EXPECT_TRUE(std::filesystem::is_empty(locked));
  std::filesystem::permissions(locked, std::filesystem::perms::owner_all);
}

TEST_F(BadFiles, RefusesAnOutputThatIsAFolder) {
  write_good();
  std::filesystem::create_directory(folder_ / "y.ids.npy");
  expect_failure({"y.ids.npy"});
}

TEST_F(BadFiles, LeavesEarlierResultsAloneWhenTheDiskIsFull) {
  write_good(1000);
  write_text(folder_ / "y.ids.npy", "earlier ids");
  write_text(folder_ / "y.distances.npy", "earlier distances");
  // 1,000 lists of 3 take 12 kB. A limit on file sizes is what a full disk looks like that needs no disk.
  expect_failure({"y.ids.npy"}, {}, {.environment = {}, .most_bytes_per_file = 4096, .out = {}});
  EXPECT_EQ(read_text(folder_ / "y.ids.npy"), "earlier ids");
  EXPECT_EQ(read_text(folder_ / "y.distances.npy"), "earlier distances");
}

class GraphFile : public BadFiles {
 protected:
  static constexpr std::size_t kRows = 400;
  GraphFile() { write_good(kRows); }
  void write_graph() {
    const Outcome outcome = smartmine(
        {"knn", "--embeddings", folder_ / "x.npy", "--neighbors", "3", "--graph", folder_ / "g", "--quiet", "--output", folder_ / "y"});
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    std::filesystem::remove(folder_ / "y.ids.npy");
    std::filesystem::remove(folder_ / "y.distances.npy");
  }
  void expect_refused(const std::string& part = "g") {
    expect_failure({folder_ / "g", part}, {"--start", "previous", "--graph", folder_ / "g"});
  }
};

TEST_F(GraphFile, OfAnEarlierEpochIsStartedFromAndReplaced) {
  write_graph();
  const std::string earlier = read_text(folder_ / "g");
  std::vector<float> moved = clustered_rows(kRows, 8);
  for (std::size_t i = 0; i < moved.size(); ++i) moved[i] += 0.02F * std::sin(static_cast<float>(i));
  write_matrix(folder_ / "x.npy", moved, kRows, 8);
  const Outcome outcome = smartmine({"knn", "--embeddings", folder_ / "x.npy", "--neighbors", "3", "--graph", folder_ / "g", "--start",
                                     "previous", "--json", "--output", folder_ / "y"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("\"start\":\"previous\""));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "y.ids.npy"));
  EXPECT_NE(read_text(folder_ / "g"), earlier);
}

TEST_F(GraphFile, MissingIsAnError) { expect_refused("no such graph"); }

TEST_F(GraphFile, ForeignIsAnError) {
  for (const std::string& content : {std::string(), std::string("hello"), std::string(100000, 'x'), read_text(folder_ / "x.npy")}) {
    write_text(folder_ / "g", content);
    expect_refused();
  }
}

TEST_F(GraphFile, DamagedIsAnError) {
  write_graph();
  const std::string whole = read_text(folder_ / "g");
  for (const std::size_t place : {std::size_t{0}, std::size_t{9}, std::size_t{20}, whole.size() / 3, whole.size() / 2, whole.size() - 1}) {
    SCOPED_TRACE(place);
    std::string damaged = whole;
    damaged[place] = static_cast<char>(damaged[place] ^ 0x10);
    write_text(folder_ / "g", damaged);
    expect_refused();
  }
  for (const std::size_t size : {whole.size() - 1, whole.size() / 2, std::size_t{10}}) {
    SCOPED_TRACE(size);
    write_text(folder_ / "g", whole.substr(0, size));
    expect_refused();
  }
  write_text(folder_ / "g", whole + "x");
  expect_refused();
}

TEST_F(GraphFile, OfOtherPointsIsAnError) {
  write_graph();
  write_good(kRows + 1);
  expect_refused("401");
  write_good(kRows, 9);
  expect_refused("dimension 9");
}

}  // namespace
}  // namespace smartmine::test
