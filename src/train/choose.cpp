#include "smartmine/train/choose.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "smartmine/core/error.h"
#include "smartmine/metrics/retrieval.h"
#include "smartmine/model/embed.h"
#include "smartmine/model/weights.h"
#include "smartmine/run/checkpoint.h"
#include "smartmine/run/run_data.h"
#include "smartmine/train/cost.h"
#include "smartmine/train/shared_run.h"
#include "smartmine/train/system.h"
#include "smartmine/train/trainer.h"
#include "train/deadline.h"
#include "train/epoch.h"
#include "train/loaded_data.h"
#include "train/measure_weights.h"

namespace smartmine {
namespace {

using Clock = Deadline::Clock;

constexpr double kRateStep = 5;             // between rates that are tried
constexpr double kMostCost = 0.5;           // of the training's: what short trials may come to
constexpr std::int64_t kManyImages = 4000;  // to train on, from which dropout pays
constexpr double kDropout = 0.2;
/// Tried beside the usual one where weights are drawn: far ahead on characters, behind on photos (docs/tuning.md).
constexpr const char* kOtherSystem = "neighbor-batch";

HeldOutScore score_of(const EpochRecord& record) {
  return record.metrics ? HeldOutScore{record.metrics->recall_at_1, record.metrics->map_at_r} : HeldOutScore{};
}

/// A run in a folder that may be there already.
RunDirectory open_or_create(const std::filesystem::path& path, const RunConfig& config) {
  std::error_code none;
  if (std::filesystem::exists(path / "config.toml", none)) {
    RunDirectory run = RunDirectory::open(path);
    // The log is written before the checkpoint. An epoch that a kill has left without one is made again, or what is chosen would be told
    // of weights that are not there.
    if (const auto checkpoint = find_checkpoint(run.checkpoint_path()); !checkpoint.empty())
      run.forget_after(read_state(checkpoint).epochs_done);
    return run;
  }
  std::filesystem::remove_all(path, none);  // begun, but not as far as its settings
  return RunDirectory::create(path, config);
}

/// Ends a trial whose start has turned out to be as good as perfect.
struct NothingToGain {};

/// Their logs tell what was tried; their weights have done their part.
void remove_weights_of_trials(const std::filesystem::path& run) {
  std::error_code none;
  for (const auto& trial : std::filesystem::directory_iterator(run / "trials", none)) {
    for (const char* folder : {"checkpoint", "checkpoint.old", "checkpoint.new", "embeddings", "report"})
      std::filesystem::remove_all(trial.path() / folder, none);
    for (const char* file : {"start.safetensors", "backbone.pt"}) std::filesystem::remove(trial.path() / file, none);
  }
}

/// The settings of each system that may be chosen, with what suits it where nothing was given; the usual one first.
std::vector<RunConfig> settings_of_systems(const RunConfig& config, const RunDirectory& run) {
  std::vector<RunConfig> all = {run.with_own_backbone(config.resolved(find_system(config.system.usual_name()).traits))};
  if (!config.chooses_system()) return all;
  RunConfig other = config;
  other.system.name = kOtherSystem;
  try {
    other.validate();
    all.push_back(run.with_own_backbone(other.resolved()));
  } catch (const InvalidArgument&) {
    // What was given is for the usual one alone.
  }
  return all;
}

class Chooser {
 public:
  /// `systems` are the settings of each that may be chosen.
  Chooser(std::vector<RunConfig> systems, RunDirectory& run, const ChoiceEvents& events, const Progress& progress,
          const std::shared_ptr<Ranks>& ranks)
      : systems_(std::move(systems)), config_(systems_.front()), run_(run), events_(events), progress_(progress), ranks_(ranks) {
    choice_.asked_epochs = config_.schedule.epochs;
    choice_.system = config_.system.name;
  }

