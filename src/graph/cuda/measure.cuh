#pragma once

#include <cstdint>

// Distances in float, and sorting by them: what the lists hold in the end. A key is the bits of a squared distance, then the id, so that
// keys sort as lists do.
namespace smartmine::cuda {

constexpr std::uint64_t kNoKey = ~std::uint64_t{0};
constexpr int kMeasureThreads = 128;
constexpr int kTeam = 8;  // lanes that measure a distance together

namespace device {

struct FloatRows {
  const float* rows;
  int dimension;
  bool vectors;  ///< Rows begin at multiples of 16 bytes.
};

/// Squared distances from `query` (in shared memory) to kCount rows, summed over the lanes of a team: all of them return the sums. The
/// order of summation depends on the dimension alone.
template <int kCount>
__device__ __forceinline__ void measure(const FloatRows& all, const float* query, const std::uint32_t (&ids)[kCount],
                                        float (&sums)[kCount]) {
  const int lane = static_cast<int>(threadIdx.x) % kTeam;
#pragma unroll
  for (int i = 0; i < kCount; ++i) sums[i] = 0;
  if (all.vectors) {
    for (int d = lane * 4; d < all.dimension; d += kTeam * 4) {
      const float4 q = *reinterpret_cast<const float4*>(query + d);
      float4 x[kCount];
#pragma unroll
      for (int i = 0; i < kCount; ++i)
        x[i] = __ldg(reinterpret_cast<const float4*>(all.rows + static_cast<std::size_t>(ids[i]) * all.dimension + d));
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        const float a = q.x - x[i].x, b = q.y - x[i].y, c = q.z - x[i].z, e = q.w - x[i].w;
        sums[i] = fmaf(a, a, fmaf(b, b, fmaf(c, c, fmaf(e, e, sums[i]))));
      }
    }
  } else {
    for (int d = lane; d < all.dimension; d += kTeam) {
      const float q = query[d];
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        const float a = q - __ldg(all.rows + static_cast<std::size_t>(ids[i]) * all.dimension + d);
        sums[i] = fmaf(a, a, sums[i]);
      }
    }
  }
#pragma unroll
  for (int i = 0; i < kCount; ++i)
#pragma unroll
    for (int reach = kTeam / 2; reach > 0; reach /= 2) sums[i] += __shfl_xor_sync(0xffffffffU, sums[i], reach);
}

__device__ __forceinline__ std::uint64_t key_of(float squared, std::uint32_t id) {
  return static_cast<std::uint64_t>(__float_as_uint(squared)) << 32 | id;
}
__device__ __forceinline__ float squared_of(std::uint64_t key) { return __uint_as_float(static_cast<std::uint32_t>(key >> 32)); }

/// Sorts `size` keys, a power of two, with all threads of the block. Ends with a barrier.
__device__ inline void sort_keys(std::uint64_t* keys, int size) {
  for (int run = 2; run <= size; run *= 2)
    for (int stride = run / 2; stride > 0; stride /= 2) {
      __syncthreads();
      for (int i = static_cast<int>(threadIdx.x); i < size / 2; i += static_cast<int>(blockDim.x)) {
        const int low = 2 * i - (i & (stride - 1)), high = low + stride;
        const std::uint64_t a = keys[low], b = keys[high];
        if ((a > b) == ((low & run) == 0)) {
          keys[low] = b;
          keys[high] = a;
        }
      }
    }
  __syncthreads();
}

}  // namespace device

struct MeasureTask {
  device::FloatRows all;
  std::uint32_t size;               ///< Rows in all.
  const std::uint32_t* queries;     ///< Whose lists these are; null: `first` and the following.
  std::uint32_t first;              ///< The first row of the task, whose list is the first of `ids`.
  std::uint32_t query_first;        ///< Where `queries` is null: the first of this batch.
  const std::uint32_t* counts;      ///< Candidates a query; null: all rows are.
  const std::uint32_t* candidates;  ///< `capacity` a query.
  const float* reach;               ///< A query: every row within this distance is a candidate.
  std::uint32_t capacity;
  std::uint32_t neighbors;
  std::uint32_t* ids;
  float* distances;
  std::uint32_t* failed;         ///< Queries without a certificate,
  std::uint32_t* failed_count;   ///< and how many.
  unsigned long long* measured;  ///< kCounters counters whose sum is the number of distances.
  static constexpr int kCounters = 64;
};

