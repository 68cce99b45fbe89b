#pragma once

#include <string>
#include <string_view>

#include "fmt/format.h"

namespace fmt {
template <class Range>
std::string join(const Range& values, std::string_view between) {
  std::string text;
  for (const auto& value : values) text += std::format("{}{}", text.empty() ? std::string_view() : between, value);
  return text;
}
}  // namespace fmt
