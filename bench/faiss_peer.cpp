#include <faiss/IndexFlat.h>
#include <faiss/IndexHNSW.h>
#include <faiss/IndexNNDescent.h>
#include <fmt/format.h>
#include <omp.h>

#include <algorithm>

#include "methods.h"
#include "smartmine/graph/neighbors.h"

namespace smartmine::bench {
namespace {

constexpr int kLinks = 16;
constexpr int kBuildWidth = 100;
constexpr int kSpareNeighbors = 50;
constexpr int kRounds = 12;
constexpr std::size_t kTimedQueries = 10000;

// faiss counts in signed numbers of different widths.
int whole(std::size_t value) { return static_cast<int>(value); }

// The list of a row among `wide` results a row, without the row itself.
std::vector<std::int64_t> list_from(const std::int64_t* results, std::size_t row, std::size_t wide, std::size_t neighbors) {
  std::vector<std::int64_t> list(results, results + wide);
  list.erase(std::remove(list.begin(), list.end(), static_cast<std::int64_t>(row)), list.end());
  list.resize(std::min(list.size(), neighbors));
  return list;
}

}  // namespace

Measurement measure_faiss_hnsw(const Task& task) {
  omp_set_num_threads(whole(task.threads));
  Measurement measured;
  const Rows& rows = task.rows();
  const std::size_t wide = task.neighbors + 1;
  faiss::IndexHNSWFlat index(whole(rows.dimension()), kLinks);
  index.hnsw.efConstruction = kBuildWidth;
  const Timer build_timer;
  index.add(static_cast<std::int64_t>(rows.size()), rows.data());
  const double build_seconds = build_timer.seconds(), build_processor = build_timer.processor_seconds();
  std::vector<float> distances(rows.size() * wide);
  std::vector<std::int64_t> ids(rows.size() * wide);
  for (const std::size_t width : search_widths(task.neighbors)) {
    index.hnsw.efSearch = whole(width);
    const Timer timer;
    index.search(static_cast<std::int64_t>(rows.size()), rows.data(), static_cast<std::int64_t>(wide), distances.data(), ids.data());
    timer.tell(measured, build_seconds, build_processor);
    measured.peak_memory_bytes = peak_memory_bytes();
    measured.recall = task.truth->recall([&](std::size_t row) { return list_from(&ids[row * wide], row, wide, task.neighbors); });
    measured.settings = fmt::format("M {}, ef construction {}, ef {}", kLinks, kBuildWidth, width);
    measured.more["build_seconds"] = build_seconds;
    if (measured.recall >= task.recall_target) break;
  }
  return measured;
}

Measurement measure_faiss_nndescent(const Task& task) {
  omp_set_num_threads(whole(task.threads));
  Measurement measured;
  const Rows& rows = task.rows();
  faiss::IndexNNDescentFlat index(whole(rows.dimension()), whole(task.neighbors));
  index.nndescent.L = whole(task.neighbors) + kSpareNeighbors;
  index.nndescent.iter = kRounds;
  const Timer timer;
  index.add(static_cast<std::int64_t>(rows.size()), rows.data());
  timer.tell(measured);
  measured.peak_memory_bytes = peak_memory_bytes();
  const auto& graph = index.nndescent.final_graph;
  measured.recall = task.truth->recall([&](std::size_t row) {
    const auto* list = &graph[row * task.neighbors];
    return std::vector<std::int64_t>(list, list + task.neighbors);
  });
  measured.settings = fmt::format("K {}, L {}, {} rounds", task.neighbors, task.neighbors + kSpareNeighbors, kRounds);
  return measured;
}

Measurement measure_faiss_exact(const Task& task) {
  omp_set_num_threads(whole(task.threads));
  Measurement measured;
  const Rows& rows = task.rows();
  const std::size_t wide = task.neighbors + 1;
  faiss::IndexFlatL2 index(whole(rows.dimension()));
  index.add(static_cast<std::int64_t>(rows.size()), rows.data());
  const std::size_t queries = std::min(rows.size(), kTimedQueries);
  std::vector<float> distances(queries * wide);
  std::vector<std::int64_t> ids(queries * wide);
  const Timer timer;
  index.search(static_cast<std::int64_t>(queries), rows.data(), static_cast<std::int64_t>(wide), distances.data(), ids.data());
  const double timed = timer.seconds(), processor = timer.processor_seconds();
  // Every query costs the same, so a part of them tells the time of all. The memory of all lists is reckoned in.
  const double all = static_cast<double>(rows.size()) / static_cast<double>(queries);
  measured.seconds = timed * all;
  measured.processor_seconds = processor * all;
  measured.peak_memory_bytes = peak_memory_bytes() + (rows.size() - queries) * wide * (sizeof(float) + sizeof(std::int64_t));
  measured.settings = queries == rows.size() ? "flat" : fmt::format("flat, from {} queries", queries);
  measured.more["timed_seconds"] = timed;
  measured.more["timed_queries"] = static_cast<double>(queries);
  measured.recall = task.truth->recall([&](std::size_t row) {
    index.search(1, rows[row], static_cast<std::int64_t>(wide), distances.data(), ids.data());
    return list_from(ids.data(), row, wide, task.neighbors);
  });
  return measured;
}

}  // namespace smartmine::bench
