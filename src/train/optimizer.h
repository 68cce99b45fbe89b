#pragma once

#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "smartmine/model/embedding_model.h"
#include "smartmine/train/config.h"

namespace smartmine {

/// Changes parameters by their gradients, the new layer at its own rate. Our own rather than torch::optim's because the state is then a few
/// named tensors that any LibTorch reads, and all parameters are updated by a handful of calls.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  void zero_gradients();
  /// Parameters without a gradient stay as they are.
  virtual void step(double rate) = 0;
  /// All that lasts from step to step, sharing memory.
  const NamedTensors& state() const { return state_; }
  /// Throws IoError naming the first tensor that is missing or of another shape; `source` is what the message calls the file.
  void load(const NamedTensors& tensors, const std::string& source);

 protected:
  /// For every parameter keeps one tensor of zeros for each of `kinds`, known as the kind followed by the parameter's name.
  Optimizer(EmbeddingModel& model, double weight_decay, double new_layer_rate, const std::vector<std::string>& kinds);

  struct Group {
    std::vector<torch::Tensor> parameters;
    std::vector<std::vector<torch::Tensor>> kept;  // by kind
    double rate = 1;                               // times the rate of a step
  };
  /// Of a group, what has a gradient.
  struct Update {
    std::vector<torch::Tensor> parameters, gradients;
    std::vector<std::vector<torch::Tensor>> kept;
    double rate;
  };
  std::vector<Update> updates() const;

  NamedTensors state_;
  double weight_decay_;

 private:
  std::vector<Group> groups_;
};

/// Stochastic gradient descent with momentum; weight decay is part of the gradient. State: the momentum, by name of the parameter.
class Sgd : public Optimizer {
 public:
  Sgd(EmbeddingModel& model, double momentum, double weight_decay, double new_layer_rate);
  void step(double rate) override;

 private:
  double momentum_;
};

/// AdamW (Loshchilov and Hutter 2019): steps by the running mean of gradients over the root of that of their squares, and weights decay on
/// their own, by rate * weight_decay of themselves. State: "mean/" and "square/" with the name of the parameter, and "steps".
class AdamW : public Optimizer {
 public:
  AdamW(EmbeddingModel& model, double weight_decay, double new_layer_rate);
  void step(double rate) override;

 private:
  torch::Tensor steps_;  // int64 [1], on the CPU
};

/// As the configuration (resolved) says.
std::unique_ptr<Optimizer> make_optimizer(EmbeddingModel& model, const TrainConfig& config);

}  // namespace smartmine
