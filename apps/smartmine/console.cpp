#include "console.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <limits>

#include "interrupt.h"

namespace smartmine::app {
namespace {

constexpr std::chrono::milliseconds kBarEvery{100};
constexpr std::chrono::seconds kLineEvery{10};
constexpr std::chrono::seconds kStageLineEvery{1};
constexpr std::size_t kWidestBar = 32;
constexpr std::size_t kNarrowestBar = 8;
constexpr std::size_t kUsualColumns = 80;
constexpr std::string_view kClearLine = "\r\x1b[2K";

std::string speaker = "smartmine";
bool line_open = false;  // a progress line stands on the terminal and other words must not follow it

bool on_a_terminal() {
  const char* terminal = std::getenv("TERM");
  return isatty(STDERR_FILENO) != 0 && terminal != nullptr && std::string_view(terminal) != "dumb";
}

// Asked for each line, for windows change.
std::size_t columns() {
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return kUsualColumns;
}

void clear_line() {
  if (!line_open) return;
  std::fwrite(kClearLine.data(), 1, kClearLine.size(), stderr);
  line_open = false;
}

std::string time_left(double seconds) {
  constexpr double kMinute = 60, kHour = 3600;
  if (seconds < 2 * kMinute) return fmt::format("{:.0f} s", seconds);
  if (seconds < 2 * kHour) return fmt::format("{:.0f} min", seconds / kMinute);
  return fmt::format("{:.1f} h", seconds / kHour);
}

std::size_t percent(const ProgressEvent& event) {
  return static_cast<std::size_t>(100.0 * static_cast<double>(event.done) / static_cast<double>(event.total));
}

}  // namespace

void speak_as(const std::string& name) { speaker = fmt::format("smartmine: {}", name); }

std::size_t output_columns() {
  winsize size{};
  if (isatty(STDOUT_FILENO) == 0) return std::numeric_limits<std::size_t>::max();
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kUsualColumns;
}

std::string in_lines(std::string_view sentence) {
  const std::size_t columns = output_columns();
  std::string lines;
  for (std::size_t used = 0; !sentence.empty();) {
    const std::string_view word = sentence.substr(0, sentence.find(' '));
    if (used > 0) {
      const bool fits = word.size() < columns - std::min(columns, used);
      lines += fits ? ' ' : '\n';
      used = fits ? used + 1 : 0;
    }
    lines += word;
    used += word.size();
    sentence.remove_prefix(std::min(sentence.size(), word.size() + 1));
  }
  return lines;
}

void warn(std::string_view message) {
  clear_line();
  // One call, so that lines of several programs do not mix.
  const std::string line = fmt::format("{}: {}\n", speaker, message);
  std::fwrite(line.data(), 1, line.size(), stderr);
}

void print(std::string_view text) {
  clear_line();
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
    throw IoError("standard output cannot be written; is the disk full, or the reader gone?");
}

ProgressDisplay::ProgressDisplay(bool quiet) : style_(quiet ? Style::kNone : on_a_terminal() ? Style::kBar : Style::kLines) {}

Progress ProgressDisplay::callback() {
  return [this](const ProgressEvent& event) {
    if (style_ != Style::kNone) show(event);
    return interrupt_signal() == 0;
  };
}

void ProgressDisplay::show(const ProgressEvent& event) {
  const Clock::time_point now = Clock::now();
  const bool first = stage_.empty();
  const bool new_stage = stage_ != event.stage || event.done < last_done_;
  if (new_stage) stage_started_ = now;
  if (new_stage) stage_first_ = event.done;
  last_done_ = event.done;
  const auto since = now - last_shown_;
  if (style_ == Style::kBar) {
    const bool complete = event.total != 0 && event.done >= event.total;
    if (!first && !new_stage && !complete && since < kBarEvery) return;
    stage_ = event.stage;
    draw_bar(event);
  } else {
    // A stage shorter than a second is not worth a line of a log file.
    if (!first && since < (new_stage ? Clock::duration(kStageLineEvery) : Clock::duration(kLineEvery))) return;
    stage_ = event.stage;
    const double seconds = std::chrono::duration<double>(now - started_).count();
    warn(event.total == 0 ? fmt::format("{}, {:.0f} s", event.stage, seconds)
                          : fmt::format("{} {} %, {:.0f} s{}", event.stage, percent(event), seconds, rate(event, now)));
  }
  last_shown_ = now;
}

// One line, cut to the terminal: the bar gives way first, then what is said behind it.
void ProgressDisplay::draw_bar(const ProgressEvent& event) {
  const std::size_t room = columns() - 1;  // a full line would wrap on some terminals
  const double seconds = std::chrono::duration<double>(Clock::now() - started_).count();
  std::string line;
  if (event.total == 0) {
    line = fmt::format("{:<12} {} {:.1f} s", event.stage, event.done, seconds);
  } else {
    const std::string behind = fmt::format(" {:>3} % {:.1f} s{}", percent(event), seconds, rate(event, Clock::now()));
    const std::string before = fmt::format("{:<12} ", event.stage);
    const std::size_t taken = before.size() + behind.size() + 2;
    const std::size_t width = taken + kNarrowestBar > room ? 0 : std::min(kWidestBar, room - taken);
    const std::size_t filled = std::min(width, percent(event) * width / 100);
    line = width == 0 ? before + behind.substr(1)
                      : fmt::format("{}[{}{}]{}", before, std::string(filled, '#'), std::string(width - filled, ' '), behind);
  }
  line = std::string(kClearLine) + line.substr(0, room);
  std::fwrite(line.data(), 1, line.size(), stderr);
  line_open = true;
}

// Of stages whose units people count: how many a second, and how long the rest will take at that.
std::string ProgressDisplay::rate(const ProgressEvent& event, Clock::time_point now) const {
  const double seconds = std::chrono::duration<double>(now - stage_started_).count();
  if (event.unit.empty() || event.done <= stage_first_ || seconds <= 0) return {};
  const double a_second = static_cast<double>(event.done - stage_first_) / seconds;
  const double left = static_cast<double>(event.total - event.done) / a_second;
  const double rest = rest_ ? rest_(event.stage, left + seconds) : 0;
  return fmt::format(", {:.{}f} {}/s, {} left", a_second, a_second < 10 ? 1 : 0, event.unit, time_left(left + rest));
}

void ProgressDisplay::finish() { clear_line(); }

}  // namespace smartmine::app
