#pragma once

// Part of level.cpp, which alone includes it: queries against panels, whatever the panels hold.
#include "graph/kernels/level_reservoirs.h"

namespace smartmine::kernels::SMARTMINE_LEVEL {
namespace {

// The scores of some queries, from the query-th on, against kPanels panels: a whole tile, or the first `count` of one whose other rows
// repeat the last. `take(query, panel, sums)` gets each. `row(query)` gives the packed queries.
template <class Tiles, size_t kQueries, size_t kPanels, class Row, class Take>
inline __attribute__((always_inline)) void cover_tile(size_t query, size_t count, const float* panels, size_t dimension, const Row& row,
                                                      const Take& take) {
  const float* rows[kQueries];
  for (size_t q = 0; q < kQueries; ++q) rows[q] = row(query + (q < count ? q : count - 1));
  typename Tiles::Sum sums[kQueries][kPanels * Tiles::kSums];
  Tiles::template run<kQueries, kPanels>(rows, panels, dimension, sums);
#pragma GCC unroll 8  // a loop would have to keep the sums in memory
  for (size_t q = 0; q < kQueries; ++q) {
    if (q >= count) return;
#pragma GCC unroll 8
    for (size_t p = 0; p < kPanels; ++p) take(query + q, p, sums[q] + p * Tiles::kSums);
  }
}

// All queries against kPanels panels. Few queries left over are padded: a small tile waits for its sums as long as a larger one.
template <class Tiles, size_t kPanels, class Row, class Take>
inline __attribute__((always_inline)) void cover_panels(size_t query_count, const float* panels, size_t dimension, const Row& row,
                                                        const Take& take) {
  size_t query = 0;
  for (; query + kTileQueries <= query_count; query += kTileQueries)
    cover_tile<Tiles, kTileQueries, kPanels>(query, kTileQueries, panels, dimension, row, take);
  constexpr size_t kHalf = (kTileQueries + 1) / 2;
  const size_t left = query_count - query;
  if (left == 0) return;
  if (left <= kHalf)
    cover_tile<Tiles, kHalf, kPanels>(query, left, panels, dimension, row, take);
  else
    cover_tile<Tiles, kTileQueries, kPanels>(query, left, panels, dimension, row, take);
}

// Covers a block with tiles; `take(query, panel, sums)` gets the scores of every pair once. Queries run inside panels, so that a panel
// stays in the nearest cache.
template <class Tiles, class Row, class Take>
inline void cover(const Row& row, size_t query_count, const void* panels, size_t panel_count, size_t dimension, const Take& take) {
  const float* panel_data = static_cast<const float*>(panels);
  size_t panel = 0;
  for (; panel + kTilePanels <= panel_count; panel += kTilePanels)
    cover_panels<Tiles, kTilePanels>(query_count, panel_data + panel * Tiles::panel_words(dimension), dimension, row,
                                     [&](size_t query, size_t p, const auto* sums) { take(query, panel + p, sums); });
  for (; panel < panel_count; ++panel)
    cover_panels<Tiles, 1>(query_count, panel_data + panel * Tiles::panel_words(dimension), dimension, row,
                           [&](size_t query, size_t, const auto* sums) { take(query, panel, sums); });
}

template <class Tiles>
void scan(const Scan& scan) {
  constexpr size_t kSlab = 256;
  typename Tiles::Word bars[kSlab];  // thresholds side by side: the reservoirs would crowd the nearest cache
  for (size_t from = 0; from < scan.query_count; from += kSlab) {
    const size_t count = scan.query_count - from < kSlab ? scan.query_count - from : kSlab;
    for (size_t q = 0; q < count; ++q) bars[q] = Tiles::word(scan.reservoirs[from + q].threshold);
    const float* queries = static_cast<const float*>(scan.queries) + from * Tiles::query_words(scan.dimension);
    cover<Tiles>([&](size_t query) { return queries + query * Tiles::query_words(scan.dimension); }, count, scan.panels, scan.panel_count,
                 scan.dimension,
                 [&](size_t query, size_t panel, const auto* sums) {
                   const unsigned passed = Tiles::above(sums, bars[query]);
                   if (__builtin_expect(passed == 0, 1)) return;
                   Reservoir* r = scan.reservoirs + from + query;
                   alignas(64) float scores[kPanelWidth];
                   Tiles::store(sums, scores);
                   let_in(r, scores, passed, scan.first_slot + static_cast<uint32_t>(panel * kPanelWidth));
                   if (r->count + kPanelWidth <= scan.capacity) return;
                   shrink(r, scan.keep, scan.capacity);
                   bars[query] = Tiles::word(r->threshold);
                 });
  }
}

// Score that the centre of a block must be above: squared distance < reach * that of the near-th candidate.
inline float centre_bar(const Reservoir& r, float reach) { return 0.5F * (r.norm - reach * (r.norm - 2 * r.near)); }

template <class Tiles>
void set_bars(Reservoir* reservoirs, const uint16_t* chosen, size_t count, size_t keep, size_t near, float reach, void* bars,
              void* centre_bars) {
  for (size_t i = 0; i < count; ++i) {
    Reservoir* r = reservoirs + chosen[i];
    measure_near(r, near, keep);
    static_cast<typename Tiles::Word*>(bars)[chosen[i]] = Tiles::word(r->threshold);
    static_cast<typename Tiles::Word*>(centre_bars)[chosen[i]] = Tiles::word(centre_bar(*r, reach));
  }
}

template <class Tiles>
size_t scan_blocks(const BlockScan& scan) {
  const float* queries = static_cast<const float*>(scan.queries);
  const float* panels = static_cast<const float*>(scan.panels);
  auto* bars = static_cast<typename Tiles::Word*>(scan.bars);
  auto* centre_bars = static_cast<typename Tiles::Word*>(scan.centre_bars);
  const size_t words = Tiles::panel_words(scan.dimension), query_words = Tiles::query_words(scan.dimension);
  uint16_t wanted[kMaxChosen + kPanelWidth];  // for each chosen query, the blocks it looks into
  uint16_t some[kMaxChosen + kPanelWidth];    // the queries that look into a block
  unsigned any = 0;
  cover_panels<Tiles, 1>(
      scan.chosen_count, static_cast<const float*>(scan.centres), scan.dimension,
      [&](size_t place) { return queries + scan.chosen[place] * query_words; },
      [&](size_t place, size_t, const auto* sums) {
        const unsigned mask = Tiles::above(sums, centre_bars[scan.chosen[place]]);
        wanted[place] = static_cast<uint16_t>(mask);
        any |= mask;
      });
  any &= (1U << scan.panel_count) - 1;
  size_t computed = scan.chosen_count * scan.panel_count;
  for (; any != 0; any &= any - 1) {
    const auto p = static_cast<size_t>(__builtin_ctz(any));
    const unsigned after = any & (any - 1);
    const float* next = after == 0 ? scan.next_panel : panels + static_cast<size_t>(__builtin_ctz(after)) * words;
    for (size_t line = 0; line < words && line < 64 * 16; line += 16) __builtin_prefetch(next + line);
    size_t count = 0, place = 0;
#if defined(__AVX512F__)
    for (const __m512i bit = _mm512_set1_epi32(1 << p); place + 16 <= scan.chosen_count; place += 16) {
      const __m512i masks = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(wanted + place)));
      const __m512i numbers = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(scan.chosen + place)));
      const __mmask16 yes = _mm512_test_epi32_mask(masks, bit);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(some + count), _mm512_cvtepi32_epi16(_mm512_maskz_compress_epi32(yes, numbers)));
      count += static_cast<size_t>(__builtin_popcount(yes));
    }
