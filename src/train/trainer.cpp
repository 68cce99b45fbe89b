#include "smartmine/train/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <optional>
#include <sstream>
#include <utility>

#include "smartmine/core/output_file.h"
#include "smartmine/data/load.h"
#include "smartmine/graph/exact_knn.h"
#include "smartmine/graph/fanng.h"
#include "smartmine/metrics/clustering.h"
#include "smartmine/metrics/retrieval.h"
#include "smartmine/mining/kappa_controller.h"
#include "smartmine/mining/selections.h"
#include "smartmine/model/embed.h"
#include "smartmine/model/weights.h"
#include "smartmine/train/checkpoint.h"
#include "smartmine/train/system.h"
#include "train/device_knn.h"
#include "train/network.h"
#include "train/optimizer.h"
#include "train/report_files.h"
#include "train/upload.h"

namespace smartmine {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kMostBadSteps = 10;    // in a row, before the epoch is given up
constexpr double kCollapsed = 1e-3;           // spread of embeddings that are all alike
constexpr double kStuckError = 0.995;         // nothing is learnt from an error of 1
constexpr std::int64_t kMostStuckEpochs = 5;  // in a row
constexpr std::int64_t kMostBackOffs = 3;
constexpr double kBackOff = 0.5;
constexpr std::int64_t kDefaultNeighbors = 200;
constexpr std::size_t kDeviceKnnRows = 1'000'000;  // beyond, the graph on the CPU is faster than all pairs on a GPU
enum Purpose : std::uint64_t { kGraph = 0x7201, kDropout, kValidation };

/// Adds the time it lives to a stage, also when an exception ends it.
class Timed {
 public:
  Timed(EpochRecord& record, const char* stage) : record_(record), stage_(stage) {}
  ~Timed() { record_.stage_seconds[stage_] += std::chrono::duration<double>(Clock::now() - begin_).count(); }
  Timed(const Timed&) = delete;
  Timed& operator=(const Timed&) = delete;

 private:
  EpochRecord& record_;
  const char* stage_;
  Clock::time_point begin_ = Clock::now();
};

/// The network has the average of its weights, if one is kept, as long as this lives.
class Averaged {
 public:
  explicit Averaged(Optimizer& optimizer) : optimizer_(optimizer) { optimizer_.swap_average(); }
  ~Averaged() { optimizer_.swap_average(); }
  Averaged(const Averaged&) = delete;
  Averaged& operator=(const Averaged&) = delete;

 private:
  Optimizer& optimizer_;
};

DataSplits load_splits(const TrainConfig& config) {
  DataSplits splits = load_dataset(config.dataset, config.data_root);
  if (config.validation_classes > 0)
    splits =
        hold_out_classes(std::move(splits), {.classes = config.validation_classes, .block = config.validation_block, .seed = config.seed});
  return splits;
}

std::unique_ptr<KappaPolicy> make_policy(const System& system, const TrainConfig& config) {
  if (!system.mines) return nullptr;
  if (!system.adaptive)
    return std::make_unique<KappaSchedule>(
        KappaScheduleOptions{.start = config.kappa, .factor = config.kappa_factor, .floor = config.kappa_floor});
  KappaControllerOptions options{
      .target_error = config.target_error, .start = std::max(0.0, config.kappa), .min_kappa = config.kappa_floor};
  options.max_kappa = std::max(options.max_kappa, 2 * config.kappa);
  options.fit = config.kappa_fit == "linear" ? KappaFit::kLinear : KappaFit::kLogOdds;
  return std::make_unique<KappaController>(options);
}

std::uint64_t hash_of(std::span<const std::int64_t> labels) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;  // FNV-1a over whole labels
  for (const std::int64_t label : labels) hash = (hash ^ static_cast<std::uint64_t>(label)) * 0x100000001b3ULL;
  return hash;
}

