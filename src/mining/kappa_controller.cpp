#include "smartmine/mining/kappa_controller.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <utility>

#include "smartmine/core/error.h"

namespace smartmine {
namespace {

// Errors closer than this tell nothing of a slope.
constexpr double kLeastSpread = 0.01;
constexpr double kUsualStart = 4;
constexpr int kHalvings = 10;  // of the range up to it, to find a start: to some thousandths
constexpr double kLeastError = 0.02, kMostError = 0.98;
constexpr double kFlattest = -0.125;
constexpr double kSteepest = -2;

constexpr std::string_view kControllerHeader = "smartmine kappa controller 1";
constexpr std::string_view kScheduleHeader = "smartmine kappa schedule 1";

void require_shares(double error, double mined) {
  if (!(error >= 0 && error <= 1)) throw InvalidArgument(fmt::format("training error is {}; it must be from 0 to 1", error));
  if (!(mined >= 0 && mined <= 1)) throw InvalidArgument(fmt::format("mined share is {}; it must be from 0 to 1", mined));
}

// An error beyond 2 or 98 % counts as that: the ends of the scale are infinitely far away.
double log_odds(double error) {
  const double kept = std::clamp(error, kLeastError, kMostError);
  return std::log(kept / (1 - kept));
}

struct Fit {
  double mean_x = 0;
  double mean_y = 0;
  double xx = 0;  // sums of squares and products about the means
  double xy = 0;
};

template <class Values, class X, class Y>
Fit fit_line(const Values& values, const X& x_of, const Y& y_of) {
  Fit fit;
  const auto count = static_cast<double>(values.size());
  for (const auto& value : values) {
    fit.mean_x += x_of(value) / count;
    fit.mean_y += y_of(value) / count;
  }
  for (const auto& value : values) {
    fit.xx += (x_of(value) - fit.mean_x) * (x_of(value) - fit.mean_x);
    fit.xy += (x_of(value) - fit.mean_x) * (y_of(value) - fit.mean_y);
  }
  return fit;
}

// Why pairs cannot give a slope, in words; empty if they can.
template <class Values>
std::string why_singular(const Values& values) {
  if (values.size() < 2) return "one pair gives no slope yet";
  const auto [low, high] =
      std::minmax_element(values.begin(), values.end(), [](const auto& a, const auto& b) { return a.error < b.error; });
  if (high->error - low->error < kLeastSpread) return fmt::format("the last {} errors are too alike for a slope", values.size());
  if (std::all_of(values.begin(), values.end(), [&](const auto& value) { return value.kappa == values.front().kappa; }))
    return fmt::format("kappa was the same in the last {} epochs", values.size());
  return {};
}

// Lines of a saved state, read one after the other.
class StateReader {
 public:
  StateReader(std::string_view text, std::string_view header) : rest_(text) {
    const std::string_view first = line();
    if (first != header) fail(fmt::format("'{}' instead of '{}'", first, header));
  }

  std::string_view line() {
    ++number_;
    const std::size_t end = rest_.find('\n');
    if (end == std::string_view::npos) fail("the text ends too early");
    const std::string_view result = rest_.substr(0, end);
    rest_.remove_prefix(end + 1);
    return result;
  }

  /// What follows `name` and a space.
  std::string_view field(std::string_view name) {
    const std::string_view text = line();
    if (!text.starts_with(name) || text.size() <= name.size() || text[name.size()] != ' ')
      fail(fmt::format("'{}' instead of '{} ...'", text, name));
    return text.substr(name.size() + 1);
  }

  bool next_is(std::string_view name) const { return rest_.starts_with(name) && rest_.size() > name.size() && rest_[name.size()] == ' '; }

  double number(std::string_view text) {
    double value = 0;
    // from_chars knows no prefix and no locale.
    const std::string_view digits = text.starts_with("0x") ? text.substr(2) : text;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, std::chars_format::hex);
    if (error != std::errc{} || end != digits.data() + digits.size() || !std::isfinite(value))
      fail(fmt::format("'{}' is not a number", text));
    return value;
  }

