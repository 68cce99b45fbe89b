#pragma once

#include <cuda_fp16.h>

#include <cstdint>

// Rows rounded to half precision about their mean, how far rounding moves them, and thresholds that allow for it.
namespace smartmine::cuda {

constexpr int kPrepareThreads = 256;

/// What is true of all rows together.
struct Frame {
  unsigned largest;        ///< Bits of the largest absolute value about the mean.
  unsigned largest_error;  ///< Bits of the largest distance that rounding moves a row by, of those that are not `far`.
};

namespace device {

/// Coordinates are scaled by a power of two so that the largest is about 8192: far from overflow, and what underflows is 2^-27 of it.
__device__ inline double scale_of(const Frame& frame) {
  const float largest = __uint_as_float(frame.largest);
  if (!(largest > 0)) return 1;
  int exponent = 0;
  frexp(static_cast<double>(largest), &exponent);
  return ldexp(1.0, 13 - exponent);
}

__device__ inline double warp_sum(double value) {
  for (int reach = 16; reach > 0; reach /= 2) value += __shfl_xor_sync(0xffffffffU, value, reach);
  return value;
}

}  // namespace device

/// Sums of some rows a block, in a fixed order: partial[block * dimension + d].
__global__ void __launch_bounds__(kPrepareThreads) sum_rows(const float* rows, std::int64_t size, int dimension, double* partial) {
  __shared__ double sums[kPrepareThreads];
  const std::int64_t part = (size + gridDim.x - 1) / gridDim.x;
  const std::int64_t begin = part * blockIdx.x, end = min(begin + part, size);
  int width = 1;
  while (width < dimension && width < kPrepareThreads) width *= 2;
  const int column = static_cast<int>(threadIdx.x) % width, lane = static_cast<int>(threadIdx.x) / width, lanes = kPrepareThreads / width;
  for (int base = 0; base < dimension; base += width) {
    const int d = base + column;
    double sum = 0;
    if (d < dimension)
      for (std::int64_t row = begin + lane; row < end; row += lanes) sum += rows[row * dimension + d];
    sums[threadIdx.x] = sum;
    __syncthreads();
    if (lane == 0 && d < dimension) {
      for (int other = 1; other < lanes; ++other) sum += sums[other * width + column];
      partial[static_cast<std::int64_t>(blockIdx.x) * dimension + d] = sum;
    }
    __syncthreads();
  }
}

__global__ void average(const double* partial, int blocks, std::int64_t size, int dimension, double* mean) {
  for (int d = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x); d < dimension; d += static_cast<int>(gridDim.x * blockDim.x)) {
    double sum = 0;
    for (int block = 0; block < blocks; ++block) sum += partial[static_cast<std::int64_t>(block) * dimension + d];
    mean[d] = sum / static_cast<double>(size);
  }
}

__global__ void __launch_bounds__(kPrepareThreads)
    find_largest(const float* rows, std::int64_t size, int dimension, const double* mean, Frame* frame) {
  const std::int64_t warp = (static_cast<std::int64_t>(blockIdx.x) * kPrepareThreads + threadIdx.x) / 32;
  const std::int64_t warps = static_cast<std::int64_t>(gridDim.x) * kPrepareThreads / 32;
  float largest = 0;
  for (int d = static_cast<int>(threadIdx.x) % 32; d < dimension; d += 32) {
    const double middle = mean[d];
    for (std::int64_t row = warp; row < size; row += warps)
      largest = fmaxf(largest, fabsf(__double2float_rn(rows[row * dimension + d] - middle)));
  }
  for (int reach = 16; reach > 0; reach /= 2) largest = fmaxf(largest, __shfl_xor_sync(0xffffffffU, largest, reach));
  if (threadIdx.x % 32 == 0) atomicMax(&frame->largest, __float_as_uint(fminf(largest, 3.4e38F)));
}

/// How far a sum of products on the tensor cores may be off, relative to the lengths of both sides: they add sixteen products and the sum
/// so far at a time and cut off what is below the 24th bit of the largest. A few units more for the rounding of starts and thresholds.
__device__ inline double product_rounding(int padded_dimension) { return (1.25 * padded_dimension + 16) * 0x1p-23; }

