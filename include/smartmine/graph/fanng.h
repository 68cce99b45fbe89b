#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "smartmine/core/progress.h"
#include "smartmine/core/rows.h"
#include "smartmine/graph/neighbors.h"
#include "smartmine/graph/team.h"

namespace smartmine {

/// Where the build of a FANNG starts from.
enum class Start {
  kPartition,  ///< Candidate lists from a partition of the points, pruned by occlusion, certified by traverse-add.
  kRandom,     ///< The paper's build to the letter: random edges, then traverse-add.
  kPrevious,   ///< A graph of earlier, slightly different embeddings of the same points.
};

/// Up to so many points the success rate of a graph that is to be searched is brought to its target unasked.
inline constexpr std::size_t kCertifiedUnasked = 32768;

/// Options for building a FANNG and the neighbour lists of its points; names in brackets are the paper's.
struct FanngOptions {
  std::size_t neighbors = 100;   ///< Length of each list (k); from 1 to the number of rows minus 1.
  double recall_target = 0.98;   ///< Sampled recall the lists must reach; the work goes on until they do. (0, 1].
  double success_target = 0.98;  ///< Traverse-add stops here, measured on fresh random pairs [98 %]. (0, 1).
  bool certify = false;          ///< Go on until success_target is reached also where that takes longer than the lists: over
                                 ///< kCertifiedUnasked points. Otherwise such a graph is what the lists give, and its success rate is
                                 ///< measured and reported.
  bool for_search = true;  ///< The graph is to be searched: its success rate is brought to the target unasked where that is quick. False,
                           ///< and neither `certify` nor Start::kRandom: lists alone; the graph then has no edges and no success rate.
  std::uint32_t max_degree = 64;      ///< Most edges kept a vertex, shortest first. From 4 to 1024.
  std::uint32_t edge_candidates = 0;  ///< Nearest neighbours of a vertex considered for its edges, at least the list; 0: as many as
                                      ///< certifying takes, or the list. More let descents succeed more often. At most 4096.
  Start start = Start::kPartition;    ///< Where the build starts.
  std::uint64_t seed = 1;             ///< Randomness is keyed by (seed, purpose, point), never by thread.
  unsigned threads = 0;               ///< 0: all cores. Never changes the result.
  std::size_t recall_sample = 1000;   ///< Points whose lists are compared with exact search. At least 1.
  bool refreshable = false;           ///< Keep in the graph what Start::kPrevious begins with: twice as many candidates a point.
  /// From so many points on lists alone come from a shorter search and a look at the neighbours' lists. Before that it costs more than it
  /// saves (docs/results.md).
  std::size_t joined_from = 1'500'000;
  /// Throws InvalidArgument naming the field, its value and the allowed range.
  void validate() const;
};

/// One entry of a search result. The nearer comes first, ties by id.
struct Found {
  std::uint32_t id = 0;
  float distance = 0;  ///< Squared.
  bool operator<(const Found& other) const { return distance != other.distance ? distance < other.distance : id < other.id; }
};

/// How far a backtrack search goes.
struct SearchOptions {
  std::size_t neighbors = 10;                ///< Results wanted (k).
  std::size_t distance_computations = 1000;  ///< Stop after this many. At least `neighbors`.
  std::uint32_t start = 0;                   ///< Vertex to start from.
};

/// A directed graph over N points whose edges are kept unless a shorter edge of the same vertex occludes them.
/// Holds ids only: the vectors stay with the caller, who passes the same rows again. Immutable; concurrent use is safe.
class Fanng {
 public:
  Fanng() = default;

  std::size_t size() const { return offsets_.empty() ? 0 : offsets_.size() - 1; }
  std::size_t dimension() const { return dimension_; }
  /// False: lists alone were wanted when it was built, and it serves to start from only.
  bool has_edges() const { return !edges_.empty(); }
  /// Ends of the edges of `vertex`, shortest first.
  std::span<const std::uint32_t> edges(std::size_t vertex) const {
    return {edges_.data() + offsets_[vertex], edges_.data() + offsets_[vertex + 1]};
  }

  /// Backtrack search for the rows nearest `query` (of this dimension, in the set or not): the best found, nearest
  /// first, ties by id. Fewer than asked for only if the reachable part of the graph is smaller.
  std::vector<Found> search(const Rows& rows, const float* query, const SearchOptions& options) const;

  /// Writes the graph beside `path`, then renames it there. Throws IoError.
  void save(const std::filesystem::path& path) const;
  /// Reads what `save` wrote. Throws IoError saying what is wrong with a damaged, foreign or newer file.
  static Fanng load(const std::filesystem::path& path);

 private:
  friend struct FanngParts;  // what the build sees of it
  std::size_t dimension_ = 0;
  std::vector<std::uint64_t> offsets_;  // size() + 1 of them
  std::vector<std::uint32_t> edges_;
  // What a refresh starts from: the points in an order that keeps near ones together, and for the point at each place of that order
  // candidates, as places too, the nearest first.
  std::vector<std::uint32_t> order_;
  std::size_t candidates_per_point_ = 0;
  std::vector<std::uint32_t> candidates_;
};

/// A graph, the neighbour lists of all its points, and what both cost.
struct FanngResult {
  Fanng graph;
  NeighborLists lists;
  NeighborStats stats;
};

/// Builds the graph over `rows` and the lists of all of them. `previous` is needed by Start::kPrevious alone and must
/// be of the same size and dimension. Throws InvalidArgument for bad options or rows, Cancelled if `progress` says so.
/// With a `team`, all members call it, with the same of everything but the threads. `lists` makes the lists.
FanngResult build_fanng(const Rows& rows, const FanngOptions& options, const Fanng* previous = nullptr, const Progress& progress = {},
                        const Team* team = nullptr, const ListMaker& lists = {});

}  // namespace smartmine
