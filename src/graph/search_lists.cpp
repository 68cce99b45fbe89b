#include "graph/search_lists.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <memory>

#include "graph/backtrack.h"
#include "graph/exact_lists.h"
#include "smartmine/core/parallel.h"

namespace smartmine {

namespace {

struct EdgeEnds {
  std::span<const Edge> edges;
  std::size_t size() const { return edges.size(); }
  std::uint32_t operator[](std::size_t i) const { return edges[i].end; }
};

// Searches for points through a graph, with as many threads as the task says.
class Searcher {
 public:
  Searcher(const BuildTask& task, const OrderedRows& ordered, const EdgeLists& edges, const NeighborLists& lists)
      : task_(task), ordered_(ordered), edges_(edges), lists_(lists), searches_(resolve_threads(task.threads())) {}

  // Searches for the point at each of `count` places and hands what is near it, in `w.found`, to `take`: first what its list had already,
  // then what was found, in that order, each once. Returns the number of distances computed.
  template <class PlaceOf, class Take>
  std::uint64_t run(std::size_t count, std::size_t budget, const PlaceOf& place_of, const Take& take) {
    const Rows rows = ordered_.rows();
    std::atomic<std::uint64_t> computed{0};
    parallel_for(
        count, 16, task_.threads(),
        [&](std::size_t begin, std::size_t end, unsigned worker) {
          if (searches_[worker] == nullptr) searches_[worker] = std::make_unique<Backtrack>(task_.size());
          Backtrack& backtrack = *searches_[worker];
          ListScratch w(task_.kernels);
          std::uint64_t some = 0;
          for (std::size_t i = begin; i < end; ++i) {
            const std::size_t place = place_of(i);
            backtrack.run(rows, rows[place], static_cast<std::uint32_t>(place), budget, task_.kernels,
                          [this](std::uint32_t vertex) { return EdgeEnds{edges_.of(vertex)}; });
            some += backtrack.found().size();
            w.found.clear();
            add_list(place, w);
            const bool knows_some = !w.found.empty();
            for (const Found& found : backtrack.found())
              if (found.id != place && !(knows_some && std::binary_search(w.sorted.begin(), w.sorted.end(), found.id)))
                w.found.push_back(found);
            take(i, place, w);
          }
          computed += some;
        },
        task_.progress, "search");
    return computed;
  }

 private:
  // What is known of a point's list; its places are left in `w.sorted`.
  void add_list(std::size_t place, ListScratch& w) const {
    if (task_.options.start == Start::kRandom) return;  // nothing is known yet
    const auto ids = lists_.ids(ordered_.point(place));
    const auto distances = lists_.distances(ordered_.point(place));
    for (std::size_t j = 0; j < ids.size(); ++j) w.found.push_back({ordered_.place(ids[j]), distances[j]});
    w.sorted.clear();
    for (const Found& known : w.found) w.sorted.push_back(known.id);
    std::sort(w.sorted.begin(), w.sorted.end());
  }

