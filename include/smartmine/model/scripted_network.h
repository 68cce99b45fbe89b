#pragma once

#include <torch/types.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "smartmine/model/backbone.h"
#include "smartmine/model/resnet.h"

namespace smartmine {

/// Options for a network from a TorchScript file.
struct ScriptedNetworkOptions {
  std::string path = {};
  std::int64_t input_size = 224;               ///< Side of the images, from 8 to 1024.
  std::int64_t channels = 3;                   ///< 1 or 3.
  std::array<double, 3> mean = kImageNetMean;  ///< Of values from 0 to 1, red first.
  std::array<double, 3> deviation = kImageNetDeviation;
  bool frozen_norms = false;           ///< Batch norms use their stored averages in training too, and leave them as they are.
  torch::Device device = torch::kCPU;  ///< That it is loaded on, tensors written into its code included.
  /// Throws InvalidArgument naming the field, its value and the allowed range.
  void validate() const;
};

/// Any module that torch.jit.script or torch.jit.trace has saved and that makes a vector of an image. Its parameters and buffers are called
/// "backbone." and their own name, so that none can be taken for the new layer's. It computes in float32, and where images are bfloat16 as
/// torch's autocast has it.
class ScriptedNetwork : public Backbone {
 public:
  /// Loads and tries it, a training step included. Throws IoError naming the file and what is wrong: it is no TorchScript, has no
  /// parameters or none that can be trained, fails on images of this size, or gives something else than a vector of floats an image.
  explicit ScriptedNetwork(const ScriptedNetworkOptions& options);
  ~ScriptedNetwork() override;

  torch::Tensor forward(const torch::Tensor& images) override;
  std::int64_t feature_dimension() const override { return feature_dimension_; }
  const InputFormat& input() const override { return input_; }
  void train(bool on = true) override;

 private:
  struct Script;  // keeps the headers of TorchScript out of this one
  void load();
  void try_out();

  ScriptedNetworkOptions options_;
  InputFormat input_;
  std::int64_t feature_dimension_ = 0;
  std::unique_ptr<Script> script_;
};

}  // namespace smartmine
