// Exact lists on a GPU without ever writing a matrix of distances:
//  1. prepare: rows are rounded to half precision about their mean, and how far that moves each is measured.
//  2. thresholds: products with a sample of columns; the distance of a low rank among them is a row's first guess at its list's end.
//  3. products: of all pairs on the tensor cores (products.cuh). Columns that pass the threshold are a row's candidates, some 250 of a
//     million for a list of 100.
//  4. measure: candidates are measured in float as everywhere else, and sorted (measure.cuh).
//  5. A list stands if nothing that was left out can be nearer than its last: the threshold allows for every rounding, so this is certain.
//     The other rows are done again with a wider threshold and more room, and those that still have no certificate (too many rows too near
//     together for half precision) are measured against every row.
#include <cub/device/device_radix_sort.cuh>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "graph/cuda/copies.cuh"
#include "graph/cuda/cuda_knn.h"
#include "graph/cuda/measure.cuh"
#include "graph/cuda/prepare.cuh"
#include "graph/cuda/products.cuh"
#include "smartmine/core/error.h"

namespace smartmine::cuda {
namespace {

void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  throw Error(std::string("the GPU failed to ") + what + ": " + cudaGetErrorString(status));
}

/// Memory on the device that grows and is kept.
template <class Value>
class Memory {
 public:
  Memory() = default;
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() { cudaFree(data_); }

  Value* of_size(std::size_t size) {
    if (size > size_) {
      cudaFree(data_);
      data_ = nullptr;
      size_ = 0;
      void* data = nullptr;
      const cudaError_t status = cudaMalloc(&data, size * sizeof(Value));
      if (status == cudaErrorMemoryAllocation) {
        cudaGetLastError();  // it is told here, and not to whoever asks next
        throw Error("the GPU has too little free memory: " + std::to_string(size * sizeof(Value) >> 20) + " MiB more were needed");
      }
      check(status, "reserve memory");
      data_ = static_cast<Value*>(data);
      size_ = size;
    }
    return data_;
  }
  Value* get() const { return data_; }
  std::size_t bytes() const { return size_ * sizeof(Value); }

 private:
  Value* data_ = nullptr;
  std::size_t size_ = 0;
};

class Event {
 public:
  Event() { check(cudaEventCreate(&event_), "make an event"); }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  void record(cudaStream_t stream) { check(cudaEventRecord(event_, stream), "record an event"); }
  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

double seconds_between(const Event& begin, const Event& end) {
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, begin.get(), end.get()), "time its work");
  return milliseconds / 1e3;
}

/// The device in use while this lives; the one before afterwards.
class UsedDevice {
 public:
  explicit UsedDevice(int device) {
    check(cudaGetDevice(&before_), "say which one is in use");
    check(cudaSetDevice(device), "be used");
  }
  ~UsedDevice() { cudaSetDevice(before_); }
  UsedDevice(const UsedDevice&) = delete;
  UsedDevice& operator=(const UsedDevice&) = delete;

 private:
  int before_ = 0;
};

constexpr std::size_t kTile = 64;          // columns, in every shape
constexpr std::size_t kRowPadding = 1024;  // at least the rows of a block, in every shape

/// How products are launched for one padded dimension. The fewer dimensions, the more rows a warp can hold.
template <int kSteps, int kVariant>
struct Shapes {
  static constexpr int kRowTiles = kSteps <= 4 ? 4 : kSteps <= 8 ? 2 : 1;
  using Type = ProductShape<kSteps, (kVariant == 2 && kRowTiles != 1 ? kRowTiles / 2 : kRowTiles),  // row tiles
                            kVariant == 2 ? 4 : 2,                                                  // column tiles
                            kVariant == 1   ? 4
                            : kVariant == 3 ? 12
                                            : 8,  // warps
                            static_cast<int>(kTile),
                            (kSteps <= 8    ? 4
                             : kSteps <= 16 ? 3
                                            : 2),
                            (kSteps <= 16 && (kVariant == 1 || kVariant == 2) ? 2 : 1)>;  // blocks at once
};

struct Launch {
  void (*kernel)(ProductTask);
  int threads, rows, groups, shared_bytes;
};

