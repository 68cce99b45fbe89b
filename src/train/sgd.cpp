#include "train/sgd.h"

#include <fmt/format.h>

#include "smartmine/core/error.h"

namespace smartmine {

Sgd::Sgd(EmbeddingModel& model, double momentum, double weight_decay, double new_layer_rate)
    : groups_(2), momentum_(momentum), weight_decay_(weight_decay) {
  groups_[1].rate = new_layer_rate;
  for (const auto& [name, parameter] : model.state()) {
    if (!parameter.requires_grad()) continue;                      // a buffer
    torch::Tensor buffer = torch::zeros_like(parameter.detach());  // of the same memory format
    Group& group = groups_[name.starts_with("embedding.") ? 1 : 0];
    group.parameters.push_back(parameter);
    group.momenta.push_back(buffer);
    momenta_.emplace(name, buffer);
  }
}

void Sgd::zero_gradients() {
  for (Group& group : groups_)
    for (torch::Tensor& parameter : group.parameters) parameter.mutable_grad() = torch::Tensor();
}

void Sgd::step(double rate) {
  const torch::NoGradGuard no_grad;
  for (Group& group : groups_) {
    std::vector<torch::Tensor> parameters, gradients, momenta;
    for (std::size_t i = 0; i < group.parameters.size(); ++i) {
      if (!group.parameters[i].grad().defined()) continue;
      parameters.push_back(group.parameters[i]);
      gradients.push_back(group.parameters[i].grad());
      momenta.push_back(group.momenta[i]);
    }
    if (parameters.empty()) continue;
    at::_foreach_mul_(momenta, momentum_);
    at::_foreach_add_(momenta, gradients, 1);
    if (weight_decay_ > 0) at::_foreach_add_(momenta, parameters, weight_decay_);
    at::_foreach_add_(parameters, momenta, -rate * group.rate);
  }
}

void Sgd::load(const NamedTensors& tensors, const std::string& source) {
  const torch::NoGradGuard no_grad;
  for (auto& [name, buffer] : momenta_) {
    const auto found = tensors.find(name);
    if (found == tensors.end()) throw IoError(fmt::format("{}: has no tensor '{}'; it is of another network", source, name));
    if (found->second.sizes() != buffer.sizes()) throw IoError(fmt::format("{}: tensor '{}' is of another shape", source, name));
    buffer.copy_(found->second);
  }
}

}  // namespace smartmine