#endif
    for (; place < scan.chosen_count; ++place) {
      some[count] = scan.chosen[place];
      count += (wanted[place] >> p) & 1U;
    }
    const auto slot = scan.first_slot + static_cast<uint32_t>(p * kPanelWidth);
    cover_panels<Tiles, 1>(
        count, panels + p * words, scan.dimension, [&](size_t number) { return queries + some[number] * query_words; },
        [&](size_t number, size_t, const auto* sums) {
          const size_t query = some[number];
          const unsigned passed = Tiles::above(sums, bars[query]);
          if (passed == 0) return;
          Reservoir* r = scan.reservoirs + query;
          alignas(64) float scores[kPanelWidth];
          Tiles::store(sums, scores);
          let_in(r, scores, passed, slot);
          if (r->count + kPanelWidth <= scan.capacity) return;
          shrink(r, scan.keep, scan.capacity);
          measure_near(r, scan.near, scan.keep);
          bars[query] = Tiles::word(r->threshold);
          centre_bars[query] = Tiles::word(centre_bar(*r, scan.reach));
        });
    computed += count * kPanelWidth;
  }
  return computed;
}

template <class Tiles>
void scores(const void* row, const void* panels, size_t panel_count, size_t dimension, float* out) {
  cover<Tiles>([&](size_t) { return static_cast<const float*>(row); }, 1, panels, panel_count, dimension,
               [&](size_t, size_t panel, const auto* sums) { Tiles::store(sums, out + panel * kPanelWidth); });
}

template <class Tiles>
void near_lanes(const void* const* rows, const float* norms, size_t row_count, const void* panels, size_t panel_count, size_t dimension,
                const float* bars, uint16_t* masks) {
  const auto row_of = [&](size_t row) { return static_cast<const float*>(rows[row]); };
  cover<Tiles>(row_of, row_count, panels, panel_count, dimension, [&](size_t row, size_t panel, const auto* sums) {
    alignas(64) float scores[kPanelWidth];
    Tiles::store(sums, scores);
    unsigned mask = 0;
    for (size_t part = 0; part < kParts; ++part) {
      // norm - 2 * score < bar
      const Floats bar = ((Floats{} + norms[row]) - load(bars + panel * kPanelWidth + part * kLanes)) * 0.5F;
      mask |= lanes_above(load(scores + part * kLanes), bar) << (part * kLanes);
    }
    masks[row * panel_count + panel] = static_cast<uint16_t>(mask);
  });
}

}  // namespace
}  // namespace smartmine::kernels::SMARTMINE_LEVEL
