#pragma once

#include <torch/types.h>

#include <cstdint>
#include <span>

// What GoogLeNet and ResNets are made of. Any type, device and memory format; bfloat16 channels last on a CUDA device has kernels of our
// own where torch's take most of a step's time, provided that the project was built with CUDA.
namespace smartmine {

/// What the last layer makes of each channel of a feature map.
enum class Pooling {
  kAverage,  ///< As published.
  kMax,
  kBoth,  ///< The sum of the two.
};

struct Convolution {
  torch::Tensor weight, bias;
  std::int64_t stride = 1, padding = 0;
};

/// A convolution and what it is applied to.
struct Branch {
  torch::Tensor input;
  const Convolution& convolution;
};

/// max(convolution + bias, 0) of every branch, side by side along the channels. Parameters are cast to the input's type.
torch::Tensor rectified(std::span<const Branch> branches);
torch::Tensor rectified(const torch::Tensor& input, const Convolution& convolution);

/// Over windows of 3x3; those that hang over the right or lower edge count too, as in Caffe.
torch::Tensor max_pool(const torch::Tensor& x, std::int64_t stride, std::int64_t padding);

/// Each channel as a whole: [N, C] of [N, C, H, W], in float32 at least.
torch::Tensor pool_all(const torch::Tensor& x, Pooling pooling);

/// Caffe's normalisation across channels, x / (1 + alpha / size * sum of the squares of `size` channels around)^beta, with the values
/// of the network: alpha 1e-4, beta 0.75, size 5.
torch::Tensor local_response_norm(const torch::Tensor& x);

}  // namespace smartmine
