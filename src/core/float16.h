#pragma once

#include <bit>
#include <cstdint>

namespace smartmine {

/// The value of an IEEE 754 half, exactly: every half is a float.
inline float float_from_half(std::uint16_t half) {
  const std::uint32_t sign = (half & 0x8000U) << 16;
  const std::uint32_t exponent = (half >> 10) & 0x1fU;
  const std::uint32_t fraction = half & 0x3ffU;
  if (exponent == 0) {  // zero or subnormal: a multiple of 2^-24
    const float magnitude = static_cast<float>(fraction) * 0x1.0p-24F;
    return sign != 0 ? -magnitude : magnitude;
  }
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000U | fraction << 13);  // infinite or NaN
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);           // 112: difference of the biases
}

}  // namespace smartmine
