#include "smartmine/core/parallel.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace smartmine {

unsigned resolve_threads(unsigned requested) {
  if (requested != 0) return requested;
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) return std::max(1, CPU_COUNT(&allowed));
  return std::max(1U, std::thread::hardware_concurrency());
}

void parallel_for(std::size_t count, std::size_t grain, unsigned threads, const RangeWork& work, const Progress& progress,
                  std::string_view stage) {
  grain = std::max<std::size_t>(grain, 1);
  const std::size_t pieces = (count + grain - 1) / grain;
  const auto workers = static_cast<unsigned>(std::min<std::size_t>(resolve_threads(threads), pieces));
  if (pieces == 0) return;

  std::atomic<std::size_t> next{0};
  std::atomic<std::size_t> finished{0};
  std::atomic<bool> stop{false};
  bool reported = false;  // by the calling thread, which alone reads and writes it
  std::exception_ptr failure;
  std::mutex failure_mutex;

  const auto run = [&](unsigned worker) {
    try {
      while (!stop.load(std::memory_order_relaxed)) {
        const std::size_t piece = next.fetch_add(1, std::memory_order_relaxed);
        if (piece >= pieces) return;
        const std::size_t begin = piece * grain;
        const std::size_t end = std::min(count, begin + grain);
        work(begin, end, worker);
        const std::size_t done = finished.fetch_add(end - begin, std::memory_order_relaxed) + (end - begin);
        if (worker != 0 || !progress) continue;
        reported = true;
        report(progress, stage, done, count);
      }
    } catch (...) {
      const std::lock_guard<std::mutex> lock(failure_mutex);
      if (!failure) failure = std::current_exception();
      stop.store(true, std::memory_order_relaxed);
    }
  };

  std::vector<std::thread> others;
  others.reserve(workers - 1);
  try {
    for (unsigned worker = 1; worker < workers; ++worker) others.emplace_back(run, worker);
  } catch (const std::system_error&) {
    // No more threads to be had; those there are do all the work.
  }
  run(0);
  for (std::thread& other : others) other.join();
  if (failure) std::rethrow_exception(failure);
  // The others may have taken all the work before the calling thread came to run; whoever wants to stop is asked all the same.
  if (progress && !reported) report(progress, stage, count, count);
}

}  // namespace smartmine
