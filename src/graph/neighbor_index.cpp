#include "smartmine/graph/neighbor_index.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "graph/kernels/kernels.h"
#include "smartmine/core/error.h"
#include "smartmine/graph/exact_knn.h"

namespace smartmine {

namespace {

FanngOptions graph_options(const NeighborIndexOptions& options) {
  return {.neighbors = options.neighbors,
          .recall_target = options.recall_target,
          .success_target = options.success_target,
          .certify = options.certify,
          .for_search = options.for_search,
          .max_degree = options.max_degree,
          .edge_candidates = options.edge_candidates,
          .start = options.start,
          .seed = options.seed,
          .threads = options.threads,
          .recall_sample = options.recall_sample,
          .refreshable = options.keep_graph};
}

/// What a device found, or why it found nothing.
struct DeviceLists {
  NeighborResult found;
  std::string failure;
};

/// Lists of some rows by the call's device. One that fails is given up where there is another way, by a whole team together.
DeviceLists try_device(const Rows& rows, RowRange wanted, std::size_t neighbors, const ListMaker& lists, const NeighborCall& call,
                       bool other_way, const Progress& progress) {
  if (!other_way) return {call.device(rows, wanted, neighbors, lists, progress), {}};
  DeviceLists own;
  try {
    own.found = call.device(rows, wanted, neighbors, lists, progress);
  } catch (const Cancelled&) {
    throw;
  } catch (const InternalError&) {
    throw;
  } catch (const Error& error) {
    own.failure = error.what();
  }
  if (team_sum(call.team, own.failure.empty() ? 0 : 1) > 0 && own.failure.empty()) own.failure = "that of another rank failed";
  return own;
}

/// Lists of all rows by the call's device; with a team, where that pays, by all members' devices.
DeviceLists lists_by_device(const Rows& rows, std::size_t neighbors, const NeighborCall& call, bool other_way, const Progress& progress) {
  if (call.team == nullptr || !sharing_pays(rows, neighbors))
    return try_device(rows, {0, rows.size()}, neighbors, call.lists, call, other_way, progress);
  const std::vector<std::size_t> begins = team_shares(call.team, rows.size());
  const auto [begin, end] = own_share(call.team, begins);
  DeviceLists own = try_device(rows, {begin, end - begin}, neighbors, {}, call, other_way, progress);
  if (!own.failure.empty()) return own;
  NeighborResult found{make_lists(call.lists, rows.size(), neighbors), std::move(own.found.stats)};
  const auto at = static_cast<std::ptrdiff_t>(begin * neighbors);
  std::ranges::copy(own.found.lists.all_ids(), found.lists.all_ids().begin() + at);
  std::ranges::copy(own.found.lists.all_distances(), found.lists.all_distances().begin() + at);
  own.found.lists = {};
  call.team->gather(found.lists.all_ids().data(), neighbors * sizeof(std::uint32_t), begins);
  call.team->gather(found.lists.all_distances().data(), neighbors * sizeof(float), begins);
  for (std::uint64_t NeighborStats::*count :
       {&NeighborStats::distance_computations, &NeighborStats::rows_certified, &NeighborStats::rows_again, &NeighborStats::rows_measured})
    found.stats.*count = team_sum(call.team, found.stats.*count);
  return {std::move(found), {}};
}

/// Holds some lists of a device against exact ones: its arithmetic is its own. An entry is right if it is another row, not on the list
/// before, as near as the last true one when measured here, and about as far as the device says.
void measure_recall(const Rows& rows, unsigned threads, NeighborResult& found) {
  constexpr std::size_t kPoints = 100;
  constexpr float kRounding = 1e-5F, kClaim = 1e-4F;  // of a distance
  const std::size_t neighbors = found.lists.neighbors(), count = std::min(kPoints, rows.size());
  std::vector<std::uint32_t> points(count);
  for (std::size_t i = 0; i < count; ++i) points[i] = static_cast<std::uint32_t>(i * rows.size() / count);
  const NeighborLists truth = lists_of_some(rows, points, neighbors, threads).lists;
  std::size_t right = 0;
  std::vector<std::uint32_t> seen;
  for (std::size_t i = 0; i < count; ++i) {
    const float last = truth.distances(i)[neighbors - 1];
    seen.assign(1, points[i]);
    for (std::size_t j = 0; j < neighbors; ++j) {
      const std::uint32_t id = found.lists.ids(points[i])[j];
      if (id >= rows.size()) continue;
      const float squared = kernels::active().squared_distance(rows[points[i]], rows[id], rows.dimension());
      const bool told = std::abs(found.lists.distances(points[i])[j] - squared) <= kClaim * std::max(squared, last);
      const auto place = std::lower_bound(seen.begin(), seen.end(), id);
      if (place != seen.end() && *place == id) continue;
      seen.insert(place, id);
      right += told && squared <= last * (1 + kRounding) ? 1 : 0;
    }
  }
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
  const IndexKind chosen = chosen_for(rows, device);
  if (chosen != IndexKind::kDevice) return lists_by_cpu(rows, chosen, call, progress);
  check_rows(rows, options_.threads);  // what is not finite would be ordered anyhow there
  DeviceLists by_device = lists_by_device(rows, options_.neighbors, call, options_.kind != IndexKind::kDevice, progress);
  if (by_device.failure.empty()) {
    NeighborResult found = std::move(by_device.found);
    measure_recall(rows, options_.threads, found);
    found.stats.recall_reached = found.stats.recall >= options_.recall_target;
    found.stats.recall_target = options_.recall_target;
    return found;
  }
  by_device.found = {};
  NeighborResult found = lists_by_cpu(rows, chosen_for(rows, false), call, progress);
  std::string& note = found.stats.note;
  note = fmt::format("the CPU found the lists, for the device did not ({}){}{}", by_device.failure, note.empty() ? "" : "; ", note);
  return found;
}

NeighborResult NeighborIndex::lists_by_cpu(const Rows& rows, IndexKind kind, const NeighborCall& call, const Progress& progress) {
  NeighborResult found;
  if (kind == IndexKind::kExact) {
    found = ExactKnn({.neighbors = options_.neighbors, .threads = options_.threads}).neighbors(rows, progress, call.team, call.lists);
  } else {
    FanngOptions options = graph_options(options_);
    if (options.start == Start::kPrevious && !graph_) options.start = Start::kPartition;
    options.seed = call.seed.value_or(options_.seed);
    FanngResult built = build_fanng(rows, options, graph(), progress, call.team, call.lists);
    if (options_.keep_graph) graph_ = std::move(built.graph);
    found = {std::move(built.lists), std::move(built.stats)};
  }
  found.stats.recall_target = options_.recall_target;
  return found;
}

IndexKind NeighborIndex::chosen_for(const Rows& rows, bool device) const {
  IndexTask task{rows.size(), rows.dimension(), options_.neighbors, device, kernels::active().matrices};
  const auto chosen = [&](bool hard, bool narrow) {
    task.hard = hard;
    task.narrow = narrow;
    return choose_index(options_.kind, task);
  };
  const IndexKind easy = chosen(false, false);
  if ((easy == chosen(true, false) && easy == chosen(false, true)) || options_.neighbors >= rows.size()) return easy;
  check_rows(rows, options_.threads);
  constexpr std::size_t kNear = 10, kFarther = 100;
  const bool hard = hard_to_search(rows, kNear);
  return chosen(hard, !hard && hard_to_search(rows, kFarther));
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

namespace {

// Points for which exact search and the graph take equally long on the CPU.
std::size_t equally_long_at(const IndexTask& task) {
  constexpr double kUsual = 64;  // dimensions
  if (task.matrices) {
    // Measured before exact search turned the rows: 12,000 and 16,000 points of classes, 100,000 and more of noise. An estimate since.
    const bool few = task.neighbors < 50;
    const double wide = few ? 1 : std::pow(std::min(1.0, kUsual / static_cast<double>(std::max<std::size_t>(task.dimension, 1))), 0.65);
    return task.hard ? static_cast<std::size_t>((few ? 300'000 : 100'000) * wide) : 16'000;
  }
  // Measured with VNNI (docs/results.md, "What auto takes"), in thousands, in 16, 32, ... 512 dimensions. Distances in many dimensions are
  // more alike, so that more candidates are within what bytes may hide from exact search, while a graph still skips what is far.
  constexpr std::size_t kDimensions = 6;
  struct Limits {
    double ten[kDimensions], hundred[kDimensions];  // by the length of the lists
  };
  constexpr Limits kClasses{{16, 15, 12.5, 14.5, 15, 13.5}, {30, 24, 16.5, 16, 14, 11.5}};
  constexpr Limits kNarrow{{16, 12, 10, 11, 12, 10}, {30, 17, 15.5, 12.5, 8.8, 5.6}};
  constexpr Limits kNoise{{19, 24, 31, 22, 16.5, 9.5}, {36, 35, 28, 19, 10, 5.5}};
  const Limits& limits = task.hard ? kNoise : task.narrow ? kNarrow : kClasses;
  const double doublings =
      std::clamp(std::log2(static_cast<double>(std::max<std::size_t>(task.dimension, 1)) / 16), 0.0, kDimensions - 1.0);
  const auto below = std::min(static_cast<std::size_t>(doublings), kDimensions - 2);
  const double beyond = doublings - static_cast<double>(below);
  const auto at = [&](const double* of) { return std::log(of[below]) * (1 - beyond) + std::log(of[below + 1]) * beyond; };
  const double longer = std::clamp(std::log10(static_cast<double>(std::max<std::size_t>(task.neighbors, 1)) / 10), 0.0, 1.0);
  return static_cast<std::size_t>(1000 * std::exp(at(limits.ten) * (1 - longer) + at(limits.hundred) * longer) + 0.5);
}

}  // namespace

IndexKind choose_index(IndexKind asked, const IndexTask& task) {
  const std::size_t equal_at = equally_long_at(task);
  constexpr std::size_t kFewLists = 20;  // with fewer lists' worth of points the graph would have to look at nearly all
  const std::size_t exact_below = std::max(equal_at, kFewLists * task.neighbors);
  // All pairs of a million rows take half a second on an H200 and grow with the square; the graph on two cores takes 20 s and then minutes.
  constexpr std::size_t kDeviceUpTo = 10'000'000;
  // Rows of more dimensions than it has products for it measures pair after pair, at 0.43 ps a coordinate (100,000 x 64 of which each was:
  // docs/results.md). So many values take half a minute at most, by estimate; more it would work on for longer than the graph does.
  constexpr std::size_t kMultipliedDimensions = 512, kMeasuredValues = 200'000'000;
  if (asked == IndexKind::kFanng || asked == IndexKind::kDevice) return asked;
  const bool exact = asked == IndexKind::kExact || task.size < exact_below;
  const std::size_t up_to = task.dimension <= kMultipliedDimensions ? kDeviceUpTo : kMeasuredValues / task.dimension;
  if (task.device && (exact || task.size <= up_to)) return IndexKind::kDevice;
  return exact ? IndexKind::kExact : IndexKind::kFanng;
}

bool sharing_pays(const Rows& rows, std::size_t neighbors) {
  // A row's list takes 2 N D operations, of which an H200 does 300 in a picosecond (docs/results.md), and 8 k bytes to hand on, of which a
  // network of 10 Gbit/s takes 1.25 in a nanosecond.
  constexpr double kOperationsPerSecond = 3e14, kBytesPerSecond = 1.25e9;
  const double finding = 2 * static_cast<double>(rows.size()) * static_cast<double>(rows.dimension()) / kOperationsPerSecond;
  return finding > 8 * static_cast<double>(neighbors) / kBytesPerSecond;
}

bool hard_to_search(const Rows& rows, std::size_t neighbors) {
  // Measured (docs/results.md) in 64 dimensions, 10,000 to 30,000 rows: made-up classes have 0.24 to 0.26 with lists of 10, 0.47 to 0.54
  // with lists of 100, noise 0.55 to 0.58 and 0.63 to 0.67; 100,000 to 300,000 rows: 0.2 and 0.44, 0.49 to 0.52 and 0.59.
  const bool few = neighbors < 50, many_rows = rows.size() >= 50'000;
  const double usual = few ? (many_rows ? 0.47 : 0.53) : (many_rows ? 0.51 : 0.58);
  // In more dimensions distances are more alike, those of noise as the cube of 1 - c / sqrt(dimension). So is what parts it from classes:
  // these have 0.55 to 0.69 with lists of 100 in 128 to 512 dimensions, noise 0.75 to 0.89. In 32 noise has 0.47 and 0.57, in 16 0.28 and
  // 0.41.
  const double narrower = std::sqrt(64 / std::max(16.0, static_cast<double>(rows.dimension())));
  const double hard = std::pow(1 - (1 - std::cbrt(usual)) * narrower, 3);
  const std::size_t size = rows.size(), points = std::min<std::size_t>(16, size);
  std::vector<std::uint32_t> all(size);
  std::iota(all.begin(), all.end(), 0U);
  std::vector<float> squared(size);
  std::vector<double> nearness;
  for (std::size_t i = 0; i < points; ++i) {
    kernels::active().squared_distances(rows[i * size / points], rows.data(), all.data(), size, rows.dimension(), squared.data());
    const double mean = std::accumulate(squared.begin(), squared.end(), 0.0) / static_cast<double>(size);
    const auto last = squared.begin() + static_cast<std::ptrdiff_t>(std::min(neighbors, size - 1));  // the point itself comes first
    std::nth_element(squared.begin(), last, squared.end());
    nearness.push_back(mean > 0 ? *last / mean : 0);
  }
  const auto middle = nearness.begin() + static_cast<std::ptrdiff_t>(points / 2);
  std::nth_element(nearness.begin(), middle, nearness.end());
  return *middle > hard;
}

}  // namespace smartmine