template <class Shape, bool kSample>
Launch launch_of() {
  static_assert(Shape::kTile == kTile && Shape::kRows <= static_cast<int>(kRowPadding));
  return {multiply_and_filter<Shape, kSample>, Shape::kThreads, Shape::kRows, Shape::kGroups, Shape::kSharedBytes};
}

template <int kSteps>
Launch launch_of(bool sample, int variant) {
  if (sample) return launch_of<typename Shapes<kSteps, 0>::Type, true>();
  switch (variant) {
    case 1:
      return launch_of<typename Shapes<kSteps, 1>::Type, false>();
    case 2:
      return launch_of<typename Shapes<kSteps, 2>::Type, false>();
    case 3:
      return launch_of<typename Shapes<kSteps, 3>::Type, false>();
    default:
      return launch_of<typename Shapes<kSteps, 0>::Type, false>();
  }
}

/// Dimensions that products are compiled for; more are measured plainly.
constexpr std::array<int, 6> kPaddedDimensions = {32, 64, 96, 128, 256, 512};

Launch launch_of(int padded_dimension, bool sample, int variant) {
  // Measured on an H200 (docs/results.md): up to 64 dimensions more blocks at once, up to 128 more warps.
  if (variant < 0) variant = padded_dimension <= 64 || padded_dimension == 512 ? 2 : padded_dimension <= 128 ? 3 : 0;
  switch (padded_dimension) {
    case 32:
      return launch_of<2>(sample, variant);
    case 64:
      return launch_of<4>(sample, variant);
    case 96:
      return launch_of<6>(sample, variant);
    case 128:
      return launch_of<8>(sample, variant);
    case 256:
      return launch_of<16>(sample, variant);
    default:
      return launch_of<32>(sample, variant);
  }
}

unsigned blocks_for(std::size_t threads, std::size_t block) { return static_cast<unsigned>((threads + block - 1) / block); }
std::size_t rounded_up(std::size_t value, std::size_t to) { return (value + to - 1) / to * to; }
std::size_t power_of_two_from(std::size_t value) {
  std::size_t power = 1;
  while (power < value) power *= 2;
  return power;
}

/// How candidates are found: the rank among the sampled columns that a threshold is made from, and room for candidates.
struct Attempt {
  int rank = 0;
  std::size_t capacity = 0;
};

/// So many failed rows are worth looking for copies among them.
constexpr std::uint32_t kManyFailed = 256;

/// Rows of one call that an attempt is made for.
struct Queries {
  const std::uint32_t* ids = nullptr;  ///< On the device; null: `first` and the following.
  std::size_t first = 0;
  std::size_t count = 0;
};

}  // namespace

namespace {

constexpr int kLeastCapability = 8;  // what products.cuh is written for

/// GPUs that the driver knows; 0 where there is no driver.
int seen_devices() {
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess) return count;
  cudaGetLastError();  // told by the count, and not to whoever asks next
  return 0;
}

/// Major number of a GPU's compute capability; 0 if it does not say.
int capability(int device) {
  int major = 0;
  if (cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess) return major;
  cudaGetLastError();
  return 0;
}

}  // namespace

int device_count() {
  const int seen = seen_devices();
  int count = 0;
  while (count < seen && capability(count) >= kLeastCapability) ++count;
  return count;
}

std::string why_no_device() {
  if (device_count() > 0) return {};
  if (seen_devices() == 0) return "no GPU is seen";
  return "the GPU is of compute capability " + std::to_string(capability(0)) + ".x, and it must be 8.0 or later";
}

