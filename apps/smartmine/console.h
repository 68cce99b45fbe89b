#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>

#include "smartmine/core/error.h"
#include "smartmine/core/progress.h"

namespace smartmine::app {

/// The command line asks for something that cannot be: exit status 2.
class UsageError : public Error {
 public:
  using Error::Error;
};

/// Stopped by a signal with something to say about it: exit status 128 + the signal.
class Interrupted : public Error {
 public:
  using Error::Error;
};

/// What lines on stderr begin with, behind the program's name: which of several processes it is.
void speak_as(const std::string& name);

/// One line on stderr that begins with the program's name.
void warn(std::string_view message);

/// Text for stdout. Throws IoError if it cannot be written (a full disk, say).
void print(std::string_view text);

/// How wide the terminal that stdout goes to is; without one, as wide as anybody wants.
std::size_t output_columns();

/// A sentence as lines that fit the terminal that stdout goes to, broken between words.
std::string in_lines(std::string_view sentence);

/// Shows on stderr where a long call stands: one line on a terminal, never wider than that, and a plain line now and then elsewhere.
/// One at a time; the line is taken away by `finish`, by the destructor, and by whatever is printed next.
class ProgressDisplay {
 public:
  explicit ProgressDisplay(bool quiet);
  ~ProgressDisplay() { finish(); }
  ProgressDisplay(const ProgressDisplay&) = delete;
  ProgressDisplay& operator=(const ProgressDisplay&) = delete;

  /// A callback that draws, and cancels once Ctrl-C was pressed. Must not outlive this object.
  Progress callback();
  /// What comes after a stage, in seconds, told how long all of the stage takes; 0: nothing is known. The time left then covers it.
  using Rest = std::function<double(std::string_view stage, double stage_seconds)>;
  void expect(Rest rest) { rest_ = std::move(rest); }
  void finish();

 private:
  using Clock = std::chrono::steady_clock;
  enum class Style { kBar, kLines, kNone };

  void show(const ProgressEvent& event);
  void draw_bar(const ProgressEvent& event);

  Style style_;
  std::string rate(const ProgressEvent& event, Clock::time_point now) const;

  Clock::time_point started_ = Clock::now();
  Clock::time_point stage_started_ = started_;
  Clock::time_point last_shown_;
  std::size_t stage_first_ = 0;  // what was done of the stage when it was first heard of
  std::size_t last_done_ = 0;
  std::string stage_;
  Rest rest_;
};

}  // namespace smartmine::app