std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) throw IoError(fmt::format("{}: cannot be read; the checkpoint is not complete", path.string()));
  return text.str();
}

NamedTensors copies(const NamedTensors& tensors) {
  NamedTensors result;
  for (const auto& [name, tensor] : tensors) result.emplace(name, tensor.detach().clone());
  return result;
}

}  // namespace

/// Everything but the public face.
class Trainer::Work final : public EpochSource {
 public:
  Work(const TrainConfig& config, RunDirectory& run, const System& system, Progress progress);
  void run(const std::function<void(const EpochRecord&)>& on_epoch);

  TrainingData data_;
  std::vector<std::string> notes_;
  TrainState state_;

 private:
  // What a system asks of an epoch.
  std::int64_t epoch() const override { return record_.epoch; }
  const TrainConfig& config() const override { return config_; }
  const LabelIndex& labels() const override { return labels_; }
  Rows embeddings() override;
  const NeighborLists& lists() override;
  double kappa(const std::function<double(double kappa)>& expected_error) override {
    const Timed timed(record_, "selection");
    kappa_->begin(expected_error);
    return kappa_->kappa();
  }

  std::optional<std::string> run_epoch(std::int64_t epoch);
  EpochPlan plan(std::int64_t epoch);
  bool step(std::span<const std::uint32_t> items, std::size_t number);
  std::optional<std::string> train_on(const EpochPlan& plan);
  torch::Tensor embed_items(std::span<const std::uint32_t> items);
  double spread_of(std::span<const std::uint32_t> items);
  void save_for_report(const EpochPlan& plan);
  void count_pending();
  double validation_error(const Rows& rows);
  std::optional<RetrievalMetrics> evaluate();
  bool is_evaluation_epoch(std::int64_t epoch) const { return epoch % config_.evaluate_every == 0 || epoch == config_.epochs; }
  bool is_saved_epoch(std::int64_t epoch) const {
    return std::find(config_.save_epochs.begin(), config_.save_epochs.end(), epoch) != config_.save_epochs.end();
  }

  void back_off(const std::string& why);
  void watch_for_stuck_error();
  void watch_for_idle_mining();
  void finish_epoch(const std::function<void(const EpochRecord&)>& on_epoch);
  void save();
  void take_up(const std::filesystem::path& checkpoint);
  void describe_data(const DataSplits& splits);
  double learning_rate(double done) const { return state_.rate_scale * config_.scheduled_rate(done); }

  TrainConfig config_;
  RunDirectory& run_;
  std::shared_ptr<void> lock_;
  ReportFiles report_files_;
  const System system_;
  Progress progress_;

  Network network_;
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<KappaPolicy> kappa_;
  std::optional<Fanng> graph_;  // of the epoch before, for the next to start from

  std::unique_ptr<ImageStore> training_;
  std::unique_ptr<ImageStore> evaluation_;  // null: nothing to measure on
  std::optional<DeviceImages> training_images_;
  std::optional<DeviceImages> evaluation_images_;
  LabelIndex labels_;

  // Of the epoch under way.
  EpochRecord record_;
  EpochPlan plan_;
  torch::Tensor embeddings_;       // on the device; undefined: not yet computed
  torch::Tensor host_embeddings_;  // the same on the CPU
  std::optional<NeighborLists> lists_;
  std::vector<BatchLoss> pending_;  // of steps whose parts and distances are still on the device, so that no step waits for them
};

// One epoch, read straight down. Returns what went wrong, if something did; the epoch is then to be undone.
std::optional<std::string> Trainer::Work::run_epoch(std::int64_t epoch) {
  if (!state_.in_epoch) plan_ = plan(epoch);                     // embeds the whole set, finds neighbours, mines: as the system likes
  if (const auto trouble = train_on(plan_)) return trouble;      // a step a batch
  if (is_evaluation_epoch(epoch)) record_.metrics = evaluate();  // on classes never trained on
  if (plan_.observe_kappa) kappa_->observe(record_.training_error(), std::min(1.0, record_.mined_share() / config_.mined_fraction));
  return std::nullopt;
}

