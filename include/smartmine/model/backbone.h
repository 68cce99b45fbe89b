#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "smartmine/core/random.h"

namespace smartmine {

/// The images a network takes. A value becomes (value - mean) * scale of its channel, values being 0 to 255.
struct InputFormat {
  std::int64_t resize = 0;              ///< Side that images are scaled to before cropping.
  std::int64_t size = 0;                ///< Side of the crop the network sees.
  std::int64_t channels = 3;            ///< 1: grey, 3: colour.
  bool bgr = false;                     ///< Blue first, as Caffe has it.
  std::array<float, 3> mean{};          ///< In the order of the network's channels.
  std::array<float, 3> scale{1, 1, 1};  ///< After taking off the mean.
};

/// A network without its classifier: images of an InputFormat, [N, C, H, W], to features, [N, feature_dimension()].
/// It computes in the type of the images and casts its parameters to it, so bfloat16 images give mixed precision
/// with parameters and gradients in float32; the features come out in float32 then. Names of parameters and buffers are
/// those of the weights file.
class Backbone : public torch::nn::Module {
 public:
  explicit Backbone(std::string name) : Module(std::move(name)) {}
  virtual torch::Tensor forward(const torch::Tensor& images) = 0;
  virtual std::int64_t feature_dimension() const = 0;
  virtual const InputFormat& input() const = 0;
  /// Starts of names in published weights files that belong to layers this network leaves out, such as its classifier.
  virtual std::vector<std::string> left_out() const { return {}; }

 protected:
  /// Registers under a name with dots in it, "layer1.0.conv1.weight", by way of bare modules.
  torch::Tensor add_parameter(const std::string& name, const torch::Tensor& value, bool trained = true);
  torch::Tensor add_buffer(const std::string& name, const torch::Tensor& value);

 private:
  Module& owner_of(const std::string& name);
};

/// Fills `tensor` with normal values of the given deviation from our own generator: the same with every LibTorch.
void fill_normal(torch::Tensor tensor, double deviation, Random& random);

}  // namespace smartmine