  const BuildTask& task_;
  const OrderedRows& ordered_;
  const EdgeLists& edges_;
  const NeighborLists& lists_;
  std::vector<std::unique_ptr<Backtrack>> searches_;
};

std::size_t most_distances(const BuildTask& task) {
  constexpr std::size_t kMostDistances = 32768;
  return std::min({task.size(), kMostDistances, std::max<std::size_t>(task.size() / 4, 4096)});
}

// The fewest distances a point by which some of the sample reach the recall, with something to spare for the luck of the draw; 0: none do.
// A search finds the same with fewer distances, only not all of it: so one search tells for many numbers of them.
std::size_t enough_distances(const BuildTask& task, const OrderedRows& ordered, const RecallSample& truth, Searcher& searcher,
                             std::uint64_t& computed) {
  constexpr std::size_t kPoints = 256, kSteps = 32;
  constexpr double kSpare = 2;  // standard errors
  const std::size_t neighbors = task.neighbors(), most = most_distances(task);
  const std::size_t points = std::min(kPoints, truth.points().size());
  const auto sampled = [&](std::size_t i) { return i * truth.points().size() / points; };
  std::vector<std::array<std::size_t, kSteps>> right(points);  // by the end of each step
  for (std::size_t budget = std::min(most, 8 * neighbors), last = 0; budget != last; last = budget, budget = std::min(most, 2 * budget)) {
    const auto end_of = [&](std::size_t step) { return budget * (step + 1) / kSteps; };
    computed += searcher.run(
        points, budget, [&](std::size_t i) { return ordered.place(truth.points()[sampled(i)]); },
        [&](std::size_t i, std::size_t, ListScratch& w) {
          const std::size_t known = task.options.start == Start::kRandom ? 0 : neighbors;
          std::size_t hits = 0, at = 0;
          for (std::size_t step = 0; step < kSteps; ++step) {
            // The vertex itself is looked at too.
            for (; at < w.found.size() && at + 1 < known + end_of(step); ++at)
              hits += truth.is_hit(sampled(i), {ordered.point(w.found[at].id), w.found[at].distance}) ? 1 : 0;
            right[i][step] = std::min(hits, neighbors);
          }
        });
    for (std::size_t step = 0; step < kSteps; ++step) {
      // What was on the lists already tells nothing of how soon it would have been found.
      if (end_of(step) < neighbors + 1 || (task.options.start != Start::kRandom && step + 1 < kSteps)) continue;
      double sum = 0, squares = 0;
      for (const auto& of_point : right) {
        const double recall = static_cast<double>(of_point[step]) / static_cast<double>(neighbors);
        sum += recall;
        squares += recall * recall;
      }
      const auto count = static_cast<double>(points);
      const double mean = sum / count, error = std::sqrt(std::max(0.0, squares / count - mean * mean) / count);
      const bool last_chance = step + 1 == kSteps && budget == most;
      if (mean - (last_chance ? 0 : kSpare * error) >= task.options.recall_target) return end_of(step);
    }
  }
  return 0;
}

}  // namespace

Searched search_lists(const BuildTask& task, const OrderedRows& ordered, const EdgeLists& edges, const RecallSample& truth,
                      Candidates& candidates, std::uint64_t& computed) {
  constexpr std::size_t kExactUpTo = 200000;
  Searcher searcher(task, ordered, edges, candidates.lists);
  std::size_t budget = enough_distances(task, ordered, truth, searcher, computed);
  // A distance to a row that comes from afar takes as long as some sixteen of a scan. The paper's build searches through its graph.
  constexpr std::size_t kScanned = 16;
  const auto pays = [&] { return task.options.start == Start::kRandom || task.size() > kExactUpTo || kScanned * budget <= task.size(); };
  while (budget > 0 && pays()) {
    computed += searcher.run(
        task.size(), budget, [](std::size_t i) { return i; },
        [&](std::size_t, std::size_t place, ListScratch& w) {
          if (w.found.size() >= task.neighbors()) {
            candidates.write_list(place, w.found, ordered, w);
          } else {
            w.candidates.clear();
            for (const Found& found : w.found) w.candidates.push_back(found.id);
            fill_up(place, task.neighbors(), task.size(), w.candidates);
            candidates.write_list(place, w.candidates, ordered, w);
          }
          candidates.keep(place, w.sorted);
        });
    if (truth.recall(candidates.lists) >= task.options.recall_target) return Searched::kByGraph;
    const std::size_t most = most_distances(task);  // some of the sample were luckier than the rest
    budget = budget < most ? std::min(most, budget + budget / 4) : 0;
  }
  if (task.size() > kExactUpTo && task.options.start != Start::kRandom) return Searched::kNot;
  std::vector<const float*> queries(task.size());
  for (std::size_t i = 0; i < task.size(); ++i) queries[i] = task.rows[i];
  computed += find_exact_lists(
      task.rows, {queries, own_order(task.size()), task.neighbors(), candidates.lists.all_ids(), candidates.lists.all_distances()},
      task.kernels, task.threads(), task.progress, "search");
  return Searched::kByAllPairs;
}

}  // namespace smartmine
