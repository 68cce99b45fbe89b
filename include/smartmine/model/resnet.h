#pragma once

#include <torch/types.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "smartmine/model/backbone.h"
#include "smartmine/model/layers.h"

namespace smartmine {

/// What values of 0 to 1 have in the photos of ImageNet, red first.
inline constexpr std::array<double, 3> kImageNetMean = {0.485, 0.456, 0.406};
inline constexpr std::array<double, 3> kImageNetDeviation = {0.229, 0.224, 0.225};

/// Options for a ResNet.
struct ResNetOptions {
  std::int64_t layers = 50;                    ///< 18 or 50.
  Pooling pooling = Pooling::kAverage;         ///< Of the last layer.
  std::int64_t input_size = 224;               ///< Side of the images, from 64 to 448. Says what input() says; all layers slide.
  std::array<double, 3> mean = kImageNetMean;  ///< Of values from 0 to 1, red first.
  std::array<double, 3> deviation = kImageNetDeviation;
  bool frozen_norms = false;  ///< Batch norms use their stored averages in training too, and leave them as they are.
  std::uint64_t seed = 1;     ///< Of the initial weights.
  /// Throws InvalidArgument naming the field, its value and the allowed range.
  void validate() const;
};

/// ResNets as torchvision has them, the stride of a bottleneck in its 3x3 convolution: 512 features of 18 layers, 2048 of 50. Parameters
/// and buffers have the names that torchvision and timm give them, such as "layer1.0.conv1.weight" and "layer1.0.bn1.running_mean".
class ResNet : public Backbone {
 public:
  explicit ResNet(const ResNetOptions& options);
  torch::Tensor forward(const torch::Tensor& images) override;
  std::int64_t feature_dimension() const override { return feature_dimension_; }
  const InputFormat& input() const override { return input_; }
  std::vector<std::string> left_out() const override { return {"fc."}; }

 private:
  /// A convolution without bias and the batch norm after it.
  struct Layer {
    torch::Tensor filters, norm_weight, norm_bias, running_mean, running_variance;
    std::int64_t stride, padding;
  };
  struct Block {
    std::vector<Layer> layers;    // one after another
    std::vector<Layer> shortcut;  // none, or one
  };
  Layer add_layer(const std::string& convolution, const std::string& norm, const std::array<std::int64_t, 4>& shape, Random& random);
  Block add_block(const std::string& name, std::int64_t in, std::int64_t width, std::int64_t stride, Random& random);
  bool norms_of_batches() const { return is_training() && !options_.frozen_norms; }
  torch::Tensor normed(const torch::Tensor& x, const Layer& layer) const;
  torch::Tensor rectified_layer(const torch::Tensor& x, const Layer& layer) const;

  ResNetOptions options_;
  InputFormat input_;
  std::int64_t feature_dimension_ = 0;
  std::vector<Layer> stem_;
  std::vector<Block> blocks_;
};

/// The input of a network trained on values from 0 to 1, less the mean and divided by the deviation, red first.
InputFormat input_of(std::int64_t size, std::int64_t channels, const std::array<double, 3>& mean, const std::array<double, 3>& deviation);

}  // namespace smartmine
