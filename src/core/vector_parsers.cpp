#include "core/vector_parsers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

#include "core/float16.h"
#include "smartmine/core/error.h"
#include "smartmine/core/npy.h"

namespace smartmine {
namespace {

constexpr std::size_t kChunkBytes = std::size_t{16} << 20;  // a conversion tells how far it is this often
constexpr const char* kCutShort = "the file is cut short; copy or save it again";

/// A value at any address; files promise no alignment.
template <class T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

/// Calls `convert(i, value)` for the `count` values of type From that start at `offset`.
template <class From, class Convert>
void for_each_value(const FileBytes& file, std::size_t offset, std::size_t count, const Convert& convert) {
  constexpr std::size_t kChunk = kChunkBytes / sizeof(From);
  const std::byte* const first = file.bytes.data() + offset;
  for (std::size_t begin = 0; begin < count; begin += kChunk) {
    const std::size_t end = std::min(count, begin + kChunk);
    for (std::size_t i = begin; i < end; ++i) convert(i, load<From>(first + i * sizeof(From)));
    if (file.done_before) file.done_before(offset + end * sizeof(From));
  }
}

/// Calls `visit` with a value of the C++ type that an integer `type` stands for; false if it is no integer.
template <class Visit>
bool with_integer_type(NpyType type, const Visit& visit) {
  switch (type) {
    case NpyType::kInt8:
      visit(std::int8_t{});
      return true;
    case NpyType::kInt16:
      visit(std::int16_t{});
      return true;
    case NpyType::kInt32:
      visit(std::int32_t{});
      return true;
    case NpyType::kInt64:
      visit(std::int64_t{});
      return true;
    case NpyType::kUint8:
      visit(std::uint8_t{});
      return true;
    case NpyType::kUint16:
      visit(std::uint16_t{});
      return true;
    case NpyType::kUint32:
      visit(std::uint32_t{});
      return true;
    case NpyType::kUint64:
      visit(std::uint64_t{});
      return true;
    default:
      return false;
  }
}

/// The limits of Rows, with the path in front.
void check_float_shape(const std::string& name, std::string_view what, std::size_t rows, std::size_t columns) {
  if (rows == 0) throw IoError(fmt::format("{}: {} have no rows; at least 1 is needed", name, what));
  if (rows > kMaxRows) throw IoError(fmt::format("{}: {} have {} rows; at most {} are supported", name, what, rows, kMaxRows));
  if (columns == 0 || columns > kMaxDimension)
    throw IoError(fmt::format("{}: {} have dimension {}; it must be from 1 to {}", name, what, columns, kMaxDimension));
}

void check_matrix(const NpyHeader& header, const std::string& name, std::string_view what) {
  if (header.shape.size() == 2) return;
  throw IoError(fmt::format("{}: the array has shape {}, {} need (rows, columns); {}", name, shape_text(header.shape), what,
                            header.shape.size() == 1 ? "for a single row save array.reshape(1, -1)" : "save a 2-D array"));
}

ParsedMatrix parse_npy_embeddings(const FileBytes& file, const std::string& name, std::string_view what) {
  const NpyHeader header = parse_npy_header(file.bytes, name);
  check_matrix(header, name, what);
  ParsedMatrix matrix;
  matrix.rows = header.shape[0];
  matrix.columns = header.shape[1];
  check_float_shape(name, what, matrix.rows, matrix.columns);
  const std::byte* const data = file.bytes.data() + header.data_offset;
  switch (header.type) {
    case NpyType::kFloat16:
      matrix.converted = Buffer<float>(header.values);
      for_each_value<std::uint16_t>(file, header.data_offset, header.values,
                                    [&](std::size_t i, std::uint16_t half) { matrix.converted[i] = float_from_half(half); });
      return matrix;
    case NpyType::kFloat32:
      if (reinterpret_cast<std::uintptr_t>(data) % alignof(float) == 0) {
        matrix.in_place = reinterpret_cast<const float*>(data);
        return matrix;
      }
      matrix.converted = Buffer<float>(header.values);
      for_each_value<float>(file, header.data_offset, header.values, [&](std::size_t i, float value) { matrix.converted[i] = value; });
      return matrix;
    case NpyType::kFloat64:
      matrix.converted = Buffer<float>(header.values);
      for_each_value<double>(file, header.data_offset, header.values, [&](std::size_t i, double value) {
        if (std::isfinite(value) && std::abs(value) > static_cast<double>(std::numeric_limits<float>::max()))
          throw IoError(fmt::format("{}: {:.6g} at row {}, column {} (counted from 0) is too large for float32; scale the {}", name, value,
                                    i / matrix.columns, i % matrix.columns, what));
        matrix.converted[i] = static_cast<float>(value);
      });
      return matrix;
    default:
      throw IoError(fmt::format("{}: the array holds {}, {} must be float16, float32 or float64; convert with array.astype('float32')",
                                name, to_string(header.type), what));
  }
}

/// Rows of .fvecs and .ivecs: an int32 with the row's length, then that many 4-byte values. Calls `start(rows, columns)`
/// once, then `take(row, bytes)` for every row. Lengths must be the same everywhere.
template <class Start, class Take>
void for_each_vecs_row(const FileBytes& file, const std::string& name, const Start& start, const Take& take) {
  constexpr std::size_t kLength = 4;
  const std::size_t size = file.bytes.size();
  if (size == 0) throw IoError(fmt::format("{}: the file is empty; expected vectors, each led by its length as an int32", name));
  std::size_t columns = 0;
  std::size_t told = 0;
  std::size_t row = 0;
  for (std::size_t offset = 0; offset < size; ++row) {
    if (size - offset < kLength)
      throw IoError(fmt::format("{}: ends at byte {}, inside the length of row {}: {}", name, size, row, kCutShort));
    const auto length = load<std::int32_t>(file.bytes.data() + offset);
    if (length < 1 || static_cast<std::size_t>(length) > kMaxDimension)
      throw IoError(fmt::format("{}: row {} (at byte {}) claims length {}, which must be from 1 to {}; is it really this format?", name,
                                row, offset, length, kMaxDimension));
    if (row == 0) {
      columns = static_cast<std::size_t>(length);
      start(size / (kLength + columns * 4), columns);
    }
    if (static_cast<std::size_t>(length) != columns)
      throw IoError(fmt::format("{}: row {} (at byte {}) has length {}, the rows before it {}; all must be the same", name, row, offset,
                                length, columns));
    offset += kLength;
    if (size - offset < columns * 4) throw IoError(fmt::format("{}: ends at byte {}, inside row {}: {}", name, size, row, kCutShort));
    take(row, file.bytes.data() + offset);
    offset += columns * 4;
    if (file.done_before && offset - told >= kChunkBytes) {
      file.done_before(offset);
      told = offset;
    }
  }
}

ParsedMatrix parse_fvecs(const FileBytes& file, const std::string& name, std::string_view what) {
  ParsedMatrix matrix;
  for_each_vecs_row(
      file, name,
      [&](std::size_t rows, std::size_t columns) {
        matrix.rows = rows;
        matrix.columns = columns;
        if (rows > 0) check_float_shape(name, what, rows, columns);  // no whole row: the file is cut short, said below
        matrix.converted = Buffer<float>(rows * columns);
      },
      [&](std::size_t row, const std::byte* values) {
        std::memcpy(matrix.converted.data() + row * matrix.columns, values, matrix.columns * sizeof(float));
      });
  return matrix;
}

ParsedMatrix parse_fbin(const FileBytes& file, const std::string& name, std::string_view what) {
  constexpr std::size_t kHeader = 8;
  const std::size_t size = file.bytes.size();
  if (size < kHeader)
    throw IoError(fmt::format("{}: {} bytes are too few for the .fbin header (uint32 rows, uint32 dimension): {}", name, size, kCutShort));
  ParsedMatrix matrix;
  matrix.rows = load<std::uint32_t>(file.bytes.data());
  matrix.columns = load<std::uint32_t>(file.bytes.data() + 4);
  check_float_shape(name, what, matrix.rows, matrix.columns);  // also keeps the product below small
  const std::size_t expected = matrix.rows * matrix.columns * sizeof(float);
  if (size - kHeader != expected)
    throw IoError(fmt::format("{}: {} rows of dimension {} need {} bytes after the .fbin header but {} follow; {}", name, matrix.rows,
                              matrix.columns, expected, size - kHeader,
                              size - kHeader < expected ? kCutShort : "is it really this format?"));
  const std::byte* const data = file.bytes.data() + kHeader;
  if (reinterpret_cast<std::uintptr_t>(data) % alignof(float) == 0) {
    matrix.in_place = reinterpret_cast<const float*>(data);
  } else {
    matrix.converted = Buffer<float>(matrix.rows * matrix.columns);
    std::memcpy(matrix.converted.data(), data, expected);
  }
  return matrix;
}

/// `value` as an id, or an error that says where it stands.
template <class T>
std::uint32_t checked_id(T value, const std::string& name, std::size_t position, std::size_t columns) {
  if (std::cmp_less(value, 0) || std::cmp_greater(value, std::numeric_limits<std::int32_t>::max()))
    throw IoError(fmt::format("{}: id {} at row {}, column {} (counted from 0); ids must be from 0 to 2147483647", name, value,
                              position / columns, position % columns));
  return static_cast<std::uint32_t>(value);
}

void check_id_shape(const std::string& name, std::size_t rows, std::size_t columns) {
  if (rows == 0 || columns == 0 || rows > kMaxRows)
    throw IoError(
        fmt::format("{}: {} rows of {} ids; there must be from 1 to {} rows and at least 1 id in each", name, rows, columns, kMaxRows));
}

}  // namespace

ParsedMatrix parse_embeddings(const FileBytes& file, std::string_view what) {
  const std::string name = file.path.string();
  const std::filesystem::path ending = file.path.extension();
  if (is_npy(file.bytes) || ending == ".npy") return parse_npy_embeddings(file, name, what);
  if (ending == ".fvecs") return parse_fvecs(file, name, what);
  if (ending == ".fbin") return parse_fbin(file, name, what);
  throw IoError(fmt::format("{}: unknown format; {} must be .npy, .fvecs or .fbin", name, what));
}

NeighborIds parse_ids(const FileBytes& file) {
  const std::string name = file.path.string();
  NeighborIds result;
  if (!is_npy(file.bytes) && file.path.extension() == ".ivecs") {
    for_each_vecs_row(
        file, name,
        [&](std::size_t rows, std::size_t columns) {
          result.rows = rows;
          result.columns = columns;
          if (rows > 0) check_id_shape(name, rows, columns);  // no whole row: the file is cut short, said below
          result.ids = Buffer<std::uint32_t>(rows * columns);
        },
        [&](std::size_t row, const std::byte* values) {
          for (std::size_t column = 0; column < result.columns; ++column) {
            const std::size_t position = row * result.columns + column;
            result.ids[position] = checked_id(load<std::int32_t>(values + column * 4), name, position, result.columns);
          }
        });
    return result;
  }
  if (!is_npy(file.bytes) && file.path.extension() != ".npy")
    throw IoError(fmt::format("{}: unknown format; ids must be .npy or .ivecs", name));
  const NpyHeader header = parse_npy_header(file.bytes, name);
  check_matrix(header, name, "ids");
  result.rows = header.shape[0];
  result.columns = header.shape[1];
  check_id_shape(name, result.rows, result.columns);
  const bool integer = with_integer_type(header.type, [&]<class T>(T) {
    result.ids = Buffer<std::uint32_t>(header.values);
    for_each_value<T>(file, header.data_offset, header.values,
                      [&](std::size_t i, T value) { result.ids[i] = checked_id(value, name, i, result.columns); });
  });
  if (!integer)
    throw IoError(
        fmt::format("{}: the array holds {}, ids must be whole numbers; convert with array.astype('int32')", name, to_string(header.type)));
  return result;
}

std::vector<std::int64_t> parse_labels(const FileBytes& file) {
  const std::string name = file.path.string();
  if (!is_npy(file.bytes) && file.path.extension() != ".npy") throw IoError(fmt::format("{}: unknown format; labels must be .npy", name));
  const NpyHeader header = parse_npy_header(file.bytes, name);
  if (header.shape.size() != 1 && !(header.shape.size() == 2 && header.shape[1] == 1))
    throw IoError(fmt::format("{}: the array has shape {}, labels need (rows,); save a 1-D array", name, shape_text(header.shape)));
  if (header.values == 0) throw IoError(fmt::format("{}: there are no labels; at least 1 is needed", name));
  std::vector<std::int64_t> labels;
  const bool integer = with_integer_type(header.type, [&]<class T>(T) {
    labels.resize(header.values);
    for_each_value<T>(file, header.data_offset, header.values, [&](std::size_t i, T value) {
      if (std::cmp_greater(value, std::numeric_limits<std::int64_t>::max()))
        throw IoError(
            fmt::format("{}: label {} at row {} (counted from 0) is over 9223372036854775807; number the classes anew", name, value, i));
      labels[i] = static_cast<std::int64_t>(value);  // NOLINT(bugprone-signed-char-misuse): int8 is a number here, not a letter
    });
  });
  if (!integer)
    throw IoError(fmt::format("{}: the array holds {}, labels must be whole numbers; convert with array.astype('int64')", name,
                              to_string(header.type)));
  return labels;
}

}  // namespace smartmine