  double positive(std::string_view text) {
    const double value = number(text);
    if (value <= 0) fail(fmt::format("kappa {} is not positive", value));
    return value;
  }

  void finish() {
    ++number_;
    if (!rest_.empty()) fail("there is more text than there should be");
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw InvalidArgument(fmt::format("saved state of kappa, line {}: {}", number_, what));
  }

 private:
  std::string_view rest_;
  std::size_t number_ = 0;
};

}  // namespace

void KappaControllerOptions::validate() const {
  const auto fail = [](const char* field, double value, const std::string& range) {
    throw InvalidArgument(fmt::format("{} is {}; it must be {}", field, value, range));
  };
  if (!(target_error > 0 && target_error < 1)) fail("target_error", target_error, "between 0 and 1, both excluded");
  if (!std::isfinite(min_kappa) || min_kappa <= 0) fail("min_kappa", min_kappa, "positive and finite");
  if (!std::isfinite(max_kappa) || max_kappa <= min_kappa)
    fail("max_kappa", max_kappa, fmt::format("above min_kappa, {}, and finite", min_kappa));
  if (start != 0 && !(start >= min_kappa && start <= max_kappa))
    fail("start", start, fmt::format("0, or from min_kappa, {}, to max_kappa, {}", min_kappa, max_kappa));
  if (!std::isfinite(max_step) || max_step <= 1) fail("max_step", max_step, "above 1 and finite");
  if (window < 2 || window > 100) fail("window", static_cast<double>(window), "from 2 to 100");
  if (!(initial_slope >= kSteepest && initial_slope <= kFlattest))
    fail("initial_slope", initial_slope, fmt::format("from {} to {}", kSteepest, kFlattest));
  if (!(initial_spread >= 0.01 && initial_spread <= 100)) fail("initial_spread", initial_spread, "from 0.01 to 100");
}

KappaController::KappaController(const KappaControllerOptions& options)
    : options_(options), kappa_(options.start), target_(options.target_error) {
  options_.validate();
  if (kappa_ == 0) kappa_ = std::clamp(kUsualStart, options_.min_kappa, options_.max_kappa);
}

void KappaController::aim(double target_error) {
  if (!(target_error >= 0 && target_error <= 1))
    throw InvalidArgument(fmt::format("target error is {}; it must be from 0 to 1", target_error));
  target_ = std::clamp(target_error, kLeastError, kMostError);
}

void KappaController::begin(const std::function<double(double kappa)>& expected_error) {
  if (options_.start != 0 || !window_.empty()) return;
  // Not beyond the usual start: where the error is too high even there, it is so for reasons that no kappa mends.
  double low = options_.min_kappa, high = std::clamp(kUsualStart, options_.min_kappa, options_.max_kappa);
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = std::sqrt(low * high);
    (expected_error(middle) > target_ ? low : high) = middle;
  }
  kappa_ = high;
  explanation_ = fmt::format("triplets of kappa {:.4g} have an error of {:.3f} before they are trained on, target {:.3f}: starts there",
                             kappa_, expected_error(kappa_), target_);
}

double KappaController::slope_step(const std::vector<Seen>& pairs, std::string& reason) const {
  const Fit fit = fit_line(
      pairs, [](const Seen& seen) { return log_odds(seen.error); }, [](const Seen& seen) { return std::log(seen.kappa); });
  const double weight = options_.initial_spread * options_.initial_spread;
  const double slope = std::clamp((fit.xy + weight * options_.initial_slope) / (fit.xx + weight), kSteepest, kFlattest);
  const std::string singular = why_singular(pairs);
  if (!singular.empty())
    reason = fmt::format("{}: slope {:.2f}, near the initial one", singular, slope);
  else if (fit.xy >= 0)
    reason = fmt::format("the last {} pairs say that the error does not fall as kappa grows, which is not believed: slope {:.2f}",
                         pairs.size(), slope);
  else
    reason = fmt::format("slope {:.2f} from the last {} pairs", slope, pairs.size());
  return kappa_ * std::exp(slope * (log_odds(target_) - log_odds(pairs.back().error)));
}

