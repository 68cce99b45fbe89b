#include "model/cuda/kernels.h"

#include <cuda_bf16.h>

#include <algorithm>

namespace smartmine::cuda {
namespace {

constexpr int kLanes = 8;  // channels a thread
constexpr int kThreads = 256;
constexpr int kReach = 2;  // channels to either side in the norm's window
constexpr unsigned char kNowhere = 9;

struct Values {
  float v[kLanes];
};

__device__ Values load(const BFloat16Bits* from) {
  const uint4 bits = *reinterpret_cast<const uint4*>(from);
  Values values;
  const unsigned words[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {  // a bfloat16 is the upper half of a float
    values.v[2 * i] = __uint_as_float(words[i] << 16);
    values.v[2 * i + 1] = __uint_as_float(words[i] & 0xffff0000U);
  }
  return values;
}

__device__ void store(BFloat16Bits* to, const Values& values) {
  unsigned words[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const unsigned low = __bfloat16_as_ushort(__float2bfloat16_rn(values.v[2 * i]));
    const unsigned high = __bfloat16_as_ushort(__float2bfloat16_rn(values.v[2 * i + 1]));
    words[i] = low | (high << 16);
  }
  *reinterpret_cast<uint4*>(to) = make_uint4(words[0], words[1], words[2], words[3]);
}

__global__ void __launch_bounds__(kThreads)
    max_pool_kernel(const BFloat16Bits* __restrict__ x, BFloat16Bits* __restrict__ y, std::uint8_t* __restrict__ where, int height,
                    int width, int channels, int out_height, int out_width, int stride, int padding, std::int64_t total) {
  const std::int64_t thread = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (thread >= total) return;
  const int groups = channels / kLanes;
  const std::int64_t place = thread / groups;
  const int channel = static_cast<int>(thread - place * groups) * kLanes;
  const std::int64_t row = place / out_width;
  const int out_x = static_cast<int>(place - row * out_width);
  const std::int64_t image = row / out_height;
  const int out_y = static_cast<int>(row - image * out_height);
  Values best;
  unsigned char from[kLanes];
#pragma unroll
  for (int i = 0; i < kLanes; ++i) {
    best.v[i] = 0;
    from[i] = kNowhere;
  }
#pragma unroll
  for (int tap = 0; tap < 9; ++tap) {
    const int in_y = out_y * stride - padding + tap / 3, in_x = out_x * stride - padding + tap % 3;
    if (in_y < 0 || in_y >= height || in_x < 0 || in_x >= width) continue;
    const Values values = load(x + ((image * height + in_y) * width + in_x) * channels + channel);
#pragma unroll
    for (int i = 0; i < kLanes; ++i) {
      // The first of equal values, and anything that is not a number, so that it shows.
      if (from[i] == kNowhere || values.v[i] > best.v[i] || isnan(values.v[i])) {
        best.v[i] = values.v[i];
        from[i] = static_cast<unsigned char>(tap);
      }
    }
  }
  store(y + place * channels + channel, best);
  if (where == nullptr) return;
  unsigned words[2] = {0, 0};
#pragma unroll
  for (int i = 0; i < kLanes; ++i) words[i / 4] |= static_cast<unsigned>(from[i]) << (8 * (i % 4));
  *reinterpret_cast<uint2*>(where + place * channels + channel) = make_uint2(words[0], words[1]);
}

// Every place of the input looks up the windows that it lies in: nothing is added by two threads.
__global__ void __launch_bounds__(kThreads)
    max_pool_gradient_kernel(const BFloat16Bits* __restrict__ dy, const std::uint8_t* __restrict__ where, BFloat16Bits* __restrict__ dx,
                             int height, int width, int channels, int out_height, int out_width, int stride, int padding,
                             std::int64_t total) {
  const std::int64_t thread = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (thread >= total) return;
  const int groups = channels / kLanes;
  const std::int64_t place = thread / groups;
  const int channel = static_cast<int>(thread - place * groups) * kLanes;
  const std::int64_t row = place / width;
  const int in_x = static_cast<int>(place - row * width) + padding;
  const std::int64_t image = row / height;
  const int in_y = static_cast<int>(row - image * height) + padding;
  Values sum;
#pragma unroll
  for (int i = 0; i < kLanes; ++i) sum.v[i] = 0;
  const int first_y = in_y < 2 ? 0 : (in_y - 2 + stride - 1) / stride, last_y = min(in_y / stride, out_height - 1);
  const int first_x = in_x < 2 ? 0 : (in_x - 2 + stride - 1) / stride, last_x = min(in_x / stride, out_width - 1);
  for (int out_y = first_y; out_y <= last_y; ++out_y) {
    for (int out_x = first_x; out_x <= last_x; ++out_x) {
      const unsigned tap = static_cast<unsigned>((in_y - out_y * stride) * 3 + in_x - out_x * stride);
      const std::int64_t at = ((image * out_height + out_y) * out_width + out_x) * channels + channel;
      const uint2 bits = *reinterpret_cast<const uint2*>(where + at);
      const Values values = load(dy + at);
      const unsigned words[2] = {bits.x, bits.y};
#pragma unroll
      for (int i = 0; i < kLanes; ++i)
        if (((words[i / 4] >> (8 * (i % 4))) & 0xffU) == tap) sum.v[i] += values.v[i];
    }
  }
  store(dx + place * channels + channel, sum);
}

__global__ void __launch_bounds__(kThreads)
    add_and_rectify_kernel(const BFloat16Bits* __restrict__ x, const float* __restrict__ bias, BFloat16Bits* __restrict__ y, int channels,
                           std::int64_t y_stride, std::int64_t total) {
  const std::int64_t thread = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (thread >= total) return;
  const int groups = channels / kLanes;
  const std::int64_t pixel = thread / groups;
  const int channel = static_cast<int>(thread - pixel * groups) * kLanes;
  Values values = load(x + pixel * channels + channel);
#pragma unroll
  for (int i = 0; i < kLanes; ++i) {
    const float sum = values.v[i] + bias[channel + i];
    values.v[i] = sum > 0 || isnan(sum) ? sum : 0;
  }
  store(y + pixel * y_stride + channel, values);
}

// A block is channels / 8 wide and as high as 256 threads allow; it takes every gridDim.x-th slab of pixels.
__global__ void __launch_bounds__(kThreads)
    rectify_gradient_kernel(const BFloat16Bits* __restrict__ dy, std::int64_t dy_stride, const BFloat16Bits* __restrict__ y,
                            std::int64_t y_stride, BFloat16Bits* __restrict__ dx, float* __restrict__ bias_parts, std::int64_t pixels,
                            int channels) {
  __shared__ float sums[kThreads * kLanes];
  const int channel = static_cast<int>(threadIdx.x) * kLanes;
  Values sum;
#pragma unroll
  for (int i = 0; i < kLanes; ++i) sum.v[i] = 0;
  for (std::int64_t pixel = static_cast<std::int64_t>(blockIdx.x) * blockDim.y + threadIdx.y; pixel < pixels;
       pixel += static_cast<std::int64_t>(gridDim.x) * blockDim.y) {
    Values gradient = load(dy + pixel * dy_stride + channel);
    const Values output = load(y + pixel * y_stride + channel);
#pragma unroll
    for (int i = 0; i < kLanes; ++i) {
      if (output.v[i] <= 0) gradient.v[i] = 0;
      sum.v[i] += gradient.v[i];
    }
    store(dx + pixel * channels + channel, gradient);
  }
  const int width = static_cast<int>(blockDim.x) * kLanes;
#pragma unroll
  for (int i = 0; i < kLanes; ++i) sums[threadIdx.y * width + channel + i] = sum.v[i];
  __syncthreads();
  for (int c = static_cast<int>(threadIdx.y * blockDim.x + threadIdx.x); c < width; c += static_cast<int>(blockDim.x * blockDim.y)) {
    float all = 0;
    for (unsigned row = 0; row < blockDim.y; ++row) all += sums[row * width + c];
    bias_parts[static_cast<std::int64_t>(blockIdx.x) * channels + c] = all;
  }
}

/// Sum over the five channels around the thread's own, from a row in shared memory with kReach zeros before its first channel and after its
/// last.
__device__ Values window_sums(const float* row, int channel) {
  Values sums;
#pragma unroll
  for (int i = 0; i < kLanes; ++i) {
    sums.v[i] = 0;
#pragma unroll
    for (int k = 0; k <= 2 * kReach; ++k) sums.v[i] += row[channel + i + k];
  }
  return sums;
}

__device__ float power(float s) {  // s^-0.75
  const float root = rsqrtf(s);
  return root * sqrtf(root);
}

template <bool kGradient>
__global__ void __launch_bounds__(kThreads)
    channel_norm_kernel(const BFloat16Bits* __restrict__ x, const BFloat16Bits* __restrict__ dy, BFloat16Bits* __restrict__ result,
                        std::int64_t pixels, int channels, float factor) {
  extern __shared__ float rows[];
  const int row_length = channels + 2 * kReach;
  float* row = rows + threadIdx.y * row_length;
  const int channel = static_cast<int>(threadIdx.x) * kLanes;
  const std::int64_t pixel = static_cast<std::int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
  const bool inside = pixel < pixels;
  Values values;
#pragma unroll
  for (int i = 0; i < kLanes; ++i) values.v[i] = 0;
  if (inside) values = load(x + pixel * channels + channel);
  if (threadIdx.x == 0)
    for (int i = 0; i < kReach; ++i) row[i] = row[row_length - 1 - i] = 0;
#pragma unroll
  for (int i = 0; i < kLanes; ++i) row[kReach + channel + i] = values.v[i] * values.v[i];
  __syncthreads();
  Values scale = window_sums(row, channel);
  Values out;
  if constexpr (!kGradient) {
#pragma unroll
    for (int i = 0; i < kLanes; ++i) out.v[i] = values.v[i] * power(1 + factor * scale.v[i]);
  } else {
    Values gradient;
#pragma unroll
    for (int i = 0; i < kLanes; ++i) gradient.v[i] = 0;
    if (inside) gradient = load(dy + pixel * channels + channel);
    __syncthreads();  // all have read the squares
#pragma unroll
    for (int i = 0; i < kLanes; ++i) {
      const float s = 1 + factor * scale.v[i];
      out.v[i] = gradient.v[i] * power(s);
      row[kReach + channel + i] = out.v[i] * values.v[i] / s;
    }
    __syncthreads();
    const Values across = window_sums(row, channel);
#pragma unroll
    for (int i = 0; i < kLanes; ++i) out.v[i] -= 2 * factor * kNormBeta * values.v[i] * across.v[i];
  }
  if (inside) store(result + pixel * channels + channel, out);
}

__device__ CutPlan plan_of(const float* plans, std::int64_t plan_stride, std::int64_t image) {
  const float* plan = plans + image * plan_stride;
  return {plan[0], plan[1], plan[2], plan[3]};
}

// A block an image; threads take every 256th pixel, and their sums are added in the same order always.
__global__ void __launch_bounds__(kThreads)
    mean_grey_kernel(const std::uint8_t* __restrict__ images, const float* __restrict__ plans, std::int64_t plan_stride,
                     const float* __restrict__ factors, float* __restrict__ middles, CutShape shape) {
  __shared__ float sums[kThreads];
  const std::int64_t image = blockIdx.x;
  const std::uint8_t* pixels = images + image * shape.height * shape.width * 3;
  const CutPlan plan = plan_of(plans, plan_stride, image);
  const float brightness = factors[3 * image];
  float sum = 0;
  for (int pixel = static_cast<int>(threadIdx.x); pixel < shape.size * shape.size; pixel += kThreads)
    sum += grey_of(away_from(0, sample(pixels, shape, plan, pixel / shape.size, pixel % shape.size), brightness));
  sums[threadIdx.x] = sum;
  __syncthreads();
  for (unsigned half = kThreads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) middles[image] = sums[0] / static_cast<float>(shape.size * shape.size);
}

__global__ void __launch_bounds__(kThreads)
    cut_out_kernel(const std::uint8_t* __restrict__ images, const float* __restrict__ plans, std::int64_t plan_stride,
                   const float* __restrict__ factors, const float* __restrict__ middles, __nv_bfloat16* __restrict__ result, CutShape shape,
                   std::int64_t total) {
  const std::int64_t thread = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (thread >= total) return;
  const int area = shape.size * shape.size;
  const std::int64_t image = thread / area;
  const int pixel = static_cast<int>(thread - image * area);
  Colour colour = sample(images + image * shape.height * shape.width * 3, shape, plan_of(plans, plan_stride, image), pixel / shape.size,
                         pixel % shape.size);
  if (factors != nullptr) colour = jitter(colour, factors + 3 * image, middles[image]);
  const Colour input = as_input(colour, shape);
  for (int c = 0; c < 3; ++c) result[3 * thread + c] = __float2bfloat16_rn(input.v[c]);
}

unsigned blocks(std::int64_t threads) { return static_cast<unsigned>((threads + kThreads - 1) / kThreads); }

dim3 pixel_block(std::int64_t channels) {
  const auto groups = static_cast<unsigned>(channels / kLanes);
  return {groups, std::max(1U, kThreads / groups)};
}

template <bool kGradient>
void launch_norm(const BFloat16Bits* x, const BFloat16Bits* dy, BFloat16Bits* result, const NormShape& shape, cudaStream_t stream) {
  const dim3 block = pixel_block(shape.channels);
  const auto grid = static_cast<unsigned>((shape.pixels + block.y - 1) / block.y);
  const std::size_t bytes = block.y * static_cast<std::size_t>(shape.channels + 2 * kReach) * sizeof(float);
  channel_norm_kernel<kGradient>
      <<<grid, block, bytes, stream>>>(x, dy, result, shape.pixels, static_cast<int>(shape.channels), shape.factor);
}

}  // namespace

void max_pool(const BFloat16Bits* x, BFloat16Bits* y, std::uint8_t* where, const PoolShape& s, cudaStream_t stream) {
  const std::int64_t threads = s.batch * s.out_height * s.out_width * (s.channels / kLanes);
  max_pool_kernel<<<blocks(threads), kThreads, 0, stream>>>(
      x, y, where, static_cast<int>(s.height), static_cast<int>(s.width), static_cast<int>(s.channels), static_cast<int>(s.out_height),
      static_cast<int>(s.out_width), static_cast<int>(s.stride), static_cast<int>(s.padding), threads);
}

void max_pool_gradient(const BFloat16Bits* dy, const std::uint8_t* where, BFloat16Bits* dx, const PoolShape& s, cudaStream_t stream) {
  const std::int64_t threads = s.batch * s.height * s.width * (s.channels / kLanes);
  max_pool_gradient_kernel<<<blocks(threads), kThreads, 0, stream>>>(
      dy, where, dx, static_cast<int>(s.height), static_cast<int>(s.width), static_cast<int>(s.channels), static_cast<int>(s.out_height),
      static_cast<int>(s.out_width), static_cast<int>(s.stride), static_cast<int>(s.padding), threads);
}

void add_and_rectify(const BFloat16Bits* x, const float* bias, BFloat16Bits* y, std::int64_t pixels, std::int64_t channels,
                     std::int64_t y_stride, cudaStream_t stream) {
  const std::int64_t threads = pixels * (channels / kLanes);
  add_and_rectify_kernel<<<blocks(threads), kThreads, 0, stream>>>(x, bias, y, static_cast<int>(channels), y_stride, threads);
}

std::int64_t gradient_parts(std::int64_t pixels, std::int64_t channels) {
  constexpr std::int64_t kMost = 1024, kRowsEach = 8;
  const std::int64_t slab = kRowsEach * static_cast<std::int64_t>(pixel_block(channels).y);
  return std::clamp<std::int64_t>((pixels + slab - 1) / slab, 1, kMost);
}

void rectify_gradient(const BFloat16Bits* dy, std::int64_t dy_stride, const BFloat16Bits* y, std::int64_t y_stride, BFloat16Bits* dx,
                      float* bias_parts, std::int64_t pixels, std::int64_t channels, cudaStream_t stream) {
  rectify_gradient_kernel<<<static_cast<unsigned>(gradient_parts(pixels, channels)), pixel_block(channels), 0, stream>>>(
      dy, dy_stride, y, y_stride, dx, bias_parts, pixels, static_cast<int>(channels));
}

void channel_norm(const BFloat16Bits* x, BFloat16Bits* y, const NormShape& shape, cudaStream_t stream) {
  launch_norm<false>(x, nullptr, y, shape, stream);
}

void channel_norm_gradient(const BFloat16Bits* x, const BFloat16Bits* dy, BFloat16Bits* dx, const NormShape& shape, cudaStream_t stream) {
  launch_norm<true>(x, dy, dx, shape, stream);
}

void cut_out(const std::uint8_t* images, std::int64_t count, const float* plans, std::int64_t plan_stride, const float* factors,
             float* middles, BFloat16Bits* result, const CutShape& shape, cudaStream_t stream) {
  if (factors != nullptr)
    mean_grey_kernel<<<static_cast<unsigned>(count), kThreads, 0, stream>>>(images, plans, plan_stride, factors, middles, shape);
  const std::int64_t threads = count * shape.size * shape.size;
  cut_out_kernel<<<blocks(threads), kThreads, 0, stream>>>(images, plans, plan_stride, factors, middles,
                                                           reinterpret_cast<__nv_bfloat16*>(result), shape, threads);
}

}  // namespace smartmine::cuda
