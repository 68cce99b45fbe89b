#pragma once

#include <torch/types.h>

#include <cstdint>

#include "smartmine/model/backbone.h"

namespace smartmine::cuda {

/// True if `cut_out` takes these images and gives this type: RGB bytes [N, H, W, 3] on a CUDA device to bfloat16.
bool cuts_out(const torch::Tensor& images, torch::ScalarType type);

/// Pieces of images as a network's input, [N, 3, size, size] channels last. `plan` is float32 [N, 4] or, for all images alike, [1, 4]: the
/// first sample and the step along x, then along y. Samples are interpolated, or lie on whole pixels. `factors`, float32 [N, 3] or
/// undefined, are what brightness, contrast and saturation are multiplied by.
torch::Tensor cut_out(const torch::Tensor& images, const torch::Tensor& plan, bool interpolate, const torch::Tensor& factors,
                      const InputFormat& input, std::int64_t size);

}  // namespace smartmine::cuda
