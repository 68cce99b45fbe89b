#include <fmt/format.h>

#include <optional>
#include <utility>

#include "methods.h"
#include "smartmine/core/error.h"
#include "smartmine/graph/exact_knn.h"
#include "smartmine/graph/fanng.h"
#include "smartmine/graph/gpu_lists.h"
#include "smartmine/mining/smart_miner.h"

namespace smartmine::bench {
namespace {

double recall_of(const Truth& truth, const NeighborLists& lists) {
  return truth.recall([&](std::size_t row) {
    const auto ids = lists.ids(row);
    return std::vector<std::int64_t>(ids.begin(), ids.end());
  });
}

FanngOptions fanng_options(const Task& task, Start start) {
  return {.neighbors = task.neighbors,
          .recall_target = task.recall_target,
          .for_search = start == Start::kRandom,  // lists alone are what the peers are asked for
          .start = start,
          .threads = task.threads,
          .refreshable = start == Start::kPrevious};
}

// Builds and fills in what all graphs tell.
FanngResult build(const Rows& rows, const FanngOptions& options, const Fanng* previous, Measurement& measured) {
  const Timer timer;
  FanngResult result = build_fanng(rows, options, previous);
  timer.tell(measured);
  measured.more["own_recall"] = result.stats.recall;
  measured.more["success_rate"] = result.stats.success_rate;
  measured.more["success_bound"] = result.stats.success_bound;
  measured.more["mean_degree"] = result.stats.mean_degree;
  measured.more["distance_computations"] = static_cast<double>(result.stats.distance_computations);
  return result;
}

}  // namespace

Measurement measure_exact(const Task& task) {
  Measurement measured;
  const Timer timer;
  const NeighborResult result = ExactKnn({.neighbors = task.neighbors, .threads = task.threads}).neighbors(task.rows());
  timer.tell(measured);
  measured.peak_memory_bytes = peak_memory_bytes();
  measured.settings = result.stats.kernel;
  measured.recall = recall_of(*task.truth, result.lists);
  return measured;
}

Measurement measure_gpu(const Task& task) {
  find_gpu_lists(task.rows(), task.neighbors);  // starts CUDA, which is not what is measured
  Measurement measured;
  const Timer timer;
  const NeighborResult result = find_gpu_lists(task.rows(), task.neighbors);
  timer.tell(measured);
  for (const char* stage : {"prepare", "thresholds", "products", "measure", "again"})
    measured.more["device_seconds"] += result.stats.stage_seconds.at(stage);
  measured.peak_memory_bytes = peak_memory_bytes();
  measured.settings = result.stats.kernel;
  measured.recall = recall_of(*task.truth, result.lists);
  return measured;
}

Measurement measure_partition(const Task& task) {
  Measurement measured;
  const FanngResult result = build(task.rows(), fanng_options(task, Start::kPartition), nullptr, measured);
  measured.peak_memory_bytes = peak_memory_bytes();
  measured.settings = fmt::format("{}, recall {} asked for", result.stats.kernel, task.recall_target);
  measured.recall = recall_of(*task.truth, result.lists);
  if (!task.labels.empty()) {
    const Timer timer;
    const MinedTriplets mined = SmartMiner({.threads = task.threads}).select(result.lists, task.labels, &task.rows());
    measured.more["selection_seconds"] = timer.seconds();
    measured.more["triplets"] = static_cast<double>(mined.triplets.size());
    measured.more["triplets_mined"] =
        static_cast<double>(mined.stats.mined + mined.stats.mined_outside_positive + mined.stats.mined_nearer_positive);
  }
  return measured;
}

Measurement measure_previous(const Task& task) {
  if (task.epochs.size() < 2) throw InvalidArgument("needs the embeddings of at least 2 epochs");
  Measurement measured;
  FanngOptions options = fanng_options(task, Start::kPrevious);
  options.start = Start::kPartition;
  FanngResult result = build(task.epochs.front(), options, nullptr, measured);
  measured.more["first_epoch_seconds"] = measured.seconds;
  options.start = Start::kPrevious;
  double sum = 0;
  for (std::size_t epoch = 1; epoch < task.epochs.size(); ++epoch) {
    const Fanng before = std::exchange(result, {}).graph;  // the lists before are of no use any more
    result = build(task.epochs[epoch], options, &before, measured);
    sum += measured.seconds;
  }
  const std::size_t later = task.epochs.size() - 1;
  measured.more["mean_seconds"] = sum / static_cast<double>(later);
  measured.peak_memory_bytes = peak_memory_bytes();
  measured.settings = fmt::format("epoch {} from {}, mean of {}: {:.2f} s", later, later - 1, later, sum / static_cast<double>(later));
  measured.recall = recall_of(*task.truth, result.lists);
  return measured;
}

Measurement measure_random(const Task& task) {
  Measurement measured;
  const FanngResult result = build(task.rows(), fanng_options(task, Start::kRandom), nullptr, measured);
  measured.peak_memory_bytes = peak_memory_bytes();
  measured.settings = fmt::format("{} rows, success at least {:.4f}, degree {:.1f}", task.rows().size(), result.stats.success_bound,
                                  result.stats.mean_degree);
  measured.recall = recall_of(*task.truth, result.lists);
  return measured;
}

}  // namespace smartmine::bench
