#include "smartmine/train/choose.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "smartmine/core/error.h"
#include "smartmine/metrics/retrieval.h"
#include "smartmine/model/embed.h"
#include "smartmine/model/weights.h"
#include "smartmine/run/run_data.h"
#include "smartmine/train/system.h"
#include "smartmine/train/trainer.h"
#include "train/epoch.h"
#include "train/measure_weights.h"

namespace smartmine {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kRateStep = 5;             // between rates that are tried
constexpr std::int64_t kTrialShare = 4;     // a trial has a quarter of the epochs
constexpr double kMostCost = 0.5;           // of the training's: what all trials may come to
constexpr std::int64_t kLeastQueries = 60;  // fewer tell nothing
constexpr std::int64_t kMostEpochs = 60;    // however long the budget

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

HeldOutScore score_of(const EpochRecord& record) {
  return record.metrics ? HeldOutScore{record.metrics->recall_at_1, record.metrics->map_at_r} : HeldOutScore{};
}

/// A run in a folder that may be there already.
RunDirectory open_or_create(const std::filesystem::path& path, const RunConfig& config) {
  std::error_code none;
  if (std::filesystem::exists(path / "config.toml", none)) return RunDirectory::open(path);
  std::filesystem::remove_all(path, none);  // begun, but not as far as its settings
  return RunDirectory::create(path, config);
}

/// Ends the work when time is up, beside what the caller's progress says.
class Deadline {
 public:
  explicit Deadline(double seconds) : seconds_(seconds) {}
  bool passed() const { return seconds_ > 0 && seconds_since(begin_) > seconds_; }
  Progress watching(const Progress& progress) {
    return [this, progress](const ProgressEvent& event) { return !passed() && (!progress || progress(event)); };
  }

 private:
  double seconds_;
  Clock::time_point begin_ = Clock::now();
};

class Chooser {
 public:
  Chooser(const RunConfig& config, RunDirectory& run, const ChoiceEvents& events, const Progress& progress)
      : config_(config), run_(run), events_(events), progress_(progress), system_(find_system(config.system.name)) {}

  Choice choose() {
    hold_out();
    if (choice_.held_out_classes == 0) return be_careful("there are too few training classes to hold some out");
    if (choice_.held_out_images < kLeastQueries) return be_careful("there are too few images to hold some out");
    if (events_.on_begin) events_.on_begin(choice_);
    epochs_ = config_.schedule.epochs;
    if (config_.choosing.budget_seconds() > 0 && !fit_into_budget())
      return give_up("the budget is too short for one epoch, so the weights it starts from are kept");
    const double rate = config_.schedule.learning_rate.value();
    for (const double factor : {1.0, kRateStep, 1 / kRateStep}) try_rate(rate * factor, 1);
    try_beyond();
    go_on_with_the_best();
    pick_trial(choice_, epochs_, pretrained());
    if (choice_.epochs > 0 && pretrained()) interpolate();
    return decide();
  }

 private:
  bool pretrained() const { return config_.model.pretrained(); }

  RunConfig trial_config(double rate, std::int64_t epochs) const {
    RunConfig config = config_;
    config.choosing.choose = "off";
    config.choosing.budget.clear();
    config.data.validation_classes = static_cast<double>(held_out_.classes);
    config.data.validation_block = held_out_.block;
    config.schedule.learning_rate = rate;
    config.schedule.epochs = epochs;
    config.schedule.rate_warmup_epochs = std::min(config.schedule.rate_warmup_epochs, static_cast<double>(epochs));
    config.output = {.evaluate_every = 1, .save_epochs = {}, .keep_start = true};
    return config;
  }

  void hold_out() {
    const DataSplits splits = load_run_data(config_);
    held_out_ = classes_to_hold_out(splits.train.classes().size());
    choice_.held_out_classes = held_out_.classes;
    training_images_ = static_cast<std::int64_t>(splits.train.size());
    if (held_out_.classes == 0) return;
    const DataSplits held = load_run_data(trial_config(1, 1));
    choice_.held_out_images = static_cast<std::int64_t>(held.validation->size());
    choice_.tolerance = score_tolerance(choice_.held_out_images);
  }

  std::int64_t trial_epochs() const { return std::max<std::int64_t>(1, epochs_ / kTrialShare); }
  /// Of an epoch of a trial, in epochs of the training.
  double cost() const {
    return 1 - static_cast<double>(choice_.held_out_images) / static_cast<double>(std::max<std::int64_t>(1, training_images_));
  }
  double spent() const {
    double epochs = 0;
    for (const Trial& trial : choice_.trials) epochs += static_cast<double>(trial.done) * cost();
    return epochs;
  }

