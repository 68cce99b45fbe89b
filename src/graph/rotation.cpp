#include "graph/rotation.h"

#include <cmath>
#include <limits>

#include "smartmine/core/random.h"

namespace smartmine {

namespace {

constexpr std::uint64_t kStream = 0x524f;

}  // namespace

Rotation::Rotation(std::size_t dimension) : dimension_(dimension), origin_(dimension, 0.0F) {
  int stages = 0;
  for (; 2 * span_ <= dimension; span_ *= 2) ++stages;
  // Where it is no power of two, the first coordinates are mixed, then the last, and the first again.
  firsts_ = {0};
  if (span_ < dimension) firsts_ = {0, dimension - span_, 0};
  const auto scale = static_cast<float>(1 / std::sqrt(static_cast<double>(span_)));
  Random random(0, kStream, dimension);
  for (std::size_t pass = 0; pass < firsts_.size(); ++pass)
    for (std::size_t t = 0; t < span_; ++t) signs_.push_back((random.bits() & 1) != 0 ? scale : -scale);
  // Every stage rounds each coordinate once, and so do the factor and the multiplication by it: half an epsilon each. Twice that is safe.
  rounding_ = static_cast<float>(firsts_.size()) * static_cast<float>(stages + 2) * std::numeric_limits<float>::epsilon();
}

void Rotation::turn(float* row) const {
  const float* signs = signs_.data();
  for (const std::size_t first : firsts_) {
    float* x = row + first;
    for (std::size_t t = 0; t < span_; ++t) x[t] *= signs[t];
    signs += span_;
    for (std::size_t half = 1; half < span_; half *= 2) {
      for (std::size_t from = 0; from < span_; from += 2 * half) {
        for (std::size_t t = from; t < from + half; ++t) {
          const float a = x[t], b = x[t + half];
          x[t] = a + b;
          x[t + half] = a - b;
        }
      }
    }
  }
}

}  // namespace smartmine
