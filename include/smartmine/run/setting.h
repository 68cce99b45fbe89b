#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace smartmine {

/// Values that a setting may have. Numbers lie between two ends, texts are among names.
struct Range {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool above_low = false;               ///< The low end itself is not allowed.
  bool below_high = false;              ///< Nor is the high one.
  std::vector<std::string> names = {};  ///< Allowed texts; empty: any.

  static Range from(double low, double high = std::numeric_limits<double>::infinity()) { return {.low = low, .high = high}; }
  static Range above(double low, double high = std::numeric_limits<double>::infinity()) {
    return {.low = low, .high = high, .above_low = true};
  }
  static Range between(double low, double high) { return {.low = low, .high = high, .above_low = true, .below_high = true}; }
  static Range below(double low, double high) { return {.low = low, .high = high, .below_high = true}; }
  static Range one_of(std::vector<std::string> names) { return {.names = std::move(names)}; }
  static Range any() { return {}; }
};

/// What another value of a setting changes.
enum class Changes {
  kResult,      ///< What is computed.
  kRepetition,  ///< What is computed, as another repetition of the same: the seed.
  kOutput,      ///< What is measured and written on the way.
  kNothing,     ///< Nothing but time, or last bits. A run may be resumed with another value.
};

/// A setting as people meet it: `--name` on the command line, `name = ...` in a TOML file.
struct Setting {
  std::string_view name;
  std::string_view help;
  Range range = {};
  Changes changes = Changes::kResult;
};

/// The value as TOML has it. One that is left to the program is "auto".
std::string to_toml(const std::string& value);
std::string to_toml(std::int64_t value);
std::string to_toml(std::uint64_t value);
std::string to_toml(double value);
std::string to_toml(bool value);
std::string to_toml(const std::vector<std::int64_t>& value);
template <class T>
std::string to_toml(const std::optional<T>& value) {
  return value ? to_toml(*value) : to_toml(std::string("auto"));
}

/// Reads a value as people write it: without the quotes of a text, numbers of a list with commas between them. Throws InvalidArgument
/// naming the setting, the text and what is allowed.
void parse_value(const Setting& setting, const std::string& text, std::string& value);
void parse_value(const Setting& setting, const std::string& text, std::int64_t& value);
void parse_value(const Setting& setting, const std::string& text, std::uint64_t& value);
void parse_value(const Setting& setting, const std::string& text, double& value);
void parse_value(const Setting& setting, const std::string& text, bool& value);
void parse_value(const Setting& setting, const std::string& text, std::vector<std::int64_t>& value);

/// Throws InvalidArgument naming the setting, its value and what is allowed.
void check_value(const Setting& setting, const std::string& value);
void check_value(const Setting& setting, std::int64_t value);
void check_value(const Setting& setting, std::uint64_t value);
void check_value(const Setting& setting, double value);
inline void check_value(const Setting& /*setting*/, bool /*value*/) {}
void check_value(const Setting& setting, const std::vector<std::int64_t>& value);

template <class T>
void parse_value(const Setting& setting, const std::string& text, std::optional<T>& value) {
  if (text == "auto") {
    value.reset();
    return;
  }
  T given{};
  parse_value(setting, text, given);
  value = given;
}

template <class T>
void check_value(const Setting& setting, const std::optional<T>& value) {
  if (value) check_value(setting, *value);
}

/// A value's kind, for a command line's help.
template <class T>
constexpr const char* kind_of(const T& /*value*/) {
  using Value = std::decay_t<T>;
  if constexpr (std::is_same_v<Value, std::string>) return "TEXT";
  if constexpr (std::is_same_v<Value, double> || std::is_same_v<Value, std::optional<double>>) return "X";
  if constexpr (std::is_same_v<Value, std::vector<std::int64_t>>) return "N,...";
  return "N";
}

/// A line `name = value` of a TOML file.
struct TomlEntry {
  std::string section;  ///< Of the last [section] before it; empty: none.
  std::string name;
  std::string value;  ///< Without quotes or brackets.
  std::size_t line = 0;
  bool quoted = false;
  bool list = false;  ///< Of numbers, with commas between them.
};

/// What a TOML file of settings holds: names, texts without escapes, numbers, true and false, lists of numbers, sections.
struct TomlFile {
  std::vector<TomlEntry> entries;
  std::vector<std::size_t> bad_lines;  ///< Lines that are none of this.
};
TomlFile parse_toml(std::string_view text);

}  // namespace smartmine