  /// The first epoch of a trial; what is best of them goes on.
  void try_rate(double rate, std::int64_t until) { choice_.trials.push_back(run_trial(rate, trial_epochs(), until, progress_)); }

  /// Successive halving: the better half is trained to the end of the trial.
  void go_on_with_the_best() {
    std::vector<Trial*> order;
    for (Trial& trial : choice_.trials)
      if (trial.done > 0) order.push_back(&trial);
    std::stable_sort(order.begin(), order.end(), [](const Trial* a, const Trial* b) { return a->score.value() > b->score.value(); });
    order.resize(std::min<std::size_t>(order.size(), 2));
    for (Trial* trial : order) *trial = run_trial(trial->learning_rate, trial->epochs, trial->epochs, progress_);
  }

  Trial run_trial(double rate, std::int64_t epochs, std::int64_t until, const Progress& progress) {
    Trial trial{.name = fmt::format("rate-{:g}-epochs-{}", rate, epochs), .learning_rate = rate, .epochs = epochs, .done = 0, .score = {}};
    RunConfig config = trial_config(rate, epochs);
    RunDirectory folder = open_or_create(run_.path() / "trials" / trial.name, config);
    const auto note = [&](const EpochRecord& record) {
      if (record.epoch == 0) choice_.untrained = score_of(record);
      trial.done = record.epoch;
      trial.score = score_of(record);
      trial.seconds += record.seconds();
      if (record.epoch == 1) epoch_seconds_ = record.seconds() / std::max(cost(), 0.1);
    };
    for (const EpochRecord& record : folder.log()) note(record);
    if (trial.done >= until) return trial;
    std::unique_ptr<Trainer> trainer;
    try {
      trainer = std::make_unique<Trainer>(config, folder, system_, progress);
    } catch (...) {
      folder.remove_if_unused();  // nothing was trained
      throw;
    }
    const auto on_epoch = [&](const EpochRecord& record) {
      note(record);
      if (events_.on_epoch) events_.on_epoch(trial, record);
    };
    try {
      trainer->run(on_epoch, until);
    } catch (const TrainingStopped&) {
      // A guard gave up: this rate is no candidate.
    }
    return trial;
  }

  /// Where the best rate is the last one tried on its side and time is left, one more beyond it.
  void try_beyond() {
    const auto better = [](const Trial& a, const Trial& b) { return a.score.value() < b.score.value(); };
    const Trial best = *std::max_element(choice_.trials.begin(), choice_.trials.end(), better);
    const auto [low, high] = std::minmax_element(choice_.trials.begin(), choice_.trials.end(),
                                                 [](const Trial& a, const Trial& b) { return a.learning_rate < b.learning_rate; });
    const bool up = best.learning_rate == high->learning_rate;
    if (!up && best.learning_rate != low->learning_rate) return;
    const double to_come = 1 + 2 * static_cast<double>(trial_epochs() - 1);
    if (spent() + to_come * cost() > kMostCost * static_cast<double>(epochs_)) return;
    try_rate(up ? best.learning_rate * kRateStep : best.learning_rate / kRateStep, 1);
  }

  /// Sets the epochs that the budget has time for; false: not even one.
  bool fit_into_budget() {
    const double budget = config_.choosing.budget_seconds();
    Deadline deadline(budget / 2);
    const auto begin = Clock::now();
    Trial probe;
    try {
      probe = run_trial(config_.schedule.learning_rate.value(), 1, 1, deadline.watching(progress_));
    } catch (const Cancelled&) {
      if (!deadline.passed()) throw;
      return false;
    }
    const double left = budget - std::max(seconds_since(begin), probe.seconds);
    epochs_ = std::min(kMostEpochs, static_cast<std::int64_t>(left / ((1 + kMostCost) * std::max(epoch_seconds_, 1e-3))));
    return epochs_ > 0;
  }

