#pragma once

#include <format>
#include <string>

// What the core uses of fmt, by the standard library. For building the module where fmt is not installed.
namespace fmt {
using std::format;

template <class T>
std::string to_string(const T& value) {
  return std::format("{}", value);
}
}  // namespace fmt
