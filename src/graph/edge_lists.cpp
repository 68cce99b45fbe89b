#include "graph/edge_lists.h"

#include <algorithm>
#include <cmath>

#include "smartmine/core/parallel.h"
#include "smartmine/core/random.h"

namespace smartmine {

namespace {

constexpr std::uint64_t kPairStream = 0x7472;
// Fresh pairs looked at before a success rate is believed: enough to certify 98 % when the true rate is 98.6 %.
constexpr std::size_t kWindow = 3000;

}  // namespace

bool EdgeLists::add(std::size_t vertex, Edge edge, const Rows& rows, const kernels::Kernels& kernels) {
  Edge* mine = edges_.data() + vertex * max_degree_;
  std::size_t count = counts_[vertex];
  std::size_t place = 0;
  for (; place < count && mine[place] < edge; ++place) {
    if (mine[place].end == edge.end) return false;
    if (mine[place].squared < edge.squared &&
        kernels.squared_distance(rows[mine[place].end], rows[edge.end], rows.dimension()) < edge.squared)
      return false;
  }
  std::size_t left = place;  // edges that stay behind the new one
  for (std::size_t i = place; i < count; ++i) {
    if (mine[i].end == edge.end) return false;
    const bool occluded =
        edge.squared < mine[i].squared && kernels.squared_distance(rows[edge.end], rows[mine[i].end], rows.dimension()) < mine[i].squared;
    if (!occluded) mine[left++] = mine[i];
  }
  count = left;
  if (place == max_degree_) return false;
  if (count == max_degree_) --count;  // the longest makes room
  std::copy_backward(mine + place, mine + count, mine + count + 1);
  mine[place] = edge;
  counts_[vertex] = static_cast<std::uint16_t>(count + 1);
  return true;
}

std::uint32_t downhill(const EdgeLists& edges, const Rows& rows, std::uint32_t start, const float* target, const kernels::Kernels& kernels,
                       std::uint64_t& computed) {
  std::uint32_t here = start;
  float distance = kernels.squared_distance(rows[here], target, rows.dimension());
  ++computed;
  while (true) {
    const auto mine = edges.of(here);
    for (const Edge& edge : mine) prefetch_row(rows, edge.end);
    std::uint32_t best = here;
    float nearest = distance;
    for (const Edge& edge : mine) {
      const float squared = kernels.squared_distance(rows[edge.end], target, rows.dimension());
      if (squared < nearest) {
        nearest = squared;
        best = edge.end;
      }
    }
    computed += mine.size();
    if (best == here) return here;
    here = best;
    distance = nearest;
  }
}

double lower_bound_95(std::size_t hits, std::size_t tries) {
  if (tries == 0) return 0;
  constexpr double kZ = 1.6448536269514722;  // one-sided 95 %
  const auto n = static_cast<double>(tries);
  const double share = static_cast<double>(hits) / n;
  const double middle = share + kZ * kZ / (2 * n);
  const double spread = kZ * std::sqrt(share * (1 - share) / n + kZ * kZ / (4 * n * n));
  return std::max(0.0, (middle - spread) / (1 + kZ * kZ / n));
}

TraverseResult traverse_add(EdgeLists& edges, const Rows& rows, const TraverseOptions& options, const kernels::Kernels& kernels,
                            const Progress& progress) {
  struct Walk {
    std::uint32_t stopped, target;
    std::uint32_t computed;
  };
  TraverseResult result;
  const std::size_t vertices = edges.vertices();
  std::vector<Walk> walks;
  std::size_t tried = 0;
  std::size_t size = std::min(options.batch, kWindow);
  // Only while a batch ended without a change may the next one join its window: pairs must be fresh to the graph they are judged on.
  std::size_t hits = 0, window = 0;
  for (std::uint64_t round = 0; vertices > 1; ++round) {
    walks.resize(size);
    parallel_for(size, 64, options.threads, [&](std::size_t begin, std::size_t end, unsigned) {
      for (std::size_t i = begin; i < end; ++i) {
        Random random(options.seed, kPairStream + (round << 16), i);
        const auto start = static_cast<std::uint32_t>(random.below(vertices));
        auto goal = static_cast<std::uint32_t>(random.below(vertices - 1));
        goal += goal >= start;
        std::uint64_t computed = 0;
        walks[i] = {downhill(edges, rows, start, rows[goal], kernels, computed), goal, 0};
        walks[i].computed = static_cast<std::uint32_t>(computed);
      }
    });
    std::size_t arrived = 0;
    for (const Walk& walk : walks) {
      result.computed += walk.computed;
      // A walk that ends on a copy of its target has arrived: nothing is nearer.
      arrived += walk.stopped == walk.target || kernels.squared_distance(rows[walk.stopped], rows[walk.target], rows.dimension()) == 0;
    }
    tried += size;
    hits += arrived;
    window += size;
    result.rate = static_cast<double>(hits) / static_cast<double>(window);
    result.bound = lower_bound_95(hits, window);
    result.pairs = window;
    report(progress, "traverse-add", static_cast<std::size_t>(std::min(result.bound / options.target, 1.0) * 1000), 1000);
    if (window >= kWindow && result.bound >= options.target) {
      result.reached = true;
      return result;
    }
    if (tried >= options.most_pairs || (window >= options.batch && result.rate < options.hopeless_below)) return result;
    const bool nearly = arrived == size || (window < 4 * kWindow && result.rate >= options.target + 0.25 * (1 - options.target));
    if (nearly) {  // likely good enough: look at more pairs before changing the graph
      size = kWindow;
      continue;
    }
    for (const Walk& walk : walks) {
      if (walk.stopped == walk.target) continue;
      const float squared = kernels.squared_distance(rows[walk.stopped], rows[walk.target], rows.dimension());
      result.added += squared > 0 && edges.add(walk.stopped, {squared, walk.target}, rows, kernels);
    }
    hits = window = 0;
    size = options.batch;
  }
  result.rate = result.bound = 1;
  result.reached = true;
  return result;
}

}  // namespace smartmine