double KappaController::linear_step(const std::vector<Seen>& pairs, std::string& reason) const {
  const auto by_initial_slope = [&](const std::string& why) {
    reason = fmt::format("{}: step by the initial slope {:.2f}", why, options_.initial_slope);
    return kappa_ * std::exp(options_.initial_slope * (log_odds(target_) - log_odds(pairs.back().error)));
  };
  const std::string singular = why_singular(pairs);
  if (!singular.empty()) return by_initial_slope(singular);
  const Fit fit = fit_line(
      pairs, [](const Seen& seen) { return seen.error; }, [](const Seen& seen) { return seen.kappa; });
  const double alpha = fit.xy / fit.xx;
  if (alpha >= 0)
    return by_initial_slope(
        fmt::format("the last {} pairs say that the error does not fall as kappa grows, which is not believed", pairs.size()));
  const double beta = fit.mean_y - alpha * fit.mean_x;
  const double wanted = alpha * target_ + beta;
  reason = fmt::format("kappa = {:.3g} * error + {:.3g} from the last {} pairs asks for {:.3g}", alpha, beta, pairs.size(), wanted);
  return wanted;
}

double KappaController::saturated_step(double error, std::string& reason) const {
  // Beyond the end of the scale: how far off kappa is cannot be told, only in which direction.
  const bool too_hard = error == 1;
  double next = too_hard ? kappa_ * options_.max_step : kappa_ / options_.max_step;
  reason = fmt::format("{} triplet has a loss, which says nothing of how far off kappa is: a full step", too_hard ? "every" : "no");
  // Unless a recent kappa was too far on the other side: then half the way there.
  for (const Seen& seen : window_) {
    const bool other_side = too_hard ? seen.kappa > kappa_ && seen.error < target_ : seen.kappa < kappa_ && seen.error > target_;
    const double middle = std::sqrt(seen.kappa * kappa_);
    if (!other_side || (too_hard ? middle >= next : middle <= next)) continue;
    next = middle;
    reason = fmt::format("{} triplet has a loss: half the way to {:.4g}, which was too {}", too_hard ? "every" : "no", seen.kappa,
                         too_hard ? "large" : "small");
  }
  return next;
}

void KappaController::observe(double training_error, double mined) {
  require_shares(training_error, mined);
  if (mined <= kHardlyMined && training_error > target_) {
    // Once nothing is mined, a larger kappa changes nothing, and would be a long way to come back from.
    explanation_ =
        fmt::format("training error {:.3f}, target {:.3f}: kappa {:.4g} stays; {:.2g} % are mined, so the error is that of random triplets",
                    training_error, target_, kappa_, 100 * mined);
    return;
  }
  window_.push_back({training_error, kappa_});
  if (window_.size() > options_.window) window_.erase(window_.begin());
  std::string reason;
  double next = 0;
  if (training_error == 0 || training_error == 1) {
    next = saturated_step(training_error, reason);
  } else {
    // Saturated pairs would spoil a fit.
    std::vector<Seen> pairs;
    std::copy_if(window_.begin(), window_.end(), std::back_inserter(pairs),
                 [](const Seen& seen) { return seen.error > 0 && seen.error < 1; });
    next = options_.fit == KappaFit::kLogOdds ? slope_step(pairs, reason) : linear_step(pairs, reason);
    const double bounded = std::clamp(next, kappa_ / options_.max_step, kappa_ * options_.max_step);
    if (bounded != next) reason += fmt::format("; step held to a factor of {:.3g}", options_.max_step);
    next = bounded;
  }
  const double kept = std::clamp(next, options_.min_kappa, options_.max_kappa);
  if (kept != next) reason += fmt::format("; held at the {} end of the range, {:.3g}", kept > next ? "lower" : "upper", kept);
  explanation_ =
      fmt::format("training error {:.3f}, target {:.3f}: kappa {:.4g} -> {:.4g}; {}", training_error, target_, kappa_, kept, reason);
  kappa_ = kept;
}

