#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "neighbor_command.h"
#include "smartmine/mining/triplet.h"

namespace smartmine::app {

/// What `NeighborStats::index` says of lists that were read, not computed.
inline constexpr const char* kGivenLists = "given";

/// Lists, the triplets selected from them, and what both cost.
struct MiningRun {
  NeighborRun neighbors;
  MinedTriplets mined;
  std::size_t classes = 0;
  double kappa = 0;
  double selection_seconds = 0;     ///< Indexing the labels and selecting, without the next.
  double longer_lists_seconds = 0;  ///< Computing longer lists for some anchors.
  double kappa_search_seconds = 0;  ///< Looking for a kappa.
  std::string hint;                 ///< Which kappa would mine, if this one hardly does.
  std::string note;                 ///< All that an operator should know, in words; mostly empty.

  bool given_lists() const { return neighbors.stats.index == kGivenLists; }
};

/// What there is to say of the lists, with null where nobody knows.
nlohmann::ordered_json lists_json(const MiningRun& run);
std::string lists_table(const MiningRun& run);

/// One flat object: all names of knn's, and those of MiningStats. They are part of the command line's contract.
nlohmann::ordered_json to_json(const MiningRun& run);
/// The same for people, with a table of distances.
std::string to_table(const MiningRun& run);

}  // namespace smartmine::app