EpochPlan Trainer::Work::plan(std::int64_t epoch) {
  record_ = EpochRecord();
  record_.epoch = epoch;
  record_.learning_rate = learning_rate(static_cast<double>(epoch) - 0.5);
  EpochPlan plan = system_.plan(*this);
  if (plan.observe_kappa) {
    record_.kappa = kappa_->kappa();
    record_.kappa_reason = kappa_->explanation();
  }
  if (plan.mining) {
    record_.mining = plan.mining;
    record_.stage_seconds["selection"] += plan.mining->seconds;
    const auto log = run_.log();  // it would say the same every epoch; once is enough
    const bool said =
        std::any_of(log.begin(), log.end(), [](const EpochRecord& past) { return past.mining && !past.mining->note.empty(); });
    if (!plan.mining->note.empty() && !said) record_.notes.push_back(plan.mining->note);
  }
  if (is_saved_epoch(epoch) && plan.mining) run_.save_triplets(epoch, plan.triplets);
  if (is_report_epoch(config_, epoch) && plan.mining) save_for_report(plan);
  pending_.clear();
  embeddings_ = host_embeddings_ = torch::Tensor();
  lists_.reset();
  state_.in_epoch = true;
  state_.next_step = 0;
  return plan;
}

Rows Trainer::Work::embeddings() {
  if (!embeddings_.defined()) {
    const Timed timed(record_, "embedding");
    embeddings_ = network_.embed(*training_images_, progress_, "embedding");
    host_embeddings_ = embeddings_.cpu();
  }
  return rows_of(host_embeddings_);
}

const NeighborLists& Trainer::Work::lists() {
  if (lists_) return *lists_;
  const Rows rows = embeddings();
  const Timed timed(record_, "lists");
  const auto most = static_cast<std::int64_t>(rows.size()) - 1;
  const auto neighbors = static_cast<std::size_t>(config_.neighbors != 0 ? config_.neighbors : std::min(kDefaultNeighbors, most));
  const auto threads = static_cast<unsigned>(config_.threads);
  const bool exact = config_.index == "exact" || (config_.index == "auto" && exact_is_faster(rows.size(), rows.dimension(), neighbors));
  NeighborResult found;
  if (network_.device.is_cuda() && config_.index != "fanng" && (exact || rows.size() <= kDeviceKnnRows)) {
    found = device_neighbors(embeddings_, neighbors, progress_);
  } else if (exact) {
    found = ExactKnn({.neighbors = neighbors, .threads = threads}).neighbors(rows, progress_);
  } else {
    const FanngOptions options{.neighbors = neighbors,
                               .start = graph_ ? Start::kPrevious : Start::kPartition,
                               .seed = epoch_seed(config_.seed, kGraph, epoch()),
                               .threads = threads,
                               .refreshable = true};
    FanngResult built = build_fanng(rows, options, graph_ ? &*graph_ : nullptr, progress_);
    graph_ = std::move(built.graph);
    found = {std::move(built.lists), std::move(built.stats)};
    if (!found.stats.recall_reached)
      record_.notes.push_back(fmt::format("recall of the lists is {:.4f}, under {:.4f}", found.stats.recall, found.stats.recall_target));
  }
  record_.lists = ListRecord{found.stats.index, found.stats.recall, found.stats.distance_computations};
  lists_ = std::move(found.lists);
  return *lists_;
}

