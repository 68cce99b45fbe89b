#include "train/epoch.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "mining/prepared_batches.h"
#include "smartmine/graph/gpu_lists.h"
#include "smartmine/mining/selections.h"
#include "smartmine/model/embed.h"
#include "train/device_knn.h"
#include "train/list_record.h"
#include "train/longer_lists.h"
#include "train/measure_weights.h"
#include "train/rank_work.h"
#include "train/recorder.h"
#include "train/stepper.h"
#include "train/systems.h"

namespace smartmine {
namespace {

enum Purpose : std::uint64_t { kGraph = 0x7201, kValidation = 0x7203 };

double now_in_seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

/// What the system is to know in this epoch.
Needs needs_of(const Epoch& epoch) {
  const SystemTraits& traits = epoch.system.traits;
  return traits.mines && epoch.number <= epoch.config.mining.warmup_epochs.value_or(0) ? Needs::kLabels : traits.needs;
}

/// Embeddings of all training images, on the device and on the host.
struct AllEmbeddings {
  torch::Tensor device, host;
};

AllEmbeddings embed_training(const Epoch& epoch, EpochRecord& record) {
  const Timed timed(record, "embedding");
  AllEmbeddings all;
  all.device = epoch.network.embed(*epoch.data.training.images, epoch.progress, "embedding");
  all.host = all.device.cpu();
  return all;
}

NeighborLists find_lists(const Epoch& epoch, const AllEmbeddings& all, NeighborIndex& index, EpochRecord& record) {
  const Timed timed(record, "lists");
  NeighborCall call{.seed = epoch_seed(epoch.config.compute.seed, kGraph, epoch.number), .device = {}};
  if (epoch.network.device.is_cuda())  // the rows are there already
    call.device = [&](const Rows& rows, RowRange wanted, std::size_t neighbors, const ListMaker& lists, const Progress& progress) {
      // Built without a CUDA compiler, a GPU that is too old for its kernels, or lists too long for them: products and top-k by torch.
      if (all.device.device().index() >= gpu_count() || neighbors > kLongestGpuLists || rows.dimension() > kMostGpuDimensions ||
          !all.device.is_contiguous()) {
        try {
          return device_neighbors(all.device, wanted, neighbors, progress);
        } catch (const c10::Error& error) {  // the CPU goes on
          throw Error(fmt::format("the GPU failed to find lists: {}", error.what_without_backtrace()));
        }
      }
      // What made the rows is done: they have been copied to the host. Other ranks have GPUs of their own.
      const GpuPlace there{all.device.device().index(), epoch.ranks != nullptr, all.device.data_ptr<float>()};
      return find_gpu_lists(rows, wanted, neighbors, progress, there, lists);
    };
  const Rows rows = rows_of(all.host);
  NeighborResult found = epoch.ranks != nullptr ? find_shared_lists(*epoch.ranks, index, rows, call, epoch.progress)
                                                : index.neighbors(rows, call, epoch.progress);
  record.lists = list_record(found.stats, epoch.config.mining.graph_start);
  for (std::string& note : list_notes(found.stats, index.options().for_search)) record.notes.push_back(std::move(note));
  return std::move(found.lists);
}

/// The epoch's kappa. A policy that starts where it expects the target error is told what triplets or batches of a kappa have before
/// training.
double choose_kappa(const Epoch& epoch, const PlanInput& input, KappaPolicy& policy, EpochRecord& record) {
  const Timed timed(record, "selection");
  std::optional<PreparedBatches> batches;  // what all looks have in common, made for the first
  policy.begin([&](double tried) {
    PlanInput with = input;
    with.kappa = tried;
    if (epoch.system.traits.groups) {
      const BatchBuilderOptions options = neighbor_batch_options(with);
      if (!batches) batches.emplace(*input.lists, input.labels, options, input.embeddings);
      return survey_batches(batches->make(options.near_share, 1), input.labels, input.embeddings).error;
    }
    return violating_share(epoch.system.plan(with).triplets, *input.embeddings, epoch.config.system.margin);
  });
  return policy.kappa();
}

/// With classes by their names.
BatchLook look_of(const BatchSurvey& survey, const LabelIndex& labels, const Dataset& dataset) {
  BatchLook look{.batches = survey.batches,
                 .error = survey.error,
                 .positive_distance = survey.positive_distance,
                 .negative_distance = survey.negative_distance};
  for (const ClassPair& pair : survey.pairs)
    look.together.push_back({dataset.class_name(labels.label(pair.first)), dataset.class_name(labels.label(pair.second)), pair.batches});
  return look;
}

void note_plan(const Epoch& epoch, const EpochPlan& plan, const KappaPolicy* policy, EpochRecord& record) {
  if (plan.observe_kappa && policy != nullptr) {
    record.kappa = policy->kappa();
    record.kappa_reason = policy->explanation();
    record.target_error = policy->target_error();
  }
  record.mining = plan.mining;
  record.grouping = plan.grouping;
  if (plan.survey) record.look = look_of(*plan.survey, epoch.data.labels, epoch.data.training.dataset());
  if (plan.mining) record.stage_seconds["selection"] += plan.mining->seconds;
  if (plan.grouping) record.stage_seconds["selection"] += plan.grouping->seconds + (plan.survey ? plan.survey->seconds : 0);
}

/// The share of random triplets, the same ones every epoch, that violate the margin.
double drawn_error(const Epoch& epoch, const Rows& rows, std::span<const std::int64_t> labels) {
  const MinedTriplets drawn = RandomMiner({.seed = epoch_seed(epoch.config.compute.seed, kValidation, 0),
                                           .threads = static_cast<unsigned>(epoch.config.compute.threads)})
                                  .select(LabelIndex(labels));
  return violating_share(drawn.triplets, rows, epoch.config.system.margin);
}

}  // namespace

// One epoch, read straight down.
std::optional<std::string> run_epoch(const Epoch& epoch, Persistent& kept, Recorder& recorder) {
  if (!kept.under_way) {
    kept.under_way = plan_epoch(epoch, kept.kappa.get(), kept.index, kept.state.rate_scale);
    recorder.keep_triplets(epoch, *kept.under_way);
  }
  EpochUnderWay& now = *kept.under_way;
  if (auto trouble = take_steps(epoch, *kept.optimizer, kept.state.rate_scale, now)) return trouble;
  if (epoch.is_evaluated()) recorder.measure(epoch, *kept.optimizer, now.record);
  now.record.reserved_error = reserved_error(epoch, now.record);
  // The last thing that can stop it, and then it is saved as under way: what kappa learns from is an epoch that is done.
  if (epoch.ranks != nullptr) expect_same_weights(*epoch.ranks, epoch);
  if (now.record.reserved_error && kept.kappa && epoch.config.mining.target == "validation") kept.kappa->aim(*now.record.reserved_error);
  if (now.plan.observe_kappa && kept.kappa)
    kept.kappa->observe(now.record.training_error(), std::min(1.0, now.record.mined_share() / epoch.config.mining.mined_fraction));
  return std::nullopt;
}

EpochUnderWay plan_epoch(const Epoch& epoch, KappaPolicy* kappa, NeighborIndex& index, double rate_scale) {
  EpochRecord record;
  record.epoch = epoch.number;
  record.device = epoch.data.facts.device;
  record.learning_rate = rate_scale * epoch.config.schedule.rate(static_cast<double>(epoch.number) - 0.5);
  PlanInput input{.epoch = epoch.number, .config = epoch.config, .labels = epoch.data.labels};
  const Needs needs = needs_of(epoch);
  AllEmbeddings all;
  std::optional<Rows> rows;
  NeighborLists lists;
  std::optional<LongerListSearch> longer;
  if (needs != Needs::kLabels) {
    all = embed_training(epoch, record);
    rows = rows_of(all.host);
    input.embeddings = &*rows;
  }
  if (needs == Needs::kLists) {
    lists = find_lists(epoch, all, index, record);
    input.lists = &lists;
    if (epoch.config.mining.longer_lists) {
      longer.emplace(*rows, all.device, static_cast<unsigned>(epoch.config.compute.threads), epoch.ranks);
      input.longer_lists = [&](auto anchors, std::size_t neighbors) { return longer->find(anchors, neighbors); };
    }
    if (kappa != nullptr) input.kappa = choose_kappa(epoch, input, *kappa, record);
  }
  EpochPlan plan = epoch.system.plan(input);
  if (epoch.ranks != nullptr) expect_same_plan(*epoch.ranks, epoch, plan, kappa);
  note_plan(epoch, plan, kappa, record);
  if (longer) {  // it was asked from within the selection
    record.stage_seconds["selection"] -= longer->seconds();
    record.stage_seconds["longer_lists"] += longer->seconds();
  }
  record.step_losses = StepLosses::of(plan.batches());
  EpochUnderWay planned{.plan = std::move(plan), .record = std::move(record)};
  if (epoch.system.traits.remembers && input.lists != nullptr)
    planned.memory.emplace(all.device, lists, epoch.data.labels, static_cast<std::size_t>(epoch.config.mining.memory_neighbors));
  return planned;
}

Evaluation evaluate(const Epoch& epoch, Optimizer& optimizer) {
  const LoadedImages& half = *epoch.data.evaluation;
  const Averaged averaged(optimizer);
  Evaluation result;
  result.embeddings = epoch.network.embed(*epoch.data.evaluation->images, epoch.progress, "evaluation").cpu();
  const Rows rows = rows_of(result.embeddings);
  const auto labels = half.dataset().labels();
  std::optional<Team> team;
  if (epoch.ranks != nullptr) team = team_of(*epoch.ranks);
  const RetrievalResult retrieval = retrieval_of(rows, labels, epoch.config.compute, epoch.progress, team ? &*team : nullptr);
  if (epoch.ranks != nullptr && !epoch.ranks->is_first()) return result;  // the others get rank 0's record
  result.validation_error = drawn_error(epoch, rows, labels);
  ComputeOptions compute = epoch.config.compute;
  compute.threads = threads_of_host(epoch);
  result.metrics = metrics_of(retrieval, rows, labels, compute, epoch.data.facts.evaluated_on, epoch.progress);
  return result;
}

std::optional<double> reserved_error(const Epoch& epoch, EpochRecord& record) {
  if (!epoch.data.reserved) return std::nullopt;
  const Timed timed(record, "evaluation");
  const torch::Tensor embedded = epoch.network.embed(*epoch.data.reserved->images, epoch.progress, "reserved images").cpu();
  return drawn_error(epoch, rows_of(embedded), epoch.data.reserved->dataset().labels());
}

torch::Tensor embed_items(const Epoch& epoch, std::span<const std::uint32_t> items) {
  const torch::NoGradGuard no_grad;
  epoch.network.model->eval();
  return epoch.network.model->forward(epoch.network.augmenter.evaluation(epoch.data.training.images->get(items), epoch.network.type));
}

Timed::Timed(EpochRecord& record, const char* stage) : record_(record), stage_(stage), begin_(now_in_seconds()) {}
Timed::~Timed() { record_.stage_seconds[stage_] += now_in_seconds() - begin_; }

}  // namespace smartmine
