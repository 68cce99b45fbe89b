#include "train/stepper.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "smartmine/core/error.h"
#include "train/shards.h"

namespace smartmine {
namespace {

constexpr std::int64_t kMostBadSteps = 10;  // in a row, before the epoch is given up
constexpr double kCollapsed = 1e-3;         // spread of embeddings that are all alike

/// What steps leave on the device, so that none waits for it.
using Pending = std::vector<BatchLoss>;

/// Brings it into the record, in the order of the steps.
void count(Pending& pending, EpochRecord& record) {
  std::map<std::string, std::vector<torch::Tensor>> parts;
  std::vector<torch::Tensor> distances;
  for (const BatchLoss& loss : pending) {
    for (const auto& [name, value] : loss.parts) parts[name].push_back(value);
    if (loss.squared_distances.defined()) distances.push_back(loss.squared_distances);
  }
  pending.clear();
  const auto on_host = [](const torch::Tensor& tensor) { return tensor.to(torch::kCPU, torch::kFloat64).contiguous(); };
  for (const auto& [name, values] : parts) {
    const torch::Tensor all = on_host(torch::stack(values));
    for (std::int64_t i = 0; i < all.numel(); ++i) record.loss_part_sums[name] += all.data_ptr<double>()[i];
  }
  if (distances.empty()) return;
  if (!record.distances) record.distances.emplace();
  const torch::Tensor all = on_host(torch::cat(distances, 1));
  const double* values = all.data_ptr<double>();
  for (std::int64_t i = 0; i < all.size(1); ++i) {
    ++record.distances->positive[DistanceCounts::bin(values[i])];
    ++record.distances->negative[DistanceCounts::bin(values[all.size(1) + i])];
  }
}

/// Returns false if the loss was not finite and the step was skipped.
bool step(const Epoch& epoch, Optimizer& optimizer, double rate_scale, EpochUnderWay& now, Pending& pending) {
  const EpochPlan& plan = now.plan;
  EpochRecord& record = now.record;
  const std::size_t number = now.next_step;
  const auto items = plan.batch(number);
  optimizer.zero_gradients();
  const auto [loss, embedded] = take_gradients(
      epoch, {.items = items, .number = number, .first_key = number * plan.batch_items, .memory = now.memory ? &*now.memory : nullptr});
  ++record.steps;
  record.images += static_cast<std::int64_t>(items.size());
  // Looked at only now, and both at once: the device has work while the host waits for it.
  const torch::Tensor seen = torch::stack({loss.value.detach().to(torch::kFloat64), loss.active.to(torch::kFloat64)}).cpu();
  const double value = seen[0].item<double>();
  if (record.step_losses) record.step_losses->add(number, value);
  if (!std::isfinite(value)) {
    ++record.skipped_steps;
    return false;
  }
  if (now.memory) now.memory->refresh(items, embedded);  // what made a bad step is not remembered
  const double share = (static_cast<double>(number) + 0.5) / static_cast<double>(plan.batches());
  optimizer.step(rate_scale * epoch.config.schedule.rate(static_cast<double>(epoch.number - 1) + share));
  record.loss_sum += value;
  record.active += static_cast<std::int64_t>(seen[1].item<double>());
  record.terms += loss.terms;
  pending.push_back({.value = {}, .active = {}, .parts = loss.parts, .squared_distances = loss.squared_distances});
  return true;
}

/// The mean squared distance of embeddings to their mean; 0: all alike.
double spread_of(const Epoch& epoch, std::span<const std::uint32_t> items) {
  const torch::Tensor embedded = embed_items(epoch, items);
  return (embedded - embedded.mean(0)).pow(2).sum(1).mean().item<double>();
}

/// Returns what went wrong.
std::optional<std::string> take_all(const Epoch& epoch, Optimizer& optimizer, double rate_scale, EpochUnderWay& now, Pending& pending) {
  const EpochPlan& plan = now.plan;
  const std::string stage = fmt::format("epoch {}/{}", epoch.number, epoch.config.schedule.epochs);
  std::int64_t bad_in_a_row = 0;
  while (now.next_step < plan.batches()) {
    const std::size_t number = now.next_step;
    if (number + 1 < plan.batches()) epoch.data.training.images->prefetch(own_items(epoch, plan.batch(number + 1)));
    bad_in_a_row = step(epoch, optimizer, rate_scale, now, pending) ? 0 : bad_in_a_row + 1;
    ++now.next_step;
    if (bad_in_a_row == kMostBadSteps) return fmt::format("the loss was not a finite number {} steps in a row", kMostBadSteps);
    report(epoch.progress, stage, number * plan.batch_items + plan.batch(number).size(), plan.items.size(), "images");
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> take_steps(const Epoch& epoch, Optimizer& optimizer, double rate_scale, EpochUnderWay& now) {
  const Timed timed(now.record, "steps");
  epoch.network.model->train();
  Pending pending;
  try {
    if (auto trouble = take_all(epoch, optimizer, rate_scale, now, pending)) return trouble;
  } catch (const Cancelled&) {
    count(pending, now.record);
    throw;
  }
  count(pending, now.record);
  if (now.record.skipped_steps == now.record.steps) return "no step had a finite loss";
  const std::size_t full_batches = now.plan.items.size() / std::max<std::size_t>(1, now.plan.batch_items);
  if (epoch.ranks == nullptr || epoch.ranks->is_first())
    now.record.spread = spread_of(epoch, now.plan.batch(full_batches == 0 ? 0 : full_batches - 1));
  if (epoch.ranks != nullptr) epoch.ranks->broadcast(&now.record.spread, sizeof now.record.spread);
  return trouble_with_spread(now.record.spread);
}

std::optional<std::string> trouble_with_spread(double spread) {
  if (!std::isfinite(spread)) return "the embeddings are no longer finite numbers";
  if (spread < kCollapsed) return fmt::format("the embeddings have collapsed: their spread is {:.2g}", spread);
  return std::nullopt;
}

}  // namespace smartmine
