#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace smartmine {

/// A value of a MATLAB file, as far as lists of annotations need it.
struct MatValue {
  enum class Kind { kNumber, kText, kCell, kStruct, kOther };
  Kind kind = Kind::kOther;
  std::size_t count = 0;            ///< Elements.
  double number = 0;                ///< The first, of kNumber.
  std::string text = {};            ///< Of kText, in UTF-8.
  std::vector<std::string> fields;  ///< Names, of kStruct.
  std::vector<MatValue> parts;      ///< Elements of kCell; of kStruct, the fields of the first element, then of the second, and so on.

  /// A field of an element of a struct; null if there is none.
  const MatValue* field(std::size_t element, std::string_view name) const;
};

/// Reads a variable of a MAT-file of version 5 (MATLAB's -v6 and -v7, compressed or not); none if there is no such variable. Every length
/// in the file is checked against what is there before anything is made of it. Throws IoError naming `path` and the place.
std::optional<MatValue> read_mat_variable(std::span<const std::byte> file, std::string_view name, const std::string& path);

}  // namespace smartmine
