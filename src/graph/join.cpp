#include "graph/join.h"

#include <algorithm>
#include <memory>
#include <span>

#include "graph/place_set.h"
#include "smartmine/core/buffer.h"
#include "smartmine/core/parallel.h"

namespace smartmine {

namespace {

// Mends the lists of one point after another. One object a thread.
class Joiner {
 public:
  Joiner(const BuildTask& task, const OrderedRows& ordered, std::size_t first, std::size_t last, const PackedPoints& packed)
      : task_(task), ordered_(ordered), first_(first), rows_(ordered.rows(first, last)), packed_(packed), seen_(last - first) {}

  std::uint64_t computed() const { return measured_ + scratch_.computed; }

  /// Has what `mend` will read of this row brought near.
  void fetch(std::size_t row, std::span<const std::uint32_t> known, std::size_t helpers, std::size_t entries,
             const NeighborLists& lists) const {
    constexpr std::size_t kLine = 16;  // entries of a line of the cache
    for (const std::uint32_t helper : known.subspan(row * entries, helpers))
      for (std::size_t j = 0; j < entries + kLine - 1; j += kLine) __builtin_prefetch(known.data() + helper * entries + j);
    const std::uint32_t point = ordered_.point(first_ + row);
    for (std::size_t j = 0; j < lists.neighbors(); j += kLine) {
      __builtin_prefetch(lists.ids(point).data() + j, 1);
      __builtin_prefetch(lists.distances(point).data() + j, 1);
    }
  }

  /// `known`: the beginnings of all lists, `entries` of each, as rows of the group.
  void mend(std::size_t row, std::span<const std::uint32_t> known, std::size_t helpers, std::size_t entries, NeighborLists& lists) {
    const std::uint32_t point = ordered_.point(first_ + row);
    const auto ids = lists.ids(point);
    const auto distances = lists.distances(point);
    const std::span<const std::uint32_t> mine = known.subspan(row * entries, entries);
    seen_.clear(1 + ids.size() + helpers * entries);
    seen_.add(static_cast<std::uint32_t>(row));
    for (const std::uint32_t other : mine) seen_.add(other);
    for (const std::uint32_t id : ids.subspan(entries)) seen_.add(static_cast<std::uint32_t>(ordered_.place(id) - first_));
    const std::size_t own = seen_.members().size();
    for (const std::uint32_t helper : mine.first(helpers))
      for (const std::uint32_t other : known.subspan(helper * entries, entries)) seen_.add(other);
    const std::span<const std::uint32_t> candidates = seen_.members().subspan(own);
    if (candidates.empty()) return;
    keys_.resize(candidates.size());
    packed_.distances(row, candidates, keys_.data(), scratch_);
    // Bytes blur: what seems a little farther may be nearer.
    const float last = distances.back(), bar = last * packed_.squared_scale() * 1.03F;
    nearer_.clear();
    for (std::size_t i = 0; i < candidates.size(); ++i)
      if (keys_[i] < bar) nearer_.push_back(candidates[i]);
    squared_.resize(nearer_.size());
    task_.kernels.squared_distances(rows_[row], rows_.data(), nearer_.data(), nearer_.size(), rows_.dimension(), squared_.data());
    measured_ += nearer_.size();
    merged_.clear();
    for (std::size_t i = 0; i < nearer_.size(); ++i)
      if (squared_[i] < last) merged_.push_back({ordered_.point(first_ + nearer_[i]), squared_[i]});
    if (merged_.empty()) return;
    std::sort(merged_.begin(), merged_.end());
    const auto found = static_cast<std::ptrdiff_t>(merged_.size());
    for (std::size_t j = 0; j < ids.size(); ++j) merged_.push_back({ids[j], distances[j]});
    std::inplace_merge(merged_.begin(), merged_.begin() + found, merged_.end());
    for (std::size_t j = 0; j < ids.size(); ++j) {
      ids[j] = merged_[j].id;
      distances[j] = merged_[j].distance;
    }
  }

 private:
  const BuildTask& task_;
  const OrderedRows& ordered_;
  std::size_t first_;
  Rows rows_;
  const PackedPoints& packed_;
  PlaceSet seen_;
  std::vector<float> keys_, squared_;
  std::vector<std::uint32_t> nearer_;
  std::vector<Found> merged_;
  PackedPoints::Scratch scratch_;
  std::uint64_t measured_ = 0;
};

}  // namespace

void join_neighbors(const BuildTask& task, const OrderedRows& ordered, const PackedPoints& packed, const Join& join,
                    const std::vector<std::size_t>& shares, NeighborLists& lists, std::uint64_t& computed) {
  const std::size_t first = shares.front(), size = shares.back() - first;
  const std::size_t entries = std::min(join.entries, lists.neighbors()), helpers = std::min(join.helpers, entries);
  std::vector<std::size_t> rows(shares);
  for (std::size_t& row : rows) row -= first;
  const TeamShare own = own_share(task.team, rows);
  // In the order of places, so that those of near points are near each other, and nobody sees what another has already mended.
  Buffer<std::uint32_t> known(size * entries);
  parallel_for(own.end - own.begin, 2048, task.threads(), [&](std::size_t begin, std::size_t end, unsigned) {
    for (std::size_t row = own.begin + begin; row < own.begin + end; ++row) {
      const auto ids = lists.ids(ordered.point(first + row));
      for (std::size_t j = 0; j < entries; ++j) known[row * entries + j] = static_cast<std::uint32_t>(ordered.place(ids[j]) - first);
    }
  });
  if (task.team != nullptr) task.team->gather(known.data(), entries * sizeof(std::uint32_t), rows);
  std::vector<std::unique_ptr<Joiner>> joiners(resolve_threads(task.threads()));
  parallel_for(
      own.end - own.begin, 256, task.threads(),
      [&](std::size_t begin, std::size_t end, unsigned worker) {
        if (joiners[worker] == nullptr) joiners[worker] = std::make_unique<Joiner>(task, ordered, first, shares.back(), packed);
        for (std::size_t row = own.begin + begin; row < own.begin + end; ++row) {
          if (row + 1 < own.begin + end) joiners[worker]->fetch(row + 1, known.span(), helpers, entries, lists);
          joiners[worker]->mend(row, known.span(), helpers, entries, lists);
        }
      },
      task.progress, "neighbours");
  std::uint64_t some = 0;
  for (const auto& joiner : joiners)
    if (joiner != nullptr) some += joiner->computed();
  computed += team_sum(task.team, some);
}

}  // namespace smartmine