  Choice choose() {
    hold_out();
    if (choice_.held_out_classes == 0) return be_careful("there are too few training classes to hold some out");
    if (choice_.held_out_images < kLeastQueries) return be_careful("there are too few images to hold some out");
    epochs_ = config_.schedule.epochs;
    const bool planned = planned_before();
    if (!planned && is_hopeless()) return give_up();
    if (events_.on_begin) events_.on_begin(choice_);
    if (!planned && !fit_into_budget()) return give_up();
    write_plan();
    if (pretrained())
      try_pretrained();
    else
      try_drawn();
    if (!finds_something()) try_whole_training();
    keep_to_budget();
    pick_trial(choice_, epochs_, pretrained());
    if (choice_.epochs > 0 && pretrained() && own_split_)
      choice_.reason += "; what share of the way is kept is measured on them again after the training";
    else if (choice_.epochs > 0 && choice_.share < 1)
      choice_.reason += ", so such weights are kept";
    // It slows learning down at first, so trials go without.
    if (pretrained() && !config_.model.dropout && training_images_ >= kManyImages && choice_.epochs > 0) choice_.dropout = kDropout;
    return decide();
  }

 private:
  bool pretrained() const { return config_.model.pretrained(); }
  /// Of the system that is chosen, as far as one is.
  bool is_of_system(const Trial& trial) const { return trial.system == choice_.system; }
  /// The progress of what is not a trial: other ranks may wait for it.
  Progress shown() const { return ranks_ ? ranks_->watched(progress_) : progress_; }

  RunConfig trial_config(double rate, std::int64_t epochs) const {
    RunConfig config = config_;
    config.choosing.choose = "off";
    config.choosing.budget.clear();
    if (!own_split_) {
      config.data.validation_classes = static_cast<double>(held_out_.classes);
      config.data.validation_block = held_out_.block;
    }
    config.schedule.learning_rate = rate;
    config.schedule.epochs = epochs;
    // A trial is the training in short: its warm-up is shorter too.
    const double in_short = epochs_ > 0 ? static_cast<double>(epochs) / static_cast<double>(epochs_) : 1;
    config.schedule.rate_warmup_epochs = std::min(config.schedule.rate_warmup_epochs * in_short, static_cast<double>(epochs));
    config.output = {.evaluate_every = 1, .save_epochs = {}, .keep_start = true};
    return config;
  }

  void hold_out() {
    const DataSplits splits = load_run_data(config_);
    // Trials open all images but these, and a bad one had better be found before them than after.
    if (const Dataset& half = evaluated_half(config_, splits); can_be_measured(half)) check_images(half, config_, ranks_.get(), shown());
    training_images_ = static_cast<std::int64_t>(splits.train.size());
    choice_.own_split = own_split_ = has_own_split(config_, splits);
    held_out_ = classes_to_hold_out(splits.train.classes().size());
    choice_.held_out_classes = own_split_ ? static_cast<std::int64_t>(splits.validation->classes().size()) : held_out_.classes;
    if (choice_.held_out_classes == 0) return;
    const DataSplits held = own_split_ ? splits : load_run_data(trial_config(1, 1));
    choice_.held_out_images = static_cast<std::int64_t>(held.validation->size());
    choice_.tolerance = score_tolerance(choice_.held_out_images);
  }

  /// Of an epoch of a trial, in epochs of the training.
  double cost() const {
    if (own_split_) return 1;
    return 1 - static_cast<double>(choice_.held_out_images) / static_cast<double>(std::max<std::int64_t>(1, training_images_));
  }
  double spent() const {
    double epochs = 0;
    for (const Trial& trial : choice_.trials) epochs += static_cast<double>(trial.done) * cost();
    return epochs;
  }

  /// Epochs that all trials may take together.
  std::int64_t affordable() const { return static_cast<std::int64_t>(kMostCost * static_cast<double>(epochs_) / cost()); }
  double first_rate() const { return config_.schedule.learning_rate.value(); }
  bool is_affordable(std::int64_t epochs) const {
    return spent() + static_cast<double>(epochs) * cost() <= kMostCost * static_cast<double>(epochs_);
  }

