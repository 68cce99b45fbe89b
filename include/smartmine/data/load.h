#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "smartmine/data/dataset.h"

namespace smartmine {

/// The names `load_dataset` knows: "glyphs", "omniglot", "cub200", "cars196", "folder".
std::vector<std::string> dataset_names();

/// A data set by name. Glyphs are drawn with their default options and need no `root`; the others are read from it.
/// Throws InvalidArgument for an unknown name or a missing root, and what the data set's own loader throws.
DataSplits load_dataset(const std::string& name, const std::filesystem::path& root);

}  // namespace smartmine