struct PackTask {
  const float* rows;
  std::int64_t size;         ///< Rows there are,
  std::int64_t padded_size;  ///< and rows written: the rest are zero, and no product with them passes a threshold.
  int dimension;
  int padded_dimension;
  const double* mean;
  Frame* frame;
  __half* packed;
  double* squares;  ///< A row: its squared length as packed,
  float* errors;    ///< how far rounding moved it (both after scaling),
  float* starts;    ///< and what products with it begin at: minus half its squared length, and a little more for rounding.
};

/// A warp a row.
__global__ void __launch_bounds__(kPrepareThreads) pack_rows(const PackTask task) {
  const std::int64_t row = (static_cast<std::int64_t>(blockIdx.x) * kPrepareThreads + threadIdx.x) / 32;
  if (row >= task.padded_size) return;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const double scale = device::scale_of(*task.frame);
  const bool padding = row >= task.size;
  double square = 0, error = 0;
  for (int d = lane; d < task.padded_dimension; d += 32) {
    double value = 0;
    if (!padding && d < task.dimension) value = (task.rows[row * task.dimension + d] - task.mean[d]) * scale;
    const __half rounded = __double2half(value);
    const double kept = static_cast<double>(__half2float(rounded));
    task.packed[row * task.padded_dimension + d] = rounded;
    square += kept * kept;
    error += (value - kept) * (value - kept);
  }
  square = device::warp_sum(square);
  error = device::warp_sum(error);
  if (lane != 0) return;
  const double rounding = product_rounding(task.padded_dimension);
  const float moved = __double2float_ru(sqrt(error) * (1 + 1e-9));
  task.starts[row] = padding ? -INFINITY : __double2float_ru(-square / 2 + rounding * square);
  if (padding) return;
  task.squares[row] = square;
  task.errors[row] = moved;
}

constexpr int kErrorBins = 256;  // by the exponent of a float
constexpr unsigned kMostFar = 128;
constexpr unsigned kFarBins = 2;  // by how many exponents thresholds must narrow

/// How many rows are moved by 2^e to 2^(e+1), for every exponent, and the largest.
__global__ void __launch_bounds__(kPrepareThreads) count_errors(const float* errors, std::int64_t size, unsigned* counts, Frame* frame) {
  __shared__ unsigned here[kErrorBins];
  __shared__ unsigned largest;
  for (int bin = static_cast<int>(threadIdx.x); bin < kErrorBins; bin += kPrepareThreads) here[bin] = 0;
  if (threadIdx.x == 0) largest = 0;
  __syncthreads();
  unsigned mine = 0;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * kPrepareThreads;
  for (std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * kPrepareThreads + threadIdx.x; row < size; row += step) {
    const unsigned bits = __float_as_uint(errors[row]);
    mine = max(mine, bits);
    atomicAdd(here + (bits >> 23), 1U);
  }
  atomicMax(&largest, mine);
  __syncthreads();
  for (int bin = static_cast<int>(threadIdx.x); bin < kErrorBins; bin += kPrepareThreads)
    if (here[bin] != 0) atomicAdd(counts + bin, here[bin]);
  if (threadIdx.x == 0) atomicMax(&frame->largest_error, largest);
}

/// Lowers the largest error to the end of the highest bin with more than kMostFar rows from it on, if that is worth it. One thread.
__global__ void choose_far(const unsigned* counts, Frame* frame) {
  unsigned far = 0;
  for (unsigned bin = kErrorBins - 1; bin > 0; --bin) {
    far += counts[bin];
    if (far <= kMostFar) continue;
    if (bin + kFarBins <= frame->largest_error >> 23) frame->largest_error = (bin + 1) << 23;
    return;
  }
}

/// Products with rows that are moved farther than the largest error begin so high that they always pass.
__global__ void __launch_bounds__(kPrepareThreads)
    raise_far_rows(const float* errors, std::int64_t size, const Frame* frame, float* starts) {
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * kPrepareThreads + threadIdx.x;
  if (row < size && __float_as_uint(errors[row]) > frame->largest_error) starts[row] = 1e30F;
}

