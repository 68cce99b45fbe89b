#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace smartmine {

/// Who decides kappa, epoch by epoch. Not safe for concurrent use.
class KappaPolicy {
 public:
  virtual ~KappaPolicy() = default;

  /// For the epoch to come.
  virtual double kappa() const = 0;
  /// Before an epoch is mined: the error that triplets selected with a kappa have in the embedding as it is, falling as kappa grows.
  /// A policy may take its first kappa from it; later calls change nothing.
  virtual void begin(const std::function<double(double kappa)>& /*expected_error*/) {}
  /// Another target error from here on, such as the validation error of the moment. Throws InvalidArgument unless it lies in [0, 1].
  virtual void aim(double /*target_error*/) {}
  /// The error that it aims at; none: it looks at no error.
  virtual std::optional<double> target_error() const { return std::nullopt; }
  /// The training error (share of triplets with a loss) of the epoch just trained with `kappa()`; sets the next kappa. `mined` is how many
  /// of the triplets that were to be mined could be; the others are random. Throws InvalidArgument unless both lie in [0, 1].
  virtual void observe(double training_error, double mined) = 0;
  void observe(double training_error) { observe(training_error, 1); }
  /// The last decision and its reasons in one line for an operator; empty before the first.
  virtual const std::string& explanation() const = 0;

  /// All that changes from epoch to epoch, as a few lines of text for a checkpoint. Options are not in it.
  virtual std::string save() const = 0;
  /// Takes up exactly where `save` left off. Throws InvalidArgument naming the line that is not understood, and then
  /// leaves the policy as it was.
  virtual void load(std::string_view state) = 0;
};

/// How the controller reads the recent (training error, kappa) pairs.
enum class KappaFit {
  kLogOdds,  ///< Slope of log kappa over the error's log odds, tempered by the initial one; the step starts from the last pair.
  kLinear,   ///< The paper's: kappa = alpha * error + beta by plain least squares, taken at the target.
};

/// Options of the controller; names in brackets are the paper's.
struct KappaControllerOptions {
  double target_error = 0.6;  ///< Training error to hold [e_t, 0.5-0.75]. Between 0 and 1, both excluded.
  double start = 4;           ///< First kappa, within the range below. 0: the one up to 4 at which `begin` expects the target.
  double min_kappa = 1;       ///< Positive, finite.
  double max_kappa = 64;      ///< Above min_kappa, finite.
  double max_step = 2;        ///< An epoch changes kappa by at most this factor. Above 1, finite.
  std::size_t window = 3;     ///< Pairs the fit looks at. From 2 to 100.
  KappaFit fit = KappaFit::kLogOdds;
  double initial_slope = -0.375;  ///< Of log kappa over the log odds of the error, until pairs tell. From -2 to -0.125.
  /// The initial slope weighs as much as pairs whose log odds' squared deviations from their mean add up to this squared. From 0.01 to 100,
  /// where pairs hardly count: for errors that fall by themselves by more than kappa moves them.
  double initial_spread = 0.2;
  /// Throws InvalidArgument naming the field, its value and the allowed range.
  void validate() const;
};

/// Up to this share mined, an error above the target is that of random triplets: the controller then leaves kappa as it is.
inline constexpr double kHardlyMined = 0.05;

/// Keeps the training error at its target: a larger kappa makes for easier triplets, so a smaller error.
class KappaController final : public KappaPolicy {
 public:
  /// Throws InvalidArgument for bad options.
  explicit KappaController(const KappaControllerOptions& options);
  double kappa() const override { return kappa_; }
  /// What it holds the error at: that of the options, or what `aim` said last, kept within 2 to 98 %.
  std::optional<double> target_error() const override { return target_; }
  void begin(const std::function<double(double kappa)>& expected_error) override;
  void aim(double target_error) override;
  using KappaPolicy::observe;
  void observe(double training_error, double mined) override;
  const std::string& explanation() const override { return explanation_; }
  std::string save() const override;
  void load(std::string_view state) override;

 private:
  struct Seen {
    double error = 0;
    double kappa = 0;
  };
  double slope_step(const std::vector<Seen>& pairs, std::string& reason) const;
  double linear_step(const std::vector<Seen>& pairs, std::string& reason) const;
  double saturated_step(double error, std::string& reason) const;

  KappaControllerOptions options_;
  double kappa_;
  double target_;
  std::vector<Seen> window_;  // oldest first
  std::string explanation_;
};

/// Options of a schedule set by hand.
struct KappaScheduleOptions {
  double start = 8;     ///< First kappa. Positive, finite.
  double factor = 0.8;  ///< Each epoch multiplies by this. Above 0, at most 1.
  double floor = 1;     ///< And never goes below this. Positive, at most `start`.
  /// Throws InvalidArgument naming the field, its value and the allowed range.
  void validate() const;
};

/// Kappa without a controller: a start that decays by a factor each epoch to a floor, whatever the error.
class KappaSchedule final : public KappaPolicy {
 public:
  /// Throws InvalidArgument for bad options.
  explicit KappaSchedule(const KappaScheduleOptions& options);
  double kappa() const override { return kappa_; }
  using KappaPolicy::observe;
  void observe(double training_error, double mined) override;
  const std::string& explanation() const override { return explanation_; }
  std::string save() const override;
  void load(std::string_view state) override;

 private:
  KappaScheduleOptions options_;
  double kappa_;
  std::string explanation_;
};

}  // namespace smartmine
