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
    : lists(task.size(), task.neighbors()),
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
  const auto list = lists.ids(ordered.point(place));
  const auto lengths = lists.distances(ordered.point(place));
  for (std::size_t j = 0; j < neighbors_; ++j) list[j] = ordered.point(w.sorted[j]);
  std::copy_n(w.distances.begin(), neighbors_, lengths.begin());
  order_ties(list, lengths);
}

void Candidates::keep(std::size_t place, std::span<const std::uint32_t> candidates) {
  std::uint32_t* kept = (refreshable_ ? kept_.data() : after_.data()) + offset(place);
  if (refreshable_) std::copy_n(candidates.begin(), neighbors_, kept - neighbors_);
  const std::size_t count = std::min(beyond_, candidates.size() - neighbors_);
  std::copy_n(candidates.begin() + static_cast<std::ptrdiff_t>(neighbors_), count, kept);
  std::fill(kept + count, kept + beyond_, static_cast<std::uint32_t>(place));
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
