#include "data/text_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <utility>

#include "smartmine/core/error.h"
#include "smartmine/core/mapped_file.h"

namespace smartmine {
namespace {

std::string read_text(const std::filesystem::path& path) {
  const MappedFile file(path);
  std::string_view text(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);  // a byte order mark
  if (text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff") || text.find('\0') != std::string_view::npos)
    throw IoError(fmt::format("{}: is not a text file in UTF-8; save it as such", path.string()));
  return std::string(text);
}

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

}  // namespace

std::vector<TextLine> read_lines(const std::filesystem::path& path) {
  const std::string text = read_text(path);
  std::vector<TextLine> lines;
  std::size_t number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = trimmed(std::string_view(text).substr(begin, end - begin));
    ++number;
    if (!line.empty()) lines.push_back({number, std::string(line)});
    begin = end + 1;
  }
  return lines;
}

void refuse_line(const std::filesystem::path& path, std::size_t line, const std::string& wrong) {
  throw IoError(fmt::format("{}: line {}: {}", path.string(), line, wrong));
}

std::string in_quotes(std::string_view text) {
  constexpr std::size_t kMost = 80;
  std::string out = "'";
  for (const char c : text.substr(0, kMost)) out += static_cast<unsigned char>(c) < 32 || c == 127 ? '?' : c;
  if (text.size() > kMost) out += "...";
  return out + "'";
}

bool parse_number(std::string_view text, std::int64_t& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

std::vector<NumberedText> read_numbered(const std::filesystem::path& path, const char* expected) {
  std::vector<NumberedText> found;
  for (const TextLine& line : read_lines(path)) {
    const std::size_t space = line.text.find_first_of(" \t");
    NumberedText entry;
    entry.line = line.number;
    if (space == std::string::npos || !parse_number(std::string_view(line.text).substr(0, space), entry.number))
      refuse_line(path, line.number, fmt::format("expected a number and {}, found {}", expected, in_quotes(line.text)));
    entry.text = trimmed(std::string_view(line.text).substr(space));
    found.push_back(std::move(entry));
  }
  if (found.empty())
    throw IoError(fmt::format("{}: the file has no lines; it should hold a number and {} a line", path.string(), expected));
  return found;
}

CsvTable::CsvTable(const std::filesystem::path& path) {
  const std::string text = read_text(path);
  std::size_t line = 1;
  for (std::size_t at = 0; at < text.size();) {
    Row row;
    row.line = line;
    bool more = true;
    while (more) {
      std::string field;
      if (at < text.size() && text[at] == '"') {
        ++at;
        while (true) {
          if (at >= text.size()) refuse_line(path, row.line, "a quote is opened and never closed");
          if (text[at] == '"') {
            if (at + 1 >= text.size() || text[at + 1] != '"') break;
            ++at;
          } else if (text[at] == '\n') {
            ++line;
          }
          field += text[at++];
        }
        ++at;
        if (at < text.size() && text[at] == '\r') ++at;
        if (at < text.size() && text[at] != ',' && text[at] != '\n')
          refuse_line(path, row.line, fmt::format("something follows the closing quote of {}", in_quotes(field)));
      } else {
        const std::size_t end = std::min(text.find_first_of(",\n", at), text.size());
        field = trimmed(std::string_view(text).substr(at, end - at));
        at = end;
      }
      row.fields.push_back(std::move(field));
      more = at < text.size() && text[at] == ',';
      ++at;  // over the comma or the line's end
    }
    ++line;
    if (row.fields.size() == 1 && row.fields[0].empty())  // a blank line
      continue;
    if (header_.empty()) {
      header_ = std::move(row.fields);
      continue;
    }
    if (row.fields.size() != header_.size())
      refuse_line(path, row.line,
                  fmt::format("has {} fields where the header has {}; quote fields with commas", row.fields.size(), header_.size()));
    rows_.push_back(std::move(row));
  }
  if (header_.empty()) throw IoError(fmt::format("{}: the file is empty; it should start with a header such as path,label", path.string()));
}

std::size_t CsvTable::column(std::string_view name) const {
  for (std::size_t i = 0; i < header_.size(); ++i)
    if (lower(header_[i]) == name) return i;
  return kNoColumn;
}

}  // namespace smartmine
