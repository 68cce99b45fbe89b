#pragma once

#include <cstddef>
#include <vector>

namespace smartmine {

/// A rotation of space, always the same for a dimension, that spreads what a few coordinates hold over all of them. Distances stay what
/// they are. Random signs, then sums and differences of pairs (a Hadamard matrix), a few operations a coordinate.
class Rotation {
 public:
  explicit Rotation(std::size_t dimension);

  /// Turns `row` about the origin, in place.
  void turn(float* row) const;
  /// What rounding may move a row by, for each unit of its length.
  float rounding() const { return rounding_; }
  /// As many zeros as there are coordinates: a turned row is measured from there.
  const float* origin() const { return origin_.data(); }

 private:
  std::size_t dimension_;
  std::size_t span_ = 1;             // coordinates that are mixed at once: a power of two
  std::vector<std::size_t> firsts_;  // of these, pass after pass
  std::vector<float> signs_;         // of all coordinates, for each pass, with what brings sums back to the length of the row
  std::vector<float> origin_;
  float rounding_ = 0;
};

}  // namespace smartmine