  /// At the highest rate that may be right, for as long as can be: a short trial of a small set has too few steps to tell. Only if that
  /// does not clearly help at a lower one, in what is left.
  void try_pretrained() {
    const std::int64_t first = std::clamp<std::int64_t>((affordable() + 1) / 2, 1, epochs_);
    try_rate(first_rate(), first);
    if (choice_.trials.empty() || clearly_helps(choice_.trials.back(), choice_)) return;
    try_rate(first_rate() / kGentler, std::clamp<std::int64_t>(affordable() - first, 1, epochs_));
  }

  /// Drawn weights begin in the middle.
  void try_drawn() {
    if (systems_.size() > 1) return try_systems();
    const std::int64_t each = std::clamp<std::int64_t>(affordable() / 3, 1, epochs_);
    for (const double factor : {1.0, kRateStep, 1 / kRateStep}) try_rate(first_rate() * factor, each);
    try_beyond(each);
  }

  /// The usual system at its rate and the other at a higher one, and the other way round where there is room. After so short a trial at its
  /// usual rate the other may be far behind though it will be ahead (docs/tuning.md).
  void try_systems() {
    const auto systems = static_cast<std::int64_t>(systems_.size());
    const std::int64_t each = std::clamp<std::int64_t>(affordable() / (2 * systems), 1, epochs_);
    for (const std::size_t round : {0, 1}) {
      if (round > 0 && !is_affordable(systems * each)) break;
      for (std::size_t i = 0; i < systems_.size(); ++i) {
        config_ = systems_[i];
        try_rate(first_rate() * ((i + round) % 2 == 0 ? 1 : kRateStep), each);
      }
    }
    choice_.system = pick_system(choice_);
    config_ = *std::find_if(systems_.begin(), systems_.end(), [&](const RunConfig& one) { return one.system.name == choice_.system; });
    try_beyond(each);
  }

  /// Whether a trial beats the start.
  bool finds_something() const {
    Choice tried = choice_;
    pick_trial(tried, epochs_, pretrained());
    return tried.epochs > 0;
  }

  /// A short trial may have forgotten and not yet learnt. Before the start is kept, for which no training is paid, one as long as the
  /// training has its say, of pretrained weights at the gentler rate. A budget has no time for it.
  void try_whole_training() {
    const double rate = pretrained() ? first_rate() / kGentler : first_rate();
    const auto as_long = [&](const Trial& trial) { return is_of_system(trial) && trial.learning_rate == rate && trial.epochs >= epochs_; };
    if (budget() > 0 || std::any_of(choice_.trials.begin(), choice_.trials.end(), as_long)) return;
    try_rate(rate, epochs_);
  }

  void try_rate(double rate, std::int64_t epochs) {
    if (!can_be_beaten(choice_) || !has_time_for(epochs)) return;
    Trial trial = run_trial(rate, epochs, progress_);
    if (!can_be_beaten(choice_)) return;  // as its start has told
    if (pretrained() && trial.done == trial.epochs && run_.writes()) trial.shares = measure_shares(trial);
    choice_.trials.push_back(std::move(trial));
    if (ranks_) choice_ = parse_choice(ranks_->broadcast(to_json(choice_)));
  }

  double budget() const { return config_.choosing.budget_seconds(); }
  /// Of the budget, for trials and the epochs of the training: without its start, and without measuring what is kept, which takes as long.
  double seconds_left() const { return budget() - before_ - seconds_since(begin_) - start_seconds_ * (pretrained() ? 2 : 1); }
  /// Of the training, as far as trials tell: a first epoch may have been quicker than those after it.
  double seconds_an_epoch() const {
    double seconds = 0, epochs = 0;
    for (const Trial& trial : choice_.trials) {
      if (!is_of_system(trial)) continue;
      seconds += trial.seconds;
      epochs += static_cast<double>(trial.done) * cost();
    }
    return std::max({epoch_seconds_, epochs > 0 ? seconds / epochs : 0, 1e-3});
  }

  /// Whether the budget has time for a trial besides the training: always for the first one.
  bool has_time_for(std::int64_t epochs) const {
    if (budget() == 0 || choice_.trials.empty()) return true;
    const auto trial = static_cast<double>(epochs) * cost(), training = static_cast<double>(epochs_);
    return is_affordable(epochs) || (trial + training) * seconds_an_epoch() <= seconds_left();
  }

