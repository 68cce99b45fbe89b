#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

// Exact lists of nearest neighbours on a GPU. Free of torch and of CUDA's own headers; cuda_knn.cu says how it is done.
namespace smartmine::cuda {

/// How the work is cut. The lists do not depend on it; for benchmarks and tests.
struct KnnTuning {
  int variant = -1;              ///< Shape of the products' tiles, from 0 to kKnnVariants - 1; -1: the fastest measured.
  std::size_t capacity = 0;      ///< Candidates a row has room for, a power of two; 0: by the number of neighbours.
  std::size_t batch_rows = 0;    ///< Rows whose candidates are found together; 0: as many as fit into memory.
  bool always_products = false;  ///< Use products even for so few rows that measuring all of them is simpler.
};
constexpr int kKnnVariants = 4;

/// Rows that are searched, and for which of them lists are wanted. All on the device.
struct KnnTask {
  const float* rows = nullptr;  ///< `size` times `dimension` finite values, one row after the other.
  std::size_t size = 0;
  std::size_t dimension = 0;  ///< From 1 to kMostDimensions.
  std::size_t first = 0;      ///< Lists are wanted of `count` rows from this one on,
  std::size_t count = 0;
  std::size_t neighbors = 0;     ///< of this length, from 1 to kMostNeighbors, less than `size`.
  std::uint32_t* ids = nullptr;  ///< Filled: `neighbors` ids a row, nearest first, equal distances by id, never the row itself,
  float* distances = nullptr;    ///< and their squared distances.
};
constexpr std::size_t kMostNeighbors = 1024;
constexpr std::size_t kMostDimensions = 8192;

/// What lists cost, and how their exactness was made sure of. Every row of the task is in exactly one of the first four counts.
struct KnnStats {
  std::uint64_t certified = 0;   ///< Rows whose candidates provably held all nearer ones at the first attempt.
  std::uint64_t again = 0;       ///< Rows for which that was so at the second attempt, with a wider threshold and more room.
  std::uint64_t scanned = 0;     ///< Rows for which every other row was measured in float.
  std::uint64_t equal = 0;       ///< Rows with more exact copies than neighbours asked for: the copies are the list.
  std::uint64_t candidates = 0;  ///< Candidates measured in float, of all rows together.
  double seconds = 0;            ///< On the device, all stages.
  double prepare_seconds = 0;    ///< Centring and rounding the rows, drawing the sample.
  double threshold_seconds = 0;  ///< Products with the sample, and thresholds from them.
  double product_seconds = 0;    ///< Products of all pairs.
  double measure_seconds = 0;    ///< Distances of candidates in float, and sorting them.
  double again_seconds = 0;      ///< Rows done again or scanned.

  KnnStats& operator+=(const KnnStats& other) {
    certified += other.certified;
    again += other.again;
    scanned += other.scanned;
    equal += other.equal;
    candidates += other.candidates;
    seconds += other.seconds;
    prepare_seconds += other.prepare_seconds;
    threshold_seconds += other.threshold_seconds;
    product_seconds += other.product_seconds;
    measure_seconds += other.measure_seconds;
    again_seconds += other.again_seconds;
    return *this;
  }
};

/// Number of GPUs that can be used, those of the lowest numbers; 0 where there is none or no driver.
int device_count();
/// Why there are none, in words that end a sentence; empty if there are some.
std::string why_no_device();

/// Exact lists on one GPU. Keeps its working memory from one call to the next. Not for several threads at once.
class CudaKnn {
 public:
  /// Throws InvalidArgument if there is no such GPU, Error if it cannot be used.
  explicit CudaKnn(int device);
  ~CudaKnn();
  CudaKnn(const CudaKnn&) = delete;
  CudaKnn& operator=(const CudaKnn&) = delete;

  /// Fills the task's lists; they are there when it returns. It works in a stream of its own: whatever other streams do to the task's
  /// memory must have ended. Throws InvalidArgument for a task out of range, Error if the GPU fails or its memory is too small.
  KnnStats find(const KnnTask& task, const KnnTuning& tuning = {});

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace smartmine::cuda
