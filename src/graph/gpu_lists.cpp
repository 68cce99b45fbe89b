#include "smartmine/graph/gpu_lists.h"

#include <fmt/format.h>

#include "smartmine/core/error.h"
#ifdef SMARTMINE_CUDA
#include <cuda_runtime_api.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <thread>
#include <vector>

#include "graph/cuda/cuda_knn.h"
#include "graph/stopwatch.h"
#endif

namespace smartmine {

#ifdef SMARTMINE_CUDA

namespace {

static_assert(kLongestGpuLists == cuda::kMostNeighbors && kMostGpuDimensions == cuda::kMostDimensions);

void check(cudaError_t status, const char* what) {
  if (status != cudaSuccess) throw Error(fmt::format("the GPU failed to {}: {}", what, cudaGetErrorString(status)));
}

/// Memory on the GPU in use.
template <class Value>
class Memory {
 public:
  explicit Memory(std::size_t size) {
    void* data = nullptr;
    const cudaError_t status = cudaMalloc(&data, size * sizeof(Value));
    if (status == cudaErrorMemoryAllocation) {
      cudaGetLastError();  // told here, and to nobody after
      throw Error(fmt::format("the GPU has too little free memory: {} MiB more were needed", size * sizeof(Value) >> 20));
    }
    check(status, "reserve memory");
    data_ = static_cast<Value*>(data);
  }
  ~Memory() { cudaFree(data_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  Value* get() const { return data_; }

 private:
  Value* data_ = nullptr;
};

/// What one GPU does: the lists of some rows.
struct Share {
  int gpu = 0;
  RowRange wanted;
  cuda::KnnStats stats;
  double copy_seconds = 0;
  std::exception_ptr failure;
};

struct Work {
  const Rows& rows;
  std::size_t neighbors;
  const GpuPlace& place;
  std::size_t first;  // row that the first list is of
  NeighborLists& lists;
  std::atomic<bool> cancelled{false};
  std::atomic<std::size_t> done{0};
};

void do_share(Share& share, Work& work) {
  const std::size_t dimension = work.rows.dimension(), size = work.rows.size(), k = work.neighbors;
  check(cudaSetDevice(share.gpu), "be used");
  NeighborStats times;
  Stopwatch watch;
  const bool here = work.place.rows != nullptr && work.place.gpu == share.gpu;
  const Memory<float> copy(here ? 1 : size * dimension);
  if (!here) {
    const float* const from = work.place.rows != nullptr ? work.place.rows : work.rows.data();
    check(cudaMemcpy(copy.get(), from, size * dimension * sizeof(float), cudaMemcpyDefault), "take rows");
    check(cudaStreamSynchronize(nullptr), "take rows");  // a copy from pageable memory may return before it has arrived
  }
  // In pieces, so that memory for lists is bounded and a cancelled search ends soon.
  const RowRange& wanted = share.wanted;
  const std::size_t piece = std::min(wanted.count, std::max<std::size_t>(std::size_t{1} << 20, wanted.count / 16));
  const Memory<std::uint32_t> ids(piece * k);
  const Memory<float> distances(piece * k);
  watch.lap(times, "copy");
  cuda::CudaKnn search(share.gpu);
  for (std::size_t done = 0; done < wanted.count && !work.cancelled; done += piece) {
    const std::size_t first = wanted.first + done, count = std::min(piece, wanted.count - done);
    const cuda::KnnStats stats =
        search.find({here ? work.place.rows : copy.get(), size, dimension, first, count, k, ids.get(), distances.get()});
    watch.lap(times, "search");
    const std::size_t at = (first - work.first) * k;
    check(cudaMemcpy(work.lists.all_ids().data() + at, ids.get(), count * k * sizeof(std::uint32_t), cudaMemcpyDeviceToHost),
          "hand lists back");
    check(cudaMemcpy(work.lists.all_distances().data() + at, distances.get(), count * k * sizeof(float), cudaMemcpyDeviceToHost),
          "hand lists back");
    watch.lap(times, "copy");
    share.stats += stats;
    work.done += count;
  }
  share.copy_seconds = times.stage_seconds["copy"];
}

}  // namespace

int gpu_count() { return cuda::device_count(); }

std::string why_no_gpu() { return cuda::why_no_device(); }

NeighborResult find_gpu_lists(const Rows& rows, RowRange wanted, std::size_t neighbors, const Progress& progress, const GpuPlace& place,
                              const ListMaker& lists) {
  const int gpus = gpu_count();
  if (gpus == 0) throw InvalidArgument("lists cannot be found on a GPU: " + why_no_gpu());
  if (neighbors < 1 || neighbors >= rows.size() || neighbors > kLongestGpuLists)
    throw InvalidArgument(fmt::format("neighbors is {}; on a GPU it must be from 1 to {}", neighbors,
                                      std::min<std::size_t>(kLongestGpuLists, rows.size() - 1)));
  if (rows.dimension() > kMostGpuDimensions)
    throw InvalidArgument(fmt::format("dimension is {}; on a GPU it must be at most {}", rows.dimension(), kMostGpuDimensions));
  if (wanted.first > rows.size() || wanted.count > rows.size() - wanted.first)
    throw InvalidArgument(fmt::format("rows {} to {} are wanted; there are {}", wanted.first, wanted.first + wanted.count, rows.size()));
  if (place.gpu < 0 || place.gpu >= gpus) throw InvalidArgument(fmt::format("gpu is {}; it must be from 0 to {}", place.gpu, gpus - 1));
  Stopwatch watch;
  NeighborResult result{make_lists(lists, wanted.count, neighbors), {}};
  Work work{rows, neighbors, place, wanted.first, result.lists};
  // So few rows that sending them around costs more than it saves stay on one.
  constexpr std::size_t kRowsWorthSharing = 50'000;
  const bool one = wanted.count < kRowsWorthSharing || place.alone;
  std::vector<Share> shares(one ? 1 : static_cast<std::size_t>(gpus));
  for (std::size_t i = 0; i < shares.size(); ++i) {
    shares[i].gpu = (static_cast<int>(i) + place.gpu) % gpus;
    const std::size_t begin = wanted.count * i / shares.size(), end = wanted.count * (i + 1) / shares.size();
    shares[i].wanted = {wanted.first + begin, end - begin};
  }
  int before = 0;
  check(cudaGetDevice(&before), "say which one is in use");
  report(progress, "lists", 0, wanted.count);
  std::atomic<std::size_t> running{shares.size()};
  std::vector<std::thread> threads;
  for (Share& share : shares)
    threads.emplace_back([&] {
      try {
        do_share(share, work);
      } catch (...) {
        share.failure = std::current_exception();
        work.cancelled = true;
      }
      --running;
    });
  std::exception_ptr stopped;
  for (std::size_t shown = 0; running > 0;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (work.done == shown || stopped) continue;
    shown = work.done;
    try {
      report(progress, "lists", shown, wanted.count);
    } catch (...) {
      stopped = std::current_exception();
      work.cancelled = true;
    }
  }
  for (std::thread& thread : threads) thread.join();
  cudaSetDevice(before);
  for (const Share& share : shares)
    if (share.failure) std::rethrow_exception(share.failure);
  if (stopped) std::rethrow_exception(stopped);
  NeighborStats& stats = result.stats;
  watch.lap(stats, "lists");
  stats.seconds = stats.stage_seconds["lists"];
  stats.stage_seconds.clear();
  stats.index = "exact-cuda";
  stats.kernel = shares.size() == 1 ? "cuda" : fmt::format("cuda x {}", shares.size());
  stats.distance_computations = static_cast<std::uint64_t>(wanted.count) * rows.size();
  for (const Share& share : shares) {  // they work at the same time: the slowest of each stage
    const auto slowest = [&](const char* stage, double seconds) {
      stats.stage_seconds[stage] = std::max(stats.stage_seconds[stage], seconds);
    };
    slowest("copy", share.copy_seconds);
    slowest("prepare", share.stats.prepare_seconds);
    slowest("thresholds", share.stats.threshold_seconds);
    slowest("products", share.stats.product_seconds);
    slowest("measure", share.stats.measure_seconds);
    slowest("again", share.stats.again_seconds);
    stats.distance_computations += share.stats.candidates;
    stats.rows_certified += share.stats.certified;
    stats.rows_again += share.stats.again;
    stats.rows_measured += share.stats.scanned + share.stats.equal;
  }
  stats.peak_memory_bytes = peak_memory_bytes();
  return result;
}

#else

int gpu_count() { return 0; }

std::string why_no_gpu() { return "this smartmine was built without CUDA"; }

NeighborResult find_gpu_lists(const Rows&, RowRange, std::size_t, const Progress&, const GpuPlace&, const ListMaker&) {
  throw InvalidArgument("lists cannot be found on a GPU: " + why_no_gpu());
}

#endif

NeighborResult find_gpu_lists(const Rows& rows, std::size_t neighbors, const Progress& progress) {
  return find_gpu_lists(rows, {0, rows.size()}, neighbors, progress);
}

DeviceSearch gpu_search(std::size_t neighbors, std::size_t dimension, const GpuPlace& place) {
  if (neighbors > kLongestGpuLists || dimension > kMostGpuDimensions || gpu_count() == 0) return {};
  return [place](const Rows& rows, RowRange wanted, std::size_t length, const ListMaker& lists, const Progress& progress) {
    return find_gpu_lists(rows, wanted, length, progress, place, lists);
  };
}

}  // namespace smartmine