class CudaKnn::Impl {
 public:
  explicit Impl(int device) : device_(device) {
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "make a stream");
    check(cudaDeviceGetAttribute(&processors_, cudaDevAttrMultiProcessorCount, device), "say how many processors it has");
    check(cudaDeviceGetAttribute(&most_shared_, cudaDevAttrMaxSharedMemoryPerBlockOptin, device), "say how much shared memory it has");
  }
  ~Impl() { cudaStreamDestroy(stream_); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  KnnStats find(const KnnTask& task, const KnnTuning& tuning);

 private:
  void prepare(const KnnTask& task);
  void sample(const KnnTask& task, std::size_t columns);
  void raise_far(const KnnTask& task);
  void find_copies(const KnnTask& task, std::uint32_t failed);
  void attempt(const KnnTask& task, const Queries& queries, const Attempt& attempt, int variant, KnnStats* stats);
  void measure(const KnnTask& task, const Queries& queries, std::size_t capacity, bool products);
  void scan(const KnnTask& task, const std::uint32_t* queries, std::uint32_t count);
  void run_products(const Launch& launch, ProductTask task, std::size_t splits);
  std::size_t batch_for(std::size_t row_bytes) const;
  bool multiplies(int padded_dimension, int variant) const;
  std::size_t most_candidates(const KnnTask& task) const;
  std::uint32_t failed_so_far();
  const std::uint32_t* take_failed();
  template <class Kernel>
  void allow_shared(Kernel kernel, std::size_t bytes) const {
    if (bytes > static_cast<std::size_t>(most_shared_))
      throw InvalidArgument("rows of so many dimensions, or lists so long, need more shared memory than the GPU has");
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)), "set shared memory apart");
  }
  void launched(const char* what) const { check(cudaGetLastError(), what); }
  device::FloatRows float_rows(const KnnTask& task) const {
    return {task.rows, static_cast<int>(task.dimension), task.dimension % 4 == 0 && reinterpret_cast<std::uintptr_t>(task.rows) % 16 == 0};
  }

  int device_;
  cudaStream_t stream_ = nullptr;
  int processors_ = 0, most_shared_ = 0;
  int padded_dimension_ = 0;
  std::size_t sample_columns_ = 0;
  Memory<double> partial_, mean_, squares_;
  Memory<float> errors_, starts_, sample_starts_, thresholds_, reach_, best_;
  Memory<__half> packed_, sample_, gathered_;
  Memory<std::uint32_t> counts_, candidates_;
  std::array<Memory<std::uint32_t>, 2> failed_;  // those that failed, and those that failed before
  std::size_t failing_ = 0;                      // which is which
  Memory<Frame> frame_;
  Memory<unsigned> error_counts_;
  Memory<std::uint32_t> failed_count_;
  Memory<unsigned long long> measured_;
  Memory<std::uint64_t> hashes_, sorted_hashes_;
  Memory<std::uint32_t> order_, sorted_order_;
  Memory<unsigned char> sort_space_;
  std::array<Event, 4> marks_;
};

void CudaKnn::Impl::prepare(const KnnTask& task) {
  const auto size = static_cast<std::int64_t>(task.size);
  const int dimension = static_cast<int>(task.dimension);
  const unsigned blocks = static_cast<unsigned>(processors_) * 4;
  sum_rows<<<blocks, kPrepareThreads, 0, stream_>>>(task.rows, size, dimension, partial_.of_size(blocks * task.dimension));
  average<<<blocks_for(task.dimension, 128), 128, 0, stream_>>>(partial_.get(), static_cast<int>(blocks), size, dimension,
                                                                mean_.of_size(task.dimension));
  check(cudaMemsetAsync(frame_.of_size(1), 0, sizeof(Frame), stream_), "clear memory");
  find_largest<<<blocks * 2, kPrepareThreads, 0, stream_>>>(task.rows, size, dimension, mean_.get(), frame_.get());
  const std::size_t padded = rounded_up(task.size, kTile) + kRowPadding;
  pack_rows<<<blocks_for(padded * 32, kPrepareThreads), kPrepareThreads, 0, stream_>>>(
      {task.rows, size, static_cast<std::int64_t>(padded), dimension, padded_dimension_, mean_.get(), frame_.get(),
       packed_.of_size(padded * static_cast<std::size_t>(padded_dimension_)), squares_.of_size(padded), errors_.of_size(padded),
       starts_.of_size(padded)});
  launched("round the rows");
  // The longest rows are moved farthest. A few that are moved much farther than the others would widen every threshold: instead they are
  // everybody's candidates.
  check(cudaMemsetAsync(error_counts_.of_size(kErrorBins), 0, kErrorBins * sizeof(unsigned), stream_), "clear memory");
  count_errors<<<blocks, kPrepareThreads, 0, stream_>>>(errors_.get(), size, error_counts_.get(), frame_.get());
  choose_far<<<1, 1, 0, stream_>>>(error_counts_.get(), frame_.get());
  launched("count errors");
}

