#include "train/recorder.h"

#include <fmt/format.h>

#include <algorithm>

#include "smartmine/core/error.h"
#include "smartmine/core/output_file.h"
#include "smartmine/model/embed.h"
#include "smartmine/model/weights.h"

namespace smartmine {
namespace {

constexpr const char* kModel = "model.safetensors";
constexpr const char* kOptimizer = "optimizer.safetensors";
constexpr const char* kPlan = "plan.safetensors";

}  // namespace

TrainState full_state(const Persistent& kept) {
  TrainState state = kept.state;
  state.kappa = kept.kappa ? kept.kappa->save() : "";
  const TrainState between;
  state.in_epoch = kept.under_way.has_value();
  state.next_step = between.next_step;  // of the epoch that a resumed run took up
  state.batch_items = between.batch_items;
  state.observe_kappa = between.observe_kappa;
  state.record = between.record;
  if (!kept.under_way) return state;
  state.next_step = kept.under_way->next_step;
  state.batch_items = kept.under_way->plan.batch_items;
  state.observe_kappa = kept.under_way->plan.observe_kappa;
  state.record = to_json_line(kept.under_way->record);
  return state;
}

namespace {

EpochPlan load_plan(const std::filesystem::path& file, const TrainState& state, const LabelIndex& labels) {
  const torch::Tensor items = read_safetensors(file).at("items").to(torch::kInt32).contiguous();
  const auto* values = items.data_ptr<std::int32_t>();
  EpochPlan plan;
  plan.items.assign(values, values + items.numel());
  plan.batch_items = state.batch_items;
  plan.observe_kappa = state.observe_kappa;
  for (const std::uint32_t item : plan.items)
    if (item >= labels.size()) throw IoError(fmt::format("{}: damaged", file.string()));
  return plan;
}

}  // namespace

Recorder::Recorder(RunDirectory& run, const RunConfig& config) : run_(run), config_(config), lock_(run.lock()), files_(run.report_path()) {}

void Recorder::keep_images(const LoadedData& data) {
  if (data.evaluation && run_.writes()) files_.save_images(data.evaluation->dataset());
}

void Recorder::keep_triplets(const Epoch& epoch, const EpochUnderWay& planned) {
  if (!planned.plan.mining || !run_.writes()) return;
  const auto& saved = config_.output.save_epochs;
  if (std::find(saved.begin(), saved.end(), epoch.number) != saved.end()) run_.save_triplets(epoch.number, planned.plan.triplets);
  if (!is_report_epoch(config_, epoch.number)) return;
  ShownTriplets shown = choose_triplets(planned.plan, epoch.data.labels, config_.compute.seed, epoch.number);
  shown.kappa = planned.record.kappa;
  const torch::Tensor embedded = embed_items(epoch, shown.items).to(torch::kCPU, torch::kFloat32).contiguous();
  files_.save_triplets(shown, rows_of(embedded), epoch.data.training.dataset());
}

void Recorder::measure(const Epoch& epoch, Optimizer& optimizer, EpochRecord& record) {
  if (!epoch.data.evaluation) return;
  const Timed timed(record, "evaluation");
  const Evaluation measured = evaluate(epoch, optimizer);
  record.metrics = measured.metrics;
  record.validation_error = measured.validation_error;
  if (!run_.writes()) return;
  // The last ones there are stay, for a report.
  run_.save_embeddings(epoch.number, rows_of(measured.embeddings), epoch.data.evaluation->dataset().labels());
  std::vector<std::int64_t> kept = config_.output.save_epochs;
  kept.push_back(epoch.number);
  run_.keep_embeddings_of(kept);
}

void Recorder::tell_once(TrainState& state, const std::string& kind, const std::string& note, EpochRecord& record) {
  if (std::find(state.told.begin(), state.told.end(), kind) != state.told.end()) return;
  state.told.push_back(kind);
  record.notes.push_back(note);
}

void Recorder::save_start(const Epoch& epoch) const {
  if (run_.writes()) write_safetensors(run_.start_path(), epoch.network.model->state());
}

void Recorder::save_checkpoint(const Epoch& epoch, Persistent& kept) const {
  if (!run_.writes()) return;
  CheckpointWriter writer(run_.checkpoint_path());
  const Averaged averaged(*kept.optimizer);  // among the optimizer's state are then the weights that training goes on with
  write_safetensors(writer.folder() / kModel, epoch.network.model->state(),
                    {{"backbone", std::filesystem::path(config_.model.backbone).filename().string()},
                     {"system", epoch.system.traits.name},
                     {"epochs", std::to_string(kept.state.epochs_done)}});
  write_safetensors(writer.folder() / kOptimizer, kept.optimizer->state());
  if (kept.index.graph() != nullptr) kept.index.save(writer.folder() / kGraphFile);
  if (kept.under_way) {
    std::vector<std::int32_t> items(kept.under_way->plan.items.begin(), kept.under_way->plan.items.end());
    write_safetensors(writer.folder() / kPlan,
                      {{"items", torch::from_blob(items.data(), {static_cast<std::int64_t>(items.size())}, torch::kInt32)}});
    if (kept.under_way->memory) kept.under_way->memory->save(writer.folder() / kMemoryFile);
  }
  const std::string text = to_json(full_state(kept));
  OutputFile file(writer.folder() / kStateFile);
  file.write(text.data(), text.size());
  file.commit();
  writer.commit();
}

void load_checkpoint(const std::filesystem::path& folder, const Network& network, const LabelIndex& labels, Persistent& kept) {
  const std::filesystem::path state_path = folder / kStateFile;
  const TrainState saved = read_state(folder);
  EpochRecord record;
  try {
    if (kept.kappa) kept.kappa->load(saved.kappa);
    if (saved.in_epoch) record = parse_record(saved.record);
  } catch (const InvalidArgument& error) {
    throw IoError(fmt::format("{}: {}", state_path.string(), error.what()));
  }
  if (saved.images != kept.state.images || saved.label_hash != kept.state.label_hash)
    throw IoError(fmt::format("{}: of a run on {} training images; here are {}{}, so it is not the same data", state_path.string(),
                              saved.images, kept.state.images, saved.images == kept.state.images ? " with other labels" : ""));
  load_into(*network.model, read_safetensors(folder / kModel), {.source = (folder / kModel).string()});
  kept.optimizer->load(read_safetensors(folder / kOptimizer), (folder / kOptimizer).string());
  kept.optimizer->swap_average();
  if (std::filesystem::exists(folder / kGraphFile)) kept.index.load(folder / kGraphFile);
  if (saved.in_epoch) {
    kept.under_way =
        EpochUnderWay{.plan = load_plan(folder / kPlan, saved, labels), .record = std::move(record), .next_step = saved.next_step};
    if (std::filesystem::exists(folder / kMemoryFile)) kept.under_way->memory.emplace(folder / kMemoryFile, labels, network.device);
  }
  kept.state = saved;
}

}  // namespace smartmine
