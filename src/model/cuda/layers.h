#pragma once

#include <torch/types.h>

#include <cstdint>
#include <vector>

// Layers with kernels of our own, differentiable. Without CUDA, `takes` says no and the others must not be called.
namespace smartmine::cuda {

/// True if the others take `x`, or what a convolution makes of it with so many channels: bfloat16, channels last, on a CUDA device.
bool takes(const torch::Tensor& x, std::int64_t channels);

/// max(sum + bias, 0) of each, side by side along the channels; at most four. Biases are float32.
torch::Tensor rectified(const std::vector<torch::Tensor>& sums, const std::vector<torch::Tensor>& biases);
torch::Tensor max_pool(const torch::Tensor& x, std::int64_t stride, std::int64_t padding);
/// `factor`: alpha / window.
torch::Tensor channel_norm(const torch::Tensor& x, double factor);

}  // namespace smartmine::cuda
