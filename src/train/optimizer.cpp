#include "train/optimizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "smartmine/core/error.h"

namespace smartmine {
namespace {

// Of AdamW, as everybody has them.
constexpr double kMeanDecay = 0.9;
constexpr double kSquareDecay = 0.999;
constexpr double kEpsilon = 1e-8;
// After so many steps a running average is one over half of all of them.
constexpr double kAverageWarmup = 10;

}  // namespace

Optimizer::Optimizer(EmbeddingModel& model, double weight_decay, double new_layer_rate, const std::vector<std::string>& kinds)
    : weight_decay_(weight_decay), groups_(2) {
  groups_[1].rate = new_layer_rate;
  for (Group& group : groups_) group.kept.resize(kinds.size());
  for (const auto& [name, parameter] : model.state()) {
    if (!parameter.requires_grad()) continue;  // a buffer
    Group& group = groups_[name.starts_with("embedding.") ? 1 : 0];
    group.parameters.push_back(parameter);
    for (std::size_t kind = 0; kind < kinds.size(); ++kind) {
      group.kept[kind].push_back(torch::zeros_like(parameter.detach()));  // of the same memory format
      state_.emplace(kinds[kind] + name, group.kept[kind].back());
    }
  }
}

void Optimizer::zero_gradients() {
  for (Group& group : groups_)
    for (torch::Tensor& parameter : group.parameters) parameter.mutable_grad() = torch::Tensor();
}

std::vector<Optimizer::Update> Optimizer::updates() const {
  std::vector<Update> result;
  for (const Group& group : groups_) {
    Update update{
        .parameters = {}, .gradients = {}, .kept = std::vector<std::vector<torch::Tensor>>(group.kept.size()), .rate = group.rate};
    for (std::size_t i = 0; i < group.parameters.size(); ++i) {
      if (!group.parameters[i].grad().defined()) continue;
      update.parameters.push_back(group.parameters[i]);
      update.gradients.push_back(group.parameters[i].grad());
      for (std::size_t kind = 0; kind < group.kept.size(); ++kind) update.kept[kind].push_back(group.kept[kind][i]);
    }
    if (!update.parameters.empty()) result.push_back(std::move(update));
  }
  return result;
}

void Optimizer::load(const NamedTensors& tensors, const std::string& source) {
  const torch::NoGradGuard no_grad;
  for (auto& [name, buffer] : state_) {
    const auto found = tensors.find(name);
    if (found == tensors.end()) throw IoError(fmt::format("{}: has no tensor '{}'; it is of another network", source, name));
    if (found->second.sizes() != buffer.sizes()) throw IoError(fmt::format("{}: tensor '{}' is of another shape", source, name));
    buffer.copy_(found->second);
  }
}

void Optimizer::step(double rate) {
  change(rate);
  if (averages_.empty()) return;
  const torch::NoGradGuard no_grad;
  const auto steps = static_cast<double>(++*average_steps_.data_ptr<std::int64_t>());
  const double decay = std::min(average_decay_, steps / (steps + kAverageWarmup));
  at::_foreach_mul_(averages_, decay);
  at::_foreach_add_(averages_, averaged_, 1 - decay);
}

void Optimizer::keep_average(EmbeddingModel& model, double decay) {
  average_decay_ = decay;
  average_steps_ = torch::zeros({1}, torch::kInt64);
  state_.emplace("average steps", average_steps_);
  for (const auto& [name, tensor] : model.state()) {
    if (!tensor.is_floating_point()) continue;
    averaged_.push_back(tensor);
    averages_.push_back(tensor.detach().clone());
    average_names_.push_back("average/" + name);
    state_.emplace(average_names_.back(), averages_.back());
  }
}

void Optimizer::swap_average() {
  for (std::size_t i = 0; i < averages_.size(); ++i) {
    const torch::Tensor before = averaged_[i].detach();
    averaged_[i].set_data(averages_[i]);
    averages_[i] = before;
    state_[average_names_[i]] = before;
  }
}

Sgd::Sgd(EmbeddingModel& model, double momentum, double weight_decay, double new_layer_rate)
    : Optimizer(model, weight_decay, new_layer_rate, {""}), momentum_(momentum) {}

void Sgd::change(double rate) {
  const torch::NoGradGuard no_grad;
  for (Update& update : updates()) {
    std::vector<torch::Tensor>& momenta = update.kept[0];
    at::_foreach_mul_(momenta, momentum_);
    at::_foreach_add_(momenta, update.gradients, 1);
    if (weight_decay_ > 0) at::_foreach_add_(momenta, update.parameters, weight_decay_);
    at::_foreach_add_(update.parameters, momenta, -rate * update.rate);
  }
}

AdamW::AdamW(EmbeddingModel& model, double weight_decay, double new_layer_rate)
    : Optimizer(model, weight_decay, new_layer_rate, {"mean/", "square/"}), steps_(torch::zeros({1}, torch::kInt64)) {
  state_.emplace("steps", steps_);
}

void AdamW::change(double rate) {
  const torch::NoGradGuard no_grad;
  const auto steps = static_cast<double>(++*steps_.data_ptr<std::int64_t>());
  // Both averages start from 0; what they lack is made up for.
  const double mean_share = 1 - std::pow(kMeanDecay, steps);
  const double square_share = 1 - std::pow(kSquareDecay, steps);
  for (Update& update : updates()) {
    std::vector<torch::Tensor>& means = update.kept[0];
    std::vector<torch::Tensor>& squares = update.kept[1];
    const double own_rate = rate * update.rate;
    at::_foreach_mul_(means, kMeanDecay);
    at::_foreach_add_(means, update.gradients, 1 - kMeanDecay);
    at::_foreach_mul_(squares, kSquareDecay);
    at::_foreach_addcmul_(squares, update.gradients, update.gradients, 1 - kSquareDecay);
    const std::vector<torch::Tensor> roots = at::_foreach_sqrt(squares);
    at::_foreach_div_(roots, std::sqrt(square_share));
    at::_foreach_add_(roots, kEpsilon);
    if (weight_decay_ > 0) at::_foreach_mul_(update.parameters, 1 - own_rate * weight_decay_);
    at::_foreach_addcdiv_(update.parameters, means, roots, -own_rate / mean_share);
  }
}

std::unique_ptr<Optimizer> make_optimizer(EmbeddingModel& model, const ScheduleOptions& options) {
  std::unique_ptr<Optimizer> optimizer;
  if (options.optimizer == "adamw")
    optimizer = std::make_unique<AdamW>(model, options.weight_decay, options.new_layer_rate.value());
  else
    optimizer = std::make_unique<Sgd>(model, options.momentum, options.weight_decay, options.new_layer_rate.value());
  if (options.weight_average > 0) optimizer->keep_average(model, options.weight_average);
  return optimizer;
}

}  // namespace smartmine
