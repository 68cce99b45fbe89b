// Compiled once per instruction set, with SMARTMINE_LEVEL naming it. No library header with inline code may be included
// here: the linker would be free to use a copy compiled for a wider set than the machine has.
#include "graph/kernels/kernels.h"

#if defined(__SSE2__)
#include <immintrin.h>
#endif

#define SMARTMINE_STRING_OF(x) #x
#define SMARTMINE_STRING(x) SMARTMINE_STRING_OF(x)

namespace smartmine::kernels::SMARTMINE_LEVEL {

extern const Kernels kTable;

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

// ---- reservoirs ----

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

// ---- panels of floats: [bias of 16][coordinate 0 of 16][coordinate 1 of 16]... ----

size_t float_panel_bytes(size_t dimension) { return (dimension + 1) * kPanelWidth * sizeof(float); }
size_t float_query_bytes(size_t dimension) { return dimension * sizeof(float); }

float pack_float_panel(const Packing& packing, const float* rows, const uint32_t* ids, size_t count, void* panel) {
  float* bias = static_cast<float*>(panel);
  float* out = bias + kPanelWidth;
  for (size_t lane = 0; lane < kPanelWidth; ++lane) {
    if (lane >= count) {
      bias[lane] = -__builtin_inff();
      for (size_t t = 0; t < packing.dimension; ++t) out[t * kPanelWidth + lane] = 0;
      continue;
    }
    const float* row = rows + ids[lane] * packing.dimension;
    float squares = 0;
    for (size_t t = 0; t < packing.dimension; ++t) {
      const float value = (row[t] - packing.centre[t]) * packing.scale;
      squares += value * value;
      out[t * kPanelWidth + lane] = value;
    }
    bias[lane] = -0.5F * squares;
  }
  return 0;
}

float pack_float_query(const Packing& packing, const float* row, void* query, Reservoir* reservoir) {
  float* out = static_cast<float*>(query);
  float squares = 0;
  for (size_t t = 0; t < packing.dimension; ++t) {
    out[t] = (row[t] - packing.centre[t]) * packing.scale;
    squares += out[t] * out[t];
  }
  reservoir->norm = squares;
  return 0;
}

void gather_float_panel(const void* rows, const uint32_t* ids, size_t count, size_t dimension, void* panel) {
  float* bias = static_cast<float*>(panel);
  float* out = bias + kPanelWidth;
  for (size_t lane = 0; lane < kPanelWidth; ++lane) {
    const float* row = static_cast<const float*>(rows) + ids[lane < count ? lane : 0] * dimension;
    float squares = 0;
    for (size_t t = 0; t < dimension; ++t) {
      squares += row[t] * row[t];
      out[t * kPanelWidth + lane] = row[t];
    }
    bias[lane] = lane < count ? -0.5F * squares : -__builtin_inff();
  }
}

// A tile computes the scores of kQueries queries and kPanels panels standing one after another, in registers: kSums of them a pair.
struct FloatTiles {
  using Word = float;  // a score, in the tile's own arithmetic
  using Sum = Floats;
  static constexpr size_t kSums = kParts;
  static size_t panel_words(size_t dimension) { return (dimension + 1) * kPanelWidth; }
  static size_t query_words(size_t dimension) { return dimension; }
  static Word word(float score) { return score; }

  template <size_t kQueries, size_t kPanels>
  static inline __attribute__((always_inline)) void run(const float* const* queries, const float* panels, size_t dimension,
                                                        Sum (&sums)[kQueries][kPanels * kSums]) {
    const size_t stride = panel_words(dimension);
    for (size_t q = 0; q < kQueries; ++q)
      for (size_t i = 0; i < kPanels * kParts; ++i) sums[q][i] = load(panels + i / kParts * stride + i % kParts * kLanes);
    for (size_t t = 0; t < dimension; ++t) {
      Floats column[kPanels * kParts];
      for (size_t i = 0; i < kPanels * kParts; ++i)
        column[i] = load(panels + i / kParts * stride + (t + 1) * kPanelWidth + i % kParts * kLanes);
      for (size_t q = 0; q < kQueries; ++q) {
        const Floats value = Floats{} + queries[q][t];
        for (size_t i = 0; i < kPanels * kParts; ++i) sums[q][i] += value * column[i];
      }
    }
  }
  /// The lanes above the bar, as a mask.
  static inline unsigned above(const Sum* sums, Word bar) {
    unsigned mask = 0;
    for (size_t part = 0; part < kParts; ++part) mask |= lanes_above(sums[part], Floats{} + bar) << (part * kLanes);
    return mask;
  }
  static inline void store(const Sum* sums, float* out) {
    for (size_t part = 0; part < kParts; ++part) *reinterpret_cast<UnalignedFloats*>(out + part * kLanes) = sums[part];
  }
};

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

// ---- panels of bytes: [bias of 16 as int32][coordinates 0-3 of 16, as unsigned bytes offset by 128][coordinates 4-7 of 16]... ----

#if defined(__AVX512VNNI__)

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

constexpr PanelKernels kBytes{byte_panel_bytes,       byte_query_bytes,      pack_byte_panel, pack_byte_query,
                              gather_byte_panel,      scores<ByteTiles>,     scan<ByteTiles>, set_bars<ByteTiles>,
                              scan_blocks<ByteTiles>, near_lanes<ByteTiles>, -1073741824.0F,  2.0F};
#define SMARTMINE_BYTES &kBytes
#else
#define SMARTMINE_BYTES nullptr
#endif

// ---- sorting by counting: quadratic, but without a branch ----

void ranks(const float* keys, size_t count, uint32_t* places) {
  for (size_t i = 0; i < count; ++i) {
    const float key = keys[i];
    uint32_t before = 0;
    for (size_t j = 0; j < i; ++j) before += keys[j] <= key;
    for (size_t j = i + 1; j < count; ++j) before += keys[j] < key;
    places[i] = before;
  }
}

}  // namespace

const Kernels kTable{SMARTMINE_STRING(SMARTMINE_LEVEL),
                     squared_distance,
                     dot,
                     squared_distances,
                     finish,
                     ranks,
                     {float_panel_bytes, float_query_bytes, pack_float_panel, pack_float_query, gather_float_panel, scores<FloatTiles>,
                      scan<FloatTiles>, set_bars<FloatTiles>, scan_blocks<FloatTiles>, near_lanes<FloatTiles>, -__builtin_inff(), 0.0F},
                     SMARTMINE_BYTES};

}  // namespace smartmine::kernels::SMARTMINE_LEVEL
