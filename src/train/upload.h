#pragma once

#include <torch/types.h>

#include <vector>

namespace smartmine {

/// A copy of `host` on the device. To a GPU it goes through page-locked memory, for otherwise the host would wait until the device has done
/// all it was given before.
inline torch::Tensor upload(const torch::Tensor& host, const torch::Device& device) {
  return device.is_cuda() ? host.pin_memory().to(device, /*non_blocking=*/true) : host.clone();
}

}  // namespace smartmine
