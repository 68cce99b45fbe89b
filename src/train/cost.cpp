#include "smartmine/train/cost.h"

#include <torch/types.h>

#include <chrono>

#include "smartmine/core/error.h"
#include "smartmine/run/run_data.h"
#include "smartmine/run/system_traits.h"
#include "train/network.h"

namespace smartmine {
namespace {

constexpr std::int64_t kSample = 4;

template <class Work>
double seconds_of(const Work& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

std::optional<CpuCost> cpu_cost(const RunConfig& config) {
  const RunConfig full = config.resolved();
  if (!full.model.pretrained()) return std::nullopt;
  RunConfig bare = full;
  bare.model.weights.clear();  // any weights take as long
  const Network network(bare);
  if (!network.device.is_cpu()) return std::nullopt;
  const InputFormat& input = network.model->input();
  network.model->eval();  // the pass leaves no trace
  const auto images_of = [&](std::int64_t size) { return torch::zeros({kSample, input.channels, size, size}); };
  const torch::Tensor trained = images_of(input.size), measured = images_of(full.model.evaluation_size.value_or(input.size));
  const auto forward = [&] {
    const torch::NoGradGuard no_grad;
    network.model->forward(measured);
  };
  forward();  // the first one also sets up
  const double embedding = seconds_of(forward) / kSample;
  const double training = seconds_of([&] { network.model->forward(trained).sum().backward(); }) / kSample;

  const DataSplits splits = load_run_data(full);
  const auto training_images = static_cast<double>(splits.train.size());
  const SystemTraits* const traits = known_traits(full.system.name);
  CpuCost cost{.images_per_second = 1 / training,
               .images = 3 * static_cast<std::int64_t>(splits.train.size()) * full.system.triplets_per_anchor};
  const double measured_images = static_cast<double>(evaluated_half(full, splits).size());
  cost.start_seconds = embedding * (measured_images + (full.model.new_layer_start == "random" ? 0 : training_images));
  cost.epoch_seconds =
      training * static_cast<double>(cost.images) + embedding * measured_images / static_cast<double>(full.output.evaluate_every);
  if (traits != nullptr && traits->needs != Needs::kLabels) cost.epoch_seconds += embedding * training_images;
  return cost;
}

}  // namespace smartmine
