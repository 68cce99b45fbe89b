#include "metrics/classes.h"

#include <algorithm>

namespace smartmine {

Classes::Classes(std::span<const std::int64_t> labels) : of(labels.size()) {
  std::vector<std::int64_t> distinct(labels.begin(), labels.end());
  std::sort(distinct.begin(), distinct.end());
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  sizes.assign(distinct.size(), 0);
  for (std::size_t i = 0; i < labels.size(); ++i) {
    of[i] = static_cast<std::uint32_t>(std::lower_bound(distinct.begin(), distinct.end(), labels[i]) - distinct.begin());
    ++sizes[of[i]];
  }
}

}  // namespace smartmine
