#include "option_checks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>

namespace smartmine::app {
namespace {

// `holds` sees numbers only, NaN and infinity among them.
template <class Holds>
CLI::Validator number(const Holds& holds, const std::string& what) {
  return CLI::Validator(
      [=](const std::string& text) {
        double value = 0;
        const bool good = CLI::detail::lexical_cast(text, value) && holds(value);
        return good ? std::string() : fmt::format("'{}' is not a number {}", text, what);
      },
      "");
}

}  // namespace

CLI::Validator whole_number(std::uint64_t low, std::uint64_t high) {
  return CLI::Validator(
      [=](const std::string& text) {
        std::uint64_t value = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
        const bool good = error == std::errc() && end == text.data() + text.size() && value >= low && value <= high;
        return good ? std::string() : fmt::format("'{}' is not a whole number from {} to {}", text, low, high);
      },
      "");
}

CLI::Validator positive_number() {
  return number([](double value) { return value > 0 && std::isfinite(value); }, "above 0 and finite");
}

CLI::Validator positive_number_or(const std::string& word) {
  return CLI::Validator(
      [=](const std::string& text) {
        double value = 0;
        const bool good = text == word || (CLI::detail::lexical_cast(text, value) && value > 0 && std::isfinite(value));
        return good ? std::string() : fmt::format("'{}' is not a number above 0 and finite, nor {}", text, word);
      },
      "");
}

CLI::Validator fraction(bool one_allowed) {
  return number([=](double value) { return value > 0 && (one_allowed ? value <= 1 : value < 1); }, one_allowed ? "in (0, 1]" : "in (0, 1)");
}

CLI::Validator share() {
  return number([](double value) { return value >= 0 && value <= 1; }, "from 0 to 1");
}

CLI::Validator not_negative() {
  return number([](double value) { return value >= 0 && std::isfinite(value); }, "of at least 0 and finite");
}

CLI::Validator number_from(double low, double high) {
  return number([=](double value) { return value >= low && value <= high; }, fmt::format("from {} to {}", low, high));
}

CLI::Validator zero_or(double low, double high) {
  return number([=](double value) { return value == 0 || (value >= low && value <= high); },
                fmt::format("from {} to {}, nor 0", low, high));
}

CLI::Validator one_of(const std::vector<std::string>& names) {
  return CLI::Validator(
      [=](const std::string& text) {
        const bool good = std::find(names.begin(), names.end(), text) != names.end();
        return good ? std::string() : fmt::format("'{}' is not one of {}", text, fmt::join(names, ", "));
      },
      "");
}

}  // namespace smartmine::app
