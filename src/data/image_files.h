#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace smartmine {

/// A folder and the images in it, at any depth, as paths below it, sorted.
struct ImageFolder {
  std::string name;
  std::vector<std::string> images;
};

/// What was met when looking for images.
struct ListingCounts {
  std::size_t passed_over = 0;  ///< Files that are no images, by their ending and their first bytes.
};

/// The images below a folder, as paths below it with '/', sorted. A file counts as an image if its name ends as an image's does, whatever
/// is in it, or if it starts as a JPEG or a PNG. Hidden files are left out. Throws IoError if the folder cannot be read.
std::vector<std::string> images_below(const std::filesystem::path& folder, ListingCounts& counts);

/// The folders right below `root`, sorted, each with its images. Hidden ones are left out.
std::vector<ImageFolder> image_folders(const std::filesystem::path& root, ListingCounts& counts);

/// Names of the folders right below `root`, sorted.
std::vector<std::string> folders_in(const std::filesystem::path& root);

/// Throws IoError unless `root` is a folder that can be read. `hint` says what should be in it.
void require_folder(const std::filesystem::path& root, std::string_view hint);

}  // namespace smartmine
