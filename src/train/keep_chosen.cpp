#include <fmt/format.h>

#include <filesystem>
#include <system_error>

#include "smartmine/model/weights.h"
#include "smartmine/run/run_data.h"
#include "smartmine/train/choose.h"
#include "train/measure_weights.h"

namespace smartmine {
namespace {

/// At no moment does choice.json speak of other weights than those that are there: while they change it says nothing of them, and it names
/// them before they are measured, which may take minutes.
EpochRecord keep(const RunConfig& config, RunDirectory& run, const Choice& choice, double share, const Progress& progress) {
  EpochRecord record = run.log().empty() ? EpochRecord{} : run.log().back();
  const auto before = read_choice(run.path());
  const bool same = before && before->kept && before->kept->epoch == record.epoch && before->kept->share == share;
  Choice known = choice;
  known.kept.reset();
  if (!same) {
    write_choice(run.path(), known);
    run.forget_kept();  // of a training that was stopped or ended, and has gone on since
  }
  known.kept = {.epoch = record.epoch, .share = share, .metrics = same ? before->kept->metrics : std::nullopt};
  if (share >= 1) {
    known.kept->metrics = record.metrics;
    write_choice(run.path(), known);
    return record;
  }
  NamedTensors kept = read_safetensors(run.start_path());
  if (share > 0) kept = mixed(kept, read_safetensors(run.last_model_path()), share);
  write_safetensors(run.kept_path(), kept,
                    {{"backbone", std::filesystem::path(config.model.backbone).filename().string()}, {"share", fmt::format("{}", share)}});
  write_choice(run.path(), known);
  if (!record.metrics) return record;
  const DataSplits splits = load_run_data(config);
  const Dataset& half = evaluated_half(config, splits);
  WeightMeasure measure(run.with_own_backbone(config.resolved()), half, progress);
  known.kept->metrics = record.metrics = measure.metrics(kept, half.split());
  run.save_kept_embeddings(measure.rows(), half.labels());
  write_choice(run.path(), known);
  return record;
}

/// The share to keep. A validation split of the data's own was held out of the training too, so what the trials said of it is measured
/// again on the training itself, and `choice` has that then.
double share_of_training(const RunConfig& config, const RunDirectory& run, Choice& choice, const Progress& progress) {
  std::error_code none;
  if (choice.careful || !config.model.pretrained() || !std::filesystem::exists(run.start_path(), none)) return choice.share;
  const DataSplits splits = load_run_data(config);
  if (!has_own_split(config, splits)) return choice.share;
  const NamedTensors start = read_safetensors(run.start_path()), end = read_safetensors(run.last_model_path());
  WeightMeasure measure(run.with_own_backbone(config.resolved()), *splits.validation, progress);
  choice.interpolations = scores_between(measure, start, end);
  choice.interpolations.push_back({1, measure.score(end)});
  choice.share = share_to_keep(choice.interpolations, choice);
  return choice.share;
}

}  // namespace

EpochRecord keep_chosen(const RunConfig& config, RunDirectory& run, const Choice& choice, const Progress& progress) {
  Choice known = choice;
  if (choice.epochs > 0) {
    const double share = share_of_training(config, run, known, progress);
    return keep(config, run, known, share, progress);
  }
  if (const std::int64_t done = run.log().empty() ? 0 : run.log().back().epoch; done > 0)
    known.reason =
        fmt::format("{} epochs were trained as asked, though no training beat the weights it starts from on held-out classes", done);
  return keep(config, run, known, 1, progress);
}

void keep_start(const RunConfig& config, RunDirectory& run, const Choice& choice, const Progress& progress) {
  keep(config, run, choice, 0, progress);
}

}  // namespace smartmine
