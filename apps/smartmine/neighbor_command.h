#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "rank_arguments.h"
#include "smartmine/core/progress.h"
#include "smartmine/core/rows.h"
#include "smartmine/graph/neighbor_index.h"

// What every subcommand that needs neighbour lists shares: its options, the work, and what is said about it.
namespace smartmine::app {

/// Values of the shared options, as given.
struct NeighborArguments {
  NeighborIndexOptions options;  ///< But for what the next four say.
  std::string index = "auto";
  std::string device = "auto";
  std::string start;  ///< Empty: not given.
  std::string graph;  ///< File; empty: none.

  void add_to(CLI::App& command);
  /// Throws UsageError for options that contradict each other, IoError for a graph that is to be read and is not there.
  void check() const;
  bool reads_graph() const { return start == "previous"; }
  /// The name of an option given that only a graph has a use for; empty: there is none.
  std::string graph_option() const;
  /// Whether an option asks for the graph's edges. Lists, and the next lists that start from these, need none.
  bool wants_edges() const;
  /// How a graph would be built.
  FanngOptions graph_options() const;
  /// Where exact lists of rows of this dimension would be found: cuda or cpu. A graph is built on the CPU.
  std::string means(std::size_t dimension) const;

 private:
  std::vector<const CLI::Option*> graph_numbers_;  // options whose value does not tell whether they were given
};

/// Lists, what they cost, and the index, which holds the graph if one is to be written.
struct NeighborRun {
  NeighborLists lists;
  NeighborStats stats;
  NeighborIndex index;
  std::string start;  ///< "none" where every pair was looked at.
  std::size_t dimension = 0;
  unsigned threads = 0;
  double read_graph_seconds = 0;
  bool has_edges() const { return stats.success_pairs > 0; }  ///< Of a graph; false: lists alone were wanted.
};

/// Does what the arguments say on the rows read from `source`. With a team all members do. `lists` makes the lists.
NeighborRun find_neighbors(const NeighborArguments& arguments, const Rows& rows, std::string_view source, const Progress& progress,
                           const RankPlace& place = {}, const ListMaker& lists = {});

/// One flat object; its names are part of the command line's contract.
nlohmann::ordered_json to_json(const NeighborRun& run);
/// The same for people, a few lines.
std::string to_table(const NeighborRun& run);
/// What the person who started the run should know; a sentence each.
std::vector<std::string> warnings(const NeighborRun& run);

}  // namespace smartmine::app
