#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "graph/kernels/kernels.h"
#include "smartmine/core/progress.h"
#include "smartmine/core/rows.h"
#include "smartmine/graph/team.h"

namespace smartmine {

/// An edge as seen from its vertex.
struct Edge {
  float squared = 0;  ///< Length, squared.
  std::uint32_t end = 0;
  bool operator<(const Edge& other) const { return squared != other.squared ? squared < other.squared : end < other.end; }
};

/// Has a whole row fetched ahead, up to a kilobyte of it: rows that edges lead to lie anywhere.
inline void prefetch_row(const Rows& rows, std::size_t row) {
  constexpr std::size_t kLine = 64 / sizeof(float), kMost = 16 * kLine;
  for (std::size_t at = 0; at < std::min(rows.dimension(), kMost); at += kLine) __builtin_prefetch(rows[row] + at);
}

/// The edges of a FANNG while it is being built: at most `max_degree` a vertex, shortest first, none occluded by a shorter one of its
/// vertex, and at most a quarter of them to copies of the vertex.
class EdgeLists {
 public:
  /// `max_degree` is at most 1024.
  EdgeLists(std::size_t vertices, std::size_t max_degree) : max_degree_(max_degree), counts_(vertices, 0), edges_(vertices * max_degree) {}

  std::size_t vertices() const { return counts_.size(); }
  std::size_t max_degree() const { return max_degree_; }
  std::span<const Edge> of(std::size_t vertex) const { return {edges_.data() + vertex * max_degree_, counts_[vertex]}; }

  /// Replaces the edges of `vertex` by those of `candidates` (ascending, distinct, without the vertex itself) that no shorter one kept
  /// occludes. An edge p->b occludes p->c if d(p,b) < d(p,c) and d(b,c) < d(p,c). Returns the number of distances computed.
  std::uint64_t prune(std::size_t vertex, std::span<const Edge> candidates, const Rows& rows, const kernels::Kernels& kernels) {
    return prune(vertex, candidates, rows, kernels, [](std::size_t, std::size_t) { return true; });
  }
  /// The same, where `may_be_nearer(i, j)` may rule out that candidate i is nearer to candidate j than the vertex is.
  template <class MayBeNearer>
  std::uint64_t prune(std::size_t vertex, std::span<const Edge> candidates, const Rows& rows, const kernels::Kernels& kernels,
                      const MayBeNearer& may_be_nearer) {
    Edge* kept = edges_.data() + vertex * max_degree_;
    std::uint32_t from[1024];  // where the kept ones stood
    std::size_t count = 0;
    std::uint64_t computed = 0;
    for (std::size_t c = 0; c < candidates.size() && count < max_degree_; ++c) {
      const Edge& candidate = candidates[c];
      if (!(candidate.squared > 0) && count == most_copies()) continue;
      bool occluded = false;
      for (std::size_t i = 0; i < count && !occluded; ++i) {
        if (!(kept[i].squared < candidate.squared)) break;  // equally long: no occlusion, nor by those after it
        if (!may_be_nearer(from[i], c)) continue;
        occluded = kernels.squared_distance(rows[kept[i].end], rows[candidate.end], rows.dimension()) < candidate.squared;
        ++computed;
      }
      if (occluded) continue;
      from[count] = static_cast<std::uint32_t>(c);
      kept[count++] = candidate;
    }
    counts_[vertex] = static_cast<std::uint16_t>(count);
    return computed;
  }

  /// Adds one edge and drops what it occludes; does nothing if it is there already or is itself occluded. Returns whether it was added.
  bool add(std::size_t vertex, Edge edge, const Rows& rows, const kernels::Kernels& kernels);

  /// Gives the members of a team the edges of each one's own vertices, of which member i has those from begins[i] on.
  void share(const Team& team, std::span<const std::size_t> begins) {
    team.gather(edges_.data(), max_degree_ * sizeof(Edge), begins);
    team.gather(counts_.data(), sizeof(std::uint16_t), begins);
  }

 private:
  // Edges to copies of a vertex occlude nothing and are not occluded: there must be room for others.
  std::size_t most_copies() const { return max_degree_ / 4; }

  std::size_t max_degree_;
  std::vector<std::uint16_t> counts_;
  std::vector<Edge> edges_;
};

/// Where going downhill from `start` ends: at the vertex none of whose neighbours is strictly nearer to `target`.
std::uint32_t downhill(const EdgeLists& edges, const Rows& rows, std::uint32_t start, const float* target, const kernels::Kernels& kernels,
                       std::uint64_t& computed);

/// What traverse-add reached.
struct TraverseResult {
  double rate = 0;             ///< Share of the last fresh pairs that arrived.
  double bound = 0;            ///< Its lower confidence bound. Where it reaches the target, it holds in 95 of 100 builds.
  std::size_t pairs = 0;       ///< How many pairs these were.
  std::uint64_t added = 0;     ///< Edges added.
  std::uint64_t computed = 0;  ///< Distances computed.
  bool reached = false;        ///< The bound is at least the target.
};

/// How long traverse-add goes on.
struct TraverseOptions {
  double target = 0.98;        ///< Until the lower confidence bound of the share of fresh pairs that arrive is at least this,
  std::size_t most_pairs = 0;  ///< or so many pairs were tried,
  double hopeless_below = 0;   ///< or the share is under this: one edge a failure, it would take too many pairs.
  bool whole_targets = false;  ///< Whether all edges that some targets lack are added at once while the share is far from its target.
  std::size_t batch = 1024;    ///< Pairs tried against the graph as it stands.
  bool growing = false;        ///< Batches become up to four times as large where fewer than a quarter of the pairs fail.
  std::uint64_t seed = 1;
  unsigned threads = 0;
};

/// Traverse-add: goes downhill between random pairs, and adds an edge to the target where a walk stops short of it. Pairs are tried in
/// batches, and the new edges go in one after another in the order of the pairs, so the result does not depend on the threads.
/// In rows that fall into narrow classes a walk stops at the edge of one, and the points of the next lack the same edges: there it helps
/// most to look for every vertex that a walk to one target would stop at.
/// A batch that did well is followed by pairs that are fresh to the graph as it then stands; these alone decide. A second trial has to
/// pass a higher bound than the first, and so on, for the luckiest of many would pass any.
TraverseResult traverse_add(EdgeLists& edges, const Rows& rows, const TraverseOptions& options, const kernels::Kernels& kernels,
                            const Progress& progress);

/// Adds the edges that walks to these vertices lack: one from every vertex none of whose neighbours is strictly nearer. Returns how many
/// were added.
std::uint64_t add_all_towards(std::span<const std::uint32_t> targets, EdgeLists& edges, const Rows& rows, unsigned threads,
                              const kernels::Kernels& kernels);

/// Lower end of the one-sided confidence interval (Wilson's) of a share seen as `hits` of `tries`, so many standard deviations below.
double lower_bound_of_share(double hits, double tries, double deviations);
/// How many standard deviations below the mean the lower tail of a normal distribution has this share. (0, 0.5].
double deviations_of_tail(double tail);

}  // namespace smartmine
