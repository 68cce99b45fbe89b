#include "graph/search_lists.h"

#include <algorithm>
#include <atomic>
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

  // Searches for the point at each of `count` places and hands its candidates to `take`. Returns the number of distances computed.
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
            w.candidates.clear();
            for (const Found& found : backtrack.found())
              if (found.id != place) w.candidates.push_back(found.id);
            add_list(place, w.candidates);
            some += backtrack.found().size() + w.candidates.size();
            take(i, place, w);
          }
          computed += some;
        },
        task_.progress, "search");
    return computed;
  }

 private:
  // What is known of a point's list joins what a search found.
  void add_list(std::size_t place, std::vector<std::uint32_t>& candidates) const {
    if (task_.options.start == Start::kRandom) return;  // nothing is known yet
    const std::size_t found = candidates.size();
    for (const std::uint32_t id : lists_.ids(ordered_.point(place))) candidates.push_back(ordered_.place(id));
    std::sort(candidates.begin(), candidates.end());
    if (found != candidates.size()) candidates.erase(std::unique(candidates.begin(), candidates.end()), candidates.end());
  }

  const BuildTask& task_;
  const OrderedRows& ordered_;
  const EdgeLists& edges_;
  const NeighborLists& lists_;
  std::vector<std::unique_ptr<Backtrack>> searches_;
};

// The fewest distances a point, twice as many each time, by which the sample reaches the recall; 0: none does.
std::size_t enough_distances(const BuildTask& task, const OrderedRows& ordered, const RecallSample& truth, Searcher& searcher,
                             std::uint64_t& computed) {
  constexpr std::size_t kMostDistances = 32768;
  const std::size_t neighbors = task.neighbors();
  const std::size_t most = std::min({task.size(), kMostDistances, std::max<std::size_t>(task.size() / 4, 4096)});
  const Rows rows = ordered.rows();
  for (std::size_t budget = std::min(most, 8 * neighbors), last = 0; budget != last; last = budget, budget = std::min(most, 2 * budget)) {
    std::atomic<std::size_t> right{0};
    computed += searcher.run(
        truth.points().size(), budget, [&](std::size_t i) { return ordered.place(truth.points()[i]); },
        [&](std::size_t i, std::size_t place, ListScratch& w) {
          const std::size_t count = std::min(neighbors, w.candidates.size());
          w.sorted.resize(count);
          w.distances.resize(count);
          w.writer.write(rows[place], rows, w.candidates, count, w.sorted.data(), w.distances.data());
          for (std::uint32_t& id : w.sorted) id = ordered.point(id);
          right += truth.hits(i, w.sorted, w.distances);
        });
    if (static_cast<double>(right) >= task.options.recall_target * static_cast<double>(truth.points().size() * neighbors)) return budget;
  }
  return 0;
}

}  // namespace

Searched search_lists(const BuildTask& task, const OrderedRows& ordered, const EdgeLists& edges, const RecallSample& truth,
                      Candidates& candidates, std::uint64_t& computed) {
  constexpr std::size_t kExactUpTo = 200000;
  Searcher searcher(task, ordered, edges, candidates.lists);
  if (const std::size_t budget = enough_distances(task, ordered, truth, searcher, computed); budget > 0) {
    computed += searcher.run(
        task.size(), budget, [](std::size_t i) { return i; },
        [&](std::size_t, std::size_t place, ListScratch& w) {
          fill_up(place, task.neighbors(), task.size(), w.candidates);
          candidates.write_list(place, w.candidates, ordered, w);
          candidates.keep(place, w.sorted);
        });
    return Searched::kByGraph;
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
