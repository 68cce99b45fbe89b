#pragma once

// Part of level.cpp, which alone includes it: the best candidates of a query.
#include "graph/kernels/level_lanes.h"

namespace smartmine::kernels::SMARTMINE_LEVEL {
namespace {

// Entries with a score above `bar`, or at `bar` while `ties` lasts, in the order they stand in.
uint32_t compact(Reservoir* r, float bar, size_t ties) {
  uint32_t kept = 0;
  uint32_t i = 0;
#if defined(__AVX512F__)
  if (ties == 0) {  // nothing to count: sixteen at a time (the last ones as far as the mask says)
    const __m512 bars = _mm512_set1_ps(bar);
    for (; i < r->count; i += 16) {
      const __mmask16 valid = r->count - i >= 16 ? static_cast<__mmask16>(0xffff) : static_cast<__mmask16>((1U << (r->count - i)) - 1);
      const __m512 scores = _mm512_maskz_loadu_ps(valid, r->scores + i);
      const __m512i slots = _mm512_maskz_loadu_epi32(valid, r->slots + i);
      const __mmask16 passed = _mm512_mask_cmp_ps_mask(valid, scores, bars, _CMP_GT_OQ);
      const auto number = static_cast<uint32_t>(__builtin_popcount(passed));
      const auto low = static_cast<__mmask16>((1U << number) - 1);
      _mm512_mask_storeu_ps(r->scores + kept, low, _mm512_maskz_compress_ps(passed, scores));
      _mm512_mask_storeu_epi32(r->slots + kept, low, _mm512_maskz_compress_epi32(passed, slots));
      kept += number;
    }
    return kept;
  }
#endif
  for (; i < r->count; ++i) {
    const float score = r->scores[i];
    const bool tie = score == bar && ties > 0;
    ties -= tie;
    r->scores[kept] = score;
    r->slots[kept] = r->slots[i];
    kept += tie || score > bar;
  }
  return kept;
}

size_t count_above(const float* scores, size_t count, float bar) {
  uint32_t above = 0;
  for (size_t i = 0; i < count; ++i) above += scores[i] > bar;
  return above;
}

// Floats in ascending order, numbered so that neighbours differ by 1, and back.
inline int64_t order_of(float value) {
  int32_t bits;
  __builtin_memcpy(&bits, &value, sizeof bits);
  return bits >= 0 ? bits : -static_cast<int64_t>(bits & 0x7fffffff);
}
inline float float_at(int64_t order) {
  const auto bits = order >= 0 ? static_cast<uint32_t>(order) : 0x80000000U | static_cast<uint32_t>(-order);
  float value;
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}

// A bar such that `keep` to `keep` + `spare` entries are above it, or at least `keep` at or above it when ties forbid that (then fewer
// than `keep` are above).
float find_bar(const float* scores, size_t count, size_t keep, size_t spare) {
  Floats lows = Floats{} + scores[0], highs = lows;
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const Floats values = load(scores + i);
    lows = lows < values ? lows : values;
    highs = highs > values ? highs : values;
  }
  float low = lows[0], high = highs[0];
  for (size_t lane = 1; lane < kLanes; ++lane) {
    low = lows[lane] < low ? lows[lane] : low;
    high = largest(high, highs[lane]);
  }
  for (; i < count; ++i) {
    low = scores[i] < low ? scores[i] : low;
    high = largest(high, scores[i]);
  }
  // Invariant: at least `keep` entries are >= low; fewer than `keep` are > high. Three bars at a time leave a quarter of the range.
  for (int step = 0; step < 12 && low < high; ++step) {
    const float quarter = high * 0.25F - low * 0.25F;
    const float bars[3] = {low + quarter, low + 2 * quarter, low + 3 * quarter};
    if (!(low < bars[0] && bars[0] < bars[1] && bars[1] < bars[2] && bars[2] < high)) break;
    uint32_t above[3] = {0, 0, 0};
    for (i = 0; i < count; ++i) {
      above[0] += scores[i] > bars[0];
      above[1] += scores[i] > bars[1];
      above[2] += scores[i] > bars[2];
    }
    for (int j = 0; j < 3; ++j)
      if (above[j] >= keep && above[j] <= keep + spare) return bars[j];
    for (int j = 0; j < 3; ++j) {
      if (above[j] < keep) {
        high = bars[j];
        break;
      }
      low = bars[j];
    }
  }
  // Where that took too long the scores are of very different sizes. Floats count like whole numbers within a sign: halving these ends
  // after 32 steps where the two are neighbours, and the bar is the keep-th best value itself.
  for (int64_t from = order_of(low), to = order_of(high); to - from > 1;) {
    const int64_t between = from + (to - from) / 2;
    const float middle = float_at(between);
    const size_t above = count_above(scores, count, middle);
    if (above >= keep && above <= keep + spare) return middle;
    if (above > keep)
      from = between, low = middle;
    else
      to = between, high = middle;
  }
  return count_above(scores, count, low) >= keep ? high : low;
}

// The score of the `near`-th best, or a little less.
void measure_near(Reservoir* r, size_t near, size_t keep) {
  r->near = near >= keep || r->count <= near ? r->threshold : find_bar(r->scores, r->count, near, 4);
}

void finish(Reservoir* r, size_t keep, size_t spare) {
  if (r->count <= keep + spare) return;
  const float bar = find_bar(r->scores, r->count, keep, spare);
  const size_t above = count_above(r->scores, r->count, bar);
  r->count = compact(r, bar, keep > above ? keep - above : 0);
  r->threshold = bar;
}

void shrink(Reservoir* r, size_t keep, size_t capacity) {
  const float bar = find_bar(r->scores, r->count, keep, 8);
  float relaxed = bar;
  if (r->slack > 0 || r->slack_squared > 0) {
    const float squared = largest(0, r->norm - 2 * bar);
    const float distance = square_root(squared) + r->slack;
    relaxed = 0.5F * (r->norm - (distance * distance + r->slack_squared));
    if (relaxed > bar) relaxed = bar;
  }
  const size_t above = count_above(r->scores, r->count, relaxed);
  if (above >= keep && above + kReservoirSlack <= capacity) {
    r->count = compact(r, relaxed, 0);
    r->threshold = relaxed;
    return;
  }
  // Too many equals or near-equals to keep them all: the first ones stay, and the caller is told.
  r->overflowed = r->overflowed || above + kReservoirSlack > capacity;
  const size_t over = count_above(r->scores, r->count, bar);
  r->count = compact(r, bar, keep > over ? keep - over : 0);
  r->threshold = bar;
}

// Lets the lanes of a panel that `passed` in.
inline void let_in(Reservoir* r, const float* scores, unsigned passed, uint32_t slot) {
#if defined(__AVX512F__)
  const __m512 values = _mm512_load_ps(scores);
  const __m512i lanes =
      _mm512_add_epi32(_mm512_set1_epi32(static_cast<int>(slot)), _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
  // Compressing in registers and storing all of it: storing under a compress mask is slow on some chips.
  _mm512_storeu_ps(r->scores + r->count, _mm512_maskz_compress_ps(static_cast<__mmask16>(passed), values));
  _mm512_storeu_si512(r->slots + r->count, _mm512_maskz_compress_epi32(static_cast<__mmask16>(passed), lanes));
  r->count += static_cast<uint32_t>(__builtin_popcount(passed));
#else
  for (; passed != 0; passed &= passed - 1) {
    const auto lane = static_cast<unsigned>(__builtin_ctz(passed));
    r->scores[r->count] = scores[lane];
    r->slots[r->count] = slot + lane;
    ++r->count;
  }
#endif
}

}  // namespace
}  // namespace smartmine::kernels::SMARTMINE_LEVEL