  Trial run_trial(double rate, std::int64_t epochs, const Progress& progress) {
    const System& system = find_system(config_.system.name);
    const std::string name = fmt::format("rate-{:g}-epochs-{}", rate, epochs);
    Trial trial{.name = systems_.size() > 1 ? fmt::format("{}-{}", config_.system.name, name) : name,
                .system = config_.system.name,
                .learning_rate = rate,
                .epochs = epochs,
                .done = 0,
                .score = {},
                .shares = {},
                .stopped = {}};
    RunConfig config = trial_config(rate, epochs);
    RunDirectory folder = open_shared(ranks_.get(), [&] { return open_or_create(run_.path() / "trials" / trial.name, config); });
    const auto note = [&](const EpochRecord& record) {
      if (record.epoch == 0 && !choice_.careful) choice_.start = score_of(record);
      trial.done = record.epoch;
      trial.score = score_of(record);
      trial.seconds += record.seconds();
      if (record.epoch == 1) epoch_seconds_ = record.seconds() / std::max(cost(), 0.1);
    };
    const auto on_epoch = [&](const EpochRecord& record) {
      note(record);
      if (events_.on_epoch && !choice_.careful) events_.on_epoch(trial, record);
      if (!can_be_beaten(choice_)) throw NothingToGain();
    };
    const bool told = !told_.insert(trial.name).second;  // the budget's own epoch may be a trial's
    try {
      for (const EpochRecord& record : folder.log()) {
        if (told) {
          note(record);
          continue;
        }
        before_ += record.seconds();
        on_epoch(record);  // of a choice that goes on
      }
      if (trial.done >= epochs) return trial;
      Trainer(config, folder, system, progress, ranks_).run(on_epoch);
    } catch (const NothingToGain&) {
      return trial;
    } catch (const TrainingStopped& error) {
      trial.stopped = error.what();                                                                       // this rate is no candidate
      trial.stopped.resize(std::min(trial.stopped.find("; the last checkpoint"), trial.stopped.size()));  // nobody will go on with it
    } catch (const Cancelled&) {
      folder.remove_if_unused();
      throw;
    } catch (...) {
      std::error_code none;
      if (folder.log().empty() && run_.writes()) std::filesystem::remove_all(folder.path(), none);  // nothing to go on with
      throw;
    }
    return trial;
  }

  /// Where the best rate is the last one tried on its side and time is left, one more beyond it. None beyond five times the usual one: a
  /// short trial flatters rates that the training does not bear (docs/tuning.md).
  void try_beyond(std::int64_t epochs) {
    if (choice_.trials.empty()) return;
    std::vector<Trial> trials;
    std::copy_if(choice_.trials.begin(), choice_.trials.end(), std::back_inserter(trials),
                 [&](const Trial& trial) { return is_of_system(trial); });
    const auto better = [](const Trial& a, const Trial& b) { return a.score.value() < b.score.value(); };
    const Trial best = *std::max_element(trials.begin(), trials.end(), better);
    const auto [low, high] =
        std::minmax_element(trials.begin(), trials.end(), [](const Trial& a, const Trial& b) { return a.learning_rate < b.learning_rate; });
    const bool up = best.learning_rate == high->learning_rate && best.learning_rate <= first_rate();
    if (!up && best.learning_rate != low->learning_rate) return;
    if (is_affordable(epochs)) try_rate(up ? best.learning_rate * kRateStep : best.learning_rate / kRateStep, epochs);
  }

  /// Whether a pass of a few images tells already that the budget is too short. An epoch would take half of it to tell.
  bool is_hopeless() {
    if (budget() > 0) cost_ = cpu_cost(config_);
    return cost_ && cost_->epoch_seconds > budget();
  }

