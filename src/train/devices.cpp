#include "smartmine/train/devices.h"

#include <fmt/format.h>
#include <torch/cuda.h>
#include <torch/types.h>
#include <torch/version.h>

#include <algorithm>

#include "smartmine/core/parallel.h"
#ifdef SMARTMINE_CUDA
#include <ATen/cuda/CUDAContext.h>
#endif

namespace smartmine {

std::string devices() {
#ifdef SMARTMINE_CUDA
  const bool with_cuda = true;  // hasCUDA() says no where there is no GPU
#else
  const bool with_cuda = at::hasCUDA();
#endif
  std::string text = fmt::format("LibTorch {} {} CUDA", TORCH_VERSION, with_cuda ? "with" : "without");
  const auto count = static_cast<std::int64_t>(torch::cuda::device_count());
  if (with_cuda && count == 0) text += ", but no GPU is seen";
  text += "; trains on cpu";
#ifdef SMARTMINE_CUDA
  constexpr std::size_t kGibibyte = std::size_t{1} << 30;
  for (std::int64_t i = 0; i < count; ++i) {
    const cudaDeviceProp& gpu = *at::cuda::getDeviceProperties(static_cast<c10::DeviceIndex>(i));
    text += fmt::format(", cuda ({}, {} GiB)", gpu.name, gpu.totalGlobalMem / kGibibyte);
  }
#else
  if (count > 0) text += ", cuda";
#endif
  return text + (Ranks::available() ? "; several ranks by Gloo" : "; without ranks");
}

void share_out(RunConfig& config, const Ranks* ranks) {
  ComputeOptions& compute = config.compute;
  if (compute.shards) return;
  if (ranks != nullptr) {
    compute.shards = ranks->size();
    return;
  }
  const bool halves = config.model.backbone == "small" && (compute.device == "cpu" || !torch::cuda::is_available());
  compute.shards = halves ? 2 : 1;
  if (halves && !compute.network_threads)
    compute.network_threads = std::max<std::int64_t>(1, resolve_threads(static_cast<unsigned>(compute.threads)) / 2);
}

}  // namespace smartmine