std::optional<std::string> Trainer::Work::train_on(const EpochPlan& plan) {
  const Timed timed(record_, "steps");
  network_.model->train();
  const std::string stage = fmt::format("epoch {}/{}", record_.epoch, config_.epochs);
  const std::size_t full_batches = plan.items.size() / std::max<std::size_t>(1, plan.batch_items);
  std::int64_t bad_in_a_row = 0;
  while (state_.next_step < plan.batches()) {
    const std::size_t number = state_.next_step;
    const auto items = plan.batch(number);
    if (number + 1 < plan.batches()) training_images_->prefetch(plan.batch(number + 1));
    bad_in_a_row = step(items, number) ? 0 : bad_in_a_row + 1;
    ++state_.next_step;
    if (bad_in_a_row == kMostBadSteps) return fmt::format("the loss was not a finite number {} steps in a row", kMostBadSteps);
    report(progress_, stage, number * plan.batch_items + items.size(), plan.items.size(), "images");
  }
  count_pending();
  if (record_.skipped_steps == record_.steps) return "no step had a finite loss";
  record_.spread = spread_of(plan.batch(full_batches == 0 ? 0 : full_batches - 1));
  if (!std::isfinite(record_.spread)) return "the embeddings are no longer finite numbers";
  if (record_.spread < kCollapsed) return fmt::format("the embeddings have collapsed: their spread is {:.2g}", record_.spread);
  return std::nullopt;
}

// Returns false if the loss was not finite and the step was skipped.
bool Trainer::Work::step(std::span<const std::uint32_t> items, std::size_t number) {
  const auto count = static_cast<std::int64_t>(items.size());
  std::vector<std::uint64_t> keys(items.size());
  std::vector<std::int64_t> labels(2 * items.size());  // and the items behind them, so that one copy takes both to the device
  for (std::size_t i = 0; i < items.size(); ++i) {
    keys[i] = number * plan_.batch_items + i;
    labels[i] = labels_.class_of(items[i]);
    labels[items.size() + i] = items[i];
  }
  EmbeddingModel& model = *network_.model;
  model.seed_dropout(epoch_seed(config_.seed ^ number, kDropout, record_.epoch));
  const torch::Tensor both = upload(torch::from_blob(labels.data(), {2, count}, torch::kInt64), network_.device);
  const torch::Tensor pixels = training_images_->get(items);
  const torch::Tensor images = network_.augmenter.training(pixels, static_cast<std::uint64_t>(record_.epoch), keys, network_.type);
  const torch::Tensor embedded = system_.unit_norm ? model.forward(images) : model.raw(images);
  const BatchLoss loss =
      system_.loss(embedded, {.host = std::span(labels).first(items.size()), .device = both[0], .items = both[1]}, config_);

  ++record_.steps;
  record_.images += count;
  optimizer_->zero_gradients();
  loss.value.backward();
  // Looked at only now, and both at once: the device has work while the host waits for it.
  const torch::Tensor seen = torch::stack({loss.value.detach().to(torch::kFloat64), loss.active.to(torch::kFloat64)}).cpu();
  const double value = seen[0].item<double>();
  if (!std::isfinite(value)) {
    ++record_.skipped_steps;
    return false;
  }
  const double share = (static_cast<double>(number) + 0.5) / static_cast<double>(plan_.batches());
  optimizer_->step(learning_rate(static_cast<double>(record_.epoch - 1) + share));
  record_.loss_sum += value;
  record_.active += static_cast<std::int64_t>(seen[1].item<double>());
  record_.terms += loss.terms;
  pending_.push_back({.value = {}, .active = {}, .parts = loss.parts, .squared_distances = loss.squared_distances});
  return true;
}

