#include "model/cuda/layers.h"

#ifdef SMARTMINE_CUDA

#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>
#include <array>

#include "model/cuda/kernels.h"

namespace smartmine::cuda {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

torch::Tensor channels_last(const torch::Tensor& x) { return x.contiguous(torch::MemoryFormat::ChannelsLast); }

torch::Tensor empty_image(const torch::Tensor& like, torch::IntArrayRef sizes, torch::ScalarType type) {
  return torch::empty(sizes, torch::TensorOptions(type).device(like.device()), torch::MemoryFormat::ChannelsLast);
}

BFloat16Bits* bits(const torch::Tensor& x) { return reinterpret_cast<BFloat16Bits*>(x.data_ptr<at::BFloat16>()); }
std::int64_t pixels(const torch::Tensor& x) { return x.size(0) * x.size(2) * x.size(3); }
cudaStream_t stream_of(const torch::Tensor& x) { return c10::cuda::getCurrentCUDAStream(x.device().index()); }

/// Values from a pixel to the next, or 0 if pixels do not lie one after another with their channels together.
std::int64_t pixel_stride(const torch::Tensor& x) {
  const std::int64_t stride = x.stride(3);
  const bool regular = x.stride(1) == 1 && x.stride(2) == stride * x.size(3) && x.stride(0) == stride * x.size(2) * x.size(3) &&
                       stride % 8 == 0 && x.storage_offset() % 8 == 0;
  return regular ? stride : 0;
}

constexpr std::size_t kMostParts = 4;

class Rectified : public torch::autograd::Function<Rectified> {
 public:
  /// The first `parts` of each are looked at. Torch follows tensors that are arguments of their own only, not those in a vector.
  static torch::Tensor forward(AutogradContext* context, std::int64_t parts, const torch::Tensor& sum0, const torch::Tensor& sum1,
                               const torch::Tensor& sum2, const torch::Tensor& sum3, const torch::Tensor& bias0, const torch::Tensor& bias1,
                               const torch::Tensor& bias2, const torch::Tensor& bias3) {
    const c10::cuda::CUDAGuard guard(sum0.device());
    const std::array<torch::Tensor, 8> inputs = {sum0, sum1, sum2, sum3, bias0, bias1, bias2, bias3};
    const auto count = static_cast<std::size_t>(parts);
    std::int64_t channels = 0;
    for (std::size_t i = 0; i < count; ++i) channels += inputs[i].size(1);
    const torch::Tensor& first = inputs[0];
    torch::Tensor y = empty_image(first, {first.size(0), channels, first.size(2), first.size(3)}, torch::kBFloat16);
    std::vector<std::int64_t> widths;
    std::int64_t at = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const torch::Tensor sum = channels_last(inputs[i]);
      widths.push_back(sum.size(1));
      add_and_rectify(bits(sum), inputs[kMostParts + i].data_ptr<float>(), bits(y) + at, pixels(sum), sum.size(1), channels, stream_of(y));
      at += sum.size(1);
    }
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    context->saved_data["widths"] = widths;
    context->save_for_backward({y});
    return y;
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const torch::Tensor y = context->get_saved_variables()[0];
    const c10::cuda::CUDAGuard guard(y.device());
    torch::Tensor dy = gradients[0];
    std::int64_t dy_stride = pixel_stride(dy);
    if (dy_stride == 0) {
      dy = channels_last(dy);
      dy_stride = y.size(1);
    }
    const std::vector<std::int64_t> widths = context->saved_data["widths"].toIntVector();
    tensor_list results(1 + 2 * kMostParts);  // none of the number of parts
    std::int64_t at = 0;
    for (std::size_t i = 0; i < widths.size(); ++i) {
      const std::int64_t width = widths[i];
      const torch::Tensor dx = empty_image(y, {y.size(0), width, y.size(2), y.size(3)}, torch::kBFloat16);
      const torch::Tensor sums =
          torch::empty({gradient_parts(pixels(y), width), width}, torch::TensorOptions(torch::kFloat32).device(y.device()));
      rectify_gradient(bits(dy) + at, dy_stride, bits(y) + at, y.size(1), bits(dx), sums.data_ptr<float>(), pixels(y), width, stream_of(y));
      results[1 + i] = dx;
      results[1 + kMostParts + i] = sums.sum(0);
      at += width;
    }
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return results;
  }
};

PoolShape shape_of(const torch::Tensor& x, std::int64_t stride, std::int64_t padding) {
  const auto out = [&](std::int64_t size) {
    const std::int64_t windows = (size + 2 * padding - 3 + stride - 1) / stride + 1;
    return (windows - 1) * stride >= size + padding ? windows - 1 : windows;  // none begins beyond the edge
  };
  return {x.size(0), x.size(2), x.size(3), x.size(1), out(x.size(2)), out(x.size(3)), stride, padding};
}

