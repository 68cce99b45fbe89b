#include "smartmine/train/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "smartmine/model/weights.h"
#include "smartmine/train/system.h"
#include "train/epoch.h"
#include "train/guards.h"
#include "train/rank_work.h"
#include "train/recorder.h"

namespace smartmine {
namespace {

constexpr std::int64_t kDefaultNeighbors = 200;

std::unique_ptr<KappaPolicy> make_policy(const SystemTraits& traits, const MiningOptions& options) {
  if (!traits.mines) return nullptr;
  if (!traits.adaptive)
    return std::make_unique<KappaSchedule>(
        KappaScheduleOptions{.start = options.kappa.value(), .factor = options.kappa_factor, .floor = options.kappa_floor});
  KappaControllerOptions controller{
      .target_error = options.target_error.value(), .start = options.kappa.value_or(0), .min_kappa = options.kappa_floor};
  controller.max_kappa = std::max(controller.max_kappa, 2 * controller.start);
  if (traits.groups) {  // the error hardly depends on kappa there, and falls by itself: far to go, and soon
    controller.initial_slope = -2;
    controller.initial_spread = 10;
    controller.max_step = 4;
  }
  controller.fit = options.kappa_fit == "linear" ? KappaFit::kLinear : KappaFit::kLogOdds;
  return std::make_unique<KappaController>(controller);
}

NeighborIndex make_index(const RunConfig& config, std::size_t images) {
  const std::string& start = config.mining.graph_start;
  const bool named = start != "auto" || config.mining.success_rate != RunConfig().mining.success_rate;  // who says how wants edges
  const std::int64_t most = std::max<std::int64_t>(1, static_cast<std::int64_t>(images) - 1);
  return NeighborIndex({.kind = config.mining.index == "exact"   ? IndexKind::kExact
                                : config.mining.index == "fanng" ? IndexKind::kFanng
                                                                 : IndexKind::kAutomatic,
                        .neighbors = static_cast<std::size_t>(config.mining.neighbors.value_or(std::min(kDefaultNeighbors, most))),
                        .success_target = config.mining.success_rate,
                        .for_search = named,
                        .start = start == "random"      ? Start::kRandom
                                 : start == "partition" ? Start::kPartition
                                                        : Start::kPrevious,
                        .keep_graph = start != "random" && start != "partition",
                        .threads = static_cast<unsigned>(config.compute.threads)});
}

std::uint64_t hash_of(std::span<const std::int64_t> labels) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;  // FNV-1a over whole labels
  for (const std::int64_t label : labels) hash = (hash ^ static_cast<std::uint64_t>(label)) * 0x100000001b3ULL;
  return hash;
}

NamedTensors copies(const NamedTensors& tensors) {
  NamedTensors result;
  for (const auto& [name, tensor] : tensors) result.emplace(name, tensor.detach().clone());
  return result;
}

}  // namespace

/// Everything but the public face: the run, from its first epoch to its last.
class Trainer::Work {
 public:
  Work(const RunConfig& config, RunDirectory& run, const System& system, const Progress& progress, std::shared_ptr<Ranks> ranks);
  void run(const std::function<void(const EpochRecord&)>& on_epoch, std::int64_t until);
  std::int64_t epochs() const { return config_.schedule.epochs; }
  const LoadedData& data() const { return data_; }
  std::int64_t epochs_done() const { return kept_.state.epochs_done; }

 private:
  Epoch epoch(std::int64_t number) { return {number, config_, system_, network_, data_, progress_, ranks_.get()}; }
  void measure_start(const std::function<void(const EpochRecord&)>& on_epoch);
  bool try_epoch();
  void finish_epoch(const std::function<void(const EpochRecord&)>& on_epoch);

  const std::shared_ptr<Ranks> ranks_;
  const RunConfig config_;
  const System system_;
  const Progress progress_;
  Recorder recorder_;
  Network network_;
  LoadedData data_;
  Persistent kept_;
  std::vector<std::string> undone_;  // notes on attempts at the epoch to come
};

Trainer::Work::Work(const RunConfig& config, RunDirectory& run, const System& system, const Progress& progress,
                    std::shared_ptr<Ranks> ranks)
    : ranks_(std::move(ranks)),
      config_(with_share_of_cores((config.validate(), run.with_own_backbone(config.resolved(system.traits))), ranks_.get())),
      system_(system),
      progress_(ranks_ ? ranks_->watched(progress) : progress),
      recorder_(run, config_),
      network_(config_, ranks_.get()),
      data_(load_data(config_, system_.traits, network_, progress_)),
      kept_{.optimizer = nullptr,
            .kappa = make_policy(system_.traits, config_.mining),
            .index = make_index(config_, data_.labels.size()),
            .state = {},
            .under_way = {}} {
  kept_.state.images = data_.labels.size();
  kept_.state.label_hash = hash_of(data_.training.dataset().labels());
  const auto checkpoint = run.writes() ? find_checkpoint(run.checkpoint_path()) : std::filesystem::path();
  const bool begun = ranks_ ? !ranks_->broadcast(checkpoint.string()).empty() : !checkpoint.empty();
  if (!begun) {  // before the optimizer, which may keep an average from here on
    const std::string note = network_.start_new_layer(config_, *data_.training.images, data_.training.dataset().labels(), progress_);
    if (!note.empty()) data_.notes.push_back(note);
  }
  kept_.optimizer = make_optimizer(*network_.model, config_.schedule);
  if (!checkpoint.empty()) load_checkpoint(checkpoint, network_, data_.labels, kept_);
  if (ranks_) share_state(*ranks_, checkpoint, network_, data_.labels, kept_);
  if (begun) {
    run.forget_after(kept_.state.epochs_done);
  } else {
    if (!run.log().empty() && run.log().back().epoch > 0)
      throw IoError(fmt::format("{}: there is no checkpoint, though {} epochs have been logged; put it back, or begin a run elsewhere",
                                run.checkpoint_path().string(), run.log().back().epoch));
    run.forget_after(-1);
  }
}