  /// Sets the epochs that the budget has time for, if there is one; false: not even one.
  bool fit_into_budget() {
    if (budget() == 0) return true;
    Deadline deadline(budget() / 2);
    Trial probe;
    // An epoch that a guard stops does not tell how long one takes; at a lower rate it may.
    for (const double rate : {first_rate(), first_rate() / kRateStep}) {
      const Clock::time_point begin = Clock::now();
      try {
        probe = run_trial(rate, 1, deadline.watching(progress_));
      } catch (const Cancelled&) {
        if (!deadline.passed()) throw;
        return false;
      }
      start_seconds_ = std::max(0.0, seconds_since(begin) - epoch_seconds_ * cost());
      if (probe.stopped.empty()) break;
    }
    stopped_ = probe.stopped;
    if (!stopped_.empty()) return false;
    const double left = std::min(seconds_left(), budget() - probe.seconds);
    epochs_ = std::min(config_.choosing.most_epochs, static_cast<std::int64_t>(left / ((1 + kMostCost) * std::max(epoch_seconds_, 1e-3))));
    return epochs_ > 0;
  }

  /// Whether a choice that was stopped had settled on epochs; then these hold, for the trials that it made are of that length.
  bool planned_before() {
    const auto plan = run_.writes() ? read_choice(run_.path()) : std::nullopt;
    if (!plan || plan->epochs <= 0) return false;
    epochs_ = plan->epochs;
    return true;
  }

  /// Nothing is chosen yet; what the budget gave is kept for one that goes on.
  void write_plan() const {
    if (budget() == 0 || !run_.writes()) return;
    Choice plan;
    plan.epochs = epochs_;
    write_choice(run_.path(), plan);
  }

  /// Takes epochs away for which the trials have left no time.
  void keep_to_budget() {
    if (budget() > 0) epochs_ = std::clamp<std::int64_t>(static_cast<std::int64_t>(seconds_left() / seconds_an_epoch()), 1, epochs_);
  }

  /// What weights part of the way from the start to the end of a trial are worth.
  std::vector<Interpolation> measure_shares(const Trial& trial) {
    const RunDirectory folder = RunDirectory::open(run_.path() / "trials" / trial.name);
    const NamedTensors start = read_safetensors(folder.start_path()), end = read_safetensors(folder.last_model_path());
    if (!measure_) {
      const RunConfig config = trial_config(trial.learning_rate, trial.epochs).resolved();
      held_out_data_ = load_run_data(config);
      measure_ = std::make_unique<WeightMeasure>(config, *held_out_data_->validation, shown());
    }
    std::vector<Interpolation> shares = scores_between(*measure_, start, end);
    shares.push_back({1, trial.score});
    return shares;
  }

  Choice be_careful(const std::string& why) {
    choice_.careful = true;
    epochs_ = pretrained() ? std::max<std::int64_t>(1, config_.schedule.epochs / 3) : config_.schedule.epochs;
    const std::int64_t most = epochs_;
    const bool fits =
        !is_hopeless() && fit_into_budget();  // its epoch is timed and thrown away, with what it measured, which was no held-out classes
    std::error_code none;
    if (run_.writes()) std::filesystem::remove_all(run_.path() / "trials", none);
    if (!fits) return give_up();
    choice_.learning_rate = config_.schedule.learning_rate.value() / (pretrained() ? kRateStep : 1);
    choice_.epochs = std::min(epochs_, most);
    choice_.share = pretrained() ? 0.5 : 1;
    choice_.reason = pretrained() ? fmt::format("{}; a fifth of the usual rate, a third of the epochs, and half of the way is kept", why)
                                  : fmt::format("{}; nothing was tried", why);
    if (events_.on_begin) events_.on_begin(choice_);
    return decide();
  }

  Choice give_up() {
    constexpr double kWorthAWord = 2;
    choice_.careful = true;
    choice_.epochs = 0;
    choice_.reason = "the budget is too short for one epoch";
    if (!stopped_.empty())
      choice_.reason = fmt::format("an epoch at a rate of {:g} was given up, and at a fifth of it: {}", first_rate(), stopped_);
    else if (cost_ && cost_->epoch_seconds <= budget())
      choice_.reason += " and what comes before and after it";
    else if (cost_)
      choice_.reason += fmt::format(" ({} or so)", time_in_words(cost_->epoch_seconds));
    choice_.reason += ", so the weights it starts from are kept";
    // A network is only there once its new layer is, and worth something once it is measured.
    if (cost_ && cost_->start_seconds >= kWorthAWord)
      choice_.reason += fmt::format("; to make these ready and measure them takes another {} or so", time_in_words(cost_->start_seconds));
    return decide();
  }