/// A block a query: measures the candidates, sorts them and writes the list, if it is certain that nothing nearer was left out. Shared
/// memory: the keys, then the query.
__global__ void __launch_bounds__(kMeasureThreads) measure_candidates(const MeasureTask task) {
  extern __shared__ __align__(16) unsigned char shared[];
  auto* const keys = reinterpret_cast<std::uint64_t*>(shared);
  auto* const query_row = reinterpret_cast<float*>(keys + task.capacity);
  const std::uint32_t place = blockIdx.x;
  const std::uint32_t query = task.queries != nullptr ? task.queries[place] : task.query_first + place;
  const std::uint32_t found = task.counts != nullptr ? task.counts[place] : task.size;
  const auto fail = [&] {
    if (threadIdx.x == 0) task.failed[atomicAdd(task.failed_count, 1U)] = query;
  };
  if (found > task.capacity || found < task.neighbors) return fail();
  for (int d = static_cast<int>(threadIdx.x); d < task.all.dimension; d += kMeasureThreads)
    query_row[d] = task.all.rows[static_cast<std::size_t>(query) * task.all.dimension + d];
  int sorted = 1;
  while (sorted < static_cast<int>(found)) sorted *= 2;
  for (int i = static_cast<int>(found + threadIdx.x); i < sorted; i += kMeasureThreads) keys[i] = kNoKey;
  __syncthreads();
  constexpr int kAtOnce = 4, kTeams = kMeasureThreads / kTeam;
  const int team = static_cast<int>(threadIdx.x) / kTeam, lane = static_cast<int>(threadIdx.x) % kTeam;
  const std::uint32_t* const candidates = task.candidates + static_cast<std::size_t>(place) * task.capacity;
  for (std::uint32_t base = 0; base < found; base += kTeams * kAtOnce) {
    std::uint32_t ids[kAtOnce];
    float squared[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const std::uint32_t at = min(base + i * kTeams + team, found - 1);
      ids[i] = task.counts != nullptr ? candidates[at] : at;
    }
    device::measure(task.all, query_row, ids, squared);
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const std::uint32_t at = base + i * kTeams + team;
      if (lane == i && at < found) keys[at] = ids[i] == query ? kNoKey : device::key_of(squared[i], ids[i]);
    }
  }
  device::sort_keys(keys, sorted);
  if (threadIdx.x == 0) atomicAdd(task.measured + blockIdx.x % MeasureTask::kCounters, static_cast<unsigned long long>(found));
  const std::uint64_t last = keys[task.neighbors - 1];
  if (last == kNoKey) return fail();
  if (task.counts != nullptr) {
    // Whatever is no candidate is farther than the reach. Its distance in float is then larger than the last of the list in spite of
    // rounding, which is relative: so tiny or huge distances, which underflow or overflow, do not count.
    const float reach = task.reach[place];
    const float rounding = 1 + static_cast<float>(task.all.dimension + 8) * 0x1p-22F;
    if (!(sqrtf(device::squared_of(last)) * rounding < reach) || reach < 1e-15F || reach > 1e15F) return fail();
  }
  const std::size_t to = static_cast<std::size_t>(query - task.first) * task.neighbors;
  for (std::uint32_t i = threadIdx.x; i < task.neighbors; i += kMeasureThreads) {
    task.ids[to + i] = static_cast<std::uint32_t>(keys[i]);
    task.distances[to + i] = device::squared_of(keys[i]);
  }
}

struct ScanTask {
  device::FloatRows all;
  std::uint32_t size;
  const std::uint32_t* queries;
  std::uint32_t count;  ///< Queries.
  std::uint32_t first;
  std::uint32_t neighbors;
  std::uint32_t room;  ///< Keys a query in shared memory: a power of two, at least neighbors + kChunk.
  std::uint32_t* ids;
  float* distances;
  unsigned long long* measured;
  static constexpr int kThreads = 256, kChunk = 512;
};

