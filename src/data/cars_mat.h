#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace smartmine {

/// One image of Cars196's annotations.
struct CarsAnnotation {
  std::string path;
  std::int64_t label = 0;
  std::size_t place = 0;  ///< Line or element, from 1.
};

/// Reads the struct array `annotations`: the strings of `path_field` and the numbers of `class`. Throws IoError.
std::vector<CarsAnnotation> read_mat_annotations(const std::filesystem::path& path, const char* path_field);

/// Reads the cell array of strings `class_names`; empty if the file has none. Throws IoError.
std::vector<std::string> read_mat_class_names(const std::filesystem::path& path);

}  // namespace smartmine
