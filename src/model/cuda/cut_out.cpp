#include "model/cuda/cut_out.h"

#ifdef SMARTMINE_CUDA

#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>

#include "model/cuda/kernels.h"

namespace smartmine::cuda {

bool cuts_out(const torch::Tensor& images, torch::ScalarType type) {
  return images.is_cuda() && images.dim() == 4 && images.size(3) == 3 && images.is_contiguous() && type == torch::kBFloat16;
}

torch::Tensor cut_out(const torch::Tensor& images, const torch::Tensor& plan, bool interpolate, const torch::Tensor& factors,
                      const InputFormat& input, std::int64_t size) {
  const c10::cuda::CUDAGuard guard(images.device());
  const auto on_device = torch::TensorOptions().device(images.device());
  torch::Tensor result =
      torch::empty({images.size(0), 3, size, size}, on_device.dtype(torch::kBFloat16), torch::MemoryFormat::ChannelsLast);
  CutShape shape{.height = static_cast<int>(images.size(1)),
                 .width = static_cast<int>(images.size(2)),
                 .size = static_cast<int>(size),
                 .interpolate = interpolate,
                 .bgr = input.bgr,
                 .mean = {},
                 .scale = {}};
  std::copy(input.mean.begin(), input.mean.end(), shape.mean);
  std::copy(input.scale.begin(), input.scale.end(), shape.scale);
  torch::Tensor middles;
  if (factors.defined()) middles = torch::empty({images.size(0)}, on_device.dtype(torch::kFloat32));
  cut_out(images.data_ptr<std::uint8_t>(), images.size(0), plan.data_ptr<float>(), plan.size(0) == 1 ? 0 : 4,
          factors.defined() ? factors.data_ptr<float>() : nullptr, factors.defined() ? middles.data_ptr<float>() : nullptr,
          reinterpret_cast<BFloat16Bits*>(result.data_ptr<at::BFloat16>()), shape,
          c10::cuda::getCurrentCUDAStream(images.device().index()));
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return result;
}

}  // namespace smartmine::cuda

#else

#include "smartmine/core/error.h"

namespace smartmine::cuda {

bool cuts_out(const torch::Tensor&, torch::ScalarType) { return false; }
torch::Tensor cut_out(const torch::Tensor&, const torch::Tensor&, bool, const torch::Tensor&, const InputFormat&, std::int64_t) {
  throw Error("built without CUDA");
}

}  // namespace smartmine::cuda

#endif
