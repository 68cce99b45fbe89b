#pragma once

#include <torch/types.h>

#include <vector>

#include "smartmine/model/embedding_model.h"

namespace smartmine {

/// Stochastic gradient descent with momentum and weight decay, the new layer at its own rate. Our own rather than torch::optim's because
/// its state is then a few named tensors that any LibTorch reads, and all parameters are updated by a handful of calls.
class Sgd {
 public:
  Sgd(EmbeddingModel& model, double momentum, double weight_decay, double new_layer_rate);

  void zero_gradients();
  /// Parameters without a gradient stay as they are.
  void step(double rate);
  /// Momentum by name of the parameter, sharing memory.
  const NamedTensors& state() const { return momenta_; }
  /// Throws IoError naming the first tensor that is missing or of another shape; `source` is what the message calls the file.
  void load(const NamedTensors& tensors, const std::string& source);

 private:
  struct Group {
    std::vector<torch::Tensor> parameters, momenta;
    double rate = 1;  // times the rate of a step
  };
  std::vector<Group> groups_;
  NamedTensors momenta_;
  double momentum_;
  double weight_decay_;
};

}  // namespace smartmine
