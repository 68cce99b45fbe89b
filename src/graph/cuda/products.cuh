#pragma once

#include <cuda_fp16.h>

#include <cstdint>

// Products of rows with columns, half precision in and float out, on the tensor cores. No product is ever written: each is compared with
// its row's threshold while it is still in a register, and the few columns that pass are noted.
//
// A block holds kWarps * kRowTiles * 16 rows in registers, all of their dimensions, and streams columns through shared memory, kTile at a
// time, kStages tiles on their way. The accumulator starts at minus half the column's squared length, so that a larger value means a nearer
// column.
namespace smartmine::cuda {

struct ProductTask {
  const __half* rows;       ///< Readable up to the next multiple of the block's rows.
  const float* thresholds;  ///< A row. Columns above it are noted. Not looked at when sampling.
  int row_count;
  const __half* columns;  ///< Tiles of kTile columns.
  const float* starts;    ///< A column: what its products begin at. Minus infinity: it is padding.
  int tiles;
  int tiles_per_split;        ///< blockIdx.y says which split.
  std::uint32_t* counts;      ///< A row: columns noted, or that there was no room for.
  std::uint32_t* candidates;  ///< A row: room for `capacity` columns.
  std::uint32_t capacity;
  float* best;  ///< When sampling: the largest product of each group of columns, gridDim.y * kGroups values a row.
};

namespace device {

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800

__device__ __forceinline__ void copy_async(void* shared, const void* global) {
  const auto to = static_cast<unsigned>(__cvta_generic_to_shared(shared));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;\n" ::"r"(to), "l"(global) : "memory");
}
__device__ __forceinline__ void commit_copies() { asm volatile("cp.async.commit_group;\n" ::: "memory"); }
template <int kPending>
__device__ __forceinline__ void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;\n" ::"n"(kPending) : "memory");
}

__device__ __forceinline__ void load_matrices(std::uint32_t (&to)[4], unsigned shared) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(shared)
               : "memory");
}

__device__ __forceinline__ void multiply(float (&to)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1,
                                         const float (&from)[4]) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};\n"
      : "=f"(to[0]), "=f"(to[1]), "=f"(to[2]), "=f"(to[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "f"(from[0]), "f"(from[1]), "f"(from[2]), "f"(from[3]));
}

#else  // GPUs without these instructions are refused before anything is launched

__device__ __forceinline__ void copy_async(void*, const void*) {}
__device__ __forceinline__ void commit_copies() {}
template <int kPending>
__device__ __forceinline__ void wait_for_copies() {}
__device__ __forceinline__ void load_matrices(std::uint32_t (&)[4], unsigned) {}
__device__ __forceinline__ void multiply(float (&)[4], const std::uint32_t (&)[4], std::uint32_t, std::uint32_t, const float (&)[4]) {}

#endif

}  // namespace device

/// kSteps: sixteens of dimensions, even. kRowTiles: sixteens of rows a warp, at most 4. kColumnTiles: eights of columns at a time.
template <int kSteps_, int kRowTiles_, int kColumnTiles_, int kWarps_, int kTile_, int kStages_, int kBlocks_>
struct ProductShape {
  static constexpr int kSteps = kSteps_, kRowTiles = kRowTiles_, kColumnTiles = kColumnTiles_, kWarps = kWarps_, kTile = kTile_;
  static constexpr int kStages = kStages_, kBlocks = kBlocks_;
  static constexpr int kThreads = kWarps * 32;
  static constexpr int kWarpRows = kRowTiles * 16;
  static constexpr int kRows = kWarps * kWarpRows;  // a block
  static constexpr int kGroups = kColumnTiles * 8;  // of columns, when sampling
  static constexpr int kDimension = kSteps * 16;
  static constexpr int kStride = kDimension * 2 + 16;  // bytes from a column to the next: eight of them meet all banks once
  static constexpr int kTileBytes = kTile * kStride + kTile * 4;
  static constexpr int kQueue = 128;  // columns a warp notes before it writes them out
  static constexpr int kSharedBytes = kStages * kTileBytes + kWarps * (kQueue * 4 + 16);
  static_assert(kSteps % 2 == 0 && kWarpRows <= 64 && kTile % (kColumnTiles * 8) == 0 && kTileBytes % 16 == 0);
};