// Brings what the steps left on the device into the record, in their order.
void Trainer::Work::count_pending() {
  std::map<std::string, std::vector<torch::Tensor>> parts;
  std::vector<torch::Tensor> distances;
  for (const BatchLoss& loss : pending_) {
    for (const auto& [name, value] : loss.parts) parts[name].push_back(value);
    if (loss.squared_distances.defined()) distances.push_back(loss.squared_distances);
  }
  pending_.clear();
  const auto on_host = [](const torch::Tensor& tensor) { return tensor.to(torch::kCPU, torch::kFloat64).contiguous(); };
  for (const auto& [name, values] : parts) {
    const torch::Tensor all = on_host(torch::stack(values));
    for (std::int64_t i = 0; i < all.numel(); ++i) record_.loss_part_sums[name] += all.data_ptr<double>()[i];
  }
  if (distances.empty()) return;
  if (!record_.distances) record_.distances.emplace();
  const torch::Tensor all = on_host(torch::cat(distances, 1));
  const double* values = all.data_ptr<double>();
  for (std::int64_t i = 0; i < all.size(1); ++i) {
    ++record_.distances->positive[DistanceCounts::bin(values[i])];
    ++record_.distances->negative[DistanceCounts::bin(values[all.size(1) + i])];
  }
}

// Of training images, with the weights as they are now.
torch::Tensor Trainer::Work::embed_items(std::span<const std::uint32_t> items) {
  const torch::NoGradGuard no_grad;
  network_.model->eval();
  return network_.model->forward(network_.augmenter.evaluation(training_images_->get(items), network_.type));
}

// The mean squared distance of embeddings to their mean; 0: all alike.
double Trainer::Work::spread_of(std::span<const std::uint32_t> items) {
  const torch::Tensor embedded = embed_items(items);
  return (embedded - embedded.mean(0)).pow(2).sum(1).mean().item<double>();
}

void Trainer::Work::save_for_report(const EpochPlan& plan) {
  ShownTriplets shown = choose_triplets(plan, labels_, config_.seed, record_.epoch);
  shown.kappa = record_.kappa;
  const torch::Tensor embedded = embed_items(shown.items).to(torch::kCPU, torch::kFloat32).contiguous();
  report_files_.save_triplets(shown, rows_of(embedded), training_->dataset());
}

// As the training error, on random triplets, the same ones every epoch.
double Trainer::Work::validation_error(const Rows& rows) {
  const LabelIndex labels(evaluation_->dataset().labels());
  const MinedTriplets drawn =
      RandomMiner({.seed = epoch_seed(config_.seed, kValidation, 0), .threads = static_cast<unsigned>(config_.threads)}).select(labels);
  return violating_share(drawn.triplets, rows, config_.margin);
}

std::optional<RetrievalMetrics> Trainer::Work::evaluate() {
  if (!evaluation_) return std::nullopt;
  const Timed timed(record_, "evaluation");
  const Averaged averaged(*optimizer_);
  const torch::Tensor embedded = network_.embed(*evaluation_images_, progress_, "evaluation").cpu();
  const Rows rows = rows_of(embedded);
  const auto labels = evaluation_->dataset().labels();
  run_.save_embeddings(record_.epoch, rows, labels);  // the last ones there are stay, for a report
  std::vector<std::int64_t> kept = config_.save_epochs;
  kept.push_back(record_.epoch);
  run_.keep_embeddings_of(kept);
  record_.validation_error = validation_error(rows);
  const auto threads = static_cast<unsigned>(config_.threads);
  const RetrievalResult retrieval = measure_retrieval(rows, labels, {.threads = threads}, progress_);
  const KMeansResult clusters = k_means(rows, {.clusters = retrieval.stats.classes, .seed = config_.seed, .threads = threads}, progress_);
  const NormalizedMutualInformation nmi = normalized_mutual_information(labels, clusters.assignments);
  return RetrievalMetrics{.split = data_.evaluated_on,
                          .recall_at_1 = retrieval.recall[0],
                          .recall_at_2 = retrieval.recall[1],
                          .recall_at_4 = retrieval.recall[2],
                          .recall_at_8 = retrieval.recall[3],
                          .nmi = nmi.arithmetic,
                          .nmi_geometric = nmi.geometric,
                          .map_at_r = retrieval.map_at_r,
                          .r_precision = retrieval.r_precision};
}

