#include "graph/candidates.h"

#include <algorithm>

#include "smartmine/core/error.h"

namespace smartmine {

void ListScratch::sort_by_counting(float farthest) {
  constexpr std::size_t kSteps = 512;
  const float steps = farthest > 0 ? static_cast<float>(kSteps - 1) / farthest : 0.0F;
  const auto step_of = [&](const Found& one) {
    return static_cast<std::size_t>(std::clamp(one.distance * steps, 0.0F, static_cast<float>(kSteps - 1)));
  };
  begins.assign(kSteps + 1, 0);
  for (const Found& one : found) ++begins[step_of(one) + 1];
  for (std::size_t step = 0; step < kSteps; ++step) begins[step + 1] += begins[step];
  candidates.resize(found.size());
  keys.resize(found.size());
  for (const Found& one : found) {
    const std::uint32_t at = begins[step_of(one)]++;
    candidates[at] = one.id;
    keys[at] = one.distance;
  }
}

Candidates::Candidates(const BuildTask& task)
    : lists(make_lists(task.lists, task.size(), task.neighbors())),
      neighbors_(task.neighbors()),
      beyond_(task.beyond()),
      refreshable_(task.options.refreshable),
      kept_(refreshable_ ? task.size() * (neighbors_ + beyond_) : 0),
      after_(refreshable_ ? 0 : task.size() * beyond_) {}

void Candidates::write_list(std::size_t place, std::span<const std::uint32_t> candidates, const OrderedRows& ordered, ListScratch& w) {
  require(candidates.size() >= neighbors_, "a search found fewer candidates than the list is long");
  const Rows rows = ordered.rows();
  w.sorted.resize(candidates.size());
  w.distances.resize(candidates.size());
  w.writer.write(rows[place], rows, candidates, candidates.size(), w.sorted.data(), w.distances.data());
  take_list(place, ordered, w);
}

void Candidates::write_list(std::size_t place, std::span<const Found> candidates, const OrderedRows& ordered, ListScratch& w) {
  require(candidates.size() >= neighbors_, "a search found fewer candidates than the list is long");
  const std::size_t count = std::min(candidates.size(), neighbors_ + beyond_);
  w.sorted.resize(count);
  w.distances.resize(count);
  w.writer.write(candidates, count, w.sorted.data(), w.distances.data());
  take_list(place, ordered, w);
}

void Candidates::take_list(std::size_t place, const OrderedRows& ordered, const ListScratch& w) {
  const auto list = lists.ids(ordered.point(place));
  const auto lengths = lists.distances(ordered.point(place));
  for (std::size_t j = 0; j < neighbors_; ++j) list[j] = ordered.point(w.sorted[j]);
  std::copy_n(w.distances.begin(), neighbors_, lengths.begin());
  order_ties(list, lengths);
}

void Candidates::share(const Team& team, std::span<const std::size_t> begins) {
  forward.share(team, begins);
  if (!refreshable_ && beyond_ > 0) team.gather(after_.data(), beyond_ * sizeof(std::uint32_t), begins);
}

void Candidates::share_lists(const Team& team, const OrderedRows& ordered, std::span<const std::size_t> begins) {
  if (refreshable_) team.gather(kept_.data(), (neighbors_ + beyond_) * sizeof(std::uint32_t), begins);
  // Lists lie by point and not by place: they go in slices, so that the copies stay small.
  constexpr std::size_t kSlices = 16;
  for (std::size_t slice = 0; slice < kSlices; ++slice) {
    std::vector<std::size_t> firsts, rows = {0};  // of each member, its first place, and where its rows begin in the copies
    for (std::size_t i = 0; i < team.size; ++i) {
      const std::size_t count = begins[i + 1] - begins[i];
      firsts.push_back(begins[i] + count * slice / kSlices);
      rows.push_back(rows.back() + begins[i] + count * (slice + 1) / kSlices - firsts.back());
    }
    std::vector<std::uint32_t> ids(rows.back() * neighbors_);
    std::vector<float> distances(ids.size());
    for (std::size_t row = rows[team.member]; row < rows[team.member + 1]; ++row) {
      const std::uint32_t point = ordered.point(firsts[team.member] + row - rows[team.member]);
      std::copy_n(lists.ids(point).begin(), neighbors_, ids.begin() + static_cast<std::ptrdiff_t>(row * neighbors_));
      std::copy_n(lists.distances(point).begin(), neighbors_, distances.begin() + static_cast<std::ptrdiff_t>(row * neighbors_));
    }
    team.gather(ids.data(), neighbors_ * sizeof(std::uint32_t), rows);
    team.gather(distances.data(), neighbors_ * sizeof(float), rows);
    for (std::size_t i = 0; i < team.size; ++i)
      for (std::size_t row = rows[i]; row < rows[i + 1] && i != team.member; ++row) {
        const std::uint32_t point = ordered.point(firsts[i] + row - rows[i]);
        std::copy_n(ids.begin() + static_cast<std::ptrdiff_t>(row * neighbors_), neighbors_, lists.ids(point).begin());
        std::copy_n(distances.begin() + static_cast<std::ptrdiff_t>(row * neighbors_), neighbors_, lists.distances(point).begin());
      }
  }
}

void Candidates::keep(std::size_t place, std::span<const std::uint32_t> candidates) {
  if (!refreshable_ && after_.empty()) return;  // given up
  std::uint32_t* kept = (refreshable_ ? kept_.data() : after_.data()) + offset(place);
  if (refreshable_) std::copy_n(candidates.begin(), neighbors_, kept - neighbors_);
  const std::size_t count = std::min(beyond_, candidates.size() - neighbors_);
  std::copy_n(candidates.begin() + static_cast<std::ptrdiff_t>(neighbors_), count, kept);
  std::fill(kept + count, kept + beyond_, static_cast<std::uint32_t>(place));
}

std::span<const std::uint32_t> Candidates::listed(std::size_t place, const OrderedRows& ordered,
                                                  std::vector<std::uint32_t>& scratch) const {
  if (refreshable_) return {kept_.data() + offset(place) - neighbors_, neighbors_};
  scratch.resize(neighbors_);
  const auto ids = lists.ids(ordered.point(place));
  for (std::size_t j = 0; j < neighbors_; ++j) scratch[j] = ordered.place(ids[j]);
  return scratch;
}

void Candidates::keep_list(std::size_t place, const OrderedRows& ordered, PlaceSet& on_list, std::vector<std::uint32_t>& left) {
  if (!refreshable_) return;
  std::uint32_t* kept = kept_.data() + offset(place) - neighbors_;
  const auto ids = lists.ids(ordered.point(place));
  on_list.clear(neighbors_);
  for (const std::uint32_t id : ids) on_list.add(ordered.place(id));
  // What was on the list and no longer is comes first of what is kept after it.
  left.resize(neighbors_ + beyond_);
  std::size_t count = 0;
  for (std::size_t j = 0; j < neighbors_ + beyond_; ++j) {
    left[count] = kept[j];
    count += on_list.has(kept[j]) ? 0 : 1;
  }
  std::copy(on_list.members().begin(), on_list.members().end(), kept);
  std::copy_n(left.begin(), beyond_, kept + neighbors_);
}

void choose_forward(const BuildTask& task, std::size_t place, std::size_t measured, std::size_t first, const PackedPoints& packed,
                    ListScratch& w, ForwardEdges& forward) {
  for (std::size_t j = 0; j < measured; ++j) w.keys[j] = w.distances[j] * packed.squared_scale();
  const std::size_t considered = std::min(w.candidates.size(), std::max(measured, task.edge_candidates()));
  // Copies of the point do not occlude each other; a few of them are enough.
  std::size_t copies = 0;
  while (copies < measured && w.distances[copies] == 0) ++copies;
  const std::size_t skipped = copies - std::min(copies, kCopies);
  w.inside.clear();
  for (std::size_t j = skipped; j < considered; ++j) w.inside.push_back(w.candidates[j] - static_cast<std::uint32_t>(first));
  std::uint32_t* ends = forward.room(place);
  const std::size_t chosen =
      packed.prune(w.inside, std::span(w.keys).subspan(skipped, considered - skipped), ForwardEdges::kMost, ends, w.packed);
  for (std::size_t e = 0; e < chosen; ++e) ends[e] += static_cast<std::uint32_t>(first);
  forward.set_count(place, chosen);
}

void fill_up(std::size_t place, std::size_t wanted, std::size_t size, std::vector<std::uint32_t>& candidates) {
  if (candidates.size() >= wanted) return;
  std::vector<std::uint32_t> have(candidates);
  std::sort(have.begin(), have.end());
  for (std::uint32_t other = 0; other < size && candidates.size() < wanted; ++other)
    if (other != place && !std::binary_search(have.begin(), have.end(), other)) candidates.push_back(other);
}

}  // namespace smartmine
