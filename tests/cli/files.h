#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

// .npy files made and read by hand, so that the program is not tested with its own reader and writer.
namespace smartmine::test {

/// A .npy file of version 1 with this header and these bytes.
void write_raw_npy(const std::string& path, const std::string& dictionary, const std::string& data);

/// A float32 matrix.
void write_matrix(const std::string& path, const std::vector<float>& values, std::size_t rows, std::size_t columns);

/// Integers of either width: a matrix, or a list of labels when `columns` is 0.
void write_int32(const std::string& path, const std::vector<std::int32_t>& values, std::size_t columns = 0);
void write_int64(const std::string& path, const std::vector<std::int64_t>& values, std::size_t columns = 0);

/// What a .npy file of values in two dimensions holds. Throws std::runtime_error if `dtype` is another.
template <class T>
struct Matrix {
  std::size_t rows = 0;
  std::size_t columns = 0;
  std::vector<T> values;
  const T* operator[](std::size_t row) const { return values.data() + row * columns; }
};
Matrix<std::int32_t> read_int32(const std::string& path);
Matrix<std::int64_t> read_int64(const std::string& path);
Matrix<float> read_float32(const std::string& path);

/// Clustered unit rows.
std::vector<float> clustered_rows(std::size_t rows, std::size_t dimension, std::uint64_t seed = 1);

}  // namespace smartmine::test
