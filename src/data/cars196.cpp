#include "smartmine/data/cars196.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "data/cars_mat.h"
#include "data/image_files.h"
#include "data/splits.h"
#include "data/text_file.h"
#include "smartmine/core/error.h"

namespace smartmine {
namespace {

namespace fs = std::filesystem;

constexpr const char* kHint =
    "give the folder that holds cars_annos.mat, or the devkit's cars_train_annos.mat and cars_test_annos_withlabels.mat, or cars_annos.csv";

constexpr const char* kMissing = "missing.txt";

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

/// Gathers annotations of one or more files, checking each.
class Collector {
 public:
  explicit Collector(const fs::path& root) {
    contents_.root = root;
    if (const fs::path file = root / kMissing; is_there(file))
      for (const TextLine& line : read_lines(file)) missing_.insert(line.text);
  }

  /// Adds an annotation of `file`; `unit` is what its places are called. The image's path is tried below each of `folders`.
  void add(const fs::path& file, const char* unit, const CarsAnnotation& annotation, const std::vector<std::string>& folders) {
    const auto refuse = [&](const std::string& wrong) {
      throw IoError(fmt::format("{}: {} {}: {}", file.string(), unit, annotation.place, wrong));
    };
    if (annotation.path.empty()) refuse("the image's path is empty");
    if (annotation.label < 1) refuse(fmt::format("the class is {}; classes count from 1", annotation.label));
    std::string id;
    for (const std::string& folder : folders) {
      id = folder + annotation.path;
      if (is_there(contents_.root / id)) break;
      id.clear();
    }
    if (id.empty() && missing_.contains(folders.front() + annotation.path)) {
      ++left_out_;
      return;
    }
    if (id.empty()) refuse(fmt::format("there is no image {}{} below {}", folders.front(), annotation.path, contents_.root.string()));
    const auto [earlier, is_new] = seen_.emplace(id, annotation.place);
    if (!is_new) refuse(fmt::format("{} is already in {} {}", in_quotes(id), unit, earlier->second));
    names_.try_emplace(annotation.label, fmt::format("class {}", annotation.label));
    contents_.items.push_back({id, annotation.label, 0});
  }

  /// Names of classes 1, 2, ...; a label beyond them is an error.
  void set_names(const fs::path& file, const std::vector<std::string>& names) {
    if (names.empty()) return;
    if (!names_.empty() && names_.rbegin()->first > static_cast<std::int64_t>(names.size()))
      throw IoError(fmt::format("{}: names {} classes, but an image is labelled {}", file.string(), names.size(), names_.rbegin()->first));
    for (std::size_t i = 0; i < names.size(); ++i) names_[static_cast<std::int64_t>(i) + 1] = names[i];
  }
  void set_name(std::int64_t label, const std::string& name) { names_[label] = name; }

  DataSplits splits() && {
    contents_.name = "cars196";
    // Numbers count from 1 without gaps, so the highest is their number, also where some have no image.
    const std::int64_t classes = names_.empty() ? 0 : names_.rbegin()->first;
    if (classes < 4)
      throw IoError(fmt::format("{}: the annotations have {} classes; at least 4 are needed", contents_.root.string(), classes));
    const std::int64_t last_training = (classes + 1) / 2;
    contents_.notes = fmt::format("Cars196: classes 1 to {} train, {} to {} test; no boxes.", last_training, last_training + 1, classes);
    if (left_out_ > 0) contents_.notes += fmt::format(" {} images that {} names are left out.", left_out_, kMissing);
    if (classes != 196) contents_.notes += fmt::format(" This copy has {} classes; the original has 196.", classes);
    for (const auto& [label, name] : names_) contents_.classes.push_back({label, name});
    return split_by_class(std::move(contents_), last_training);
  }

 private:
  DatasetContents contents_;
  std::map<std::int64_t, std::string> names_;
  std::unordered_map<std::string, std::size_t> seen_;
  std::unordered_set<std::string> missing_;
  std::size_t left_out_ = 0;
};

DataSplits from_csv(const fs::path& root, const fs::path& file) {
  const CsvTable table(file);
  const std::size_t path_column = table.column("path");
  const std::size_t label_column = table.column("label");
  const std::size_t name_column = table.column("class_name");
  if (path_column == CsvTable::kNoColumn || label_column == CsvTable::kNoColumn)
    refuse_line(file, 1, "the header must name the columns path and label, and may name class_name");
  Collector collector(root);
  for (const CsvTable::Row& row : table.rows()) {
    CarsAnnotation annotation{row.fields[path_column], 0, row.line};
    if (!parse_number(row.fields[label_column], annotation.label))
      refuse_line(file, row.line, fmt::format("the label is {}; it must be a class number from 1", in_quotes(row.fields[label_column])));
    collector.add(file, "line", annotation, {""});
    if (name_column != CsvTable::kNoColumn) collector.set_name(annotation.label, row.fields[name_column]);
  }
  return std::move(collector).splits();
}

}  // namespace

DataSplits load_cars196(const fs::path& root) {
  require_folder(root, kHint);
  if (is_there(root / "cars_annos.csv")) return from_csv(root, root / "cars_annos.csv");
  Collector collector(root);
  if (const fs::path file = root / "cars_annos.mat"; is_there(file)) {
    for (const CarsAnnotation& annotation : read_mat_annotations(file, "relative_im_path"))
      collector.add(file, "annotation", annotation, {""});
    collector.set_names(file, read_mat_class_names(file));
    return std::move(collector).splits();
  }
  const auto in_root_or_devkit = [&](const char* name) { return is_there(root / name) ? root / name : root / "devkit" / name; };
  const fs::path train = in_root_or_devkit("cars_train_annos.mat");
  const fs::path test = in_root_or_devkit("cars_test_annos_withlabels.mat");
  if (!is_there(train)) throw IoError(fmt::format("{}: there are no annotations in this folder or in devkit; {}", root.string(), kHint));
  if (!is_there(test))
    throw IoError(fmt::format("{}: is missing; the half that trains takes images of both parts, and cars_test_annos.mat has no labels",
                              test.string()));
  // Some copies have the folder twice, one in the other.
  for (const CarsAnnotation& each : read_mat_annotations(train, "fname"))
    collector.add(train, "annotation", each, {"cars_train/", "cars_train/cars_train/"});
  for (const CarsAnnotation& each : read_mat_annotations(test, "fname"))
    collector.add(test, "annotation", each, {"cars_test/", "cars_test/cars_test/"});
  if (const fs::path meta = in_root_or_devkit("cars_meta.mat"); is_there(meta)) collector.set_names(meta, read_mat_class_names(meta));
  return std::move(collector).splits();
}

}  // namespace smartmine
