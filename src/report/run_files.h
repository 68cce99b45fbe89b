#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "run/log_file.h"
#include "smartmine/core/mapped_file.h"
#include "smartmine/core/vector_files.h"

// The files of a run directory, as far as they are there and whole. Whatever is damaged is left out and named in `problems`.
namespace smartmine {

using Problems = std::vector<std::string>;

/// Throws InvalidArgument if there are no runs, or one is given twice, by whatever name.
void require_distinct(std::span<const std::filesystem::path> runs);

/// The settings of config.toml by name. Throws IoError if there is none: then it is no run directory.
Json read_settings(const std::filesystem::path& run, Problems& problems);

/// The lines of log.jsonl, ascending by epoch.
std::vector<Json> read_log(const std::filesystem::path& run, Problems& problems);

/// The epoch that a file called PREFIX0012ENDING is of; none for other names.
std::optional<std::int64_t> epoch_of(const std::filesystem::path& file, const std::string& prefix, const std::string& ending);

/// The files of that kind in a folder up to an epoch, ascending by epoch.
struct EpochFile {
  std::int64_t epoch = 0;
  std::filesystem::path path;
};
std::vector<EpochFile> epoch_files(const std::filesystem::path& folder, const std::string& prefix, const std::string& ending,
                                   std::int64_t last);

/// The embeddings of the evaluated split at the last epoch that there are any of.
struct EvaluatedSplit {
  std::int64_t epoch = 0;
  bool kept = false;  // of the weights that the run keeps, which are not those of the epoch as it ended
  Embeddings embeddings;
  std::vector<std::uint32_t> classes;    // of each row, an index into class_names
  std::vector<std::string> class_names;  // labels as text where nothing tells their names
  std::vector<std::string> names;        // of the images; empty: nothing tells
  std::vector<std::uint64_t> offsets;    // of the images in `jpegs`; empty: no images
  std::shared_ptr<const MappedFile> jpegs;

  /// The file of a row's image; empty if there is none.
  std::span<const std::byte> image(std::size_t row) const;
};
std::optional<EvaluatedSplit> read_evaluated(const std::filesystem::path& run, std::int64_t last_epoch, Problems& problems);

/// Six anchors and their triplets, as the page has them: those whose first triplet was mined in most of the epochs, of equals the first.
/// Null: there are none.
Json read_triplets(const std::filesystem::path& run, std::int64_t last_epoch, Problems& problems);

}  // namespace smartmine
