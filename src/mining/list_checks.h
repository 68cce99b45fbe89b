#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace smartmine {

/// The neighbour list of one point.
struct List {
  std::span<const std::uint32_t> ids;
  std::span<const float> distances;
};

/// Whether a list can be walked at all.
bool is_sound(std::uint32_t anchor, const List& list, std::size_t points);

/// Throws InvalidArgument that names the first place of an unsound list, and what is wrong there.
[[noreturn]] void throw_fault(std::uint32_t anchor, const List& list, std::size_t points);

}  // namespace smartmine
