#include "files.h"

#include <cmath>
#include <cstring>
#include <stdexcept>

#include "program.h"
#include "smartmine/core/random.h"

namespace smartmine::test {
namespace {

template <class T>
Matrix<T> read(const std::string& path, const std::string& dtype) {
  const std::string file = read_text(path);
  if (file.size() < 10 || file.compare(0, 6, "\x93NUMPY") != 0) throw std::runtime_error(path + " is not a .npy file");
  const std::size_t length = static_cast<unsigned char>(file[8]) + 256U * static_cast<unsigned char>(file[9]);
  const std::string header = file.substr(10, length);
  const std::size_t place = header.find("'shape': (");
  if (header.find("'" + dtype + "'") == std::string::npos || header.find("'fortran_order': False") == std::string::npos ||
      place == std::string::npos)
    throw std::runtime_error(path + " is not a C-order matrix of " + dtype + ": " + header);
  Matrix<T> matrix;
  if (std::sscanf(header.c_str() + place, "'shape': (%zu, %zu)", &matrix.rows, &matrix.columns) != 2)
    throw std::runtime_error(path + " has another shape: " + header);
  matrix.values.resize(matrix.rows * matrix.columns);
  if (file.size() != 10 + length + matrix.values.size() * sizeof(T)) throw std::runtime_error(path + " has another size than it says");
  std::memcpy(matrix.values.data(), file.data() + 10 + length, matrix.values.size() * sizeof(T));
  return matrix;
}

template <class T>
void write_integers(const std::string& path, const std::string& dtype, const std::vector<T>& values, std::size_t columns) {
  std::string data(values.size() * sizeof(T), '\0');
  if (!values.empty()) std::memcpy(data.data(), values.data(), data.size());
  const std::string shape =
      columns == 0 ? std::to_string(values.size()) + "," : std::to_string(values.size() / columns) + ", " + std::to_string(columns);
  write_raw_npy(path, "{'descr': '" + dtype + "', 'fortran_order': False, 'shape': (" + shape + "), }", data);
}

}  // namespace

void write_raw_npy(const std::string& path, const std::string& dictionary, const std::string& data) {
  std::string header = dictionary;
  header.append(63 - (10 + header.size()) % 64, ' ');
  header += '\n';
  std::string file = "\x93NUMPY";
  file += '\x01';
  file += '\x00';
  file += static_cast<char>(header.size() % 256);
  file += static_cast<char>(header.size() / 256);
  write_text(path, file + header + data);
}

void write_matrix(const std::string& path, const std::vector<float>& values, std::size_t rows, std::size_t columns) {
  std::string data(values.size() * sizeof(float), '\0');
  if (!values.empty()) std::memcpy(data.data(), values.data(), data.size());
  write_raw_npy(
      path, "{'descr': '<f4', 'fortran_order': False, 'shape': (" + std::to_string(rows) + ", " + std::to_string(columns) + "), }", data);
}

void write_int32(const std::string& path, const std::vector<std::int32_t>& values, std::size_t columns) {
  write_integers(path, "<i4", values, columns);
}
void write_int64(const std::string& path, const std::vector<std::int64_t>& values, std::size_t columns) {
  write_integers(path, "<i8", values, columns);
}

Matrix<std::int32_t> read_int32(const std::string& path) { return read<std::int32_t>(path, "<i4"); }
Matrix<std::int64_t> read_int64(const std::string& path) { return read<std::int64_t>(path, "<i8"); }
Matrix<float> read_float32(const std::string& path) { return read<float>(path, "<f4"); }

std::vector<float> clustered_rows(std::size_t rows, std::size_t dimension, std::uint64_t seed) {
  std::vector<float> values(rows * dimension);
  for (std::size_t i = 0; i < rows; ++i) {
    Random centre(seed, 0, i % (rows / 20 + 1));
    Random within(seed, 1, i);
    double squared = 0;
    for (std::size_t j = 0; j < dimension; ++j) {
      const auto value = static_cast<float>(centre.normal() + 0.5 * within.normal());
      values[i * dimension + j] = value;
      squared += static_cast<double>(value) * static_cast<double>(value);
    }
    for (std::size_t j = 0; j < dimension; ++j) values[i * dimension + j] /= static_cast<float>(std::sqrt(squared));
  }
  return values;
}

}  // namespace smartmine::test