void Trainer::Work::run(const std::function<void(const EpochRecord&)>& on_epoch) {
  try {
    if (evaluation_) report_files_.save_images(evaluation_->dataset());
    if (run_.log().empty()) {
      record_ = EpochRecord{};
      record_.metrics = evaluate();
      run_.append(record_);
      save();
      if (on_epoch) on_epoch(record_);
    }
    std::vector<std::string> said;  // of attempts that were undone
    while (state_.epochs_done < config_.epochs) {
      const NamedTensors weights = copies(network_.model->state()), momenta = copies(optimizer_->state());
      const auto trouble = run_epoch(state_.epochs_done + 1);
      if (trouble) {
        load_into(*network_.model, weights);
        optimizer_->load(momenta, "the epoch before");
        state_.in_epoch = false;
        back_off(*trouble);
        said.push_back(fmt::format("epoch {} was undone and the learning rate halved: {}", state_.epochs_done + 1, *trouble));
        continue;
      }
      record_.notes.insert(record_.notes.begin(), said.begin(), said.end());
      said.clear();
      finish_epoch(on_epoch);
    }
    report_files_.finish();
  } catch (const Cancelled&) {
    if (state_.in_epoch) {  // otherwise the last checkpoint has it all
      count_pending();
      save();
    }
    report_files_.finish_triplets();
    throw;
  }
}

void Trainer::Work::finish_epoch(const std::function<void(const EpochRecord&)>& on_epoch) {
  if (record_.skipped_steps > 0)
    record_.notes.push_back(
        fmt::format("{} of {} steps were skipped: their loss was not a finite number", record_.skipped_steps, record_.steps));
  report_files_.finish_triplets();
  ++state_.epochs_done;
  state_.in_epoch = false;
  watch_for_idle_mining();
  const std::size_t notes = record_.notes.size();
  watch_for_stuck_error();
  run_.append(record_);  // before the checkpoint: what a checkpoint knows of is always in the log
  save();
  if (on_epoch) on_epoch(record_);
  if (state_.times_backed_off > kMostBackOffs)
    throw TrainingStopped(fmt::format("stopped after epoch {}: {}; the last checkpoint is kept", record_.epoch, record_.notes.at(notes)));
}

// An undone epoch is tried again with half the rate, a few times.
void Trainer::Work::back_off(const std::string& why) {
  if (++state_.times_backed_off > kMostBackOffs)
    throw TrainingStopped(
        fmt::format("stopped in epoch {}: {}, though the learning rate was halved {} times; the last checkpoint, of epoch {}, is kept. Try "
                    "a smaller --learning-rate",
                    state_.epochs_done + 1, why, kMostBackOffs, state_.epochs_done));
  state_.rate_scale *= kBackOff;
}

void Trainer::Work::watch_for_stuck_error() {
  const bool stuck = system_.error_counts && record_.training_error() >= kStuckError;
  state_.stuck_epochs = stuck ? state_.stuck_epochs + 1 : 0;
  if (state_.stuck_epochs < kMostStuckEpochs) return;
  state_.stuck_epochs = 0;
  ++state_.times_backed_off;
  state_.rate_scale *= kBackOff;
  record_.notes.push_back(fmt::format("the training error has been stuck at {:.3f} for {} epochs; the learning rate was halved",
                                      record_.training_error(), kMostStuckEpochs));
}

// The controller can make triplets easier only by mining fewer: where random ones are too hard already, there is nothing for it to do.
void Trainer::Work::watch_for_idle_mining() {
  constexpr std::string_view kOpening = "random triplets are harder than the target";
  if (!system_.adaptive || !plan_.observe_kappa || record_.mined_share() > kHardlyMined * config_.mined_fraction ||
      record_.training_error() <= config_.target_error)
    return;
  for (const EpochRecord& past : run_.log())
    for (const std::string& note : past.notes)
      if (note.starts_with(kOpening)) return;
  record_.notes.push_back(
      fmt::format("{}: {:.2g} % are mined, and the training error is {:.3f} instead of {:.3f}. Kappa stays until it has fallen that far; a "
                  "higher --target-error or a smaller --margin may have more mined before",
                  kOpening, 100 * record_.mined_share(), record_.training_error(), config_.target_error));
}

