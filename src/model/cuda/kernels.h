#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "model/cuda/cut_pixel.h"

// What a network without batch norm does between its convolutions, in bfloat16 and channels last, eight channels a thread. Sums are taken
// in float32 and in a fixed order, so the same input gives the same output. All pointers are on the device, at multiples of 16 bytes, and
// channels and strides are multiples of 8.
namespace smartmine::cuda {

using BFloat16Bits = std::uint16_t;

struct PoolShape {
  std::int64_t batch, height, width, channels;
  std::int64_t out_height, out_width;
  std::int64_t stride, padding;
};

/// Largest value of each 3x3 window, and which of its nine places it came from. Places outside the image are left out. `where` may be null.
void max_pool(const BFloat16Bits* x, BFloat16Bits* y, std::uint8_t* where, const PoolShape& shape, cudaStream_t stream);
void max_pool_gradient(const BFloat16Bits* dy, const std::uint8_t* where, BFloat16Bits* dx, const PoolShape& shape, cudaStream_t stream);

/// y = max(x + bias, 0), of `pixels` rows of `channels` values. `y_stride` values lie between rows of y.
void add_and_rectify(const BFloat16Bits* x, const float* bias, BFloat16Bits* y, std::int64_t pixels, std::int64_t channels,
                     std::int64_t y_stride, cudaStream_t stream);
/// Rows that the gradient below adds up apart from each other.
std::int64_t gradient_parts(std::int64_t pixels, std::int64_t channels);
/// dx = dy where y > 0, else 0; and its sums over pixels, in gradient_parts() rows of `channels` values that are yet to be added.
void rectify_gradient(const BFloat16Bits* dy, std::int64_t dy_stride, const BFloat16Bits* y, std::int64_t y_stride, BFloat16Bits* dx,
                      float* bias_parts, std::int64_t pixels, std::int64_t channels, cudaStream_t stream);

/// y = x * s^-beta with s = 1 + factor * (sum of the squares of the five channels around); at most 1024 channels.
struct NormShape {
  std::int64_t pixels, channels;
  float factor;  ///< alpha / 5
};
constexpr float kNormBeta = 0.75F;
void channel_norm(const BFloat16Bits* x, BFloat16Bits* y, const NormShape& shape, cudaStream_t stream);
void channel_norm_gradient(const BFloat16Bits* x, const BFloat16Bits* dy, BFloat16Bits* dx, const NormShape& shape, cudaStream_t stream);

/// `count` images as a network's input. Plans are `plan_stride` values apart, 4 or 0; `factors`, three an image, may be null; `middles` is
/// room for a value an image if they are not.
void cut_out(const std::uint8_t* images, std::int64_t count, const float* plans, std::int64_t plan_stride, const float* factors,
             float* middles, BFloat16Bits* result, const CutShape& shape, cudaStream_t stream);

}  // namespace smartmine::cuda
