#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace smartmine {

/// Most rows a set may have: ids are written as int32.
inline constexpr std::size_t kMaxRows = 0x7fffffff;
/// Most dimensions a row may have.
inline constexpr std::size_t kMaxDimension = 65535;

/// A view of `size()` vectors of `dimension()` floats each, row after row without gaps. Does not own them.
class Rows {
 public:
  /// Throws InvalidArgument for no rows, a dimension of 0 or over kMaxDimension, or more than kMaxRows rows.
  Rows(const float* data, std::size_t size, std::size_t dimension);

  std::size_t size() const { return size_; }
  std::size_t dimension() const { return dimension_; }
  const float* data() const { return data_; }
  const float* operator[](std::size_t row) const { return data_ + row * dimension_; }
  std::span<const float> row(std::size_t row) const { return {(*this)[row], dimension_}; }

 private:
  const float* data_;
  std::size_t size_;
  std::size_t dimension_;
};

/// Sum of squared differences in order, in `Sum`'s precision. For a few pairs: searches have kernels.
template <class Sum = float>
Sum squared_distance(const float* a, const float* b, std::size_t dimension) {
  Sum sum = 0;
  for (std::size_t t = 0; t < dimension; ++t) {
    const Sum difference = static_cast<Sum>(a[t]) - static_cast<Sum>(b[t]);
    sum += difference * difference;
  }
  return sum;
}

/// What one look at every value tells. `check_rows` makes it.
struct RowsSummary {
  bool unit_norm = true;  ///< Every row's length is within 1e-3 of 1.
  double min_norm = 0;    ///< Shortest row.
  double max_norm = 0;    ///< Longest row.
};

/// Looks at every value once. Throws InvalidArgument naming the first row and column (in row order) that is NaN or
/// infinite, or so large that a squared distance would overflow a float.
RowsSummary check_rows(const Rows& rows, unsigned threads = 0);

}  // namespace smartmine