void Trainer::Work::save() {
  CheckpointWriter writer(run_.checkpoint_path());
  const Averaged averaged(*optimizer_);  // among the optimizer's state are then the weights that training goes on with
  write_safetensors(writer.folder() / "model.safetensors", network_.model->state(),
                    {{"backbone", std::filesystem::path(config_.backbone).filename().string()},
                     {"system", std::string(system_.name)},
                     {"epochs", std::to_string(state_.epochs_done)}});
  write_safetensors(writer.folder() / "optimizer.safetensors", optimizer_->state());
  if (graph_) graph_->save(writer.folder() / "graph.fanng");
  state_.kappa = kappa_ ? kappa_->save() : "";
  if (state_.in_epoch) {
    std::vector<std::int32_t> items(plan_.items.begin(), plan_.items.end());
    write_safetensors(writer.folder() / "plan.safetensors",
                      {{"items", torch::from_blob(items.data(), {static_cast<std::int64_t>(items.size())}, torch::kInt32)}});
    state_.batch_items = plan_.batch_items;
    state_.observe_kappa = plan_.observe_kappa;
    state_.record = to_json_line(record_);
  } else {
    state_.record.clear();
  }
  const std::string text = to_json(state_);
  OutputFile file(writer.folder() / "state.json");
  file.write(text.data(), text.size());
  file.commit();
  writer.commit();
}

void Trainer::Work::take_up(const std::filesystem::path& checkpoint) {
  const std::filesystem::path state_path = checkpoint / "state.json";
  TrainState saved;
  try {
    saved = parse_state(read_text(state_path));
    if (kappa_) kappa_->load(saved.kappa);
    if (saved.in_epoch) record_ = parse_record(saved.record);
  } catch (const InvalidArgument& error) {
    throw IoError(fmt::format("{}: {}", state_path.string(), error.what()));
  }
  if (saved.images != state_.images || saved.label_hash != state_.label_hash)
    throw IoError(fmt::format("{}: of a run on {} training images; here are {}{}, so it is not the same data", state_path.string(),
                              saved.images, state_.images, saved.images == state_.images ? " with other labels" : ""));
  state_ = saved;
  const std::filesystem::path model = checkpoint / "model.safetensors", optimizer = checkpoint / "optimizer.safetensors";
  load_into(*network_.model, read_safetensors(model), {.source = model.string()});
  optimizer_->load(read_safetensors(optimizer), optimizer.string());
  optimizer_->swap_average();
  if (std::filesystem::exists(checkpoint / "graph.fanng")) graph_ = Fanng::load(checkpoint / "graph.fanng");
  if (state_.in_epoch) {
    const torch::Tensor items = read_safetensors(checkpoint / "plan.safetensors").at("items").to(torch::kInt32).contiguous();
    const auto* values = items.data_ptr<std::int32_t>();
    plan_.items.assign(values, values + items.numel());
    plan_.batch_items = state_.batch_items;
    plan_.observe_kappa = state_.observe_kappa;
    for (const std::uint32_t item : plan_.items)
      if (item >= labels_.size()) throw IoError(fmt::format("{}: damaged", (checkpoint / "plan.safetensors").string()));
  }
}

