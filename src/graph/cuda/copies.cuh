#pragma once

#include <cstdint>

// Rows that have more exact copies than a list is long: the copies with the lowest ids are the list, at distance 0. Thresholds cannot tell
// copies apart, so such rows would be measured against everything otherwise.
namespace smartmine::cuda {

/// A warp a row: a hash of its values. 0 and -0 are the same.
__global__ void hash_rows(const float* rows, std::int64_t size, int dimension, std::uint64_t* hashes, std::uint32_t* order) {
  const std::int64_t row = (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / 32;
  if (row >= size) return;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  std::uint64_t sum = 0;
  for (int d = lane; d < dimension; d += 32) {
    const float value = rows[row * dimension + d];
    std::uint64_t hash = (value == 0 ? 0U : __float_as_uint(value)) + (static_cast<std::uint64_t>(d) + 1) * 0x9e3779b97f4a7c15ULL;
    hash = (hash ^ hash >> 30) * 0xbf58476d1ce4e5b9ULL;
    hash = (hash ^ hash >> 27) * 0x94d049bb133111ebULL;
    sum += hash ^ hash >> 31;
  }
  for (int reach = 16; reach > 0; reach /= 2) sum += __shfl_xor_sync(0xffffffffU, sum, reach);
  if (lane != 0) return;
  hashes[row] = sum;
  order[row] = static_cast<std::uint32_t>(row);
}

struct CopyTask {
  const float* rows;
  std::int64_t size;
  int dimension;
  const std::uint32_t* queries;
  const std::uint64_t* hashes;         ///< A row.
  const std::uint64_t* sorted_hashes;  ///< The same in order,
  const std::uint32_t* sorted_order;   ///< and whose they are; ids ascend where hashes are equal.
  std::uint32_t first;
  std::uint32_t neighbors;
  std::uint32_t* ids;
  float* distances;
  std::uint32_t* failed;  ///< Queries that have too few copies,
  std::uint32_t* failed_count;
};

/// A block a query.
__global__ void __launch_bounds__(128) list_copies(const CopyTask task) {
  const std::uint32_t query = task.queries[blockIdx.x];
  const std::uint64_t hash = task.hashes[query];
  std::int64_t low = 0, high = task.size;
  while (low < high) {
    const std::int64_t middle = (low + high) / 2;
    if (task.sorted_hashes[middle] < hash)
      low = middle + 1;
    else
      high = middle;
  }
  const std::int64_t last = low + task.neighbors;  // with the query there are one more than neighbours
  bool same = last < task.size && task.sorted_hashes[last] == hash;
  if (same)
    for (std::int64_t i = threadIdx.x; i < static_cast<std::int64_t>(task.neighbors + 1) * task.dimension; i += blockDim.x) {
      const std::int64_t other = task.sorted_order[low + i / task.dimension];
      const std::int64_t d = i % task.dimension;
      same = same && task.rows[other * task.dimension + d] == task.rows[static_cast<std::int64_t>(query) * task.dimension + d];
    }
  if (__syncthreads_and(same) == 0) {
    if (threadIdx.x == 0) task.failed[atomicAdd(task.failed_count, 1U)] = query;
    return;
  }
  const std::size_t to = static_cast<std::size_t>(query - task.first) * task.neighbors;
  for (std::uint32_t i = threadIdx.x; i < task.neighbors; i += blockDim.x) {
    const std::uint32_t id = task.sorted_order[low + i];
    task.ids[to + i] = id < query ? id : task.sorted_order[low + i + 1];  // ids ascend, so from the query on they move up
    task.distances[to + i] = 0;
  }
}

}  // namespace smartmine::cuda
