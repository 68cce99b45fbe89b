#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/made_files.h"
#include "graph/made_rows.h"
#include "smartmine/graph/fanng.h"

namespace smartmine {
namespace {

using smartmine::testing::contents;
using smartmine::testing::save;
using smartmine::testing::TemporaryFolder;
using test::clustered_unit_rows;
using test::equal_edges;
using test::MadeRows;
using test::message_of;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;

class FanngFile : public ::testing::Test {
 protected:
  FanngFile() : made_(clustered_unit_rows(12, 3, 3)), path_(folder_ / "small.graph") {
    graph_ = build_fanng(made_.rows(), {.neighbors = 2, .max_degree = 4, .threads = 1, .refreshable = true}).graph;
    graph_.save(path_);
    bytes_ = contents(path_);
  }
  std::string load_message(const std::string& bytes) {
    const auto path = folder_ / "other.graph";
    save(path, bytes);
    const std::string message = message_of<IoError>([&] { Fanng::load(path); });
    EXPECT_THAT(message, HasSubstr("other.graph"));
    EXPECT_EQ(message.find('\n'), std::string::npos) << "more than one line";
    return message;
  }

  TemporaryFolder folder_;
  MadeRows made_;
  std::filesystem::path path_;
  Fanng graph_;
  std::string bytes_;
};

TEST_F(FanngFile, GivesBackTheGraphThatWasSaved) {
  for (const std::size_t size : {2, 100, 5000}) {
    for (const bool refreshable : {false, true}) {
      const MadeRows made = clustered_unit_rows(size, 6, 10);
      const Fanng graph =
          build_fanng(made.rows(), {.neighbors = std::min<std::size_t>(size - 1, 10), .threads = 1, .refreshable = refreshable}).graph;
      graph.save(path_);
      const Fanng loaded = Fanng::load(path_);
      EXPECT_EQ(loaded.size(), size);
      EXPECT_EQ(loaded.dimension(), 6U);
      EXPECT_TRUE(equal_edges(graph, loaded));
      loaded.save(folder_ / "again.graph");
      EXPECT_EQ(contents(path_), contents(folder_ / "again.graph")) << "something was lost on the way";
    }
  }
}

TEST_F(FanngFile, GivesAGraphToStartFrom) {
  const MadeRows made = clustered_unit_rows(5000, 16, 40), now = test::drifted(made, 0.1);
  FanngOptions options{.neighbors = 15, .threads = 1, .refreshable = true};
  const Fanng graph = build_fanng(made.rows(), options).graph;
  graph.save(path_);
  const Fanng loaded = Fanng::load(path_);
  options.start = Start::kPrevious;
  const FanngResult from_memory = build_fanng(now.rows(), options, &graph);
  const FanngResult from_file = build_fanng(now.rows(), options, &loaded);
  EXPECT_TRUE(test::equal_lists(from_memory.lists, from_file.lists));
  EXPECT_TRUE(equal_edges(from_memory.graph, from_file.graph));
  EXPECT_GE(test::recall_of(from_file.lists, now.rows(), 300), 0.975);
}

TEST_F(FanngFile, GivesAGraphToSearch) {
  const Fanng loaded = Fanng::load(path_);
  for (std::uint32_t start = 0; start < 12; ++start) {
    const auto a = graph_.search(made_.rows(), made_[5], {.neighbors = 4, .start = start});
    const auto b = loaded.search(made_.rows(), made_[5], {.neighbors = 4, .start = start});
    EXPECT_TRUE(std::ranges::equal(a, b, [](const Found& x, const Found& y) { return x.id == y.id && x.distance == y.distance; }));
  }
}

TEST_F(FanngFile, LeavesNothingBesideTheGraph) { EXPECT_THAT(folder_.names(), ::testing::ElementsAre("small.graph")); }

TEST_F(FanngFile, IsRefusedWithAnyByteChanged) {
  for (std::size_t place = 0; place < bytes_.size(); ++place) {
    for (const unsigned flip : {0x01U, 0x80U, 0xffU}) {
      std::string damaged = bytes_;
      damaged[place] = static_cast<char>(static_cast<unsigned char>(damaged[place]) ^ flip);
      const std::string message = load_message(damaged);
      ASSERT_THAT(message, AnyOf(HasSubstr("damaged"), HasSubstr("not a smartmine graph"), HasSubstr("version"))) << "byte " << place;
    }
  }
}

TEST_F(FanngFile, IsRefusedWithTwoWordsExchanged) {
  for (std::size_t place = 0; place + 16 <= bytes_.size(); place += 8) {
    std::string damaged = bytes_.substr(0, place) + bytes_.substr(place + 8, 8) + bytes_.substr(place, 8) + bytes_.substr(place + 16);
    if (damaged == bytes_) continue;
    ASSERT_THAT(load_message(damaged), AnyOf(HasSubstr("damaged"), HasSubstr("not a smartmine graph"), HasSubstr("version"))) << place;
  }
}

TEST_F(FanngFile, IsRefusedWhenCutAnywhere) {
  for (std::size_t length = 0; length < bytes_.size(); ++length)
    ASSERT_THAT(load_message(bytes_.substr(0, length)), AnyOf(HasSubstr("damaged"), HasSubstr("too few"))) << length;
}

TEST_F(FanngFile, IsRefusedWithMoreAtItsEnd) {
  for (const std::size_t more : {1, 4, 8, 1000}) EXPECT_THAT(load_message(bytes_ + std::string(more, '\0')), HasSubstr("damaged"));
}

TEST_F(FanngFile, IsRefusedIfItIsOfAnotherKind) {
  EXPECT_THAT(load_message(""), HasSubstr("not a smartmine graph"));
  EXPECT_THAT(load_message("\x93NUMPY\x01" + std::string(500, ' ')), HasSubstr("not a smartmine graph"));
  EXPECT_THAT(load_message(std::string(500, '\0')), HasSubstr("not a smartmine graph"));
  EXPECT_THAT(load_message("a text that someone called a graph, long enough to hold what a header would take, and more"),
              HasSubstr("not a smartmine graph"));
}

TEST_F(FanngFile, IsRefusedIfItIsNewerAndSaysWhichVersionIsRead) {
  std::string newer = bytes_;
  newer[8] = static_cast<char>(newer[8] + 1);  // after the eight bytes that name the kind
  const std::string message = load_message(newer);
  EXPECT_THAT(message, AllOf(HasSubstr("version 2"), HasSubstr("version 1")));
}

TEST_F(FanngFile, IsRefusedIfItClaimsHugeCounts) {
  for (std::size_t field = 16; field < 56; field += 8) {
    for (const char value : {'\x7f', '\xff'}) {
      std::string hostile = bytes_;
      hostile.replace(field, 8, std::string(8, value));
      EXPECT_THAT(load_message(hostile), HasSubstr("damaged")) << field;
    }
  }
}

TEST_F(FanngFile, IsMissedByName) {
  EXPECT_THAT(message_of<IoError>([&] { Fanng::load(folder_ / "none.graph"); }), HasSubstr("none.graph"));
  EXPECT_THAT(message_of<IoError>([&] { Fanng::load(folder_.path()); }), HasSubstr(folder_.path().string()));
  EXPECT_THAT(message_of<IoError>([&] { graph_.save(folder_ / "missing/x.graph"); }), HasSubstr("missing"));
}

}  // namespace
}  // namespace smartmine
