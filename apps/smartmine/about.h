#pragma once

#include <fmt/format.h>

#include <string_view>

#include "smartmine/core/error.h"

namespace smartmine::app {

/// Runs `work`; what it throws about its arguments is about the content of `file`.
template <class Work>
auto about(std::string_view file, const Work& work) {
  try {
    return work();
  } catch (const InvalidArgument& error) {
    throw IoError(fmt::format("{}: {}", file, error.what()));
  }
}

}  // namespace smartmine::app
