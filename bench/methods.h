#pragma once

#include <time.h>

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "measurement.h"
#include "smartmine/core/rows.h"
#include "truth.h"

namespace smartmine::bench {

/// What all methods are given. They are measured on the last epoch.
struct Task {
  std::vector<Rows> epochs;
  std::span<const std::int64_t> labels;  ///< Empty: no triplets.
  std::size_t neighbors = 100;
  unsigned threads = 1;
  double recall_target = 0.98;  ///< Own methods are asked for it; a peer tries larger searches until it has it.
  const Truth* truth = nullptr;

  const Rows& rows() const { return epochs.back(); }
};

// Each measures one method; to be called in a child process, for the peak memory is that of the process.

Measurement measure_exact(const Task& task);
/// Also selects one triplet an anchor: more["selection_seconds"], if there are labels.
Measurement measure_partition(const Task& task);
/// Builds the first epoch from a partition and every later one from the graph before it; the last is what is told.
Measurement measure_previous(const Task& task);
/// The paper's build: more["success_bound"], more["mean_degree"].
Measurement measure_random(const Task& task);

/// On the GPUs there are; more["device_seconds"] without the copies to and from them. Throws InvalidArgument if there are none.
Measurement measure_gpu(const Task& task);

Measurement measure_hnswlib(const Task& task);
Measurement measure_faiss_hnsw(const Task& task);
Measurement measure_faiss_nndescent(const Task& task);
Measurement measure_faiss_exact(const Task& task);
/// What bench/python/peer_lists.py calls `peer`, with whatever version this Python has. Throws if it has none.
Measurement measure_python(const Task& task, const std::string& python, const std::string& peer);

/// Seconds since it was made, of the clock and of the processor (all threads of the process together).
class Timer {
 public:
  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count(); }
  double processor_seconds() const { return processor_now() - processor_begin_; }
  /// Both into `measured`, besides those of `earlier` work.
  void tell(Measurement& measured, double earlier = 0, double earlier_processor = 0) const {
    measured.seconds = earlier + seconds();
    measured.processor_seconds = earlier_processor + processor_seconds();
  }

 private:
  static double processor_now() {
    timespec now{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
  }
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  double processor_begin_ = processor_now();
};

/// How far peers search, in turn, until the recall is reached.
inline std::vector<std::size_t> search_widths(std::size_t neighbors) {
  return {neighbors + neighbors / 5, 2 * neighbors, 3 * neighbors, 5 * neighbors};
}

}  // namespace smartmine::bench
