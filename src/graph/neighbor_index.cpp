#include "smartmine/graph/neighbor_index.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "smartmine/core/error.h"
#include "smartmine/graph/exact_knn.h"

namespace smartmine {

namespace {

FanngOptions graph_options(const NeighborIndexOptions& options) {
  return {.neighbors = options.neighbors,
          .recall_target = options.recall_target,
          .success_target = options.success_target,
          .certify = options.certify,
          .max_degree = options.max_degree,
          .edge_candidates = options.edge_candidates,
          .start = options.start,
          .seed = options.seed,
          .threads = options.threads,
          .recall_sample = options.recall_sample,
          .refreshable = options.keep_graph};
}

/// Holds some lists of a device against exact ones: its arithmetic is its own. An entry is right if it is as near as the last true one.
void measure_recall(const Rows& rows, unsigned threads, NeighborResult& found) {
  constexpr std::size_t kPoints = 100;
  constexpr float kRounding = 1e-5F;
  const std::size_t neighbors = found.lists.neighbors(), count = std::min(kPoints, rows.size());
  std::vector<std::uint32_t> points(count);
  for (std::size_t i = 0; i < count; ++i) points[i] = static_cast<std::uint32_t>(i * rows.size() / count);
  const NeighborLists truth = lists_of_some(rows, points, neighbors, threads).lists;
  std::size_t right = 0;
  for (std::size_t i = 0; i < count; ++i)
    for (const float distance : found.lists.distances(points[i]))
      right += distance <= truth.distances(i)[neighbors - 1] * (1 + kRounding) + kRounding;
  found.stats.recall = static_cast<double>(right) / static_cast<double>(count * neighbors);
  found.stats.recall_sample = count;
}

}  // namespace

void NeighborIndexOptions::validate() const { graph_options(*this).validate(); }

NeighborIndex::NeighborIndex(const NeighborIndexOptions& options) : options_(options) { options_.validate(); }

NeighborResult NeighborIndex::neighbors(const Rows& rows, const NeighborCall& call, const Progress& progress) {
  const bool device = static_cast<bool>(call.device);
  if (options_.kind == IndexKind::kDevice && !device)
    throw InvalidArgument("kind is device, but no search on a device was given; it must be automatic, exact or fanng");
  NeighborResult found;
  switch (choose_index(options_.kind, {rows.size(), rows.dimension(), options_.neighbors, device})) {
    case IndexKind::kDevice:
      check_rows(rows, options_.threads);  // what is not finite would be ordered anyhow there
      found = call.device(rows, options_.neighbors, progress);
      measure_recall(rows, options_.threads, found);
      found.stats.recall_reached = found.stats.recall >= options_.recall_target;
      break;
    case IndexKind::kExact:
      found = ExactKnn({.neighbors = options_.neighbors, .threads = options_.threads}).neighbors(rows, progress, call.team);
      break;
    default: {
      FanngOptions options = graph_options(options_);
      if (options.start == Start::kPrevious && !graph_) options.start = Start::kPartition;
      options.seed = call.seed.value_or(options_.seed);
      FanngResult built = build_fanng(rows, options, graph(), progress, call.team);
      if (options_.keep_graph) graph_ = std::move(built.graph);
      found = {std::move(built.lists), std::move(built.stats)};
    }
  }
  found.stats.recall_target = options_.recall_target;
  return found;
}

NeighborResult NeighborIndex::search(const Rows& rows, const Rows& queries, const Progress& progress) const {
  if (options_.kind == IndexKind::kFanng || options_.kind == IndexKind::kDevice)
    throw InvalidArgument(fmt::format("kind is {}, which finds lists of all rows alone; for queries it must be automatic or exact",
                                      options_.kind == IndexKind::kFanng ? "fanng" : "device"));
  return ExactKnn({.neighbors = options_.neighbors, .threads = options_.threads}).search(rows, queries, progress);
}

void NeighborIndex::save(const std::filesystem::path& path) const {
  if (!graph_) throw InvalidArgument("there is no graph to save; keep_graph keeps the one that lists were found through");
  graph_->save(path);
}

void NeighborIndex::load(const std::filesystem::path& path) { graph_ = Fanng::load(path); }

NeighborResult lists_of_some(const Rows& rows, std::span<const std::uint32_t> points, std::size_t neighbors, unsigned threads,
                             const Progress& progress) {
  std::vector<float> queries;
  queries.reserve(points.size() * rows.dimension());
  for (const std::uint32_t point : points) queries.insert(queries.end(), rows[point], rows[point] + rows.dimension());
  // One more than needed: the point is found too, unless its duplicates fill the list.
  NeighborResult found = ExactKnn({.neighbors = neighbors + 1, .threads = threads})
                             .search(rows, Rows(queries.data(), points.size(), rows.dimension()), progress);
  NeighborLists lists(points.size(), neighbors);
  for (std::size_t i = 0; i < points.size(); ++i) {
    const auto ids = found.lists.ids(i);
    const auto distances = found.lists.distances(i);
    for (std::size_t from = 0, to = 0; to < neighbors; ++from) {
      if (ids[from] == points[i]) continue;
      lists.ids(i)[to] = ids[from];
      lists.distances(i)[to++] = distances[from];
    }
  }
  return {std::move(lists), std::move(found.stats)};
}

IndexKind choose_index(IndexKind asked, const IndexTask& task) {
  // Measured on the CPU at dimension 64 with lists of 100 (docs/results.md): exact search and the graph take equally long at about 20,000
  // points. Longer lists and higher dimensions slow both down.
  constexpr std::size_t kExactBelow = 20'000;
  constexpr std::size_t kExactBelowLists = 20;  // and below so many lists' worth of points
  // Beyond so many rows the graph on the CPU is faster than all pairs on a GPU.
  constexpr std::size_t kDeviceUpTo = 1'000'000;
  if (asked == IndexKind::kFanng || asked == IndexKind::kDevice) return asked;
  const bool exact = asked == IndexKind::kExact || task.size < kExactBelow || task.size < kExactBelowLists * task.neighbors;
  if (task.device && (exact || task.size <= kDeviceUpTo)) return IndexKind::kDevice;
  return exact ? IndexKind::kExact : IndexKind::kFanng;
}

}  // namespace smartmine
