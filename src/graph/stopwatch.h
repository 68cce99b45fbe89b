#pragma once

#include <chrono>
#include <string>

#include "smartmine/graph/neighbors.h"

namespace smartmine {

/// Writes the time a stage took into the statistics.
class Stopwatch {
 public:
  /// Ends the stage that began at the last call (or at construction).
  void lap(NeighborStats& stats, const std::string& stage) {
    const auto now = Clock::now();
    stats.stage_seconds[stage] += std::chrono::duration<double>(now - last_).count();
    last_ = now;
  }
  /// Fills in the whole time and the memory.
  void finish(NeighborStats& stats) const {
    stats.seconds = std::chrono::duration<double>(Clock::now() - first_).count();
    stats.peak_memory_bytes = peak_memory_bytes();
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point first_ = Clock::now();
  Clock::time_point last_ = first_;
};

}  // namespace smartmine
