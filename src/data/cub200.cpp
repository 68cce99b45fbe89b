#include "smartmine/data/cub200.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "data/image_files.h"
#include "data/splits.h"
#include "data/text_file.h"
#include "smartmine/core/error.h"

namespace smartmine {
namespace {

namespace fs = std::filesystem;

constexpr const char* kHint = "give the folder that holds images.txt, image_class_labels.txt, classes.txt and images";

fs::path find_root(const fs::path& root) {
  require_folder(root, kHint);
  std::error_code ignored;
  for (const fs::path& candidate : {root, root / "CUB_200_2011"})
    if (fs::exists(candidate / "images.txt", ignored)) return candidate;
  throw IoError(fmt::format("{}: there is no images.txt in this folder or in CUB_200_2011 below it; {}", root.string(), kHint));
}

/// Entries by their number; a number may come once.
std::unordered_map<std::int64_t, const NumberedText*> by_number(const fs::path& path, const std::vector<NumberedText>& entries,
                                                                const char* what) {
  std::unordered_map<std::int64_t, const NumberedText*> found;
  for (const NumberedText& entry : entries) {
    const auto [earlier, is_new] = found.emplace(entry.number, &entry);
    if (!is_new) refuse_line(path, entry.line, fmt::format("{} {} is already in line {}", what, entry.number, earlier->second->line));
  }
  return found;
}

}  // namespace

DataSplits load_cub200(const fs::path& given_root) {
  const fs::path root = find_root(given_root);
  const fs::path classes_path = root / "classes.txt";
  const fs::path images_path = root / "images.txt";
  const fs::path labels_path = root / "image_class_labels.txt";
  const auto classes = read_numbered(classes_path, "a class name");
  const auto images = read_numbered(images_path, "an image's path");
  const auto labels = read_numbered(labels_path, "a class number");
  const auto class_of_number = by_number(classes_path, classes, "class");
  const auto image_of_number = by_number(images_path, images, "image");
  const auto label_of_image = by_number(labels_path, labels, "image");
  if (classes.size() < 4) throw IoError(fmt::format("{}: has {} classes; at least 4 are needed", classes_path.string(), classes.size()));

  std::unordered_set<std::string> in_folder;
  ListingCounts counts;
  require_folder(root / "images", "unpack the images beside images.txt");
  for (const ImageFolder& folder : image_folders(root / "images", counts))
    for (const std::string& image : folder.images) in_folder.insert(folder.name + "/" + image);

  DatasetContents contents;
  contents.name = "cub200";
  contents.root = root / "images";
  for (const NumberedText& each : classes) contents.classes.push_back({each.number, each.text});
  std::unordered_map<std::string, std::size_t> line_of_path;
  std::size_t missing = 0;
  const NumberedText* first_missing = nullptr;
  for (const NumberedText& image : images) {
    const auto [earlier, is_new] = line_of_path.emplace(image.text, image.line);
    if (!is_new) refuse_line(images_path, image.line, fmt::format("{} is already in line {}", in_quotes(image.text), earlier->second));
    const auto found = label_of_image.find(image.number);
    if (found == label_of_image.end())
      refuse_line(images_path, image.line, fmt::format("image {} has no label in {}", image.number, labels_path.filename().string()));
    const NumberedText& label = *found->second;
    std::int64_t number = 0;
    if (!parse_number(label.text, number))
      refuse_line(labels_path, label.line, fmt::format("{} is not a class number", in_quotes(label.text)));
    const auto labelled = class_of_number.find(number);
    if (labelled == class_of_number.end())
      refuse_line(labels_path, label.line, fmt::format("class {} is not in {}", number, classes_path.filename().string()));
    const std::string folder = image.text.substr(0, image.text.find('/'));
    if (folder != labelled->second->text)
      refuse_line(labels_path, label.line,
                  fmt::format("image {} is labelled {} {} but lies in the folder {}", image.number, number,
                              in_quotes(labelled->second->text), in_quotes(folder)));
    if (!in_folder.contains(image.text)) {
      ++missing;
      if (first_missing == nullptr) first_missing = &image;
    }
    contents.items.push_back({image.text, number, 0});
  }
  if (missing > 0)
    refuse_line(images_path, first_missing->line,
                fmt::format("{} is not in the folder images; {} of {} images are missing, unpack the data set again",
                            in_quotes(first_missing->text), missing, images.size()));
  for (const NumberedText& label : labels)
    if (!image_of_number.contains(label.number))
      refuse_line(labels_path, label.line, fmt::format("image {} is not in {}", label.number, images_path.filename().string()));
  if (in_folder.size() != images.size()) {
    std::string first;
    for (const std::string& path : in_folder)
      if (!line_of_path.contains(path) && (first.empty() || path < first)) first = path;
    throw IoError(fmt::format(
        "{}: does not list {}, which is in the folder images ({} such files); the label files and the folder do not belong together",
        images_path.string(), in_quotes(first), in_folder.size() - images.size()));
  }

  std::vector<std::int64_t> numbers;
  numbers.reserve(classes.size());
  for (const NumberedText& each : classes) numbers.push_back(each.number);
  std::sort(numbers.begin(), numbers.end());
  const std::int64_t last_training = numbers[(numbers.size() + 1) / 2 - 1];
  contents.notes = fmt::format("CUB-200-2011: classes {} to {} train, {} to {} test; no boxes.", numbers.front(), last_training,
                               numbers[(numbers.size() + 1) / 2], numbers.back());
  if (numbers.size() != 200) contents.notes += fmt::format(" This copy has {} classes; the original has 200.", numbers.size());
  return split_by_class(std::move(contents), last_training);
}

}  // namespace smartmine
