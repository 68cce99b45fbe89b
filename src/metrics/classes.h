#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace smartmine {

/// Labels of any values as classes 0, 1, ... in ascending order of the label.
struct Classes {
  explicit Classes(std::span<const std::int64_t> labels);

  std::vector<std::uint32_t> of;     ///< Class of each point.
  std::vector<std::uint32_t> sizes;  ///< Members of each class.
};

}  // namespace smartmine
