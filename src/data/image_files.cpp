#include "data/image_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <fstream>
#include <system_error>

#include "smartmine/core/error.h"
#include "smartmine/data/image.h"

namespace smartmine {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse_folder(const fs::path& folder, const std::error_code& error) {
  throw IoError(fmt::format("{}: cannot read this folder: {}; check the path and its permissions", folder.string(), error.message()));
}

bool is_hidden(const fs::path& path) { return path.filename().string().starts_with('.'); }

bool ends_as_an_image(const fs::path& path) {
  static constexpr std::array<std::string_view, 13> kEndings = {".jpg", ".jpeg", ".jpe",  ".jfif", ".png",  ".gif", ".bmp",
                                                                ".tif", ".tiff", ".webp", ".heic", ".avif", ".ppm"};
  std::string ending = path.extension().string();
  std::transform(ending.begin(), ending.end(), ending.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return std::find(kEndings.begin(), kEndings.end(), ending) != kEndings.end();
}

bool starts_as_an_image(const fs::path& path) {
  std::array<char, 8> start{};
  std::ifstream file(path, std::ios::binary);
  file.read(start.data(), start.size());
  return is_image(std::as_bytes(std::span(start.data(), static_cast<std::size_t>(file.gcount()))));
}

}  // namespace

std::vector<std::string> images_below(const fs::path& folder, ListingCounts& counts) {
  std::vector<std::string> images;
  std::error_code error;
  fs::recursive_directory_iterator entry(folder, error);
  for (const fs::recursive_directory_iterator end; !error && entry != end; entry.increment(error)) {
    std::error_code ignored;
    if (is_hidden(entry->path())) {
      if (entry->is_directory(ignored)) entry.disable_recursion_pending();
    } else if (!entry->is_directory(ignored)) {
      if (ends_as_an_image(entry->path()) || (entry->is_regular_file(ignored) && starts_as_an_image(entry->path())))
        images.push_back(entry->path().lexically_relative(folder).generic_string());
      else
        ++counts.passed_over;
    }
  }
  if (error) refuse_folder(folder, error);
  std::sort(images.begin(), images.end());
  return images;
}

std::vector<std::string> folders_in(const fs::path& root) {
  std::vector<std::string> names;
  std::error_code error;
  fs::directory_iterator entry(root, error);
  for (const fs::directory_iterator end; !error && entry != end; entry.increment(error)) {
    std::error_code ignored;
    if (!is_hidden(entry->path()) && entry->is_directory(ignored)) names.push_back(entry->path().filename().string());
  }
  if (error) refuse_folder(root, error);
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<ImageFolder> image_folders(const fs::path& root, ListingCounts& counts) {
  std::vector<ImageFolder> folders;
  for (const std::string& name : folders_in(root)) folders.push_back({name, images_below(root / name, counts)});
  return folders;
}

void require_folder(const fs::path& root, std::string_view hint) {
  std::error_code error;
  const fs::file_status status = fs::status(root, error);
  if (status.type() == fs::file_type::not_found) throw IoError(fmt::format("{}: there is no such folder; {}", root.string(), hint));
  if (error) refuse_folder(root, error);
  if (!fs::is_directory(status)) throw IoError(fmt::format("{}: this is not a folder; {}", root.string(), hint));
  const fs::directory_iterator readable(root, error);
  if (error) refuse_folder(root, error);
}

}  // namespace smartmine
