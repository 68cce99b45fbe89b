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

}  // namespace smartmine