  /// How much of the way from the start to the end of the chosen trial is best on the held-out classes.
  void interpolate() {
    const auto chosen = std::find_if(choice_.trials.begin(), choice_.trials.end(), [&](const Trial& trial) {
      return trial.learning_rate == choice_.learning_rate && trial.done == trial.epochs;
    });
    const RunConfig config = trial_config(chosen->learning_rate, chosen->epochs).resolved(system_.traits);
    const RunDirectory folder = RunDirectory::open(run_.path() / "trials" / chosen->name);
    const NamedTensors start = read_safetensors(folder.start_path()), end = read_safetensors(folder.last_model_path());
    WeightMeasure measure(config, evaluated_half(load_run_data(config)), progress_);
    choice_.interpolations = {{1, chosen->score}};
    for (const double share : {0.75, 0.5}) choice_.interpolations.push_back({share, measure.score(mixed(start, end, share))});
    // The training goes farther than its trial, and what it forgets shows later: of equals the one nearest to the start.
    double best = 0;
    for (const Interpolation& each : choice_.interpolations) best = std::max(best, each.score.value());
    for (const Interpolation& each : choice_.interpolations)
      if (each.score.value() >= best - choice_.tolerance) choice_.share = std::min(choice_.share, each.share);
    if (choice_.share < 1)
      choice_.reason +=
          fmt::format("; weights {:.0f} % of the way from the start do as well there, so these are kept", 100 * choice_.share);
  }

  Choice be_careful(const std::string& why) {
    choice_.careful = true;
    choice_.learning_rate = config_.schedule.learning_rate.value() / (pretrained() ? kRateStep : 1);
    choice_.epochs = pretrained() ? std::max<std::int64_t>(1, config_.schedule.epochs / 3) : config_.schedule.epochs;
    choice_.share = pretrained() ? 0.5 : 1;
    choice_.reason = pretrained() ? fmt::format("{}; a fifth of the usual rate, a third of the epochs, and half of the way is kept", why)
                                  : fmt::format("{}; nothing was tried", why);
    if (events_.on_begin) events_.on_begin(choice_);
    return decide();
  }

  Choice give_up(const std::string& why) {
    choice_.careful = true;
    choice_.epochs = 0;
    choice_.reason = why;
    return decide();
  }

  Choice decide() {
    for (const Trial& trial : choice_.trials) choice_.seconds += trial.seconds;
    choice_.decided = true;
    write_choice(run_.path(), choice_);
    // Their logs tell what was tried; their weights have done their part.
    std::error_code none;
    for (const auto& trial : std::filesystem::directory_iterator(run_.path() / "trials", none)) {
      std::filesystem::remove_all(trial.path() / "checkpoint", none);
      std::filesystem::remove_all(trial.path() / "embeddings", none);
      std::filesystem::remove_all(trial.path() / "report", none);
      std::filesystem::remove(trial.path() / "start.safetensors", none);
    }
    return choice_;
  }

  RunConfig config_;
  RunDirectory& run_;
  const ChoiceEvents& events_;
  const Progress& progress_;
  const System& system_;
  HeldOut held_out_;
  std::int64_t training_images_ = 0;
  std::int64_t epochs_ = 0;
  double epoch_seconds_ = 0;  // of the training, as far as a trial tells
  Choice choice_;
};

}  // namespace

Choice choose_settings(const RunConfig& config, RunDirectory& run, const ChoiceEvents& events, const Progress& progress) {
  if (const auto made = read_choice(run.path()); made && made->decided) return *made;
  const std::shared_ptr<void> lock = run.lock();
  return Chooser(run.with_own_backbone(config.resolved(find_system(config.system.name).traits)), run, events, progress).choose();
}

RunConfig chosen_config(const RunConfig& config, const Choice& choice) {
  RunConfig chosen = config.resolved();
  if (choice.learning_rate > 0) chosen.schedule.learning_rate = choice.learning_rate;
  chosen.schedule.epochs = choice.epochs;
  chosen.schedule.rate_warmup_epochs = std::min(chosen.schedule.rate_warmup_epochs, static_cast<double>(choice.epochs));
  chosen.output.keep_start = choice.share < 1;
  return chosen;
}

EpochRecord keep_chosen(const RunConfig& config, RunDirectory& run, const Choice& choice, const Progress& progress) {
  EpochRecord record = run.log().empty() ? EpochRecord{} : run.log().back();
  if (choice.share >= 1 || choice.epochs == 0) return record;
  const NamedTensors kept = mixed(read_safetensors(run.start_path()), read_safetensors(run.last_model_path()), choice.share);
  write_safetensors(
      run.kept_path(), kept,
      {{"backbone", std::filesystem::path(config.model.backbone).filename().string()}, {"share", fmt::format("{}", choice.share)}});
  const DataSplits splits = load_run_data(config);
  const Dataset& half = evaluated_half(splits);
  if (!record.metrics) return record;
  WeightMeasure measure(run.with_own_backbone(config.resolved()), half, progress);
  record.metrics = measure.metrics(kept, splits.validation ? "validation" : "test");
  run.save_embeddings(record.epoch, measure.rows(), half.labels());
  return record;
}

}  // namespace smartmine
