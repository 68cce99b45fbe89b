#include "data/cars_mat.h"

#include <fmt/format.h>

#include "smartmine/core/error.h"
#include "smartmine/core/mapped_file.h"
#include "smartmine/data/cars196.h"

#ifdef SMARTMINE_HAS_MATIO
#include <matio.h>

#include <cmath>
#include <memory>
#include <optional>
#endif

namespace smartmine {

#ifdef SMARTMINE_HAS_MATIO
namespace {

struct CloseMat {
  void operator()(mat_t* file) const { Mat_Close(file); }
};
struct FreeVariable {
  void operator()(matvar_t* variable) const { Mat_VarFree(variable); }
};
using Variable = std::unique_ptr<matvar_t, FreeVariable>;

/// A variable of a .mat file; null if there is none of that name.
Variable read_variable(const std::filesystem::path& path, const char* name) {
  { const MappedFile readable(path); }  // says why a file cannot be read; libmatio does not
  const std::unique_ptr<mat_t, CloseMat> file(Mat_Open(path.c_str(), MAT_ACC_RDONLY));
  if (!file) throw IoError(fmt::format("{}: is not a .mat file that libmatio reads; download it again", path.string()));
  return Variable(Mat_VarRead(file.get(), name));
}

std::size_t elements(const matvar_t& variable) {
  std::size_t count = 1;
  for (int i = 0; i < variable.rank; ++i) count *= variable.dims[i];
  return count;
}

template <class T>
double first_as(const matvar_t& variable) {
  return static_cast<double>(*static_cast<const T*>(variable.data));
}

std::optional<std::int64_t> whole_number(const matvar_t* variable) {
  if (variable == nullptr || variable->data == nullptr || variable->isComplex != 0 || variable->rank < 1 || elements(*variable) != 1)
    return {};
  double value = 0;
  switch (variable->data_type) {
    case MAT_T_INT8:
      value = first_as<std::int8_t>(*variable);
      break;
    case MAT_T_UINT8:
      value = first_as<std::uint8_t>(*variable);
      break;
    case MAT_T_INT16:
      value = first_as<std::int16_t>(*variable);
      break;
    case MAT_T_UINT16:
      value = first_as<std::uint16_t>(*variable);
      break;
    case MAT_T_INT32:
      value = first_as<std::int32_t>(*variable);
      break;
    case MAT_T_UINT32:
      value = first_as<std::uint32_t>(*variable);
      break;
    case MAT_T_SINGLE:
      value = first_as<float>(*variable);
      break;
    case MAT_T_DOUBLE:
      value = first_as<double>(*variable);
      break;
    default:
      return {};
  }
  if (!(std::abs(value) < 1e9) || value != std::floor(value)) return {};
  return static_cast<std::int64_t>(value);
}

std::optional<std::string> string_of(const matvar_t* variable) {
  if (variable == nullptr || variable->class_type != MAT_C_CHAR || variable->data == nullptr || variable->rank < 1) return {};
  const std::size_t size = elements(*variable);
  std::string text;
  for (std::size_t i = 0; i < size; ++i) {
    unsigned unit = 0;
    switch (variable->data_type) {
      case MAT_T_UINT8:
      case MAT_T_INT8:
      case MAT_T_UTF8:
        unit = static_cast<const std::uint8_t*>(variable->data)[i];
        break;
      case MAT_T_UINT16:
      case MAT_T_UTF16:
        unit = static_cast<const std::uint16_t*>(variable->data)[i];
        break;
      default:
        return {};
    }
    if (unit == 0 || (unit > 127 && variable->data_type != MAT_T_UTF8)) return {};  // names of files and cars are plain
    text += static_cast<char>(unit);
  }
  return text;
}

}  // namespace

bool reads_mat_files() { return true; }

std::vector<CarsAnnotation> read_mat_annotations(const std::filesystem::path& path, const char* path_field) {
  const Variable all = read_variable(path, "annotations");
  if (!all || all->class_type != MAT_C_STRUCT || all->data == nullptr || all->rank < 1)
    throw IoError(fmt::format("{}: has no struct array 'annotations'; it is damaged or another file", path.string()));
  std::vector<CarsAnnotation> found;
  const std::size_t count = elements(*all);
  for (std::size_t i = 0; i < count; ++i) {
    const auto name = string_of(Mat_VarGetStructFieldByName(all.get(), path_field, i));
    const auto label = whole_number(Mat_VarGetStructFieldByName(all.get(), "class", i));
    if (!name) throw IoError(fmt::format("{}: annotation {}: has no text '{}'", path.string(), i + 1, path_field));
    if (!label)
      throw IoError(
          fmt::format("{}: annotation {}: has no number 'class'; of the test file, the one with labels is needed", path.string(), i + 1));
    found.push_back({*name, *label, i + 1});
  }
  return found;
}

std::vector<std::string> read_mat_class_names(const std::filesystem::path& path) {
  const Variable all = read_variable(path, "class_names");
  if (!all) return {};
  if (all->class_type != MAT_C_CELL || all->data == nullptr || all->rank < 1)
    throw IoError(fmt::format("{}: 'class_names' is not a cell array; the file is damaged or another one", path.string()));
  std::vector<std::string> names;
  const std::size_t count = elements(*all);
  for (std::size_t i = 0; i < count; ++i) {
    const auto name = string_of(Mat_VarGetCell(all.get(), static_cast<int>(i)));
    if (!name) throw IoError(fmt::format("{}: class name {} is not text", path.string(), i + 1));
    names.push_back(*name);
  }
  return names;
}

#else

namespace {

[[noreturn]] void refuse_mat(const std::filesystem::path& path) {
  throw IoError(
      fmt::format("{}: this build was made without libmatio and cannot read it; build with libmatio, or put a cars_annos.csv with the "
                  "columns path,label beside it",
                  path.string()));
}

}  // namespace

bool reads_mat_files() { return false; }

std::vector<CarsAnnotation> read_mat_annotations(const std::filesystem::path& path, const char* /*path_field*/) { refuse_mat(path); }

std::vector<std::string> read_mat_class_names(const std::filesystem::path& path) { refuse_mat(path); }

#endif

}  // namespace smartmine
