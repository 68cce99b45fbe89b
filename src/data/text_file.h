#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace smartmine {

/// A line of a text file and its number, from 1.
struct TextLine {
  std::size_t number = 0;
  std::string text;
};

/// The lines that are not blank. Windows line ends, a byte order mark and a missing last line end are all right.
/// Throws IoError if the file cannot be read or is not text.
std::vector<TextLine> read_lines(const std::filesystem::path& path);

/// Throws IoError with the file and the line.
[[noreturn]] void refuse_line(const std::filesystem::path& path, std::size_t line, const std::string& wrong);

/// Text from a file, fit for a message of one line: quoted, cut and without control characters.
std::string in_quotes(std::string_view text);

/// A line "number rest", as the label files of CUB-200-2011 have. Throws IoError naming the line and `expected`, such as "image path".
struct NumberedText {
  std::int64_t number = 0;
  std::string text;
  std::size_t line = 0;
};
std::vector<NumberedText> read_numbered(const std::filesystem::path& path, const char* expected);

/// A whole number and nothing else; false if `text` is not one.
bool parse_number(std::string_view text, std::int64_t& value);

/// A table of comma-separated values with a header. Fields may be quoted, with doubled quotes and line ends inside.
class CsvTable {
 public:
  /// Throws IoError naming the line of whatever is wrong: no header, a row of another length, an open quote.
  explicit CsvTable(const std::filesystem::path& path);

  /// Place of a column by its name, whatever its case; kNoColumn if there is none.
  static constexpr std::size_t kNoColumn = static_cast<std::size_t>(-1);
  std::size_t column(std::string_view name) const;

  struct Row {
    std::size_t line = 0;
    std::vector<std::string> fields;
  };
  const std::vector<Row>& rows() const { return rows_; }
  const std::vector<std::string>& header() const { return header_; }

 private:
  std::vector<std::string> header_;
  std::vector<Row> rows_;
};

}  // namespace smartmine