void Trainer::Work::describe_data(const DataSplits& splits) {
  const Dataset& train = training_->dataset();
  data_ = {.training_images = train.size(),
           .training_classes = train.classes().size(),
           .evaluation_images = evaluation_ ? evaluation_->dataset().size() : 0,
           .evaluation_classes = evaluation_ ? evaluation_->dataset().classes().size() : 0,
           .evaluated_on = splits.validation ? "validation" : "test",
           .device = network_.device.is_cuda() ? "cuda" : "cpu"};
  for (const auto* store : {training_.get(), evaluation_.get()}) {
    if (store == nullptr || store->bad_images().empty()) continue;
    notes_.push_back(fmt::format("{} bad images of the {} half were skipped, the first: {}", store->bad_images().size(),
                                 store->dataset().split(), store->bad_images().front().reason));
  }
  if (train.single_image_classes() > 0)
    notes_.push_back(fmt::format("{} training classes have a single image, which is never an anchor", train.single_image_classes()));
  if (!evaluation_)
    notes_.push_back(
        fmt::format("there is nothing to measure on: the {} half needs two classes, one of them of two images", data_.evaluated_on));
}

Trainer::Work::Work(const TrainConfig& config, RunDirectory& run, const System& system, Progress progress)
    : config_((config.validate(), run.with_own_backbone(config.resolved()))),
      run_(run),
      lock_(run.lock()),
      report_files_(run.report_path()),
      system_(system),
      progress_(std::move(progress)),
      network_(config_),
      kappa_(make_policy(system_, config_)),
      labels_(std::vector<std::int64_t>{0, 1}) {
  const DataSplits splits = load_splits(config_);
  training_ = std::make_unique<ImageStore>(splits.train, network_.store_options(config_));
  training_->check_all(progress_);
  const Dataset& held_out = splits.validation ? *splits.validation : splits.test;
  if (held_out.classes().size() > 1 && held_out.single_image_classes() < held_out.classes().size()) {
    evaluation_ = std::make_unique<ImageStore>(held_out, network_.store_options(config_));
    evaluation_->check_all(progress_);
  }
  describe_data(splits);
  labels_ = LabelIndex(training_->dataset().labels());
  if (system_.mines && config_.neighbors >= static_cast<std::int64_t>(labels_.size()))
    throw InvalidArgument(fmt::format("neighbors is {}; with {} training images it must be at most {}", config_.neighbors, labels_.size(),
                                      labels_.size() - 1));
  labels_.anchors();  // throws if nobody has a positive: better now than later
  training_images_.emplace(*training_, network_.device);
  if (evaluation_) evaluation_images_.emplace(*evaluation_, network_.device);
  state_.images = labels_.size();
  state_.label_hash = hash_of(training_->dataset().labels());
  const auto checkpoint = find_checkpoint(run_.checkpoint_path());
  if (checkpoint.empty()) {  // before the optimizer, which may keep an average from here on
    const std::string note = network_.start_new_layer(config_, *training_images_, training_->dataset().labels(), progress_);
    if (!note.empty()) notes_.push_back(note);
  }
  optimizer_ = make_optimizer(*network_.model, config_);
  if (!checkpoint.empty()) {
    take_up(checkpoint);
    run_.forget_after(state_.epochs_done);
  } else {
    if (!run_.log().empty() && run_.log().back().epoch > 0)
      throw IoError(fmt::format("{}: there is no checkpoint, though {} epochs have been logged; put it back, or begin a run elsewhere",
                                run_.checkpoint_path().string(), run_.log().back().epoch));
    run_.forget_after(-1);
  }
}

Trainer::Trainer(const TrainConfig& config, RunDirectory& run, const Progress& progress)
    : Trainer(config, run, find_system(config.system), progress) {}
Trainer::Trainer(const TrainConfig& config, RunDirectory& run, const System& system, const Progress& progress)
    : work_(std::make_unique<Work>(config, run, system, progress)) {}
Trainer::~Trainer() = default;

const TrainingData& Trainer::data() const { return work_->data_; }
const std::vector<std::string>& Trainer::notes() const { return work_->notes_; }
std::int64_t Trainer::epochs_done() const { return work_->state_.epochs_done; }
void Trainer::run(const std::function<void(const EpochRecord&)>& on_epoch) { work_->run(on_epoch); }

}  // namespace smartmine
