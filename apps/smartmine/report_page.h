#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "smartmine/core/progress.h"
#include "smartmine/report/page.h"

namespace smartmine::app {

/// The page that data goes into: that of a file, or the program's own if `file` is empty. Throws IoError saying what is missing and how to
/// get it if the program has none.
std::string read_page(const std::string& file);

/// What a report came to.
struct WrittenReport {
  std::size_t bytes = 0;
  std::vector<std::string> problems;
};

/// Makes a report of runs and writes it.
WrittenReport write_report(const std::vector<std::filesystem::path>& runs, const std::string& page, const std::filesystem::path& output,
                           PageOptions options, const Progress& progress = {});

}  // namespace smartmine::app
