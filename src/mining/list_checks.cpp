#include "mining/list_checks.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <string>

#include "smartmine/core/error.h"

namespace smartmine {

// Written for the vectoriser: every list is looked at in full.
bool is_sound(std::uint32_t anchor, const List& list, std::size_t points) {
  const auto limit = static_cast<std::uint32_t>(points);
  unsigned bad = 0;
  for (const std::uint32_t id : list.ids) bad |= static_cast<unsigned>(id >= limit) | static_cast<unsigned>(id == anchor);
  const std::size_t count = list.distances.size();
  const float* distances = list.distances.data();
  for (std::size_t i = 1; i < count; ++i) bad |= static_cast<unsigned>(!(distances[i] >= distances[i - 1]));
  // In ascending order the ends vouch for what lies between; NaN compares false everywhere.
  return bad == 0 && distances[0] >= 0 && distances[count - 1] <= std::numeric_limits<float>::max();
}

void throw_fault(std::uint32_t anchor, const List& list, std::size_t points) {
  for (std::size_t place = 0; place < list.ids.size(); ++place) {
    const auto fail = [&](const std::string& what) {
      throw InvalidArgument(fmt::format("neighbour list of point {}, place {}: {}", anchor, place, what));
    };
    const std::uint32_t id = list.ids[place];
    const float distance = list.distances[place];
    if (id >= points) fail(fmt::format("id {} is out of range; there are {} points", static_cast<std::int32_t>(id), points));
    if (id == anchor) fail("the list names its own point");
    if (!std::isfinite(distance) || distance < 0) fail(fmt::format("distance {} is not a squared distance", distance));
    if (place > 0 && distance < list.distances[place - 1])
      fail(fmt::format("distance {} is smaller than the one before, {}; lists go nearest first", distance, list.distances[place - 1]));
  }
  throw InternalError("internal error: a neighbour list was found unsound for no reason");
}

}  // namespace smartmine