template <class Shape, bool kSample>
__global__ void __launch_bounds__(Shape::kThreads, Shape::kBlocks) multiply_and_filter(const ProductTask task) {
  constexpr int kSteps = Shape::kSteps, kRowTiles = Shape::kRowTiles, kColumnTiles = Shape::kColumnTiles, kTile = Shape::kTile;
  constexpr int kStages = Shape::kStages, kStride = Shape::kStride, kDimension = Shape::kDimension;
  constexpr std::uint32_t kColumnBits = 26, kColumnMask = (1U << kColumnBits) - 1;
  extern __shared__ __align__(16) unsigned char shared[];
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int warp_row = static_cast<int>(blockIdx.x) * Shape::kRows + warp * Shape::kWarpRows;  // the warp's first
  auto* const queue = reinterpret_cast<std::uint32_t*>(shared + kStages * Shape::kTileBytes) + warp * (Shape::kQueue + 4);
  // Behind the queue: how many are in it, and which of the warp's 64 rows have run out of room.
  std::uint32_t* const queued = queue + Shape::kQueue;
  if (lane < 4) queued[lane] = 0;
  __syncwarp();

  const int first_tile = static_cast<int>(blockIdx.y) * task.tiles_per_split;
  const int tiles = max(0, min(task.tiles - first_tile, task.tiles_per_split));
  const auto load_tile = [&](int tile, int stage) {
    unsigned char* const to = shared + stage * Shape::kTileBytes;
    const std::int64_t column = static_cast<std::int64_t>(first_tile + tile) * kTile;
    const auto* const from = reinterpret_cast<const unsigned char*>(task.columns + column * kDimension);
    constexpr int kChunks = kDimension / 8;  // of 16 bytes, a column
#pragma unroll
    for (int i = static_cast<int>(threadIdx.x); i < kTile * kChunks; i += Shape::kThreads)
      device::copy_async(to + i / kChunks * kStride + i % kChunks * 16, from + i * 16);
    if (threadIdx.x < kTile / 4) device::copy_async(to + kTile * kStride + threadIdx.x * 16, task.starts + column + threadIdx.x * 4);
  };
#pragma unroll
  for (int stage = 0; stage < kStages - 1; ++stage) {
    if (stage < tiles) load_tile(stage, stage);
    device::commit_copies();
  }

  // A lane's part of the rows: rows lane / 4 and that plus 8 of each sixteen, dimensions 2 * (lane % 4) and the next, and those plus 8.
  std::uint32_t a[kRowTiles][kSteps][4];
  float threshold[kRowTiles][2];
#pragma unroll
  for (int r = 0; r < kRowTiles; ++r) {
    const int row = warp_row + r * 16 + lane / 4;
    const __half* const from = task.rows + static_cast<std::int64_t>(row) * kDimension + lane % 4 * 2;
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
      a[r][s][0] = *reinterpret_cast<const std::uint32_t*>(from + s * 16);
      a[r][s][1] = *reinterpret_cast<const std::uint32_t*>(from + s * 16 + 8 * kDimension);
      a[r][s][2] = *reinterpret_cast<const std::uint32_t*>(from + s * 16 + 8);
      a[r][s][3] = *reinterpret_cast<const std::uint32_t*>(from + s * 16 + 8 * kDimension + 8);
    }
    if constexpr (!kSample) {
      threshold[r][0] = row < task.row_count ? task.thresholds[row] : INFINITY;
      threshold[r][1] = row + 8 < task.row_count ? task.thresholds[row + 8] : INFINITY;
    }
  }
  float best[kSample ? kRowTiles : 1][kColumnTiles][4];
  if constexpr (kSample) {
#pragma unroll
    for (int r = 0; r < kRowTiles; ++r)
#pragma unroll
      for (int c = 0; c < kColumnTiles; ++c)
#pragma unroll
        for (int i = 0; i < 4; ++i) best[r][c][i] = -INFINITY;
  }

  // Writes a column down for good. False: there was no room.
  const std::uint32_t first_column = static_cast<std::uint32_t>(first_tile) * kTile;
  const auto write = [&](int row_of_warp, std::uint32_t column) {
    const int row = warp_row + row_of_warp;
    const std::uint32_t place = atomicAdd(task.counts + row, 1U);
    if (place >= task.capacity) return false;
    task.candidates[static_cast<std::size_t>(row) * task.capacity + place] = first_column + column;
    return true;
  };
  const auto write_queue = [&]() {
    __syncwarp();
    const std::uint32_t count = min(queued[0], static_cast<std::uint32_t>(Shape::kQueue));
    for (std::uint32_t i = lane; i < count; i += 32) {
      const std::uint32_t entry = queue[i], row = entry >> kColumnBits;
      if (!write(static_cast<int>(row), entry & kColumnMask)) atomicOr(queued + 1 + row / 32, 1U << row % 32);
    }
    __syncwarp();
    const std::uint32_t full[2] = {queued[1], queued[2]};
    if ((full[0] | full[1]) != 0) {  // rows without room are to be done again anyhow: nothing more is noted
#pragma unroll
      for (int r = 0; r < kRowTiles; ++r)
#pragma unroll
        for (int half = 0; half < 2; ++half)
          if (full[r / 2] >> (r % 2 * 16 + half * 8 + lane / 4) & 1U) threshold[r][half] = INFINITY;
    }
    if (lane == 0) queued[0] = 0;
    __syncwarp();
  };

  // Where a lane reads columns from: matrices of eight columns by eight dimensions, four at a time, two steps of one column tile.
  const unsigned lane_offset = static_cast<unsigned>(lane % 8 * kStride + lane / 8 * 16);
  for (int tile = 0; tile < tiles; ++tile) {
    device::wait_for_copies<kStages - 2>();
    __syncthreads();
    if (tile + kStages - 1 < tiles) load_tile(tile + kStages - 1, (tile + kStages - 1) % kStages);
    device::commit_copies();
    const unsigned char* const at = shared + tile % kStages * Shape::kTileBytes;
    const unsigned matrices = static_cast<unsigned>(__cvta_generic_to_shared(at)) + lane_offset;
    const float* const starts = reinterpret_cast<const float*>(at + kTile * kStride) + lane % 4 * 2;
#pragma unroll 1
    for (int column = 0; column < kTile; column += kColumnTiles * 8) {
      float value[kRowTiles][kColumnTiles][4];
#pragma unroll
      for (int c = 0; c < kColumnTiles; ++c) {
        const float2 start = *reinterpret_cast<const float2*>(starts + column + c * 8);
        const float from[4] = {start.x, start.y, start.x, start.y};
#pragma unroll
        for (int s = 0; s < kSteps; s += 2) {
          std::uint32_t b[4];
          device::load_matrices(b, matrices + static_cast<unsigned>((column + c * 8) * kStride + s * 32));
#pragma unroll
          for (int r = 0; r < kRowTiles; ++r)
            if (s == 0)
              device::multiply(value[r][c], a[r][s], b[0], b[1], from);
            else
              device::multiply(value[r][c], a[r][s], b[0], b[1], value[r][c]);
#pragma unroll
          for (int r = 0; r < kRowTiles; ++r) device::multiply(value[r][c], a[r][s + 1], b[2], b[3], value[r][c]);
        }
      }
      if constexpr (kSample) {
#pragma unroll
        for (int r = 0; r < kRowTiles; ++r)
#pragma unroll
          for (int c = 0; c < kColumnTiles; ++c)
#pragma unroll
            for (int i = 0; i < 4; ++i) best[r][c][i] = fmaxf(best[r][c][i], value[r][c][i]);
      } else {
#pragma unroll
        for (int r = 0; r < kRowTiles; ++r) {
          bool any = false;
#pragma unroll
          for (int c = 0; c < kColumnTiles; ++c)
#pragma unroll
            for (int i = 0; i < 4; ++i) any = any || value[r][c][i] > threshold[r][i / 2];
          if (any) {  // seldom
#pragma unroll
            for (int c = 0; c < kColumnTiles; ++c)
#pragma unroll
              for (int i = 0; i < 4; ++i)
                if (value[r][c][i] > threshold[r][i / 2]) {
                  const int row = r * 16 + i / 2 * 8 + lane / 4;
                  const auto noted = static_cast<std::uint32_t>(tile * kTile + column + c * 8 + lane % 4 * 2 + i % 2);
                  const std::uint32_t place = atomicAdd(queued, 1U);
                  if (place < Shape::kQueue)
                    queue[place] = static_cast<std::uint32_t>(row) << kColumnBits | noted;
                  else if (!write(row, noted))
                    threshold[r][i / 2] = INFINITY;
                }
          }
        }
        __syncwarp();
      }
    }
    if constexpr (!kSample)
      if (*static_cast<volatile std::uint32_t*>(queued) >= Shape::kQueue / 2) write_queue();
  }
  device::wait_for_copies<0>();
  if constexpr (kSample) {
    const std::int64_t groups = static_cast<std::int64_t>(gridDim.y) * Shape::kGroups;
#pragma unroll
    for (int r = 0; r < kRowTiles; ++r)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const std::int64_t row = warp_row + r * 16 + half * 8 + lane / 4;
        if (row < task.row_count) {
          float* const to = task.best + row * groups + blockIdx.y * Shape::kGroups + lane % 4 * 2;
#pragma unroll
          for (int c = 0; c < kColumnTiles; ++c)
            *reinterpret_cast<float2*>(to + c * 8) = make_float2(best[r][c][half * 2], best[r][c][half * 2 + 1]);
        }
      }
  } else {
    write_queue();
  }
}

}  // namespace smartmine::cuda
