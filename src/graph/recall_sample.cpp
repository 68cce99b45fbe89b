#include "graph/recall_sample.h"

#include <algorithm>

#include "graph/exact_lists.h"
#include "smartmine/core/random.h"

namespace smartmine {

namespace {

constexpr std::uint64_t kSampleStream = 0x5341;

std::vector<std::uint32_t> spread_points(std::size_t size, std::size_t count, std::uint64_t seed) {
  count = std::min(count, size);
  std::vector<std::uint32_t> points(count);
  Random random(seed, kSampleStream);
  // One of every stretch, anywhere in it: rows may come in turns.
  for (std::size_t s = 0; s < count; ++s) {
    const std::size_t from = s * size / count, to = (s + 1) * size / count;
    points[s] = static_cast<std::uint32_t>(from + random.below(to - from));
  }
  return points;
}

}  // namespace

RecallSample::RecallSample(const BuildTask& task, const Rows& rows, std::vector<std::uint32_t> points, std::uint64_t& computed)
    : points_(std::move(points)), neighbors_(task.neighbors()), ids_(points_.size() * neighbors_) {
  std::vector<const float*> queries(points_.size());
  std::vector<float> distances(ids_.size());
  for (std::size_t i = 0; i < points_.size(); ++i) queries[i] = rows[points_[i]];
  const std::vector<std::size_t> begins = team_shares(task.team, points_.size());
  const auto [begin, end] = own_share(task.team, begins);
  const auto own = [begin = begin, end = end](auto& all, std::size_t each) {
    return std::span(all).subspan(begin * each, (end - begin) * each);
  };
  const ExactLists lists{own(queries, 1), own(points_, 1), neighbors_, own(ids_, neighbors_), own(distances, neighbors_),
                         points_.size(),  begin == 0, false};
  computed += team_sum(task.team, find_exact_lists(rows, lists, task.kernels, task.threads(), task.progress, "recall"));
  if (task.team != nullptr) {
    task.team->gather(ids_.data(), neighbors_ * sizeof(std::uint32_t), begins);
    task.team->gather(distances.data(), neighbors_ * sizeof(float), begins);
  }
  radii_.resize(points_.size());
  for (std::size_t i = 0; i < points_.size(); ++i) {
    radii_[i] = distances[(i + 1) * neighbors_ - 1];
    const auto first = ids_.begin() + static_cast<std::ptrdiff_t>(i * neighbors_);
    std::sort(first, first + static_cast<std::ptrdiff_t>(neighbors_));
  }
}

std::size_t RecallSample::hits(std::size_t index, std::span<const std::uint32_t> ids, std::span<const float> distances) const {
  std::size_t right = 0;
  for (std::size_t j = 0; j < ids.size(); ++j) right += is_hit(index, {ids[j], distances[j]}) ? 1 : 0;
  return right;
}

bool RecallSample::is_hit(std::size_t index, const Found& entry) const {
  const auto first = ids_.begin() + static_cast<std::ptrdiff_t>(index * neighbors_);
  return entry.distance <= radii_[index] || std::binary_search(first, first + static_cast<std::ptrdiff_t>(neighbors_), entry.id);
}

double RecallSample::recall(const NeighborLists& lists) const {
  std::size_t right = 0;
  for (std::size_t i = 0; i < points_.size(); ++i) right += hits(i, lists.ids(points_[i]), lists.distances(points_[i]));
  return static_cast<double>(right) / static_cast<double>(points_.size() * neighbors_);
}

RecallSample sample_recall(const BuildTask& task, std::uint64_t& computed) {
  return RecallSample(task, task.rows, spread_points(task.size(), task.options.recall_sample, task.options.seed), computed);
}

}  // namespace smartmine
