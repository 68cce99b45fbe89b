#include "smartmine/run/setting.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>

#include "smartmine/core/error.h"

namespace smartmine {
namespace {

/// Such as 'from 1 to 64' or 'at least 0 and finite'.
std::string words_of(const Range& range) {
  if (std::isinf(range.low)) return "finite";
  const std::string low = range.above_low ? fmt::format("above {}", range.low) : fmt::format("at least {}", range.low);
  if (std::isinf(range.high)) return low + " and finite";
  if (range.above_low && range.below_high) return fmt::format("between {} and {}", range.low, range.high);
  if (range.below_high) return fmt::format("{} and less than {}", low, range.high);
  if (range.above_low) return fmt::format("{} and at most {}", low, range.high);
  return fmt::format("from {} to {}", range.low, range.high);
}

bool allows(const Range& range, double value) {
  if (!std::isfinite(value)) return false;
  const bool low = range.above_low ? value > range.low : value >= range.low;
  const bool high = range.below_high ? value < range.high : value <= range.high;
  return low && high;
}

std::string whole_words(const Range& range) {
  return std::isinf(range.low) || std::isinf(range.high) ? fmt::format("a whole number, {}", words_of(range))
                                                         : fmt::format("a whole number from {:.0f} to {:.0f}", range.low, range.high);
}

[[noreturn]] void refuse(const Setting& setting, const std::string& value, const std::string& allowed) {
  throw InvalidArgument(fmt::format("{} is {}; it must be {}", setting.name, value, allowed));
}

template <class Number>
bool parse_number(std::string_view text, Number& value) {
  if (text.starts_with('+')) text.remove_prefix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r";
  const std::size_t begin = text.find_first_not_of(kBlank);
  return begin == std::string_view::npos ? std::string_view{} : text.substr(begin, text.find_last_not_of(kBlank) - begin + 1);
}

bool is_name(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char letter) {
    return std::isalnum(letter) != 0 || letter == '-' || letter == '_' || letter == '.';
  });
}

bool ends_here(std::string_view rest) {
  rest = trimmed(rest);
  return rest.empty() || rest.front() == '#';
}

/// Reads a value and what is behind it; false: it is none.
bool parse_right_side(std::string_view text, TomlEntry& entry) {
  text = trimmed(text);
  if (text.empty()) return false;
  if (text.front() == '"' || text.front() == '\'' || text.front() == '[') {
    const std::size_t end = text.find(text.front() == '[' ? ']' : text.front(), 1);
    if (end == std::string_view::npos || !ends_here(text.substr(end + 1))) return false;
    entry.value = std::string(text.substr(1, end - 1));
    entry.quoted = text.front() != '[';
    entry.list = !entry.quoted;
    return true;
  }
  text = trimmed(text.substr(0, text.find('#')));
  double number = 0;
  entry.value = std::string(text);
  return text == "true" || text == "false" || parse_number(text, number);
}

bool parse_line(std::string_view line, std::string& section, TomlFile& file, std::size_t number) {
  line = trimmed(line);
  if (line.empty() || line.front() == '#') return true;
  if (line.front() == '[') {
    const std::size_t end = line.find(']');
    if (end == std::string_view::npos || !ends_here(line.substr(end + 1))) return false;
    section = std::string(trimmed(line.substr(1, end - 1)));
    return is_name(section);
  }
  const std::size_t equals = line.find('=');
  if (equals == std::string_view::npos) return false;
  TomlEntry entry{.section = section, .name = std::string(trimmed(line.substr(0, equals))), .value = {}, .line = number};
  if (!is_name(entry.name) || !parse_right_side(line.substr(equals + 1), entry)) return false;
  file.entries.push_back(std::move(entry));
  return true;
}

}  // namespace

std::string to_toml(const std::string& value) {
  return value.find('"') == std::string::npos ? fmt::format("\"{}\"", value) : fmt::format("'{}'", value);
}
std::string to_toml(std::int64_t value) { return fmt::format("{}", value); }
std::string to_toml(std::uint64_t value) { return fmt::format("{}", value); }
std::string to_toml(double value) { return fmt::format("{}", value); }
std::string to_toml(bool value) { return value ? "true" : "false"; }
std::string to_toml(const std::vector<std::int64_t>& value) { return fmt::format("[{}]", fmt::join(value, ", ")); }

void parse_value(const Setting& setting, const std::string& text, std::string& value) {
  check_value(setting, text);
  value = text;
}
void parse_value(const Setting& setting, const std::string& text, std::int64_t& value) {
  std::int64_t number = 0;
  if (!parse_number(text, number)) refuse(setting, fmt::format("'{}'", text), whole_words(setting.range));
  check_value(setting, number);
  value = number;
}
void parse_value(const Setting& setting, const std::string& text, std::uint64_t& value) {
  std::uint64_t number = 0;
  if (!parse_number(text, number))
    refuse(setting, fmt::format("'{}'", text), fmt::format("a whole number from 0 to {}", std::numeric_limits<std::uint64_t>::max()));
  value = number;
}
void parse_value(const Setting& setting, const std::string& text, double& value) {
  double number = 0;
  if (!parse_number(text, number)) refuse(setting, fmt::format("'{}'", text), fmt::format("a number, {}", words_of(setting.range)));
  check_value(setting, number);
  value = number;
}
void parse_value(const Setting& setting, const std::string& text, bool& value) {
  if (text != "true" && text != "false") refuse(setting, fmt::format("'{}'", text), "true or false");
  value = text == "true";
}
void parse_value(const Setting& setting, const std::string& text, std::vector<std::int64_t>& value) {
  std::vector<std::int64_t> numbers;
  for (std::size_t begin = 0; begin <= text.size() && !trimmed(text).empty();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    numbers.emplace_back();
    if (!parse_number(trimmed(std::string_view(text).substr(begin, end - begin)), numbers.back()))
      refuse(setting, fmt::format("'{}'", text), "whole numbers with commas between them");
    begin = end + 1;
  }
  check_value(setting, numbers);
  value = std::move(numbers);
}

void check_value(const Setting& setting, const std::string& value) {
  const std::vector<std::string>& names = setting.range.names;
  if (!names.empty() && std::find(names.begin(), names.end(), value) == names.end())
    refuse(setting, fmt::format("'{}'", value), fmt::format("one of {}", fmt::join(names, ", ")));
  if (value.find('\n') != std::string::npos || (value.find('"') != std::string::npos && value.find('\'') != std::string::npos))
    refuse(setting, fmt::format("'{}'", value), "on one line and without one of the two kinds of quotes");
}
void check_value(const Setting& setting, std::int64_t value) {
  if (!allows(setting.range, static_cast<double>(value))) refuse(setting, to_toml(value), whole_words(setting.range));
}
void check_value(const Setting& setting, std::uint64_t value) {
  if (!allows(setting.range, static_cast<double>(value))) refuse(setting, to_toml(value), whole_words(setting.range));
}
void check_value(const Setting& setting, double value) {
  if (!allows(setting.range, value)) refuse(setting, to_toml(value), words_of(setting.range));
}
void check_value(const Setting& setting, const std::vector<std::int64_t>& value) {
  for (const std::int64_t each : value) check_value(setting, each);
}

TomlFile parse_toml(std::string_view text) {
  TomlFile file;
  std::string section;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    if (!parse_line(text.substr(0, end), section, file, number)) file.bad_lines.push_back(number);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return file;
}

}  // namespace smartmine
