#include <fmt/format.h>
#include <hnswlib/hnswlib.h>

#include "methods.h"
#include "smartmine/core/parallel.h"
#include "smartmine/graph/neighbors.h"

namespace smartmine::bench {
namespace {

constexpr std::size_t kLinks = 16;
constexpr std::size_t kBuildWidth = 100;
constexpr std::size_t kGrain = 64;

}  // namespace

Measurement measure_hnswlib(const Task& task) {
  Measurement measured;
  const Rows& rows = task.rows();
  hnswlib::L2Space space(rows.dimension());
  hnswlib::HierarchicalNSW<float> index(&space, rows.size(), kLinks, kBuildWidth);
  const Timer build_timer;
  index.addPoint(rows[0], 0);  // alone: it is where all others enter
  parallel_for(rows.size() - 1, kGrain, task.threads, [&](std::size_t begin, std::size_t end, unsigned) {
    for (std::size_t i = begin + 1; i < end + 1; ++i) index.addPoint(rows[i], i);
  });
  const double build_seconds = build_timer.seconds(), build_processor = build_timer.processor_seconds();

  for (const std::size_t width : search_widths(task.neighbors)) {
    index.setEf(width);
    std::vector<std::vector<std::uint32_t>> lists(rows.size());
    const Timer timer;
    parallel_for(rows.size(), kGrain, task.threads, [&](std::size_t begin, std::size_t end, unsigned) {
      for (std::size_t i = begin; i < end; ++i)
        for (auto found = index.searchKnn(rows[i], task.neighbors + 1); !found.empty(); found.pop())
          if (found.top().second != i) lists[i].push_back(static_cast<std::uint32_t>(found.top().second));
    });
    timer.tell(measured, build_seconds, build_processor);
    measured.peak_memory_bytes = peak_memory_bytes();
    measured.recall = task.truth->recall([&](std::size_t row) {
      // Farthest first. One too many if the point itself was not found.
      const auto& list = lists[row];
      return std::vector<std::int64_t>(list.end() - static_cast<std::ptrdiff_t>(std::min(list.size(), task.neighbors)), list.end());
    });
    measured.settings = fmt::format("M {}, ef construction {}, ef {}", kLinks, kBuildWidth, width);
    measured.more["build_seconds"] = build_seconds;
    if (measured.recall >= task.recall_target) break;
  }
  return measured;
}

}  // namespace smartmine::bench