std::string KappaController::save() const {
  std::string text = fmt::format("{}\nkappa {:a}\n", kControllerHeader, kappa_);
  if (target_ != options_.target_error) text += fmt::format("target {:a}\n", target_);
  text += fmt::format("pairs {}\n", window_.size());
  for (const Seen& seen : window_) text += fmt::format("pair {:a} {:a}\n", seen.error, seen.kappa);
  return text + fmt::format("explanation {}\n", explanation_);
}

void KappaController::load(std::string_view state) {
  StateReader reader(state, kControllerHeader);
  const double kappa = reader.positive(reader.field("kappa"));
  const bool aimed = reader.next_is("target");
  const double target = aimed ? reader.number(reader.field("target")) : options_.target_error;
  if (!(target > 0 && target < 1)) reader.fail(fmt::format("target {} is not between 0 and 1", target));
  const std::string_view count_text = reader.field("pairs");
  std::size_t count = 0;
  const auto [end, error] = std::from_chars(count_text.data(), count_text.data() + count_text.size(), count);
  if (error != std::errc{} || end != count_text.data() + count_text.size() || count > options_.window)
    reader.fail(fmt::format("'{}' is not a number of pairs from 0 to the window, {}", count_text, options_.window));
  std::vector<Seen> window;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string_view pair = reader.field("pair");
    const std::size_t space = pair.find(' ');
    if (space == std::string_view::npos) reader.fail(fmt::format("'{}' is not an error and a kappa", pair));
    const double seen_error = reader.number(pair.substr(0, space));
    if (!(seen_error >= 0 && seen_error <= 1)) reader.fail(fmt::format("error {} is not from 0 to 1", seen_error));
    window.push_back({seen_error, reader.positive(pair.substr(space + 1))});
  }
  std::string explanation(reader.field("explanation"));
  reader.finish();
  kappa_ = kappa;
  target_ = target;
  window_ = std::move(window);
  explanation_ = std::move(explanation);
}

void KappaScheduleOptions::validate() const {
  if (!std::isfinite(start) || start <= 0) throw InvalidArgument(fmt::format("start is {}; it must be positive and finite", start));
  if (!(factor > 0 && factor <= 1)) throw InvalidArgument(fmt::format("factor is {}; it must be above 0 and at most 1", factor));
  if (!(floor > 0 && floor <= start))
    throw InvalidArgument(fmt::format("floor is {}; it must be positive and at most start, {}", floor, start));
}

KappaSchedule::KappaSchedule(const KappaScheduleOptions& options) : options_(options), kappa_(options.start) { options_.validate(); }

void KappaSchedule::observe(double training_error, double mined) {
  require_shares(training_error, mined);
  const double next = std::max(options_.floor, kappa_ * options_.factor);
  explanation_ = fmt::format("schedule: kappa {:.4g} -> {:.4g}{}; training error {:.3f} is not looked at", kappa_, next,
                             next == options_.floor ? ", the floor" : "", training_error);
  kappa_ = next;
}

std::string KappaSchedule::save() const { return fmt::format("{}\nkappa {:a}\nexplanation {}\n", kScheduleHeader, kappa_, explanation_); }

void KappaSchedule::load(std::string_view state) {
  StateReader reader(state, kScheduleHeader);
  const double kappa = reader.positive(reader.field("kappa"));
  std::string explanation(reader.field("explanation"));
  reader.finish();
  kappa_ = kappa;
  explanation_ = std::move(explanation);
}

}  // namespace smartmine
