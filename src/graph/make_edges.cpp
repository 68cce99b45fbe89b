#include "graph/make_edges.h"

#include <algorithm>
#include <atomic>
#include <numeric>

#include "smartmine/core/parallel.h"
#include "smartmine/core/random.h"

namespace smartmine {

namespace {

constexpr std::uint64_t kRandomEdgeStream = 0x5245;
constexpr std::size_t kMostRanks = 4096;  // places of a list that traps are looked for in
constexpr std::size_t kRandomEdges = 8;   // for the long way; more where the success rate must be reached

// For each vertex the points that it is a trap for.
struct WaysOut {
  WaysOut(const std::vector<Trap>& traps, std::size_t vertices) : begins(vertices + 1, 0), points(traps.size()) {
    for (const Trap& trap : traps) ++begins[trap.vertex + 1];
    std::partial_sum(begins.begin(), begins.end(), begins.begin());
    std::vector<std::uint64_t> next(begins.begin(), begins.end() - 1);
    for (const Trap& trap : traps) points[next[trap.vertex]++] = trap.point;
  }
  std::span<const std::uint32_t> of(std::size_t vertex) const {
    return {points.data() + begins[vertex], points.data() + begins[vertex + 1]};
  }

  std::vector<std::uint64_t> begins;
  std::vector<std::uint32_t> points;
};

// Random vertices for the long way, to be measured later: where they lie, nothing is at hand.
void draw_random(const BuildTask& task, std::size_t count, std::size_t vertex, const Rows& rows, std::vector<std::uint32_t>& ends) {
  Random random(task.options.seed, kRandomEdgeStream, vertex);
  for (std::size_t i = 0; i < count; ++i) {
    ends.push_back(static_cast<std::uint32_t>(random.below(rows.size())));
    prefetch_row(rows, ends.back());
  }
}

// The edges to `ends`, measured.
void measure(const BuildTask& task, std::size_t vertex, const Rows& rows, std::span<const std::uint32_t> ends, std::vector<float>& lengths,
             std::vector<Edge>& candidates) {
  lengths.resize(ends.size());
  task.kernels.squared_distances(rows[vertex], rows.data(), ends.data(), ends.size(), rows.dimension(), lengths.data());
  candidates.clear();
  for (std::size_t i = 0; i < ends.size(); ++i) candidates.push_back({lengths[i], ends[i]});
}

// Ascending, each once, and without the vertex itself.
void put_in_order(std::size_t vertex, std::vector<Edge>& candidates) {
  std::sort(candidates.begin(), candidates.end());
  candidates.erase(std::unique(candidates.begin(), candidates.end(), [](const Edge& a, const Edge& b) { return a.end == b.end; }),
                   candidates.end());
  candidates.erase(std::remove_if(candidates.begin(), candidates.end(), [&](const Edge& edge) { return edge.end == vertex; }),
                   candidates.end());
}

// The same as edges.prune, with most comparisons ruled out in packed units. Returns the number of distances computed in full.
std::uint64_t prune_packed(EdgeLists& edges, std::size_t vertex, const std::vector<Edge>& candidates, const Rows& rows,
                           const kernels::Kernels& kernels, const PackedPoints& packed, PackedPoints::Scratch& scratch,
                           std::vector<std::uint32_t>& ends, std::vector<float>& lengths) {
  ends.clear();
  lengths.clear();
  for (const Edge& edge : candidates) {
    ends.push_back(edge.end);
    lengths.push_back(edge.squared);
  }
  packed.may_be_nearer(ends, lengths, scratch);
  const std::size_t words = (ends.size() + 15) / 16;
  return edges.prune(vertex, candidates, rows, kernels,
                     [&](std::size_t i, std::size_t j) { return (scratch.masks[i * words + j / 16] >> (j % 16) & 1) != 0; });
}

// Finds traps, with what is remembered from one point to the next. One object a thread.
class TrapFinder {
 public:
  TrapFinder(const BuildTask& task, const OrderedRows& ordered, const Candidates& candidates, std::size_t known)
      : task_(task), ordered_(ordered), candidates_(candidates), near_(known), rank_(task.size(), kNone) {}

  void find(std::size_t point, std::vector<Trap>& traps) {
    constexpr std::size_t kAhead = 8;
    const std::size_t known = near_.size(), neighbors = task_.neighbors();
    const auto ids = candidates_.lists.ids(ordered_.point(point));
    for (std::size_t j = 0; j < std::min(known, neighbors); ++j) near_[j] = ordered_.place(ids[j]);
    if (known > neighbors)
      std::copy_n(candidates_.after_list(point).begin(), known - neighbors, near_.begin() + static_cast<std::ptrdiff_t>(neighbors));
    rank_[point] = 0;
    for (std::size_t j = known; j-- > 0;)
      if (near_[j] != point) rank_[near_[j]] = static_cast<std::uint16_t>(j + 1);
    for (std::size_t j = 0; j < known; ++j) {
      const std::uint32_t vertex = near_[j];
      if (j + kAhead < known) __builtin_prefetch(candidates_.forward.of(near_[j + kAhead]).data());
      const auto ends = candidates_.forward.of(vertex);
      bool nearer = vertex == point;
      for (std::size_t e = 0; e < ends.size() && !nearer; ++e) nearer = rank_[ends[e]] < j + 1;
      if (!nearer) traps.push_back({vertex, static_cast<std::uint32_t>(point)});
    }
    for (const std::uint32_t vertex : near_) rank_[vertex] = kNone;
    rank_[point] = kNone;
  }

