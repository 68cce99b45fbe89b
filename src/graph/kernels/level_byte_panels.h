#pragma once

// Part of level.cpp, which alone includes it where the set has products of bytes: panels of bytes, [bias of 16 as int32][coordinates 0-3 of
// 16, as unsigned bytes offset by 128][coordinates 4-7 of 16]...
#include "graph/kernels/level_lanes.h"

namespace smartmine::kernels::SMARTMINE_LEVEL {
namespace {

inline size_t quads(size_t dimension) { return (dimension + 3) / 4; }
size_t byte_panel_bytes(size_t dimension) { return (quads(dimension) + 1) * kPanelWidth * 4; }
size_t byte_query_bytes(size_t dimension) { return quads(dimension) * 4; }

// Rounds the row to bytes; returns the sum of their squares and, through `error`, the squared distance to the row.
inline int quantize(const Packing& packing, const float* row, int8_t* out, float* error) {
  const __m512 scale = _mm512_set1_ps(packing.scale), bound = _mm512_set1_ps(127.0F);
  __m512 errors = _mm512_setzero_ps();
  __m512i squares = _mm512_setzero_si512();
  for (size_t t = 0; t < packing.dimension; t += 16) {
    const size_t left = packing.dimension - t;
    const __mmask16 mask = left >= 16 ? static_cast<__mmask16>(0xffff) : static_cast<__mmask16>((1U << left) - 1);
    const __m512 exact =
        _mm512_mul_ps(_mm512_sub_ps(_mm512_maskz_loadu_ps(mask, row + t), _mm512_maskz_loadu_ps(mask, packing.centre + t)), scale);
    const __m512 clipped = _mm512_min_ps(bound, _mm512_max_ps(_mm512_sub_ps(_mm512_setzero_ps(), bound), exact));
    const __m512i rounded = _mm512_cvtps_epi32(clipped);
    const __m512 lost = _mm512_sub_ps(exact, _mm512_cvtepi32_ps(rounded));
    errors = _mm512_fmadd_ps(lost, lost, errors);
    squares = _mm512_add_epi32(squares, _mm512_mullo_epi32(rounded, rounded));
    _mm_mask_storeu_epi8(out + t, mask, _mm512_cvtepi32_epi8(rounded));
  }
  *error = _mm512_reduce_add_ps(errors);
  return _mm512_reduce_add_epi32(squares);
}

float pack_byte_panel(const Packing& packing, const float* rows, const uint32_t* ids, size_t count, void* panel) {
  int32_t* bias = static_cast<int32_t*>(panel);
  uint32_t* out = reinterpret_cast<uint32_t*>(bias + kPanelWidth);
  const size_t words = quads(packing.dimension);
  alignas(64) int8_t bytes[kMaxByteDimension];
  float worst = 0;
  for (size_t lane = 0; lane < kPanelWidth; ++lane) {
    if (lane >= count) {
      bias[lane] = -0x7fffffff;
      for (size_t w = 0; w < words; ++w) out[w * kPanelWidth + lane] = 0;
      continue;
    }
    for (size_t t = packing.dimension; t < words * 4; ++t) bytes[t] = 0;
    float error;
    bias[lane] = -quantize(packing, rows + ids[lane] * packing.dimension, bytes, &error) / 2;
    worst = largest(worst, error);
    for (size_t w = 0; w < words; ++w) {
      uint32_t word;
      __builtin_memcpy(&word, bytes + w * 4, 4);
      out[w * kPanelWidth + lane] = word ^ 0x80808080U;
    }
  }
  return square_root(worst);
}

float pack_byte_query(const Packing& packing, const float* row, void* query, Reservoir* reservoir) {
  int8_t* out = static_cast<int8_t*>(query);
  for (size_t t = packing.dimension; t < quads(packing.dimension) * 4; ++t) out[t] = 0;
  float error;
  const int squares = quantize(packing, row, out, &error);
  int offset = 0;
  for (size_t t = 0; t < packing.dimension; ++t) offset += out[t];
  // The panels' offset of 128 adds 128 * sum(q) to every score of this query.
  reservoir->norm = static_cast<float>(squares) + 256.0F * static_cast<float>(offset);
  return square_root(error);
}

// Turns sixteen registers of sixteen words about, so that word w of row r becomes word r of row w.
inline void transpose(__m512i (&rows)[16]) {
  __m512i a[16], b[16];
#pragma GCC unroll 16
  for (int i = 0; i < 16; i += 2) {
    a[i] = _mm512_unpacklo_epi32(rows[i], rows[i + 1]);
    a[i + 1] = _mm512_unpackhi_epi32(rows[i], rows[i + 1]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 16; i += 4) {
    b[i] = _mm512_unpacklo_epi64(a[i], a[i + 2]);
    b[i + 1] = _mm512_unpackhi_epi64(a[i], a[i + 2]);
    b[i + 2] = _mm512_unpacklo_epi64(a[i + 1], a[i + 3]);
    b[i + 3] = _mm512_unpackhi_epi64(a[i + 1], a[i + 3]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    a[i] = _mm512_shuffle_i32x4(b[i], b[i + 4], 0x88);
    a[i + 4] = _mm512_shuffle_i32x4(b[i], b[i + 4], 0xdd);
    a[i + 8] = _mm512_shuffle_i32x4(b[i + 8], b[i + 12], 0x88);
    a[i + 12] = _mm512_shuffle_i32x4(b[i + 8], b[i + 12], 0xdd);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    rows[i] = _mm512_shuffle_i32x4(a[i], a[i + 8], 0x88);
    rows[i + 8] = _mm512_shuffle_i32x4(a[i], a[i + 8], 0xdd);
    rows[i + 4] = _mm512_shuffle_i32x4(a[i + 4], a[i + 12], 0x88);
    rows[i + 12] = _mm512_shuffle_i32x4(a[i + 4], a[i + 12], 0xdd);
  }
}

void gather_byte_panel(const void* rows, const uint32_t* ids, size_t count, size_t dimension, void* panel) {
  const size_t words = quads(dimension);
  const __m512i offset = _mm512_set1_epi8(static_cast<char>(0x80));
  const auto valid = static_cast<__mmask16>((1U << count) - 1);
  __m512i squares = _mm512_setzero_si512();
  for (size_t first = 0; first < words; first += 16) {
    const size_t left = words - first < 16 ? words - first : 16;
    const auto mask = static_cast<__mmask16>((1U << left) - 1);
    __m512i block[16];
#pragma GCC unroll 16
    for (size_t lane = 0; lane < kPanelWidth; ++lane)
      block[lane] = _mm512_maskz_loadu_epi32(mask, static_cast<const int8_t*>(rows) + (ids[lane < count ? lane : 0] * words + first) * 4);
    transpose(block);
#pragma GCC unroll 16
    for (size_t w = 0; w < 16; ++w) {
      if (w >= left) break;
      const __m512i size = _mm512_abs_epi8(block[w]);
      squares = _mm512_dpbusd_epi32(squares, size, size);
      // A lane without a row holds nothing: products must not wrap its score around.
      _mm512_storeu_si512(static_cast<int32_t*>(panel) + (first + w + 1) * kPanelWidth, _mm512_maskz_xor_epi32(valid, block[w], offset));
    }
  }
  const __m512i half = _mm512_sub_epi32(_mm512_setzero_si512(), _mm512_srli_epi32(squares, 1));
  _mm512_storeu_si512(panel, _mm512_mask_blend_epi32(valid, _mm512_set1_epi32(-0x7fffffff), half));
}

// Adds the products of four pairs of bytes to each sum, the second four the same for all of them. Written out because compilers move the
// sums about around the intrinsic.
inline __m512i add_products(__m512i sums, __m512i unsigned_bytes, const int32_t* signed_bytes) {
  __asm__("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(sums) : "v"(unsigned_bytes), "m"(*signed_bytes));
  return sums;
}

struct ByteTiles {
  using Word = int32_t;
  using Sum = __m512i;
  static constexpr size_t kSums = 1;
  static constexpr size_t kStep = 8;
  static size_t panel_words(size_t dimension) { return (quads(dimension) + 1) * kPanelWidth; }
  static size_t query_words(size_t dimension) { return quads(dimension); }
  // Scores are whole numbers: above a bar is above the next whole number below it.
  static Word word(float score) {
    if (score >= 1073741824.0F) return 1073741824;
    if (score <= -1073741824.0F) return -1073741824;
    const auto whole = static_cast<int32_t>(score);
    return whole - (static_cast<float>(whole) > score);
  }

  template <size_t kQueries, size_t kPanels>
  static inline __attribute__((always_inline)) void run(const float* const* queries, const float* panels, size_t dimension,
                                                        Sum (&sums)[kQueries][kPanels]) {
    const size_t stride = panel_words(dimension);
    const int32_t* rows[kQueries];
    for (size_t q = 0; q < kQueries; ++q) rows[q] = reinterpret_cast<const int32_t*>(queries[q]);
    for (size_t q = 0; q < kQueries; ++q)
      for (size_t p = 0; p < kPanels; ++p) sums[q][p] = _mm512_loadu_si512(panels + p * stride);
    panels += kPanelWidth;
    // Eight words at a time without a loop, so that addresses cost nothing.
    size_t left = quads(dimension);
    for (; left >= kStep; left -= kStep) {
#pragma GCC unroll 8
      for (size_t w = 0; w < kStep; ++w) add_word<kQueries, kPanels>(rows, w, panels + w * kPanelWidth, stride, sums);
      for (size_t q = 0; q < kQueries; ++q) rows[q] += kStep;
      panels += kStep * kPanelWidth;
    }
    for (size_t w = 0; w < left; ++w) add_word<kQueries, kPanels>(rows, w, panels + w * kPanelWidth, stride, sums);
  }
  template <size_t kQueries, size_t kPanels>
  static inline __attribute__((always_inline)) void add_word(const int32_t* const* rows, size_t w, const float* panels, size_t stride,
                                                             Sum (&sums)[kQueries][kPanels]) {
    __m512i column[kPanels];
    for (size_t p = 0; p < kPanels; ++p) column[p] = _mm512_loadu_si512(panels + p * stride);
#pragma GCC unroll 8
    for (size_t q = 0; q < kQueries; ++q)
      for (size_t p = 0; p < kPanels; ++p) sums[q][p] = add_products(sums[q][p], column[p], rows[q] + w);
  }
  static inline unsigned above(const Sum* sums, Word bar) { return _mm512_cmpgt_epi32_mask(*sums, _mm512_set1_epi32(bar)); }
  static inline void store(const Sum* sums, float* out) { _mm512_storeu_ps(out, _mm512_cvtepi32_ps(*sums)); }
};

}  // namespace
}  // namespace smartmine::kernels::SMARTMINE_LEVEL