void CudaKnn::Impl::raise_far(const KnnTask& task) {
  raise_far_rows<<<blocks_for(task.size, kPrepareThreads), kPrepareThreads, 0, stream_>>>(
      errors_.get(), static_cast<std::int64_t>(task.size), frame_.get(), starts_.get());
  launched("raise far rows");
}

void CudaKnn::Impl::sample(const KnnTask& task, std::size_t columns) {
  sample_columns_ = rounded_up(columns, kTile);
  draw_sample<<<blocks_for(sample_columns_ * 32, kPrepareThreads), kPrepareThreads, 0, stream_>>>(
      packed_.get(), starts_.get(), static_cast<std::int64_t>(task.size), padded_dimension_, static_cast<int>(sample_columns_),
      sample_.of_size(sample_columns_ * static_cast<std::size_t>(padded_dimension_)), sample_starts_.of_size(sample_columns_));
  launched("draw a sample");
}

void CudaKnn::Impl::run_products(const Launch& launch, ProductTask task, std::size_t splits) {
  task.tiles_per_split = static_cast<int>((static_cast<std::size_t>(task.tiles) + splits - 1) / splits);
  const dim3 grid(blocks_for(static_cast<std::size_t>(task.row_count), static_cast<std::size_t>(launch.rows)),
                  blocks_for(static_cast<std::size_t>(task.tiles), static_cast<std::size_t>(task.tiles_per_split)));
  allow_shared(launch.kernel, static_cast<std::size_t>(launch.shared_bytes));
  launch.kernel<<<grid, launch.threads, launch.shared_bytes, stream_>>>(task);
  launched("multiply rows");
}

/// Candidates of some queries, and lists of those that can be certified; the others are added to failed_. `stats`: where its times go.
void CudaKnn::Impl::attempt(const KnnTask& task, const Queries& queries, const Attempt& attempt, int variant, KnnStats* stats) {
  const auto mark = [&](std::size_t which) {
    if (stats != nullptr) marks_[which].record(stream_);
  };
  const auto dimension = static_cast<std::size_t>(padded_dimension_);
  const __half* rows = packed_.get() + queries.first * dimension;
  if (queries.ids != nullptr) {
    const std::size_t padded = queries.count + kRowPadding;
    gather_rows<<<blocks_for(padded * 32, kPrepareThreads), kPrepareThreads, 0, stream_>>>(
        packed_.get(), queries.ids, static_cast<int>(queries.count), static_cast<int>(padded), padded_dimension_,
        gathered_.of_size(padded * dimension));
    launched("gather rows");
    rows = gathered_.get();
  }
  mark(0);
  const Launch sampler = launch_of(padded_dimension_, true, 0);
  const std::size_t sample_tiles = sample_columns_ / kTile;
  const std::size_t most_splits = ThresholdTask::kMostGroups / static_cast<std::size_t>(sampler.groups);
  std::size_t splits = std::min(sample_tiles, most_splits);
  splits = (sample_tiles + (sample_tiles + splits - 1) / splits - 1) / ((sample_tiles + splits - 1) / splits);
  const std::size_t groups = splits * static_cast<std::size_t>(sampler.groups);
  ProductTask products{rows,
                       nullptr,
                       static_cast<int>(queries.count),
                       sample_.get(),
                       sample_starts_.get(),
                       static_cast<int>(sample_tiles),
                       0,
                       nullptr,
                       nullptr,
                       0,
                       best_.of_size(queries.count * groups)};
  run_products(sampler, products, splits);
  set_thresholds<<<blocks_for(queries.count * 32, kPrepareThreads), kPrepareThreads, 0, stream_>>>(
      {best_.get(), static_cast<int>(groups), std::min(attempt.rank, static_cast<int>(groups) * 3 / 4), static_cast<int>(queries.count),
       queries.ids, static_cast<std::uint32_t>(queries.first), padded_dimension_, squares_.get(), errors_.get(), frame_.get(),
       thresholds_.of_size(queries.count), reach_.of_size(queries.count)});
  launched("set thresholds");
  mark(1);
  check(cudaMemsetAsync(counts_.of_size(queries.count), 0, queries.count * sizeof(std::uint32_t), stream_), "clear memory");
  const Launch filter = launch_of(padded_dimension_, false, variant);
  products.thresholds = thresholds_.get();
  products.columns = packed_.get();
  products.starts = starts_.get();
  products.tiles = static_cast<int>((task.size + kTile - 1) / kTile);
  products.counts = counts_.get();
  products.candidates = candidates_.of_size(queries.count * attempt.capacity);
  products.capacity = static_cast<std::uint32_t>(attempt.capacity);
  // Enough blocks that the last ones to finish do not leave the others idle for long.
  const std::size_t row_blocks = blocks_for(queries.count, static_cast<std::size_t>(filter.rows));
  const std::size_t wanted = (static_cast<std::size_t>(processors_) * 24 + row_blocks - 1) / row_blocks;
  const std::size_t fewest = 1 + (task.size >> 25);  // a split numbers its columns with 26 bits
  run_products(filter, products, std::clamp<std::size_t>(wanted, fewest, std::max<std::size_t>(fewest, products.tiles / 16)));
  mark(2);
  measure(task, queries, attempt.capacity, true);
  mark(3);
  if (stats == nullptr) return;
  check(cudaEventSynchronize(marks_[3].get()), "find candidates");
  stats->threshold_seconds += seconds_between(marks_[0], marks_[1]);
  stats->product_seconds += seconds_between(marks_[1], marks_[2]);
  stats->measure_seconds += seconds_between(marks_[2], marks_[3]);
}

