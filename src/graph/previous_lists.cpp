#include "graph/previous_lists.h"

#include <algorithm>
#include <atomic>

#include "graph/fanng_parts.h"
#include "smartmine/core/parallel.h"
#include "smartmine/core/random.h"

namespace smartmine {

namespace {

constexpr std::uint64_t kStrangerStream = 0x5354;

// Finds the candidates of a point. One object a thread.
class Looks {
 public:
  Looks(const BuildTask& task, const Fanng& previous, const Refresh& how, const PackedPoints& packed)
      : task_(task),
        known_(FanngParts::candidates_per_point(previous)),
        helpers_(std::min(how.helpers, task.neighbors())),
        anywhere_(how.anywhere),
        lent_(std::min(known_, how.whole_lists ? task.neighbors() : (task.neighbors() + 1) / 2)),
        earlier_(FanngParts::candidates(previous)),
        packed_(packed),
        seen_(task.size()) {}

  // Leaves the candidates of the point at `place` in `w.candidates`; the first of them, as many as are returned, are to be measured in
  // full. For a build with edges they are in order, as far as the packing tells, with their distances in `w.keys`.
  std::size_t look(std::size_t place, ListScratch& w) {
    gather(place, w.candidates);
    const std::size_t count = w.candidates.size(), measured = std::min(task_.neighbors() + 8, count);
    w.keys.resize(panels_of(count) * kernels::kPanelWidth);
    packed_.scores(place, w.candidates, w.keys.data(), w.packed);
    if (!task_.makes_edges) return split(w, count, measured);
    float farthest = 0;
    w.found.clear();
    for (std::size_t i = 0; i < count; ++i) {
      w.found.push_back({w.candidates[i], packed_.norm(place) - 2 * w.keys[i]});
      farthest = std::max(farthest, w.found.back().distance);
    }
    w.sort_by_counting(farthest);
    return measured;
  }

 private:
  void gather(std::size_t place, std::vector<std::uint32_t>& candidates) {
    constexpr std::size_t kStrangers = 4, kPlacesInLine = 64 / sizeof(std::uint32_t);
    seen_.clear(1 + kStrangers + known_ + helpers_ * lent_);
    seen_.add(static_cast<std::uint32_t>(place));
    Random random(task_.options.seed, kStrangerStream, place);
    for (std::size_t i = 0; i < kStrangers; ++i) look_at(static_cast<std::uint32_t>(random.below(task_.size())));
    const std::uint32_t* mine = earlier_.data() + place * known_;
    lenders_.clear();
    for (std::size_t helper = 0; helper < helpers_; ++helper) {
      const std::uint32_t* theirs = earlier_.data() + mine[anywhere_ ? random.below(task_.neighbors()) : helper] * known_;
      for (std::size_t line = 0; line < lent_; line += kPlacesInLine) __builtin_prefetch(theirs + line);
      lenders_.push_back(theirs);
    }
    for (std::size_t j = 0; j < known_; ++j) look_at(mine[j]);
    for (const std::uint32_t* theirs : lenders_)
      for (std::size_t j = 0; j < lent_; ++j) look_at(theirs[j]);
    candidates.assign(seen_.members().begin() + 1, seen_.members().end());
    fill_up(place, task_.neighbors(), task_.size(), candidates);
  }

  void look_at(std::uint32_t other) {
    seen_.add(other);
    __builtin_prefetch(packed_.row(other));
  }

