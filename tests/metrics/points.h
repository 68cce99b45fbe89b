#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "smartmine/core/error.h"
#include "smartmine/core/random.h"
#include "smartmine/core/rows.h"

namespace smartmine::test {

/// Rows with the memory they lie in.
struct Points {
  std::vector<float> values;
  std::size_t dimension = 1;
  std::size_t size() const { return values.size() / dimension; }
  Rows rows() const { return Rows(values.data(), size(), dimension); }
};

/// Rows around `groups` centres, row i in group i % groups, `spread` wide against centres of width 1.
inline Points grouped_points(std::size_t size, std::size_t dimension, std::size_t groups, double spread, std::uint64_t seed = 1) {
  Points points{std::vector<float>(size * dimension), dimension};
  for (std::size_t i = 0; i < size; ++i) {
    Random centre(seed, 0, i % groups), within(seed, 1, i);
    for (std::size_t j = 0; j < dimension; ++j)
      points.values[i * dimension + j] = static_cast<float>(centre.normal() + spread * within.normal());
  }
  return points;
}

/// Rows of small whole numbers: their squared distances are exact in float, and many are equal.
inline Points lattice_points(std::size_t size, std::size_t dimension, std::uint64_t steps, std::uint64_t seed = 1) {
  Points points{std::vector<float>(size * dimension), dimension};
  Random random(seed);
  for (float& value : points.values) value = static_cast<float>(random.below(steps));
  return points;
}

inline double squared_distance(const float* a, const float* b, std::size_t dimension) {
  double sum = 0;
  for (std::size_t j = 0; j < dimension; ++j) sum += (static_cast<double>(a[j]) - b[j]) * (static_cast<double>(a[j]) - b[j]);
  return sum;
}

/// What InvalidArgument says.
template <class Call>
std::string message_of(const Call& call) {
  try {
    call();
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "nothing was thrown";
}

}  // namespace smartmine::test
