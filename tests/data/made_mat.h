#pragma once

#include <zlib.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

// MAT-files of version 5, written by hand.
namespace smartmine::test {

template <class T>
std::string raw(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

/// A data element: its tag, its bytes, and zeros up to eight.
inline std::string mat_element(std::uint32_t type, const std::string& bytes) {
  std::string element = raw(std::vector<std::uint32_t>{type, static_cast<std::uint32_t>(bytes.size())}) + bytes;
  element.resize((element.size() + 7) / 8 * 8, '\0');
  return element;
}

/// The same with tag and up to four bytes in one.
inline std::string mat_short_element(std::uint32_t type, const std::string& bytes) {
  std::string element = raw(std::vector<std::uint32_t>{type | static_cast<std::uint32_t>(bytes.size()) << 16}) + bytes;
  element.resize(8, '\0');
  return element;
}

inline std::string mat_array(std::uint32_t array_class, std::int32_t rows, std::int32_t columns, const std::string& name,
                             const std::string& content) {
  return mat_element(14, mat_element(6, raw(std::vector<std::uint32_t>{array_class, 0})) +
                             mat_element(5, raw(std::vector<std::int32_t>{rows, columns})) + mat_element(1, name) + content);
}

inline std::string mat_text(const std::string& text) {  // as MATLAB writes it, two bytes a letter
  return mat_array(4, 1, static_cast<std::int32_t>(text.size()), "",
                   mat_element(4, raw(std::vector<std::uint16_t>(text.begin(), text.end()))));
}

inline std::string mat_byte(std::uint8_t value) {
  return mat_array(9, 1, 1, "", mat_short_element(2, std::string(1, static_cast<char>(value))));
}
inline std::string mat_double(double value) { return mat_array(6, 1, 1, "", mat_element(9, raw(std::vector<double>{value}))); }
inline std::string mat_nothing() { return mat_element(14, ""); }

inline std::string mat_cell(const std::string& name, const std::vector<std::string>& cells) {
  std::string content;
  for (const std::string& cell : cells) content += cell;
  return mat_array(1, 1, static_cast<std::int32_t>(cells.size()), name, content);
}

/// `values` has the fields of the first element, then those of the second, and so on.
inline std::string mat_struct(const std::string& name, std::size_t elements, const std::vector<std::string>& fields,
                              const std::vector<std::string>& values) {
  constexpr std::size_t kWidth = 32;
  std::string names;
  for (std::string field : fields) {
    field.resize(kWidth, '\0');
    names += field;
  }
  std::string content = mat_short_element(5, raw(std::vector<std::int32_t>{kWidth})) + mat_element(1, names);
  for (const std::string& value : values) content += value;
  return mat_array(2, 1, static_cast<std::int32_t>(elements), name, content);
}

inline std::string mat_packed(const std::string& element) {
  std::string packed(compressBound(element.size()), '\0');
  uLongf size = packed.size();
  compress(reinterpret_cast<Bytef*>(packed.data()), &size, reinterpret_cast<const Bytef*>(element.data()), element.size());
  packed.resize(size);
  return raw(std::vector<std::uint32_t>{15, static_cast<std::uint32_t>(size)}) + packed;  // without zeros behind it
}

inline std::string mat_file(const std::string& elements) {
  std::string file = "MATLAB 5.0 MAT-file, made by hand";
  file.resize(124, ' ');
  return file + std::string("\x00\x01IM", 4) + elements;
}

}  // namespace smartmine::test
