#include "smartmine/model/layers.h"

#include <algorithm>
#include <vector>

#include "model/cuda/layers.h"

namespace smartmine {
namespace {

// Caffe's alpha is shared among the window's channels, as torch's is.
constexpr double kAlpha = 1e-4;
constexpr double kBeta = 0.75;
constexpr std::int64_t kWindow = 5;

/// Sums over a window of channels, times `factor`, plus `offset`: a 1x1 convolution with a band matrix, which is the one form of it that is
/// fast in both memory formats and on tensor cores. Slices along the channels are not contiguous in either.
torch::Tensor window_sum(const torch::Tensor& x, double factor, double offset) {
  const std::int64_t channels = x.size(1);
  const auto band =
      torch::ones({channels, channels}, x.options().requires_grad(false)).triu_(-(kWindow / 2)).tril_(kWindow / 2).mul_(factor);
  const auto bias = offset == 0 ? torch::Tensor() : torch::full({channels}, offset, x.options().requires_grad(false));
  return torch::conv2d(x, band.view({channels, channels, 1, 1}), bias);
}

/// With s = 1 + alpha / size * sum(x^2) and y = x * s^-beta, the gradient is
/// dx = dy * s^-beta - 2 * alpha * beta / size * x * sum(dy * x * s^(-beta-1)): by hand, it takes a third of the memory traffic that the
/// chain of elementary operations does.
class LocalResponseNorm : public torch::autograd::Function<LocalResponseNorm> {
 public:
  static torch::Tensor forward(torch::autograd::AutogradContext* context, const torch::Tensor& x) {
    const torch::Tensor scale = window_sum(x.square(), kAlpha / kWindow, 1);
    context->save_for_backward({x, scale});
    return scale.pow(-kBeta).mul_(x);
  }

  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* context, torch::autograd::tensor_list gradients) {
    const auto saved = context->get_saved_variables();
    const torch::Tensor& x = saved[0];
    const torch::Tensor& scale = saved[1];
    const torch::Tensor direct = scale.pow(-kBeta).mul_(gradients[0]);
    const torch::Tensor across = window_sum((direct * x).div_(scale), -2 * kAlpha * kBeta / kWindow, 0);
    return {across.mul_(x).add_(direct)};
  }
};

}  // namespace

torch::Tensor rectified(const torch::Tensor& input, const Convolution& convolution) {
  const Branch branch{input, convolution};
  return rectified(std::span(&branch, 1));
}

torch::Tensor rectified(std::span<const Branch> branches) {
  const bool own = std::all_of(branches.begin(), branches.end(),
                               [](const Branch& branch) { return cuda::takes(branch.input, branch.convolution.weight.size(0)); });
  std::vector<torch::Tensor> sums, biases;
  for (const auto& [x, convolution] : branches) {
    const torch::Tensor bias = own ? torch::Tensor() : convolution.bias.to(x.scalar_type());
    sums.push_back(torch::conv2d(x, convolution.weight.to(x.scalar_type()), bias, convolution.stride, convolution.padding));
    biases.push_back(convolution.bias);
  }
  if (own) return cuda::rectified(sums, biases);
  for (torch::Tensor& sum : sums) sum = sum.relu_();
  return sums.size() == 1 ? sums[0] : torch::cat(sums, 1);
}

torch::Tensor max_pool(const torch::Tensor& x, std::int64_t stride, std::int64_t padding) {
  if (cuda::takes(x, x.size(1))) return cuda::max_pool(x, stride, padding);
  return torch::max_pool2d(x, 3, stride, padding, /*dilation=*/1, /*ceil_mode=*/true);
}

torch::Tensor pool_all(const torch::Tensor& x, Pooling pooling) {
  // Sums are taken, and given, in float32 at least.
  const auto type = x.scalar_type() == torch::kFloat64 ? torch::kFloat64 : torch::kFloat32;
  if (pooling == Pooling::kMax) return x.amax({2, 3}).to(type);
  const torch::Tensor average = x.mean({2, 3}, /*keepdim=*/false, type);
  return pooling == Pooling::kBoth ? average + x.amax({2, 3}).to(type) : average;
}

torch::Tensor local_response_norm(const torch::Tensor& x) {
  if (cuda::takes(x, x.size(1))) return cuda::channel_norm(x, kAlpha / kWindow);
  return LocalResponseNorm::apply(x);
}

}  // namespace smartmine