/// Lists from candidates; without products all rows are.
void CudaKnn::Impl::measure(const KnnTask& task, const Queries& queries, std::size_t capacity, bool products) {
  const std::size_t shared = capacity * sizeof(std::uint64_t) + task.dimension * sizeof(float);
  allow_shared(measure_candidates, shared);
  measure_candidates<<<static_cast<unsigned>(queries.count), kMeasureThreads, shared, stream_>>>(
      {float_rows(task), static_cast<std::uint32_t>(task.size), queries.ids, static_cast<std::uint32_t>(task.first),
       static_cast<std::uint32_t>(queries.first), products ? counts_.get() : nullptr, candidates_.get(), reach_.get(),
       static_cast<std::uint32_t>(capacity), static_cast<std::uint32_t>(task.neighbors), task.ids, task.distances, failed_[failing_].get(),
       failed_count_.get(), measured_.get()});
  launched("measure candidates");
}

void CudaKnn::Impl::scan(const KnnTask& task, const std::uint32_t* queries, std::uint32_t count) {
  const std::size_t room = power_of_two_from(task.neighbors + 2 * ScanTask::kChunk);
  const std::size_t shared = room * sizeof(std::uint64_t) + task.dimension * sizeof(float);  // a query
  constexpr unsigned kTogether = 4;  // queries of a block, which then reads each row once for all of them
  const bool together = task.dimension % 4 == 0 && kTogether * shared <= static_cast<std::size_t>(most_shared_) / 2;
  const ScanTask scan{float_rows(task),
                      static_cast<std::uint32_t>(task.size),
                      queries,
                      count,
                      static_cast<std::uint32_t>(task.first),
                      static_cast<std::uint32_t>(task.neighbors),
                      static_cast<std::uint32_t>(room),
                      task.ids,
                      task.distances,
                      measured_.get()};
  if (together) {
    allow_shared(scan_all<kTogether>, kTogether * shared);
    scan_all<kTogether><<<(count + kTogether - 1) / kTogether, ScanTask::kThreads, kTogether * shared, stream_>>>(scan);
  } else {
    allow_shared(scan_all<1>, shared);
    scan_all<1><<<count, ScanTask::kThreads, shared, stream_>>>(scan);
  }
  launched("scan all rows");
}

std::uint32_t CudaKnn::Impl::failed_so_far() {
  std::uint32_t count = 0;
  check(cudaMemcpyAsync(&count, failed_count_.get(), sizeof count, cudaMemcpyDeviceToHost, stream_), "hand a count back");
  check(cudaStreamSynchronize(stream_), "find lists");
  return count;
}

/// The queries that have failed; from now on others are noted.
const std::uint32_t* CudaKnn::Impl::take_failed() {
  failing_ = 1 - failing_;
  check(cudaMemsetAsync(failed_count_.get(), 0, sizeof(std::uint32_t), stream_), "clear memory");
  return failed_[1 - failing_].get();
}