class MaxPool : public torch::autograd::Function<MaxPool> {
 public:
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& x, std::int64_t stride, std::int64_t padding) {
    const c10::cuda::CUDAGuard guard(x.device());
    const PoolShape shape = shape_of(x, stride, padding);
    const std::vector<std::int64_t> sizes = {shape.batch, shape.channels, shape.out_height, shape.out_width};
    torch::Tensor y = empty_image(x, sizes, torch::kBFloat16);
    torch::Tensor where;
    if (x.requires_grad()) where = empty_image(x, sizes, torch::kUInt8);
    cuda::max_pool(bits(x), bits(y), where.defined() ? where.data_ptr<std::uint8_t>() : nullptr, shape, stream_of(x));
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    context->saved_data["sizes"] = x.sizes().vec();
    context->saved_data["stride"] = stride;
    context->saved_data["padding"] = padding;
    if (where.defined()) context->save_for_backward({where});
    return y;
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const torch::Tensor where = context->get_saved_variables()[0];
    const c10::cuda::CUDAGuard guard(where.device());
    const torch::Tensor dy = channels_last(gradients[0]);
    const torch::Tensor dx = empty_image(dy, context->saved_data["sizes"].toIntVector(), torch::kBFloat16);
    const PoolShape shape = shape_of(dx, context->saved_data["stride"].toInt(), context->saved_data["padding"].toInt());
    max_pool_gradient(bits(dy), where.data_ptr<std::uint8_t>(), bits(dx), shape, stream_of(dx));
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return {dx, torch::Tensor(), torch::Tensor()};
  }
};

class ChannelNorm : public torch::autograd::Function<ChannelNorm> {
 public:
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& x, double factor) {
    const c10::cuda::CUDAGuard guard(x.device());
    torch::Tensor y = empty_image(x, x.sizes(), torch::kBFloat16);
    cuda::channel_norm(bits(x), bits(y), {pixels(x), x.size(1), static_cast<float>(factor)}, stream_of(x));
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    context->saved_data["factor"] = factor;
    context->save_for_backward({x});
    return y;
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const torch::Tensor x = context->get_saved_variables()[0];
    const c10::cuda::CUDAGuard guard(x.device());
    const torch::Tensor dy = channels_last(gradients[0]);
    const torch::Tensor dx = empty_image(x, x.sizes(), torch::kBFloat16);
    channel_norm_gradient(bits(x), bits(dy), bits(dx), {pixels(x), x.size(1), static_cast<float>(context->saved_data["factor"].toDouble())},
                          stream_of(x));
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return {dx, torch::Tensor()};
  }
};

}  // namespace

bool takes(const torch::Tensor& x, std::int64_t channels) {
  return x.is_cuda() && x.dim() == 4 && x.scalar_type() == torch::kBFloat16 && x.is_contiguous(torch::MemoryFormat::ChannelsLast) &&
         channels % 8 == 0 && channels <= 1024 && x.numel() > 0;
}

torch::Tensor rectified(const std::vector<torch::Tensor>& sums, const std::vector<torch::Tensor>& biases) {
  std::array<torch::Tensor, kMostParts> sum, bias;
  sum.fill(sums[0].detach());
  bias.fill(biases[0].detach());
  std::copy(sums.begin(), sums.end(), sum.begin());
  std::copy(biases.begin(), biases.end(), bias.begin());
  return Rectified::apply(static_cast<std::int64_t>(sums.size()), sum[0], sum[1], sum[2], sum[3], bias[0], bias[1], bias[2], bias[3]);
}

torch::Tensor max_pool(const torch::Tensor& x, std::int64_t stride, std::int64_t padding) { return MaxPool::apply(x, stride, padding); }
torch::Tensor channel_norm(const torch::Tensor& x, double factor) { return ChannelNorm::apply(x, factor); }

}  // namespace smartmine::cuda

#else

#include "smartmine/core/error.h"

namespace smartmine::cuda {

bool takes(const torch::Tensor&, std::int64_t) { return false; }
torch::Tensor rectified(const std::vector<torch::Tensor>&, const std::vector<torch::Tensor>&) { throw Error("built without CUDA"); }
torch::Tensor max_pool(const torch::Tensor&, std::int64_t, std::int64_t) { throw Error("built without CUDA"); }
torch::Tensor channel_norm(const torch::Tensor&, double) { throw Error("built without CUDA"); }

}  // namespace smartmine::cuda

#endif
