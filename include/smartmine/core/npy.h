#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "smartmine/core/output_file.h"

namespace smartmine {

/// Kinds of number read from .npy files.
enum class NpyType { kFloat16, kFloat32, kFloat64, kInt8, kInt16, kInt32, kInt64, kUint8, kUint16, kUint32, kUint64 };

/// NumPy's name of a type, e.g. "float32".
const char* to_string(NpyType type);

/// A shape as Python writes it, e.g. "(3, 4)".
std::string shape_text(const std::vector<std::size_t>& shape);

/// What the start of a .npy file says about the rest.
struct NpyHeader {
  NpyType type = NpyType::kFloat32;
  std::vector<std::size_t> shape;
  std::size_t values = 0;       ///< Product of the shape.
  std::size_t data_offset = 0;  ///< Where the first value is; the last one ends the file.
};

/// Whether `file` starts as every .npy file does.
bool is_npy(std::span<const std::byte> file);

/// Reads the header of a whole .npy file (versions 1 to 3) and holds it against the file's size. `name` is what messages
/// call the file. Throws IoError for a damaged header, a type not in NpyType, big-endian values, Fortran order, and data
/// shorter or longer than the shape says. Reserves no memory by what the file claims.
NpyHeader parse_npy_header(std::span<const std::byte> file, const std::string& name);

/// Writes one C-order array; ids are written as int32, which is what NumPy indexes with. Throws InvalidArgument if the shape is
/// not that of `values` or an id is over 2^31 - 1. The caller commits.
void write_npy(OutputFile& file, std::span<const float> values, const std::vector<std::size_t>& shape);
void write_npy(OutputFile& file, std::span<const std::int32_t> values, const std::vector<std::size_t>& shape);
void write_npy(OutputFile& file, std::span<const std::int64_t> values, const std::vector<std::size_t>& shape);
void write_npy(OutputFile& file, std::span<const std::uint32_t> ids, const std::vector<std::size_t>& shape);

/// The beginning of such a file, for values that come later.
void write_npy_header(OutputFile& file, NpyType type, const std::vector<std::size_t>& shape);

/// The same as a whole file, committed.
template <class Values>
void write_npy(const std::filesystem::path& path, const Values& values, const std::vector<std::size_t>& shape) {
  OutputFile file(path);
  write_npy(file, values, shape);
  file.commit();
}

}  // namespace smartmine