/// Whether its shared memory holds the tiles of so many dimensions. GPUs for games have less of it than those for data centres.
bool CudaKnn::Impl::multiplies(int padded_dimension, int variant) const {
  return std::max(launch_of(padded_dimension, true, 0).shared_bytes, launch_of(padded_dimension, false, variant).shared_bytes) <=
         most_shared_;
}

/// Candidates of a row that its shared memory can sort, a power of two.
std::size_t CudaKnn::Impl::most_candidates(const KnnTask& task) const {
  const std::size_t query = task.dimension * sizeof(float), shared = static_cast<std::size_t>(most_shared_);
  std::size_t most = 16384;
  while (most > 1 && most * sizeof(std::uint64_t) + query > shared) most /= 2;
  return most;
}

/// Rows at a time, of which each takes so much memory: a few GiB, or half of what is free.
std::size_t CudaKnn::Impl::batch_for(std::size_t row_bytes) const {
  std::size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "say how much memory it has");
  const std::size_t held = best_.bytes() + candidates_.bytes() + gathered_.bytes();
  const std::size_t allowed = std::min((free + held) / 2, std::size_t{8} << 30);
  return std::max<std::size_t>(kRowPadding, allowed / row_bytes / kRowPadding * kRowPadding);
}

/// Moves queries that are copies out of the failed ones.
void CudaKnn::Impl::find_copies(const KnnTask& task, std::uint32_t failed) {
  const auto size = static_cast<std::int64_t>(task.size);
  const int dimension = static_cast<int>(task.dimension);
  hash_rows<<<blocks_for(task.size * 32, kPrepareThreads), kPrepareThreads, 0, stream_>>>(
      task.rows, size, dimension, hashes_.of_size(task.size), order_.of_size(task.size));
  launched("hash rows");
  std::size_t space = 0;
  const auto sort = [&](void* at) {
    check(cub::DeviceRadixSort::SortPairs(at, space, hashes_.get(), sorted_hashes_.of_size(task.size), order_.get(),
                                          sorted_order_.of_size(task.size), size, 0, 64, stream_),
          "sort hashes");
  };
  sort(nullptr);
  sort(sort_space_.of_size(std::max<std::size_t>(space, 1)));
  const std::uint32_t* const queries = take_failed();
  list_copies<<<failed, 128, 0, stream_>>>({task.rows, size, dimension, queries, hashes_.get(), sorted_hashes_.get(), sorted_order_.get(),
                                            static_cast<std::uint32_t>(task.first), static_cast<std::uint32_t>(task.neighbors), task.ids,
                                            task.distances, failed_[failing_].get(), failed_count_.get()});
  launched("list copies");
}