void Trainer::Work::run(const std::function<void(const EpochRecord&)>& on_epoch, std::int64_t until) {
  try {
    recorder_.keep_images(data_);
    if (recorder_.run().log().empty()) measure_start(on_epoch);
    while (kept_.state.epochs_done < until)
      if (try_epoch()) finish_epoch(on_epoch);
    recorder_.finish();
  } catch (const Cancelled&) {
    if (kept_.under_way) recorder_.save_checkpoint(epoch(kept_.state.epochs_done + 1), kept_);  // else the last one has it all
    recorder_.finish_triplets();
    throw;
  }
}

void Trainer::Work::measure_start(const std::function<void(const EpochRecord&)>& on_epoch) {
  EpochRecord record;
  record.device = data_.facts.device;
  recorder_.measure(epoch(0), *kept_.optimizer, record);
  if (ranks_) record = shared_record(*ranks_, record);
  if (config_.output.keep_start) recorder_.save_start(epoch(0));
  recorder_.add(record);
  recorder_.save_checkpoint(epoch(0), kept_);
  if (on_epoch) on_epoch(record);
}

// False: the epoch went wrong and was undone; it is to be tried again, at a smaller rate.
bool Trainer::Work::try_epoch() {
  const NamedTensors weights = copies(network_.model->state()), momenta = copies(kept_.optimizer->state());
  const auto trouble = run_epoch(epoch(kept_.state.epochs_done + 1), kept_, recorder_);
  if (!trouble) return true;
  load_into(*network_.model, weights);
  kept_.optimizer->load(momenta, "the epoch before");
  kept_.under_way.reset();
  back_off(kept_.state, *trouble);
  undone_.push_back(fmt::format("epoch {} was undone and the learning rate halved: {}", kept_.state.epochs_done + 1, *trouble));
  return false;
}

void Trainer::Work::finish_epoch(const std::function<void(const EpochRecord&)>& on_epoch) {
  EpochRecord record = std::move(kept_.under_way->record);
  kept_.under_way.reset();
  if (ranks_) record = shared_record(*ranks_, record);
  record.notes.insert(record.notes.begin(), undone_.begin(), undone_.end());
  undone_.clear();
  TrainState& state = kept_.state;
  if (record.mining && !record.mining->note.empty()) Recorder::tell_once(state, "mining", record.mining->note, record);
  if (record.grouping && !record.grouping->note.empty()) Recorder::tell_once(state, "grouping", record.grouping->note, record);
  if (record.skipped_steps > 0)
    record.notes.push_back(
        fmt::format("{} of {} steps were skipped: their loss was not a finite number", record.skipped_steps, record.steps));
  recorder_.finish_triplets();
  ++state.epochs_done;
  if (const auto note = idle_mining(system_.traits, config_.mining, record)) Recorder::tell_once(state, "idle mining", *note, record);
  if (const auto note = kappa_at_floor(system_.traits, config_.mining, record))
    Recorder::tell_once(state, "kappa at its floor", *note, record);
  const auto stuck = watch_error(state, system_.traits, record);
  if (stuck) record.notes.push_back(*stuck);
  recorder_.add(record);  // before the checkpoint: what a checkpoint knows of is always in the log
  recorder_.save_checkpoint(epoch(state.epochs_done), kept_);
  if (on_epoch) on_epoch(record);
  if (stuck) stop_if_hopeless(state, record.epoch, *stuck);
}

Trainer::Trainer(const RunConfig& config, RunDirectory& run, const Progress& progress, std::shared_ptr<Ranks> ranks)
    : Trainer(config, run, find_system(config.system.usual_name()), progress, std::move(ranks)) {}
Trainer::Trainer(const RunConfig& config, RunDirectory& run, const System& system, const Progress& progress, std::shared_ptr<Ranks> ranks)
    : work_(std::make_unique<Work>(config, run, system, progress, std::move(ranks))) {}
Trainer::~Trainer() = default;

const TrainingData& Trainer::data() const { return work_->data().facts; }
const std::vector<std::string>& Trainer::notes() const { return work_->data().notes; }
std::int64_t Trainer::epochs_done() const { return work_->epochs_done(); }
void Trainer::run(const std::function<void(const EpochRecord&)>& on_epoch, std::optional<std::int64_t> until) {
  work_->run(on_epoch, std::min(until.value_or(work_->epochs()), work_->epochs()));
}

}  // namespace smartmine
