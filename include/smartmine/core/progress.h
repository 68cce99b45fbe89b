#pragma once

#include <cstddef>
#include <functional>
#include <string_view>

namespace smartmine {

/// Where a long call stands: `done` of `total` units of the stage called `stage`. `total` is 0 while it is unknown.
struct ProgressEvent {
  std::string_view stage;
  std::size_t done = 0;
  std::size_t total = 0;
  std::string_view unit = {};  ///< What is counted, such as "images"; empty: nothing whose rate people care about.
};

/// Called now and then by long operations, on the thread that called them. Return false to cancel: the operation then
/// throws Cancelled and leaves nothing behind. An empty function is allowed everywhere and never cancels.
using Progress = std::function<bool(const ProgressEvent&)>;

/// Reports an event; throws Cancelled if the callback says so.
void report(const Progress& progress, std::string_view stage, std::size_t done, std::size_t total, std::string_view unit = {});

}  // namespace smartmine
