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

// The sums of squared differences, a lane each; what is left over goes into `rest`.
inline Floats squared_lanes(const float* a, const float* b, size_t dimension, float* rest) {
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
  float left = 0;
  for (; t < dimension; ++t) left += (a[t] - b[t]) * (a[t] - b[t]);
  *rest = left;
  return (s0 + s1) + (s2 + s3);
}

float squared_distance(const float* a, const float* b, size_t dimension) {
  float rest;
  const Floats lanes = squared_lanes(a, b, dimension, &rest);
  return sum(lanes) + rest;
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

#if defined(__AVX512F__)
// Turns sixteen registers about, so that lane w of register r becomes lane r of register w.
inline void transpose(__m512 (&rows)[16]) {
  __m512d a[16], b[16];
#pragma GCC unroll 8
  for (int i = 0; i < 16; i += 2) {
    a[i] = _mm512_castps_pd(_mm512_unpacklo_ps(rows[i], rows[i + 1]));
    a[i + 1] = _mm512_castps_pd(_mm512_unpackhi_ps(rows[i], rows[i + 1]));
  }
#pragma GCC unroll 4
  for (int i = 0; i < 16; i += 4) {
    b[i] = _mm512_unpacklo_pd(a[i], a[i + 2]);
    b[i + 1] = _mm512_unpackhi_pd(a[i], a[i + 2]);
    b[i + 2] = _mm512_unpacklo_pd(a[i + 1], a[i + 3]);
    b[i + 3] = _mm512_unpackhi_pd(a[i + 1], a[i + 3]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    a[i] = _mm512_shuffle_f64x2(b[i], b[i + 4], 0x88);
    a[i + 4] = _mm512_shuffle_f64x2(b[i], b[i + 4], 0xdd);
    a[i + 8] = _mm512_shuffle_f64x2(b[i + 8], b[i + 12], 0x88);
    a[i + 12] = _mm512_shuffle_f64x2(b[i + 8], b[i + 12], 0xdd);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    rows[i] = _mm512_castpd_ps(_mm512_shuffle_f64x2(a[i], a[i + 8], 0x88));
    rows[i + 8] = _mm512_castpd_ps(_mm512_shuffle_f64x2(a[i], a[i + 8], 0xdd));
    rows[i + 4] = _mm512_castpd_ps(_mm512_shuffle_f64x2(a[i + 4], a[i + 12], 0x88));
    rows[i + 12] = _mm512_castpd_ps(_mm512_shuffle_f64x2(a[i + 4], a[i + 12], 0xdd));
  }
}

// Sixteen distances at once. Lanes are added up in the order that `sum` has, so that the bits are those of squared_distance.
inline void sixteen_distances(const float* from, const float* rows, const uint32_t* ids, size_t dimension, float* out) {
  alignas(64) float rests[16];
  __m512 lanes[16];
#pragma GCC unroll 16
  for (size_t i = 0; i < 16; ++i) lanes[i] = (__m512)squared_lanes(from, rows + ids[i] * dimension, dimension, rests + i);
  transpose(lanes);
  __m512 total = _mm512_setzero_ps();
#pragma GCC unroll 16
  for (size_t w = 0; w < 16; ++w) total = _mm512_add_ps(total, lanes[w]);
  _mm512_storeu_ps(out, _mm512_add_ps(total, _mm512_load_ps(rests)));
}
#endif

void squared_distances(const float* from, const float* rows, const uint32_t* ids, size_t count, size_t dimension, float* out) {
  const size_t lines = dimension * sizeof(float) / 64 < 8 ? dimension * sizeof(float) / 64 : 8;
  const auto fetch = [&](size_t i) {
    const char* next = reinterpret_cast<const char*>(rows + ids[i] * dimension);
    for (size_t line = 0; line <= lines; ++line) __builtin_prefetch(next + line * 64);
  };
  size_t i = 0;
#if defined(__AVX512F__)
  for (size_t first = 0; first < count && first < 16; ++first) fetch(first);
  for (; i + 16 <= count; i += 16) {
    for (size_t next = i + 16; next < count && next < i + 32; ++next) fetch(next);
    sixteen_distances(from, rows, ids + i, dimension, out + i);
  }
  constexpr size_t kNearlySixteen = 6;  // from so many on it is quicker to do some twice than each alone
  if (count - i >= kNearlySixteen) {
    uint32_t last[16];
    alignas(64) float distances[16];
    for (size_t lane = 0; lane < 16; ++lane) last[lane] = ids[i + lane < count ? i + lane : i];
    sixteen_distances(from, rows, last, dimension, distances);
    for (size_t lane = 0; i < count; ++lane, ++i) out[i] = distances[lane];
  }
#endif
  constexpr size_t kAhead = 6;
  for (; i < count; ++i) {
    if (i + kAhead < count) fetch(i + kAhead);
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
