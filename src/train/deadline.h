#pragma once

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <string>

#include "smartmine/core/progress.h"

namespace smartmine {

/// Ends the work when time is up, beside what the caller's progress says. 0 seconds: never.
class Deadline {
 public:
  using Clock = std::chrono::steady_clock;
  explicit Deadline(double seconds) : seconds_(seconds) {}
  bool passed() const { return seconds_ > 0 && std::chrono::duration<double>(Clock::now() - begin_).count() > seconds_; }
  Progress watching(const Progress& progress) {
    return [this, progress](const ProgressEvent& event) { return !passed() && (!progress || progress(event)); };
  }

 private:
  double seconds_;
  Clock::time_point begin_ = Clock::now();
};

inline double seconds_since(Deadline::Clock::time_point begin) {
  return std::chrono::duration<double>(Deadline::Clock::now() - begin).count();
}

/// Such as "0.06 s", "12 s", "5 minutes" or "3 hours"; seconds upwards.
inline std::string time_in_words(double seconds) {
  constexpr double kMinute = 60, kHour = 3600, kMany = 2;
  if (seconds < 1) return fmt::format("{:.1g} s", seconds);
  if (seconds >= kMany * kHour) return fmt::format("{:.0f} hours", seconds / kHour);
  return seconds >= kMany * kMinute ? fmt::format("{:.0f} minutes", seconds / kMinute) : fmt::format("{:.0f} s", std::ceil(seconds));
}

}  // namespace smartmine
