#include "data/cars_mat.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "data/mat_file.h"
#include "smartmine/core/error.h"
#include "smartmine/core/mapped_file.h"

namespace smartmine {
namespace {

std::optional<std::int64_t> whole_number(const MatValue* value) {
  constexpr double kMost = 1e9;
  if (value == nullptr || value->kind != MatValue::Kind::kNumber || value->count != 1) return {};
  if (!(std::abs(value->number) < kMost) || value->number != std::floor(value->number)) return {};
  return static_cast<std::int64_t>(value->number);
}

// Names of files and cars have no zeros in them.
std::optional<std::string> string_of(const MatValue* value) {
  if (value == nullptr || value->kind != MatValue::Kind::kText || value->text.find('\0') != std::string::npos) return {};
  return value->text;
}

}  // namespace

std::vector<CarsAnnotation> read_mat_annotations(const std::filesystem::path& path, const char* path_field) {
  const MappedFile file(path);
  const auto all = read_mat_variable(file.bytes(), "annotations", path.string());
  if (!all || all->kind != MatValue::Kind::kStruct)
    throw IoError(fmt::format("{}: has no struct array 'annotations'; it is damaged or another file", path.string()));
  std::vector<CarsAnnotation> found;
  for (std::size_t i = 0; i < all->count; ++i) {
    const auto name = string_of(all->field(i, path_field));
    const auto label = whole_number(all->field(i, "class"));
    if (!name) throw IoError(fmt::format("{}: annotation {}: has no text '{}'", path.string(), i + 1, path_field));
    if (!label)
      throw IoError(
          fmt::format("{}: annotation {}: has no number 'class'; of the test file, the one with labels is needed", path.string(), i + 1));
    found.push_back({*name, *label, i + 1});
  }
  return found;
}

std::vector<std::string> read_mat_class_names(const std::filesystem::path& path) {
  const MappedFile file(path);
  const auto all = read_mat_variable(file.bytes(), "class_names", path.string());
  if (!all) return {};
  if (all->kind != MatValue::Kind::kCell)
    throw IoError(fmt::format("{}: 'class_names' is not a cell array; the file is damaged or another one", path.string()));
  std::vector<std::string> names;
  for (std::size_t i = 0; i < all->parts.size(); ++i) {
    const auto name = string_of(&all->parts[i]);
    if (!name) throw IoError(fmt::format("{}: class name {} is not text", path.string(), i + 1));
    names.push_back(*name);
  }
  return names;
}

}  // namespace smartmine
