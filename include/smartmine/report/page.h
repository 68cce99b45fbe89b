#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "smartmine/core/progress.h"
#include "smartmine/report/tsne.h"

namespace smartmine {

/// Options for the data of a report.
struct PageOptions {
  bool map = true;                 ///< Whether to make a t-SNE map, which takes by far the longest.
  std::size_t map_points = 10000;  ///< Most points on it; of a larger split a sample is drawn. 1 to 100000.
  double refresh_seconds = 0;      ///< How often the page is to reload itself; 0: not.
  std::string generator = {};      ///< Who made it, such as "smartmine 0.1.0".
  TsneOptions tsne;                ///< Its threads and seed are those of everything else, too.
  void validate() const;           ///< Throws InvalidArgument naming the field, its value and the allowed range.
};

/// The data of a report.
struct PageData {
  std::string json;                   ///< As docs/report-data.md has it, and safe inside a script element.
  std::vector<std::string> problems;  ///< What was damaged and left out, a sentence each; also in the JSON.
};

/// Reads run directories, finished or not, old or new, and makes the data of one report of them. Damaged files and lines are left out and
/// named, and so is what is no run among several paths. Throws IoError for a path that does not exist and if none is a run, InvalidArgument
/// if one is given twice.
PageData page_data(std::span<const std::filesystem::path> runs, const PageOptions& options, const Progress& progress = {});

/// A page with the data in its place: the `null` of <script id="report-data" type="application/json">null</script>.
/// Throws InvalidArgument for a page that has no such element.
std::string fill_page(std::string_view page, std::string_view json);

}  // namespace smartmine
