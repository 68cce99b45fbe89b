#include "data/text_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/made_files.h"

namespace smartmine {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace)
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(TextFile, LinesHaveTheirNumbersWhateverTheirEnds) {
  const TemporaryFolder folder;
  save(folder / "lines", "\xef\xbb\xbfone\r\n\r\n  three \nfour");
  const auto lines = read_lines(folder / "lines");
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_EQ(lines[0].text, "one");
  EXPECT_EQ(lines[1].text, "three");
  EXPECT_EQ(lines[1].number, 3U);
  EXPECT_EQ(lines[2].text, "four");
  save(folder / "wide", std::string("o\0n\0e\0", 6));
  EXPECT_THAT(io_error([&] { read_lines(folder / "wide"); }), HasSubstr("is not a text file in UTF-8"));
}

TEST(CsvTable, ReadsQuotesBlankLinesAndWindowsLineEnds) {
  const TemporaryFolder folder;
  save(folder / "t.csv",
       "\xef\xbb\xbfPath,\"label\"\r\n"
       "\"a, b.png\",\"the \"\"big\"\" one\"\r\n"
       "\r\n"
       " c.png , x\r\n"
       "\"two\nlines\",\"\"\r\n"
       "last,");
  const CsvTable table(folder / "t.csv");
  EXPECT_EQ(table.column("path"), 0U);
  EXPECT_EQ(table.column("label"), 1U);
  EXPECT_EQ(table.column("split"), CsvTable::kNoColumn);
  ASSERT_EQ(table.rows().size(), 4U);
  EXPECT_THAT(table.rows()[0].fields, ElementsAre("a, b.png", "the \"big\" one"));
  EXPECT_THAT(table.rows()[1].fields, ElementsAre("c.png", "x"));
  EXPECT_EQ(table.rows()[1].line, 4U);
  EXPECT_THAT(table.rows()[2].fields, ElementsAre("two\nlines", ""));
  EXPECT_THAT(table.rows()[3].fields, ElementsAre("last", ""));
  EXPECT_EQ(table.rows()[3].line, 7U);
}

TEST(CsvTable, NamesTheLineThatIsWrong) {
  const TemporaryFolder folder;
  const auto message = [&](const std::string& text) {
    save(folder / "t.csv", text);
    return io_error([&] { CsvTable(folder / "t.csv"); });
  };
  EXPECT_THAT(message("path,label\na,b\nc\n"), AllOf(HasSubstr("t.csv: line 3: "), HasSubstr("has 1 fields where the header has 2")));
  EXPECT_THAT(message("path,label\n\"a,b\n"), HasSubstr("line 2: a quote is opened and never closed"));
  EXPECT_THAT(message("path,label\n\"a\"x,b\n"), HasSubstr("line 2: something follows the closing quote of 'a'"));
  EXPECT_THAT(message(""), HasSubstr("the file is empty"));
  EXPECT_THAT(message("\n\n"), HasSubstr("the file is empty"));
}

TEST(TextFile, QuotesForMessagesStayOnOneLine) {
  EXPECT_EQ(in_quotes("a\nb\x7f"), "'a?b?'");
  EXPECT_EQ(in_quotes(std::string(100, 'x')), "'" + std::string(80, 'x') + "...'");
}

}  // namespace
}  // namespace smartmine