  // Brings the nearest of the candidates to the front, and drops what there is no room for. No order is needed: what is measured is sorted
  // then, and what comes after it need not be.
  std::size_t split(ListScratch& w, std::size_t count, std::size_t measured) {
    constexpr std::size_t kSpare = 8;
    kernels::Reservoir kept{0, static_cast<std::uint32_t>(count), w.keys.data(), w.candidates.data(), 0, 0, 0, false, 0};
    task_.kernels.finish(&kept, std::max(measured, task_.neighbors() + task_.beyond()), kSpare);
    w.distances.assign(kept.scores, kept.scores + kept.count);
    w.sorted.assign(kept.slots, kept.slots + kept.count);
    kernels::Reservoir nearest{0, kept.count, w.distances.data(), w.sorted.data(), 0, 0, 0, false, 0};
    task_.kernels.finish(&nearest, measured, kSpare);
    // Both are in the order they came in.
    w.inside.resize(kept.count + 1);
    std::size_t first = 0, others = 0;
    for (std::size_t i = 0; i < kept.count; ++i) {
      const bool near = first < nearest.count && kept.slots[i] == nearest.slots[first];
      w.inside[others] = kept.slots[i];
      first += near ? 1 : 0;
      others += near ? 0 : 1;
    }
    std::copy_n(nearest.slots, nearest.count, w.candidates.begin());
    std::copy_n(w.inside.begin(), others, w.candidates.begin() + nearest.count);
    w.candidates.resize(kept.count);
    return nearest.count;
  }

  const BuildTask& task_;
  std::size_t known_;
  std::size_t helpers_;
  bool anywhere_;
  std::size_t lent_;  // candidates of a helper that are looked at
  const std::vector<std::uint32_t>& earlier_;
  const PackedPoints& packed_;
  PlaceSet seen_;
  std::vector<const std::uint32_t*> lenders_;  // the candidates of each helper
};

// The recall of the sample's lists made like this.
double recall_with(const BuildTask& task, const Fanng& previous, const Refresh& how, const OrderedRows& ordered, const PackedPoints& packed,
                   const RecallSample& truth, std::uint64_t& distances) {
  const std::size_t points = truth.points().size(), neighbors = task.neighbors();
  std::atomic<std::uint64_t> computed{0};
  std::atomic<std::size_t> right{0};
  parallel_for(points, (points + 3) / 4, task.threads(), [&](std::size_t begin, std::size_t end, unsigned) {
    Looks looks(task, previous, how, packed);
    ListScratch w(task.kernels);
    for (std::size_t i = begin; i < end; ++i) {
      const std::size_t place = ordered.place(truth.points()[i]);
      const std::size_t measured = looks.look(place, w);
      w.sorted.resize(neighbors);
      w.distances.resize(neighbors);
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

std::optional<Refresh> choose_refresh(const BuildTask& task, const Fanng& previous, const OrderedRows& ordered, const PackedPoints& packed,
                                      const RecallSample& truth, double& recall, std::uint64_t& distances) {
  // Without an exchange the sample's lists are already those that will be judged. An exchange mends a fifth of what is missing (measured
  // at 0.97 to 0.985), and takes longer than one or two helpers more.
  const double allowed = 1 - task.options.recall_target, enough = 0.9 * allowed, enough_with_exchange = 1.1 * allowed;
  constexpr double kMended = 0.2;
  // The nearest know most of what a point lacks, until it has learnt that from them: from then on those all over its list know more. Of a
  // small class half a list tells nothing of what lies around it.
  constexpr Refresh kSteps[] = {
      {.helpers = 1}, {.helpers = 2}, {.helpers = 4}, {.helpers = 8, .anywhere = true}, {.helpers = 8, .whole_lists = true}, kMostRefresh};
  std::optional<Refresh> with_exchange;
  for (Refresh how : kSteps) {
    recall = recall_with(task, previous, how, ordered, packed, truth, distances);
    how.exchanges = 1 - recall > enough;
    if (!how.exchanges) return how;
    if (1 - recall <= enough_with_exchange && !with_exchange) with_exchange = how;
  }
  if (!with_exchange && (1 - recall) * (1 - kMended) <= allowed) return kMostRefresh;
  return with_exchange;
}

Candidates list_from_previous(const BuildTask& task, const Fanng& previous, const Refresh& how, const OrderedRows& ordered,
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
        if (looks[worker] == nullptr) looks[worker] = std::make_unique<Looks>(task, previous, how, packed);
        ListScratch w(task.kernels);
        std::uint64_t some = 0;
        for (std::size_t p = own.begin + begin; p < own.begin + end; ++p) {
          const std::size_t measured = looks[worker]->look(p, w);
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
