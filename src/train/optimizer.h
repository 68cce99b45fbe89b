#pragma once

#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "smartmine/model/embedding_model.h"
#include "smartmine/run/config.h"

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
  void step(double rate);
  /// All that lasts from step to step, sharing memory.
  const NamedTensors& state() const { return state_; }
  /// Throws IoError naming the first tensor that is missing or of another shape; `source` is what the message calls the file.
  void load(const NamedTensors& tensors, const std::string& source);

  /// From now on keeps a running average of all parameters and buffers, "average/" with their names among the state: each step it moves by
  /// 1 - `decay` of the way towards them, by more in the first steps, when it would still remember the start.
  void keep_average(EmbeddingModel& model, double decay);
  /// Exchanges the network's tensors and their average, if one is kept: what is measured or saved is then the average. The same again
  /// undoes it. Nothing is copied.
  void swap_average();

 protected:
  virtual void change(double rate) = 0;
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
  std::vector<torch::Tensor> averaged_, averages_;  // the network's tensors and their averages; empty: none are kept
  std::vector<std::string> average_names_;          // in the state
  double average_decay_ = 0;
  torch::Tensor average_steps_;  // int64 [1], on the CPU
};

/// Stochastic gradient descent with momentum; weight decay is part of the gradient. State: the momentum, by name of the parameter.
class Sgd : public Optimizer {
 public:
  Sgd(EmbeddingModel& model, double momentum, double weight_decay, double new_layer_rate);

 private:
  void change(double rate) override;

  double momentum_;
};

/// AdamW (Loshchilov and Hutter 2019): steps by the running mean of gradients over the root of that of their squares, and weights decay on
/// their own, by rate * weight_decay of themselves. State: "mean/" and "square/" with the name of the parameter, and "steps".
class AdamW : public Optimizer {
 public:
  AdamW(EmbeddingModel& model, double weight_decay, double new_layer_rate);

 private:
  void change(double rate) override;

  torch::Tensor steps_;  // int64 [1], on the CPU
};

/// The network has the average of its weights, if one is kept, as long as this lives.
class Averaged {
 public:
  explicit Averaged(Optimizer& optimizer) : optimizer_(optimizer) { optimizer_.swap_average(); }
  ~Averaged() { optimizer_.swap_average(); }
  Averaged(const Averaged&) = delete;
  Averaged& operator=(const Averaged&) = delete;

 private:
  Optimizer& optimizer_;
};

/// As the options (resolved) say.
std::unique_ptr<Optimizer> make_optimizer(EmbeddingModel& model, const ScheduleOptions& options);

}  // namespace smartmine