KnnStats CudaKnn::Impl::find(const KnnTask& task, const KnnTuning& tuning) {
  const UsedDevice used(device_);
  if (task.size < 2 || task.size > std::size_t{1} << 31) throw InvalidArgument("size must be from 2 to 2^31");
  if (task.neighbors < 1 || task.neighbors >= task.size || task.neighbors > kMostNeighbors)
    throw InvalidArgument("neighbors must be from 1 to the number of rows minus 1, and at most " + std::to_string(kMostNeighbors));
  if (task.first + task.count > task.size || task.dimension < 1 || task.dimension > kMostDimensions)
    throw InvalidArgument("rows wanted must be among the rows, and dimension from 1 to " + std::to_string(kMostDimensions));
  KnnStats stats;
  if (task.count == 0) return stats;

  // The expected number of candidates, and the rank among the sampled columns that says where it is. The number that a rank r stands for
  // scatters by 1 / sqrt(r) of itself; with 16 and two and a half times the neighbours about one row of a thousand is done again.
  const std::size_t expected = std::max<std::size_t>(task.neighbors * 5 / 2, 128);
  const int rank = expected >= 8 * task.neighbors ? 8 : 16;
  const std::size_t most = most_candidates(task);
  const std::size_t capacity = tuning.capacity != 0 ? tuning.capacity : std::min(most, power_of_two_from(4 * expected));
  const std::size_t measure_all_up_to = tuning.always_products ? 0 : std::max<std::size_t>(4096, capacity);
  const auto fits = std::lower_bound(kPaddedDimensions.begin(), kPaddedDimensions.end(), static_cast<int>(task.dimension));
  for (Memory<std::uint32_t>& list : failed_) list.of_size(task.count);
  failing_ = 0;
  check(cudaMemsetAsync(failed_count_.of_size(1), 0, sizeof(std::uint32_t), stream_), "clear memory");
  check(cudaMemsetAsync(measured_.of_size(MeasureTask::kCounters), 0, MeasureTask::kCounters * sizeof(unsigned long long), stream_),
        "clear memory");
  Event begin, prepared, attempted, end;
  begin.record(stream_);
  std::uint32_t failed = 0;
  if (task.size <= measure_all_up_to) {
    prepared.record(stream_);
    measure(task, {nullptr, task.first, task.count}, power_of_two_from(task.size), false);
    failed = failed_so_far();
    attempted.record(stream_);
    stats.scanned = task.count - failed;
  } else if (fits != kPaddedDimensions.end() && multiplies(*fits, tuning.variant)) {
    padded_dimension_ = *fits;
    prepare(task);
    sample(task, std::max<std::size_t>(static_cast<std::size_t>(rank) * task.size / expected, kTile));
    raise_far(task);
    prepared.record(stream_);
    // Lists of `count` queries, in pieces that fit into memory.
    const auto try_all = [&](const std::uint32_t* ids, std::size_t count, const Attempt& how, KnnStats* times) {
      const std::size_t row_bytes =
          (how.capacity + ThresholdTask::kMostGroups + 8) * sizeof(float) + (ids != nullptr ? padded_dimension_ * sizeof(__half) : 0);
      std::size_t batch = std::min(count, tuning.batch_rows != 0 ? tuning.batch_rows : batch_for(row_bytes));
      const std::size_t batches = (count + batch - 1) / batch;
      batch = (count + batches - 1) / batches;
      for (std::size_t done = 0; done < count; done += batch)
        attempt(task, {ids != nullptr ? ids + done : nullptr, ids != nullptr ? 0 : task.first + done, std::min(batch, count - done)}, how,
                tuning.variant, times);
    };
    try_all(nullptr, task.count, {rank, capacity}, &stats);
    failed = failed_so_far();
    attempted.record(stream_);
    stats.certified = task.count - failed;
    if (failed > kManyFailed) {
      find_copies(task, failed);
      const std::uint32_t left = failed_so_far();
      stats.equal = failed - left;
      failed = left;
    }
    if (failed > 0) {
      const std::uint32_t* const queries = take_failed();
      try_all(queries, failed, {3 * rank, std::max(capacity, std::min(most, 4 * capacity))}, nullptr);
      const std::uint32_t left = failed_so_far();
      stats.again = failed - left;
      failed = left;
    }
  } else {
    prepared.record(stream_);
    std::vector<std::uint32_t> all(task.count);
    for (std::size_t i = 0; i < task.count; ++i) all[i] = static_cast<std::uint32_t>(task.first + i);
    check(cudaMemcpyAsync(failed_[0].get(), all.data(), task.count * sizeof(std::uint32_t), cudaMemcpyHostToDevice, stream_), "take ids");
    check(cudaStreamSynchronize(stream_), "take ids");
    attempted.record(stream_);
    failed = static_cast<std::uint32_t>(task.count);
  }
  if (failed > 0) {
    scan(task, failed_[failing_].get(), failed);
    stats.scanned += failed;
  }
  end.record(stream_);
  std::array<unsigned long long, MeasureTask::kCounters> measured{};
  check(cudaMemcpyAsync(measured.data(), measured_.get(), sizeof measured, cudaMemcpyDeviceToHost, stream_), "hand counts back");
  check(cudaStreamSynchronize(stream_), "find lists");
  for (const unsigned long long part : measured) stats.candidates += part;
  stats.prepare_seconds = seconds_between(begin, prepared);
  stats.again_seconds = seconds_between(attempted, end);
  stats.seconds = seconds_between(begin, end);
  return stats;
}

CudaKnn::CudaKnn(int device) {
  if (device < 0 || device >= device_count())
    throw InvalidArgument("device is " + std::to_string(device) + "; there are " + std::to_string(device_count()) +
                          " GPUs that can be used");
  const UsedDevice used(device);
  impl_ = std::make_unique<Impl>(device);
}

CudaKnn::~CudaKnn() = default;

KnnStats CudaKnn::find(const KnnTask& task, const KnnTuning& tuning) { return impl_->find(task, tuning); }

}  // namespace smartmine::cuda