 private:
  static constexpr std::uint16_t kNone = 0xffff;
  const BuildTask& task_;
  const OrderedRows& ordered_;
  const Candidates& candidates_;
  std::vector<std::uint32_t> near_;
  std::vector<std::uint16_t> rank_;  // of the point at hand, by place; all kNone between two points
};

}  // namespace

std::vector<Trap> find_traps(const BuildTask& task, const OrderedRows& ordered, const Candidates& candidates) {
  constexpr std::size_t kPiece = 2048;
  const std::size_t known =
      std::min({task.neighbors() + task.beyond(), std::max<std::size_t>(task.neighbors(), task.edge_candidates()), kMostRanks});
  const auto [first, last] = own_share(task.team, team_shares(task.team, task.size()));
  std::vector<std::vector<Trap>> found((last - first + kPiece - 1) / kPiece);
  std::vector<std::unique_ptr<TrapFinder>> finders(resolve_threads(task.threads()));
  parallel_for(
      last - first, kPiece, task.threads(),
      [&, begin_of_all = first](std::size_t begin, std::size_t end, unsigned worker) {
        if (finders[worker] == nullptr) finders[worker] = std::make_unique<TrapFinder>(task, ordered, candidates, known);
        for (std::size_t i = begin; i < end; ++i) finders[worker]->find(begin_of_all + i, found[begin / kPiece]);
      },
      task.progress, "traps");
  std::vector<Trap> all;
  std::size_t total = 0;
  for (const auto& piece : found) total += piece.size();
  all.reserve(total);
  for (auto& piece : found) {
    all.insert(all.end(), piece.begin(), piece.end());
    piece = {};
  }
  return team_concatenation(task.team, std::move(all));
}

EdgeLists make_edges(const BuildTask& task, const OrderedRows& ordered, const ForwardEdges& forward, std::vector<Trap> traps,
                     const PackedPoints* packed, std::uint64_t& distances) {
  const WaysOut ways_out(traps, task.size());
  traps = {};
  const Rows rows = ordered.rows();
  const std::size_t random_edges = task.certifies() ? 4 * kRandomEdges : kRandomEdges;
  EdgeLists edges(task.size(), task.options.max_degree);
  std::atomic<std::uint64_t> computed{0};
  const std::vector<std::size_t> begins = team_shares(task.team, task.size());
  const TeamShare own = own_share(task.team, begins);
  parallel_for(
      own.end - own.begin, 512, task.threads(),
      [&](std::size_t begin, std::size_t end, unsigned) {
        std::vector<std::uint32_t> ends, next;  // candidates of this vertex, and the random ones of the next
        std::vector<float> lengths;
        std::vector<Edge> candidates;
        PackedPoints::Scratch scratch;
        std::uint64_t some = 0;
        draw_random(task, random_edges, own.begin + begin, rows, next);
        for (std::size_t p = own.begin + begin; p < own.begin + end; ++p) {
          const auto near = forward.of(p), out = ways_out.of(p);
          ends.swap(next);
          next.clear();
          if (p + 1 < own.begin + end) draw_random(task, random_edges, p + 1, rows, next);
          ends.insert(ends.end(), near.begin(), near.end());
          ends.insert(ends.end(), out.begin(), out.end());
          measure(task, p, rows, ends, lengths, candidates);
          some += candidates.size();
          put_in_order(p, candidates);
          some += packed == nullptr ? edges.prune(p, candidates, rows, task.kernels)
                                    : prune_packed(edges, p, candidates, rows, task.kernels, *packed, scratch, ends, lengths);
        }
        computed += some + scratch.computed;
      },
      task.progress, "edges");
  distances += team_sum(task.team, computed);
  if (task.team != nullptr) edges.share(*task.team, begins);
  return edges;
}

EdgeLists make_random_edges(const BuildTask& task, const OrderedRows& ordered) {
  const Rows rows = ordered.rows();
  EdgeLists edges(task.size(), task.options.max_degree);
  parallel_for(task.size(), 1024, task.threads(), [&](std::size_t begin, std::size_t end, unsigned) {
    std::vector<std::uint32_t> ends;
    std::vector<float> lengths;
    std::vector<Edge> candidates;
    for (std::size_t p = begin; p < end; ++p) {
      ends.clear();
      draw_random(task, kRandomEdges, p, rows, ends);
      measure(task, p, rows, ends, lengths, candidates);
      put_in_order(p, candidates);
      edges.prune(p, candidates, rows, task.kernels);
    }
  });
  return edges;
}

}  // namespace smartmine
