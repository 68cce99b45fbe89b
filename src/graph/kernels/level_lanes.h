#pragma once

// Part of level.cpp, which alone includes it: registers of floats, and plain distances.
#if defined(__SSE2__)
#include <immintrin.h>
#endif

#include "graph/kernels/kernels.h"

namespace smartmine::kernels::SMARTMINE_LEVEL {
namespace {

#if defined(__AVX512F__)
constexpr size_t kLanes = 16;       // floats in a register
constexpr size_t kTileQueries = 8;  // queries and panels of a tile: their sums fill the registers
constexpr size_t kTilePanels = 3;
#elif defined(__AVX2__)
constexpr size_t kLanes = 8;
constexpr size_t kTileQueries = 6;
constexpr size_t kTilePanels = 1;
#else
constexpr size_t kLanes = 4;
constexpr size_t kTileQueries = 3;
constexpr size_t kTilePanels = 1;
#endif
constexpr size_t kParts = kPanelWidth / kLanes;  // registers a panel

typedef float Floats __attribute__((vector_size(kLanes * sizeof(float))));
typedef float UnalignedFloats __attribute__((vector_size(kLanes * sizeof(float)), aligned(4), may_alias));

inline Floats load(const float* from) { return *reinterpret_cast<const UnalignedFloats*>(from); }
inline float sum(Floats v) {
  float total = 0;
  for (size_t lane = 0; lane < kLanes; ++lane) total += v[lane];
  return total;
}
inline float largest(float a, float b) { return a > b ? a : b; }
inline float square_root(float x) { return __builtin_sqrtf(x); }

// ---- plain distances ----

float squared_distance(const float* a, const float* b, size_t dimension) {
  Floats s0{}, s1{}, s2{}, s3{};
  size_t t = 0;
  for (; t + 4 * kLanes <= dimension; t += 4 * kLanes) {
    const Floats d0 = load(a + t) - load(b + t), d1 = load(a + t + kLanes) - load(b + t + kLanes);
    const Floats d2 = load(a + t + 2 * kLanes) - load(b + t + 2 * kLanes), d3 = load(a + t + 3 * kLanes) - load(b + t + 3 * kLanes);
    s0 += d0 * d0, s1 += d1 * d1, s2 += d2 * d2, s3 += d3 * d3;
  }
  for (; t + kLanes <= dimension; t += kLanes) {
    const Floats d0 = load(a + t) - load(b + t);
    s0 += d0 * d0;
  }
  float rest = 0;
  for (; t < dimension; ++t) rest += (a[t] - b[t]) * (a[t] - b[t]);
  return sum((s0 + s1) + (s2 + s3)) + rest;
}

float dot(const float* a, const float* b, size_t dimension) {
  Floats s0{}, s1{};
  size_t t = 0;
  for (; t + 2 * kLanes <= dimension; t += 2 * kLanes) {
    s0 += load(a + t) * load(b + t);
    s1 += load(a + t + kLanes) * load(b + t + kLanes);
  }
  float rest = 0;
  for (; t < dimension; ++t) rest += a[t] * b[t];
  return sum(s0 + s1) + rest;
}

void squared_distances(const float* from, const float* rows, const uint32_t* ids, size_t count, size_t dimension, float* out) {
  constexpr size_t kAhead = 6;
  const size_t lines = dimension * sizeof(float) / 64 < 8 ? dimension * sizeof(float) / 64 : 8;
  for (size_t i = 0; i < count; ++i) {
    if (i + kAhead < count) {
      const char* next = reinterpret_cast<const char*>(rows + ids[i + kAhead] * dimension);
      for (size_t line = 0; line <= lines; ++line) __builtin_prefetch(next + line * 64);
    }
    out[i] = squared_distance(from, rows + ids[i] * dimension, dimension);
  }
}

// The lanes of a register above those of another, as a mask.
inline unsigned lanes_above(Floats values, Floats bars) {
#if defined(__AVX512F__)
  return _mm512_cmp_ps_mask((__m512)values, (__m512)bars, _CMP_GT_OQ);
#elif defined(__AVX2__)
  return static_cast<unsigned>(_mm256_movemask_ps(_mm256_cmp_ps((__m256)values, (__m256)bars, _CMP_GT_OQ)));
#elif defined(__SSE2__)
  return static_cast<unsigned>(_mm_movemask_ps(_mm_cmpgt_ps((__m128)values, (__m128)bars)));
#else
  unsigned mask = 0;
  for (size_t lane = 0; lane < kLanes; ++lane) mask |= static_cast<unsigned>(values[lane] > bars[lane]) << lane;
  return mask;
#endif
}

}  // namespace
}  // namespace smartmine::kernels::SMARTMINE_LEVEL