  Choice decide() {
    choice_.seconds = before_ + seconds_since(begin_);
    choice_.decided = true;
    if (ranks_) choice_ = parse_choice(ranks_->broadcast(to_json(choice_)));
    if (!run_.writes()) return choice_;
    write_choice(run_.path(), choice_);
    remove_weights_of_trials(run_.path());
    return choice_;
  }

  const std::vector<RunConfig> systems_;  // the settings of each that may be chosen
  RunConfig config_;                      // of these, the one that is tried now
  RunDirectory& run_;
  const ChoiceEvents& events_;
  const Progress& progress_;
  const std::shared_ptr<Ranks>& ranks_;
  HeldOut held_out_;
  bool own_split_ = false;
  std::int64_t training_images_ = 0;
  std::int64_t epochs_ = 0;
  std::optional<CpuCost> cost_;  // on a CPU, with a budget
  double epoch_seconds_ = 0;     // of the training, as far as a trial tells
  double start_seconds_ = 0;     // before its first epoch
  std::string stopped_;          // why there is no such trial
  Clock::time_point begin_ = Clock::now();
  double before_ = 0;           // seconds of epochs of trials that were done before that
  std::set<std::string> told_;  // trials whose epochs have been told since
  std::optional<DataSplits> held_out_data_;
  std::unique_ptr<WeightMeasure> measure_;
  Choice choice_;
};

/// What rank 0 has chosen before, if it has.
std::optional<Choice> made_before(const RunDirectory& run, Ranks* ranks) {
  std::optional<Choice> made = run.writes() ? read_choice(run.path()) : std::nullopt;
  if (made && !made->decided) made.reset();
  if (ranks == nullptr) return made;
  const std::string text = ranks->broadcast(made ? to_json(*made) : std::string());
  return text.empty() ? std::nullopt : std::optional(parse_choice(text));
}

}  // namespace

void check_choosing(const RunConfig& config) {
  if (config.schedule.epochs < 1)
    throw InvalidArgument(fmt::format("epochs is {}; with choose on it must be at least 1", config.schedule.epochs));
  if (config.data.validation_classes != 0)
    throw InvalidArgument(fmt::format("validation-classes is {}; with choose on it must be 0, for classes are held out to choose on",
                                      config.data.validation_classes));
}

Choice choose_settings(const RunConfig& config, RunDirectory& run, const ChoiceEvents& events, const Progress& progress,
                       const std::shared_ptr<Ranks>& ranks) {
  if (ranks && !config.choosing.budget.empty())
    throw InvalidArgument(fmt::format("budget is '{}'; with several ranks it must be left out", config.choosing.budget));
  if (const auto made = made_before(run, ranks.get())) {
    if (run.writes()) remove_weights_of_trials(run.path());  // a kill may have come before
    return *made;
  }
  check_choosing(config);
  const std::shared_ptr<void> lock = run.lock();
  return Chooser(settings_of_systems(config, run), run, events, progress, ranks).choose();
}

RunConfig chosen_config(const RunConfig& config, const Choice& choice) {
  RunConfig chosen = config;
  if (!choice.system.empty()) chosen.system.name = choice.system;
  chosen.system.name = chosen.system.usual_name();
  chosen = chosen.resolved();
  if (choice.learning_rate > 0) chosen.schedule.learning_rate = choice.learning_rate;
  chosen.schedule.epochs = choice.epochs;
  if (choice.dropout > 0) chosen.model.dropout = choice.dropout;
  chosen.schedule.rate_warmup_epochs = std::min(chosen.schedule.rate_warmup_epochs, static_cast<double>(choice.epochs));
  chosen.output.keep_start = true;  // whatever the share: a training may have to be stopped
  return chosen;
}

}  // namespace smartmine
