#pragma once

#include <torch/types.h>

#include <cstdint>
#include <vector>

#include "smartmine/model/backbone.h"

namespace smartmine {

/// Options for the small network.
struct SmallConvnetOptions {
  std::int64_t input_size = 32;  ///< Side of the images, from 16 to 256. The cost grows with its square.
  std::int64_t channels = 1;     ///< 1 or 3.
  std::uint64_t seed = 1;        ///< Of the initial weights.
  /// Throws InvalidArgument naming the field, its value and the allowed range.
  void validate() const;
};

/// Four convolutions that train on two cores: 32 filters of 5x5, 64, 128 and 128 of 3x3, the first three at stride 2, each
/// followed by batch norm and ReLU. In training an image's embedding depends on its batch, in evaluation on running averages and the image
/// alone.
class SmallConvnet : public Backbone {
 public:
  explicit SmallConvnet(const SmallConvnetOptions& options);
  torch::Tensor forward(const torch::Tensor& images) override;
  std::int64_t feature_dimension() const override { return feature_dimension_; }
  const InputFormat& input() const override { return input_; }

 private:
  struct Layer {
    torch::Tensor filters, norm_weight, norm_bias, running_mean, running_variance;
    std::int64_t stride, padding;
  };
  std::vector<Layer> layers_;
  InputFormat input_;
  std::int64_t feature_dimension_ = 0;
};

}  // namespace smartmine
