#include "smartmine/run/backbone_traits.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <system_error>

#include "smartmine/core/error.h"

namespace smartmine {

std::array<double, 3> parse_channels(const char* field, const std::string& text) {
  std::vector<double> values;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (true) {
    double value = 0;
    const auto [next, error] = std::from_chars(at, end, value);
    if (error != std::errc() || !std::isfinite(value)) break;
    values.push_back(value);
    at = next;
    if (at == end || *at != ',') break;
    ++at;
    while (at != end && *at == ' ') ++at;
  }
  if (at != end || (values.size() != 1 && values.size() != 3))
    throw InvalidArgument(fmt::format("{} is '{}'; it must be a number, or three with commas between them: red, green, blue", field, text));
  return values.size() == 1 ? std::array{values[0], values[0], values[0]} : std::array{values[0], values[1], values[2]};
}

namespace {

std::array<double, 3> parse_within(const char* field, const std::string& text, bool (*allowed)(double), const char* range) {
  const std::array<double, 3> values = parse_channels(field, text);
  if (!std::all_of(values.begin(), values.end(), allowed))
    throw InvalidArgument(fmt::format("{} is '{}'; it must be {}, for values of images are from 0 to 1: divide those for 0 to 255 by 255",
                                      field, text, range));
  return values;
}

}  // namespace

std::array<double, 3> parse_mean(const char* field, const std::string& text) {
  return parse_within(field, text, [](double value) { return value >= -1 && value <= 1; }, "from -1 to 1");
}

std::array<double, 3> parse_deviation(const char* field, const std::string& text) {
  return parse_within(field, text, [](double value) { return value > 0 && value <= 1; }, "above 0 and at most 1");
}

}  // namespace smartmine