/// Columns of the sample: one from each of `count` equal parts of the rows, at a place that a hash says.
__global__ void draw_sample(const __half* packed, const float* starts, std::int64_t size, int padded_dimension, int count, __half* sample,
                            float* sample_starts) {
  const int at = static_cast<int>((static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / 32);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (at >= count) return;
  const std::int64_t begin = size * at / count, end = max(begin + 1, size * (at + 1) / count);
  std::uint64_t hash = static_cast<std::uint64_t>(at) * 0x9e3779b97f4a7c15ULL + 0x632be59bd9b4e019ULL;
  hash = (hash ^ hash >> 30) * 0xbf58476d1ce4e5b9ULL;
  hash = (hash ^ hash >> 27) * 0x94d049bb133111ebULL;
  const std::int64_t from = begin + static_cast<std::int64_t>((hash >> 33) % static_cast<std::uint64_t>(end - begin));
  for (int d = lane; d < padded_dimension; d += 32)
    sample[static_cast<std::int64_t>(at) * padded_dimension + d] = packed[from * padded_dimension + d];
  if (lane == 0) sample_starts[at] = starts[from];
}

/// The packed rows of some queries, one after the other; zero rows after them.
__global__ void gather_rows(const __half* packed, const std::uint32_t* queries, int count, int padded_count, int padded_dimension,
                            __half* gathered) {
  const int at = static_cast<int>((static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / 32);
  if (at >= padded_count) return;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (int d = lane; d < padded_dimension; d += 32)
    gathered[static_cast<std::int64_t>(at) * padded_dimension + d] =
        at < count ? packed[static_cast<std::int64_t>(queries[at]) * padded_dimension + d] : __half();
}

struct ThresholdTask {
  const float* best;             ///< A query: the largest product of each group of sampled columns.
  int groups;                    ///< At most kMostGroups.
  int rank;                      ///< Which of the largest the threshold is made from: 1 is the largest.
  int count;                     ///< Queries.
  const std::uint32_t* queries;  ///< Null: `first` and the following.
  std::uint32_t first;
  int padded_dimension;
  const double* squares;
  const float* errors;
  const Frame* frame;
  float* thresholds;
  float* reach;  ///< Every row within this distance of the query has a product above the threshold.
  static constexpr int kMostGroups = 128;
};

/// A warp a query.
__global__ void __launch_bounds__(kPrepareThreads) set_thresholds(const ThresholdTask task) {
  const int at = static_cast<int>((static_cast<std::int64_t>(blockIdx.x) * kPrepareThreads + threadIdx.x) / 32);
  if (at >= task.count) return;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  constexpr int kEach = ThresholdTask::kMostGroups / 32;
  float mine[kEach];
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const int group = i * 32 + lane;
    mine[i] = group < task.groups ? task.best[static_cast<std::int64_t>(at) * task.groups + group] : -INFINITY;
  }
  float chosen = -INFINITY;
  for (int round = 0; round < task.rank; ++round) {
    float top = mine[0];
#pragma unroll
    for (int i = 1; i < kEach; ++i) top = fmaxf(top, mine[i]);
    chosen = top;
    for (int reach = 16; reach > 0; reach /= 2) chosen = fmaxf(chosen, __shfl_xor_sync(0xffffffffU, chosen, reach));
    const unsigned owners = __ballot_sync(0xffffffffU, top == chosen);
    if (lane == __ffs(static_cast<int>(owners)) - 1) {  // one of those that have it takes it away
      bool taken = false;
#pragma unroll
      for (int i = 0; i < kEach; ++i)
        if (!taken && mine[i] == chosen) {
          mine[i] = -INFINITY;
          taken = true;
        }
    }
  }
  if (lane != 0) return;
  // With p the product less half the column's squared length, a packed column is at distance sqrt(square - 2 p). The reach is the distance
  // that the rank stands at, at least what rounding can hide. A row within it is, as packed, no farther than the reach plus what rounding
  // moved both by; what products may be off by is halved between row and column (pack_rows), since 2 a b <= a^2 + b^2.
  const std::uint32_t query = task.queries != nullptr ? task.queries[at] : task.first + static_cast<std::uint32_t>(at);
  const double square = task.squares[query];
  const double moved = static_cast<double>(task.errors[query]) + __uint_as_float(task.frame->largest_error);
  const double reach = fmax(sqrt(fmax(0.0, square - 2.0 * chosen)), moved);
  const double packed_reach = reach + moved;
  const double threshold = (square - packed_reach * packed_reach * (1 + 1e-12)) / 2 - product_rounding(task.padded_dimension) * square / 2;
  // The product must be above the threshold, not at it.
  task.thresholds[at] = nextafterf(__double2float_rd(threshold), -INFINITY);
  task.reach[at] = __double2float_rd(reach / device::scale_of(*task.frame) * (1 - 1e-9));
}

}  // namespace smartmine::cuda
