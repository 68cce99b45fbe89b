#include "smartmine/graph/neighbors.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <cmath>
#include <vector>

#include "smartmine/core/error.h"

namespace smartmine {

void NeighborLists::validate() const {
  std::vector<std::uint32_t> seen_by(size_, 0);  // the last point (plus 1) whose list named this id
  for (std::size_t point = 0; point < size_; ++point) {
    const auto list = ids(point);
    const auto squared = distances(point);
    const auto fail = [&](std::size_t place, const std::string& what) {
      throw InvalidArgument(fmt::format("neighbour list of point {}, place {}: {}", point, place, what));
    };
    for (std::size_t place = 0; place < neighbors_; ++place) {
      const std::uint32_t id = list[place];
      if (id >= size_) fail(place, fmt::format("id {} is out of range; there are {} points", static_cast<std::int32_t>(id), size_));
      if (id == point) fail(place, "the list names its own point");
      if (seen_by[id] == point + 1) fail(place, fmt::format("id {} stands in the list twice", id));
      seen_by[id] = static_cast<std::uint32_t>(point + 1);
      if (!std::isfinite(squared[place]) || squared[place] < 0)
        fail(place, fmt::format("distance {} is not a squared distance", squared[place]));
      if (place > 0 && squared[place] < squared[place - 1])
        fail(place,
             fmt::format("distance {} is smaller than the one before, {}; lists go nearest first", squared[place], squared[place - 1]));
    }
  }
}

std::size_t peak_memory_bytes() {
  rusage usage{};
  if (getrusage(RUSAGE_SELF, &usage) != 0) return 0;
  return static_cast<std::size_t>(usage.ru_maxrss) * 1024;  // Linux counts kibibytes
}

}  // namespace smartmine