/// A block for kQueries queries: measures every row, in the order of ids. Always right, and slow. Shared memory: the keys of each query,
/// then the queries.
template <int kQueries>
__global__ void __launch_bounds__(ScanTask::kThreads) scan_all(const ScanTask task) {
  extern __shared__ __align__(16) unsigned char shared[];
  auto* const keys = reinterpret_cast<std::uint64_t*>(shared);
  auto* const query_rows = reinterpret_cast<float*>(keys + kQueries * task.room);
  __shared__ std::uint32_t counts[kQueries];
  __shared__ std::uint64_t limits[kQueries];  // what a key must be below
  std::uint32_t queries[kQueries];
#pragma unroll
  for (int q = 0; q < kQueries; ++q) {
    queries[q] = task.queries[min(blockIdx.x * kQueries + q, task.count - 1)];
    for (int d = static_cast<int>(threadIdx.x); d < task.all.dimension; d += ScanTask::kThreads)
      query_rows[q * task.all.dimension + d] = task.all.rows[static_cast<std::size_t>(queries[q]) * task.all.dimension + d];
  }
  if (threadIdx.x < kQueries) {
    counts[threadIdx.x] = 0;
    limits[threadIdx.x] = kNoKey;
  }
  __syncthreads();
  const auto shrink = [&](int q) {
    std::uint64_t* const own = keys + q * task.room;
    for (std::uint32_t i = counts[q] + threadIdx.x; i < task.room; i += ScanTask::kThreads) own[i] = kNoKey;
    device::sort_keys(own, static_cast<int>(task.room));
    if (threadIdx.x == 0) {
      limits[q] = own[task.neighbors - 1];
      counts[q] = min(counts[q], task.neighbors);
    }
    __syncthreads();
  };
  constexpr int kAtOnce = kQueries == 1 ? 4 : 2, kTeams = ScanTask::kThreads / kTeam;
  const int team = static_cast<int>(threadIdx.x) / kTeam, lane = static_cast<int>(threadIdx.x) % kTeam;
  std::uint32_t looked_at = 0;
  for (std::uint32_t base = 0; base < task.size; base += ScanTask::kChunk) {
    for (std::uint32_t part = base; part < base + ScanTask::kChunk; part += kTeams * kAtOnce) {
      std::uint32_t ids[kAtOnce];
      float squared[kQueries][kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) ids[i] = min(part + i * kTeams + team, task.size - 1);
#pragma unroll
      for (int q = 0; q < kQueries; ++q) device::measure(task.all, query_rows + q * task.all.dimension, ids, squared[q]);
#pragma unroll
      for (int q = 0; q < kQueries; ++q)
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
          const std::uint32_t id = part + i * kTeams + team;
          const std::uint64_t key = device::key_of(squared[q][i], id);
          if (lane == q * kAtOnce + i && id < task.size && id != queries[q] && key < limits[q])
            keys[q * task.room + atomicAdd(counts + q, 1U)] = key;
        }
    }
    looked_at = min(base + ScanTask::kChunk, task.size);
    __syncthreads();
    bool done = true;
#pragma unroll
    for (int q = 0; q < kQueries; ++q) {
      if (counts[q] + ScanTask::kChunk > task.room) shrink(q);
      done = done && limits[q] >> 32 == 0;
    }
    __syncthreads();
    if (done) break;  // nothing is nearer than nothing, and later ids come later
  }
  for (int q = 0; q < kQueries; ++q) {
    shrink(q);
    if (blockIdx.x * kQueries + q >= task.count) continue;
    if (threadIdx.x == 0) atomicAdd(task.measured + blockIdx.x % MeasureTask::kCounters, static_cast<unsigned long long>(looked_at));
    const std::size_t to = static_cast<std::size_t>(queries[q] - task.first) * task.neighbors;
    for (std::uint32_t i = threadIdx.x; i < task.neighbors; i += ScanTask::kThreads) {
      task.ids[to + i] = static_cast<std::uint32_t>(keys[q * task.room + i]);
      task.distances[to + i] = device::squared_of(keys[q * task.room + i]);
    }
  }
}

}  // namespace smartmine::cuda
