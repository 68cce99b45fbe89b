#include "graph/previous_lists.h"

#include <algorithm>
#include <atomic>

#include "graph/fanng_parts.h"
#include "smartmine/core/parallel.h"
#include "smartmine/core/random.h"

namespace smartmine {

namespace {

constexpr std::uint64_t kStrangerStream = 0x5354;

// Gathers the places that a point looks at, each once. One object a thread.
class Looks {
 public:
  Looks(const BuildTask& task, const Fanng& previous, std::size_t helpers)
      : task_(task),
        known_(FanngParts::candidates_per_point(previous)),
        helpers_(std::min(helpers, known_)),
        earlier_(FanngParts::candidates(previous)),
        seen_(task.size(), 0) {}

  void gather(std::size_t place, std::vector<std::uint32_t>& candidates) {
    constexpr std::size_t kStrangers = 4;
    const auto mark = static_cast<std::uint32_t>(place + 1);
    candidates.clear();
    seen_[place] = mark;
    const auto look_at = [&](std::uint32_t other) {
      if (seen_[other] == mark) return;
      seen_[other] = mark;
      candidates.push_back(other);
    };
    const std::uint32_t* mine = earlier_.data() + place * known_;
    for (std::size_t j = 0; j < known_; ++j) look_at(mine[j]);
    for (std::size_t helper = 0; helper < helpers_; ++helper) {
      const std::uint32_t* theirs = earlier_.data() + mine[helper] * known_;
      for (std::size_t j = 0; j < task_.neighbors(); ++j) look_at(theirs[j]);
    }
    Random random(task_.options.seed, kStrangerStream, place);
    for (std::size_t i = 0; i < kStrangers; ++i) look_at(static_cast<std::uint32_t>(random.below(task_.size())));
    fill_up(place, task_.neighbors(), task_.size(), candidates);
  }

 private:
  const BuildTask& task_;
  std::size_t known_;
  std::size_t helpers_;
  const std::vector<std::uint32_t>& earlier_;
  std::vector<std::uint32_t> seen_;  // the last point that looked at each place, counted from 1
};

// Leaves the candidates of the point at `place` in `w.candidates`, nearest first as far as the packing tells.
void look(std::size_t place, Looks& looks, const PackedPoints& packed, ListScratch& w) {
  looks.gather(place, w.candidates);
  w.keys.resize(w.candidates.size());
  packed.distances(place, w.candidates, w.keys.data(), w.packed);
  float farthest = 0;
  w.found.clear();
  for (std::size_t i = 0; i < w.candidates.size(); ++i) {
    w.found.push_back({w.candidates[i], w.keys[i]});
    farthest = std::max(farthest, w.keys[i]);
  }
  w.sort_by_counting(farthest);
}

// Candidates that are measured in full.
std::size_t measured_of(const BuildTask& task, const ListScratch& w) { return std::min(task.neighbors() + 8, w.candidates.size()); }

// The recall of the sample's lists with so many helpers.
double recall_with(const BuildTask& task, const Fanng& previous, std::size_t helpers, const OrderedRows& ordered,
                   const PackedPoints& packed, const RecallSample& truth, std::uint64_t& distances) {
  const std::size_t points = truth.points().size(), neighbors = task.neighbors();
  std::atomic<std::uint64_t> computed{0};
  std::atomic<std::size_t> right{0};
  parallel_for(points, (points + 3) / 4, task.threads(), [&](std::size_t begin, std::size_t end, unsigned) {
    Looks looks(task, previous, helpers);
    ListScratch w(task.kernels);
    w.sorted.resize(neighbors);
    w.distances.resize(neighbors);
    for (std::size_t i = begin; i < end; ++i) {
      const std::size_t place = ordered.place(truth.points()[i]);
      look(place, looks, packed, w);
      const std::size_t measured = measured_of(task, w);
      w.writer.write(ordered.rows()[place], ordered.rows(), std::span(w.candidates).first(measured), neighbors, w.sorted.data(),
                     w.distances.data());
      for (std::uint32_t& other : w.sorted) other = ordered.point(other);
      right += truth.hits(i, w.sorted, w.distances);
      computed += measured;
    }
    computed += w.packed.computed;
  });
  distances += computed;
  return static_cast<double>(right) / static_cast<double>(points * neighbors);
}

}  // namespace

std::size_t choose_helpers(const BuildTask& task, const Fanng& previous, const OrderedRows& ordered, const PackedPoints& packed,
                           const RecallSample& truth, std::uint64_t& distances) {
  // The exchange that follows mends two fifths of what is missing or more (measured: half, at 0.97). The sample is small: ask for a little
  // more.
  const double missing_allowed = 0.9 / 0.6 * (1 - task.options.recall_target);
  for (std::size_t helpers = 0; helpers < kMostHelpers; ++helpers)
    if (1 - recall_with(task, previous, helpers, ordered, packed, truth, distances) <= missing_allowed) return helpers;
  return kMostHelpers;
}

Candidates list_from_previous(const BuildTask& task, const Fanng& previous, std::size_t helpers, const OrderedRows& ordered,
                              const PackedPoints& packed, std::uint64_t& distances) {
  Candidates result(task);
  if (task.makes_edges) result.forward = ForwardEdges(task.size());
  std::atomic<std::uint64_t> computed{0};
  std::vector<std::unique_ptr<Looks>> looks(resolve_threads(task.threads()));
  const std::vector<std::size_t> begins = team_shares(task.team, task.size());
  const TeamShare own = own_share(task.team, begins);
  parallel_for(
      own.end - own.begin, 256, task.threads(),
      [&](std::size_t begin, std::size_t end, unsigned worker) {
        if (looks[worker] == nullptr) looks[worker] = std::make_unique<Looks>(task, previous, helpers);
        ListScratch w(task.kernels);
        std::uint64_t some = 0;
        for (std::size_t p = own.begin + begin; p < own.begin + end; ++p) {
          look(p, *looks[worker], packed, w);
          const std::size_t measured = measured_of(task, w);
          some += measured;
          result.write_list(p, std::span(w.candidates).first(measured), ordered, w);
          std::copy(w.sorted.begin(), w.sorted.end(), w.candidates.begin());
          result.keep(p, w.candidates);
          if (task.makes_edges && chooses_edges(task, previous)) choose_forward(task, p, measured, 0, packed, w, result.forward);
        }
        computed += some + w.packed.computed;
      },
      task.progress, "lists");
  distances += team_sum(task.team, computed);
  if (task.team != nullptr) result.share(*task.team, begins);
  return result;
}

bool chooses_edges(const BuildTask& task, const Fanng& previous) { return task.certifies() || !previous.has_edges(); }

ForwardEdges forward_from_previous(const Fanng& previous, const OrderedRows& ordered, unsigned threads) {
  ForwardEdges forward(ordered.size());
  parallel_for(ordered.size(), 2048, threads, [&](std::size_t begin, std::size_t end, unsigned) {
    for (std::size_t p = begin; p < end; ++p) {
      const auto earlier = previous.edges(ordered.point(p));
      for (const std::uint32_t point : earlier.first(std::min(ForwardEdges::kMost, earlier.size()))) forward.add(p, ordered.place(point));
    }
  });
  return forward;
}

}  // namespace smartmine
