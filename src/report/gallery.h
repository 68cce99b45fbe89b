#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "report/run_files.h"
#include "smartmine/graph/neighbors.h"

// What the evaluated images find when each of them is a query: some of them with pictures, and all of them by class.
namespace smartmine {

inline constexpr std::size_t kResults = 8;  // shown of a query, and neighbours of a point

/// The rows to show as queries, each with what it was chosen for: "worst", "random", "class". None: only for comparison with another run.
using GalleryRows = std::map<std::uint32_t, std::vector<std::string>>;

/// "random" and "class" depend on the labels and the seed alone, so that runs of one split share them.
GalleryRows choose_queries(const EvaluatedSplit& split, const NeighborLists& lists, std::uint64_t seed);

/// Whether two runs were evaluated on the same images in the same order.
bool same_images(const EvaluatedSplit& a, const EvaluatedSplit& b);

/// The gallery of docs/report-data.md; null where no image has another of its class. The worst queries come first.
Json gallery_of(const EvaluatedSplit& split, const NeighborLists& lists, const GalleryRows& rows, unsigned threads);

/// The classes of docs/report-data.md: how often the nearest image shows the same class, and which other one it shows.
Json classes_of(const EvaluatedSplit& split, const NeighborLists& lists);

}  // namespace smartmine
