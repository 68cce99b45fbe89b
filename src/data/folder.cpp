#include "smartmine/data/folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "data/image_files.h"
#include "data/splits.h"
#include "data/text_file.h"
#include "smartmine/core/error.h"

namespace smartmine {
namespace {

namespace fs = std::filesystem;

constexpr const char* kHint = "give a folder with one folder of images a class, or a .csv file with the columns path and label";
constexpr std::array<const char*, 3> kSplits = {"train", "test", "validation"};

/// Labels for class names: their own values if all are whole numbers, else their places in order.
std::map<std::string, std::int64_t> number_classes(const std::vector<std::string>& names) {
  std::map<std::string, std::int64_t> labels;
  bool all_numbers = true;
  for (const std::string& name : names) {
    std::int64_t value = 0;
    all_numbers = all_numbers && parse_number(name, value) && std::to_string(value) == name;  // 07 and 7 would be one class
    labels.emplace(name, value);
  }
  if (!all_numbers) {
    std::int64_t next = 0;
    for (auto& [name, label] : labels) label = next++;
  }
  return labels;
}

std::vector<DatasetClass> classes_of(const std::map<std::string, std::int64_t>& labels) {
  std::vector<DatasetClass> classes;
  for (const auto& [name, label] : labels) classes.push_back({label, name});
  std::sort(classes.begin(), classes.end(), [](const auto& a, const auto& b) { return a.label < b.label; });
  return classes;
}

/// Halves by sorted class, for data that do not say.
DataSplits split_in_halves(DatasetContents contents, const fs::path& path) {
  if (contents.classes.size() < 4)
    throw IoError(
        fmt::format("{}: has {} classes; training and test halves of whole classes take at least 4, or a .csv file with a split column",
                    path.string(), contents.classes.size()));
  const std::size_t training = (contents.classes.size() + 1) / 2;
  contents.notes =
      fmt::format("Classes in order of their names: the first {} train, the other {} test.", training, contents.classes.size() - training) +
      contents.notes;
  const std::int64_t last = contents.classes[training - 1].label;
  return split_by_class(std::move(contents), last);
}

DataSplits read_table(const fs::path& path) {
  const CsvTable table(path);
  const std::size_t path_column = table.column("path");
  const std::size_t label_column = table.column("label");
  const std::size_t split_column = table.column("split");
  if (path_column == CsvTable::kNoColumn || label_column == CsvTable::kNoColumn)
    refuse_line(path, 1, "the header must name the columns path and label, and may name split, as in path,label,split");
  if (table.rows().empty()) throw IoError(fmt::format("{}: has a header and no rows", path.string()));

  std::vector<std::string> names;
  for (const CsvTable::Row& row : table.rows()) names.push_back(row.fields[label_column]);
  const auto labels = number_classes(names);

  DatasetContents contents;
  contents.name = "folder";
  contents.root = path.parent_path();
  contents.classes = classes_of(labels);
  std::array<std::vector<std::size_t>, 3> members;
  std::unordered_map<std::string, std::size_t> line_of_path;
  for (const CsvTable::Row& row : table.rows()) {
    const std::string& image = row.fields[path_column];
    if (image.empty()) refuse_line(path, row.line, "the path is empty");
    if (row.fields[label_column].empty()) refuse_line(path, row.line, fmt::format("{} has no label", in_quotes(image)));
    const auto [earlier, is_new] = line_of_path.emplace(fs::path(image).lexically_normal().generic_string(), row.line);
    if (!is_new) refuse_line(path, row.line, fmt::format("{} is already in line {}", in_quotes(image), earlier->second));
    std::error_code error;
    const fs::file_status status = fs::status(contents.root / image, error);
    if (!fs::exists(status))
      refuse_line(path, row.line, fmt::format("there is no file {}; paths are below the table's folder", in_quotes(image)));
    if (fs::is_directory(status)) refuse_line(path, row.line, fmt::format("{} is a folder, not an image", in_quotes(image)));
    if (split_column != CsvTable::kNoColumn) {
      const std::string& split = row.fields[split_column];
      const auto found = std::find(kSplits.begin(), kSplits.end(), split == "val" ? "validation" : split);
      if (found == kSplits.end())
        refuse_line(path, row.line, fmt::format("the split is {}; it must be train, test or validation", in_quotes(split)));
      members[static_cast<std::size_t>(found - kSplits.begin())].push_back(contents.items.size());
    }
    contents.items.push_back({image, labels.at(row.fields[label_column]), 0});
  }
  if (split_column == CsvTable::kNoColumn) return split_in_halves(std::move(contents), path);

  for (const std::size_t split : {0, 1})
    if (members[split].empty()) throw IoError(fmt::format("{}: no row has the split {}", path.string(), kSplits[split]));
  contents.notes = fmt::format("Splits as {} gives them.", path.filename().string());
  const Dataset whole(std::move(contents));
  DataSplits splits{whole.select(members[0], "train"), whole.select(members[1], "test"), std::nullopt};
  if (splits.train.classes().size() < 2)
    throw IoError(fmt::format("{}: the training rows have one label only; at least 2 are needed", path.string()));
  if (!members[2].empty()) splits.validation = whole.select(members[2], "validation");
  return splits;
}

/// The only .csv file right in a folder, if there is one.
std::optional<fs::path> table_in(const fs::path& root) {
  std::vector<fs::path> tables;
  std::error_code error;
  for (fs::directory_iterator entry(root, error), end; !error && entry != end; entry.increment(error))
    if (entry->path().extension() == ".csv" && !entry->path().filename().string().starts_with('.')) tables.push_back(entry->path());
  std::sort(tables.begin(), tables.end());
  if (tables.size() > 1)
    throw IoError(fmt::format("{}: holds {} .csv files, {} and {} among them; give the path of the one to use", root.string(),
                              tables.size(), tables[0].filename().string(), tables[1].filename().string()));
  return tables.empty() ? std::nullopt : std::optional(tables[0]);
}

std::string passed_over_note(const ListingCounts& counts) {
  return counts.passed_over == 0 ? "" : fmt::format(" {} files that are no images were passed over.", counts.passed_over);
}

}  // namespace

DataSplits load_folder(const fs::path& root) {
  std::error_code ignored;
  if (fs::is_regular_file(root, ignored)) return read_table(root);
  require_folder(root, kHint);
  if (const auto table = table_in(root)) return read_table(*table);

  ListingCounts counts;
  const std::vector<ImageFolder> folders = image_folders(root, counts);
  if (folders.empty()) throw IoError(fmt::format("{}: there are no folders in this folder; {}", root.string(), kHint));
  std::vector<std::string> names;
  for (const ImageFolder& folder : folders) {
    if (folder.images.empty())
      throw IoError(fmt::format("{}: there is no image in this class's folder; add some or remove it", (root / folder.name).string()));
    names.push_back(folder.name);
  }
  const auto labels = number_classes(names);
  DatasetContents contents;
  contents.name = "folder";
  contents.root = root;
  contents.classes = classes_of(labels);
  contents.notes = passed_over_note(counts);
  for (const ImageFolder& folder : folders)
    for (const std::string& image : folder.images) contents.items.push_back({folder.name + "/" + image, labels.at(folder.name), 0});
  return split_in_halves(std::move(contents), root);
}

Dataset list_images(const fs::path& root) {
  require_folder(root, "give a folder of images");
  ListingCounts counts;
  DatasetContents contents;
  contents.name = "images";
  contents.split = "all";
  contents.root = root;
  contents.classes = {{0, "unknown"}};
  for (const std::string& image : images_below(root, counts)) contents.items.push_back({image, 0, 0});
  if (contents.items.empty()) throw IoError(fmt::format("{}: there is no image in this folder or below it", root.string()));
  contents.notes = fmt::format("{} images without labels.", contents.items.size()) + passed_over_note(counts);
  return Dataset(std::move(contents));
}

}  // namespace smartmine
