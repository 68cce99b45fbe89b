#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>

#include "smartmine/core/progress.h"
#include "smartmine/core/rows.h"
#include "smartmine/graph/fanng.h"
#include "smartmine/graph/neighbors.h"

namespace smartmine {

/// How lists are found.
enum class IndexKind {
  kAutomatic,  ///< The fastest of the others, as far as size and a sample tell: see choose_index.
  kExact,      ///< Every pair is looked at: on a device where a search is given for one, else on the CPU.
  kFanng,      ///< Through a graph on the CPU, which looks at few.
  kDevice,     ///< Every pair on the device; refused where no search is given.
};

/// Exact lists of `wanted` rows among all, in their order, computed on an accelerator and put into lists that `lists` makes. Throws
/// InvalidArgument for rows it cannot take, Error if it fails, Cancelled if the progress says so.
using DeviceSearch = std::function<NeighborResult(const Rows& rows, RowRange wanted, std::size_t neighbors, const ListMaker& lists,
                                                  const Progress& progress)>;

/// Options of an index. Those for a graph alone are as in FanngOptions.
struct NeighborIndexOptions {
  IndexKind kind = IndexKind::kAutomatic;
  std::size_t neighbors = 100;    ///< Length of each list (k); from 1 to the number of rows minus 1.
  double recall_target = 0.98;    ///< Sampled recall the lists must reach. (0, 1].
  double success_target = 0.98;   ///< Success rate of descents through a graph. (0, 1).
  bool certify = false;           ///< Pursue the success rate of the graph with up to 100 walks a row. Short lists may get better for it.
  bool for_search = false;        ///< The graph is to be searched: make its edges. False: only if `certify` or Start::kRandom ask.
  std::uint32_t max_degree = 64;  ///< Most edges kept a vertex. From 4 to 1024.
  std::uint32_t edge_candidates = 0;  ///< Neighbours considered for edges; 0: as many as needed. At most 4096.
  Start start = Start::kPartition;    ///< What a graph is built from. kPrevious: the one kept, where there is one; else a partition.
  bool keep_graph = false;            ///< Keep the graph, with edges or without, in a form that kPrevious can begin with.
  std::uint64_t seed = 1;             ///< Of calls that name none.
  unsigned threads = 0;               ///< 0: all cores. Never changes the result.
  std::size_t recall_sample = 1000;   ///< Points whose lists are compared with exact search. At least 1.
  /// Throws InvalidArgument naming the field, its value and the allowed range.
  void validate() const;
};

/// What one call may say of its own.
struct NeighborCall {
  std::optional<std::uint64_t> seed = {};  ///< Instead of the options' seed, such as one an epoch.
  DeviceSearch device = {};                ///< Where the rows are on an accelerator, or can be.
  const Team* team = nullptr;              ///< That shares the work of this call; a device's where sharing_pays.
  ListMaker lists = {};                    ///< Makes the lists.
};

/// The only door to the lists of all points. Chooses how they are found, and keeps the graph from one call to the next.
/// Copies share nothing. Calls of one index must not overlap; constant ones may.
class NeighborIndex {
 public:
  /// Throws InvalidArgument for bad options.
  explicit NeighborIndex(const NeighborIndexOptions& options = {});

  const NeighborIndexOptions& options() const { return options_; }

  /// The lists of all rows and what they cost. Throws InvalidArgument for rows that are too few, not finite, or do not fit the graph to
  /// start from, and where kDevice is asked for and no device search given; Cancelled if `progress` says so. The graph kept is then as
  /// before. Where the device fails and kDevice was not asked for, the CPU finds the lists, and the stats' note says so.
  NeighborResult neighbors(const Rows& rows, const NeighborCall& call, const Progress& progress = {});
  NeighborResult neighbors(const Rows& rows, const Progress& progress = {}) { return neighbors(rows, NeighborCall(), progress); }

  /// Exact lists of `queries` (of the same dimension) among `rows`; a row equal to a query is a neighbour like any other. Throws
  /// InvalidArgument where a graph is asked for: it has lists of its own points alone.
  NeighborResult search(const Rows& rows, const Rows& queries, const Progress& progress = {}) const;

  /// The graph kept; null: there is none.
  const Fanng* graph() const { return graph_ ? &*graph_ : nullptr; }
  /// Writes the graph kept beside `path`, then renames it there. Throws InvalidArgument if there is none, IoError.
  void save(const std::filesystem::path& path) const;
  /// Reads a graph for the next call to start from. Throws IoError saying what is wrong with the file; the graph kept is then as before.
  void load(const std::filesystem::path& path);
  /// Forgets the graph kept.
  void forget() { graph_.reset(); }

 private:
  IndexKind chosen_for(const Rows& rows, bool device) const;
  NeighborResult lists_by_cpu(const Rows& rows, IndexKind kind, const NeighborCall& call, const Progress& progress);

  NeighborIndexOptions options_;
  std::optional<Fanng> graph_;
};

/// Exact lists of some of the rows, without these themselves: of `points[i]` the i-th. Throws InvalidArgument for bad rows or more
/// neighbours than other rows, Cancelled if `progress` says so.
NeighborResult lists_of_some(const Rows& rows, std::span<const std::uint32_t> points, std::size_t neighbors, unsigned threads = 0,
                             const Progress& progress = {});

/// Whether a team finds lists sooner on its devices if each member finds some and hands them on, than if each finds all.
bool sharing_pays(const Rows& rows, std::size_t neighbors);

/// What an index is chosen by.
struct IndexTask {
  std::size_t size = 0;
  std::size_t dimension = 0;
  std::size_t neighbors = 0;
  bool device = false;    ///< A search is given for one.
  bool matrices = false;  ///< The machine multiplies matrices of bytes (AMX), from which exact search gains more than the graph does.
  bool hard = false;      ///< Already the tenth of the nearest is about as far as any row, as in noise, so that a graph gains little,
  bool narrow = false;    ///< or else the hundredth is, as in classes of few rows: see hard_to_search.
};

/// How lists are found when `asked` for: never kAutomatic. The only place that chooses, with the measurements it rests on.
IndexKind choose_index(IndexKind asked, const IndexTask& task);

/// Whether the last of a list of `neighbors` is more than about half as far as rows are on average, squared, judged by a few points; in
/// more than 64 dimensions a larger share, in fewer a smaller one. The rows must be finite.
bool hard_to_search(const Rows& rows, std::size_t neighbors);

}  // namespace smartmine
