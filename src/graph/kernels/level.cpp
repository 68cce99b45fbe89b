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
constexpr size_t kLanes = 16;        // floats in a register
constexpr size_t kTileQueries = 8;   // queries and panels of a tile: their sums fill the registers
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
  // Invariant: at least `keep` entries are >= low; fewer than `keep` are > high.
  for (int step = 0; step < 64 && low < high; ++step) {
    const float middle = low + (high - low) * 0.5F;
    if (middle <= low || middle >= high) break;
    const size_t above = count_above(scores, count, middle);
    if (above >= keep && above <= keep + spare) return middle;
    if (above > keep)
      low = middle;
    else
      high = middle;
  }
  // Neighbouring floats, or equal ones: the bar is the keep-th best value itself.
  return count_above(scores, count, low) >= keep ? high : low;
}

void finish(Reservoir* r, size_t keep) {
  if (r->count <= keep) return;
  const float bar = find_bar(r->scores, r->count, keep, 0);
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

inline void room(Reservoir* r, const Scan& scan) {
  if (r->count + kPanelWidth > scan.capacity) shrink(r, scan.keep, scan.capacity);
}

// Lets the scores of a panel that beat the threshold in.
inline void let_in(Reservoir* r, const float* scores, uint32_t slot) {
#if defined(__AVX512F__)
  const __m512 values = _mm512_loadu_ps(scores);
  const __mmask16 passed = _mm512_cmp_ps_mask(values, _mm512_set1_ps(r->threshold), _CMP_GT_OQ);
  if (__builtin_expect(passed == 0, 1)) return;
  const __m512i lanes = _mm512_add_epi32(_mm512_set1_epi32(static_cast<int>(slot)),
                                         _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
  // Compressing in registers and storing all of it: storing under a compress mask is slow on some chips.
  _mm512_storeu_ps(r->scores + r->count, _mm512_maskz_compress_ps(passed, values));
  _mm512_storeu_si512(r->slots + r->count, _mm512_maskz_compress_epi32(passed, lanes));
  r->count += static_cast<uint32_t>(__builtin_popcount(passed));
#else
  for (size_t part = 0; part < kParts; ++part) {
    const Floats values = load(scores + part * kLanes);
#if defined(__AVX2__)
    auto passed = static_cast<unsigned>(_mm256_movemask_ps(_mm256_cmp_ps((__m256)values, _mm256_set1_ps(r->threshold), _CMP_GT_OQ)));
#elif defined(__SSE2__)
    auto passed = static_cast<unsigned>(_mm_movemask_ps(_mm_cmpgt_ps((__m128)values, _mm_set1_ps(r->threshold))));
#else
    unsigned passed = 0;
    for (size_t lane = 0; lane < kLanes; ++lane) passed |= static_cast<unsigned>(values[lane] > r->threshold) << lane;
#endif
    while (passed != 0) {
      const auto lane = static_cast<unsigned>(__builtin_ctz(passed));
      passed &= passed - 1;
      r->scores[r->count] = values[lane];
      r->slots[r->count] = slot + static_cast<uint32_t>(part * kLanes) + lane;
      ++r->count;
    }
  }
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

// A tile computes the scores of kQueries queries and kPanels panels standing one after another, kPanelWidth for each pair, query by query.
struct FloatTiles {
  static size_t panel_words(size_t dimension) { return (dimension + 1) * kPanelWidth; }
  static size_t query_words(size_t dimension) { return dimension; }

  template <size_t kQueries, size_t kPanels>
  static void run(const float* const* queries, const float* panels, size_t dimension, float* out) {
    const size_t stride = panel_words(dimension);
    Floats sums[kQueries][kPanels * kParts];
    for (size_t q = 0; q < kQueries; ++q)
      for (size_t i = 0; i < kPanels * kParts; ++i) sums[q][i] = load(panels + i / kParts * stride + i % kParts * kLanes);
    for (size_t t = 0; t < dimension; ++t) {
      Floats column[kPanels * kParts];
      for (size_t i = 0; i < kPanels * kParts; ++i) column[i] = load(panels + i / kParts * stride + (t + 1) * kPanelWidth + i % kParts * kLanes);
      for (size_t q = 0; q < kQueries; ++q) {
        const Floats value = Floats{} + queries[q][t];
        for (size_t i = 0; i < kPanels * kParts; ++i) sums[q][i] += value * column[i];
      }
    }
    for (size_t q = 0; q < kQueries; ++q)
      for (size_t i = 0; i < kPanels * kParts; ++i) *reinterpret_cast<UnalignedFloats*>(out + (q * kPanels * kParts + i) * kLanes) = sums[q][i];
  }
};

template <class Tiles, size_t kQueries, size_t kPanels, class Take>
inline void cover_tile(const float* queries, const float* panels, size_t dimension, size_t query, size_t panel, const Take& take) {
  alignas(64) float scores[kQueries * kPanels * kPanelWidth];
  const float* rows[kQueries];
  for (size_t q = 0; q < kQueries; ++q) rows[q] = queries + (query + q) * Tiles::query_words(dimension);
  Tiles::template run<kQueries, kPanels>(rows, panels + panel * Tiles::panel_words(dimension), dimension, scores);
  for (size_t q = 0; q < kQueries; ++q)
    for (size_t p = 0; p < kPanels; ++p) take(query + q, panel + p, scores + (q * kPanels + p) * kPanelWidth);
}

// Covers a block with tiles, smaller ones at the edges; `take(query, panel, scores)` gets every score once. Queries run inside panels, so that
// a panel stays in the nearest cache.
template <class Tiles, size_t kPanels, class Take>
inline void cover_queries(const float* queries, size_t query_count, const float* panels, size_t dimension, size_t panel, const Take& take) {
  size_t query = 0;
  for (; query + kTileQueries <= query_count; query += kTileQueries)
    cover_tile<Tiles, kTileQueries, kPanels>(queries, panels, dimension, query, panel, take);
  if constexpr (kTileQueries > 4)
    for (; query + 4 <= query_count; query += 4) cover_tile<Tiles, 4, kPanels>(queries, panels, dimension, query, panel, take);
  for (; query + 2 <= query_count; query += 2) cover_tile<Tiles, 2, kPanels>(queries, panels, dimension, query, panel, take);
  if (query < query_count) cover_tile<Tiles, 1, kPanels>(queries, panels, dimension, query, panel, take);
}

template <class Tiles, class Take>
inline void cover(const void* queries, size_t query_count, const void* panels, size_t panel_count, size_t dimension, const Take& take) {
  const float* query_data = static_cast<const float*>(queries);
  const float* panel_data = static_cast<const float*>(panels);
  size_t panel = 0;
  for (; panel + kTilePanels <= panel_count; panel += kTilePanels)
    cover_queries<Tiles, kTilePanels>(query_data, query_count, panel_data, dimension, panel, take);
  for (; panel < panel_count; ++panel) cover_queries<Tiles, 1>(query_data, query_count, panel_data, dimension, panel, take);
}

template <class Tiles>
void scan(const Scan& scan) {
  cover<Tiles>(scan.queries, scan.query_count, scan.panels, scan.panel_count, scan.dimension,
               [&](size_t query, size_t panel, const float* scores) {
                 Reservoir* r = scan.reservoirs + query;
                 let_in(r, scores, scan.first_slot + static_cast<uint32_t>(panel * kPanelWidth));
                 room(r, scan);
               });
}

// Scores of `count` queries, picked by number, against one panel, handed to `take(place in the list, scores)`.
template <class Tiles, size_t kQueries, class Take>
inline size_t cover_chosen_by(const float* queries, const uint16_t* chosen, size_t count, size_t from, const float* panel, size_t dimension,
                              const Take& take) {
  for (; from + kQueries <= count; from += kQueries) {
    alignas(64) float scores[kQueries * kPanelWidth];
    const float* rows[kQueries];
    for (size_t q = 0; q < kQueries; ++q) rows[q] = queries + chosen[from + q] * Tiles::query_words(dimension);
    Tiles::template run<kQueries, 1>(rows, panel, dimension, scores);
    for (size_t q = 0; q < kQueries; ++q) take(from + q, scores + q * kPanelWidth);
  }
  return from;
}

template <class Tiles, class Take>
inline void cover_chosen(const float* queries, const uint16_t* chosen, size_t count, const float* panel, size_t dimension, const Take& take) {
  size_t from = cover_chosen_by<Tiles, kTileQueries>(queries, chosen, count, 0, panel, dimension, take);
  from = cover_chosen_by<Tiles, 2>(queries, chosen, count, from, panel, dimension, take);
  cover_chosen_by<Tiles, 1>(queries, chosen, count, from, panel, dimension, take);
}

// The lanes of a panel's scores above a bar (or above one bar a lane), as a mask.
inline unsigned lanes_above(const float* scores, Floats bar) {
  unsigned mask = 0;
  for (size_t part = 0; part < kParts; ++part) {
    const Floats values = load(scores + part * kLanes);
#if defined(__AVX512F__)
    mask = _mm512_cmp_ps_mask((__m512)values, (__m512)bar, _CMP_GT_OQ);
#elif defined(__AVX2__)
    mask |= static_cast<unsigned>(_mm256_movemask_ps(_mm256_cmp_ps((__m256)values, (__m256)bar, _CMP_GT_OQ))) << (part * kLanes);
#elif defined(__SSE2__)
    mask |= static_cast<unsigned>(_mm_movemask_ps(_mm_cmpgt_ps((__m128)values, (__m128)bar))) << (part * kLanes);
#else
    for (size_t lane = 0; lane < kLanes; ++lane) mask |= static_cast<unsigned>(values[lane] > bar[lane]) << (part * kLanes + lane);
#endif
  }
  return mask;
}

template <class Tiles>
size_t scan_blocks(const BlockScan& scan) {
  const float* queries = static_cast<const float*>(scan.queries);
  const size_t words = Tiles::panel_words(scan.dimension);
  uint16_t wanted[kMaxChosen];  // for each chosen query, the blocks it looks into
  uint16_t some[kMaxChosen + kPanelWidth];  // the queries that look into a block
  unsigned any = 0;
  cover_chosen<Tiles>(queries, scan.chosen, scan.chosen_count, static_cast<const float*>(scan.centres), scan.dimension,
                      [&](size_t place, const float* scores) {
                        const Reservoir& r = scan.reservoirs[scan.chosen[place]];
                        // squared distance < reach * that of the last candidate, in terms of scores; a list not yet full takes everything
                        const float bar = 0.5F * (r.norm - scan.reach * (r.norm - 2 * r.threshold));
                        wanted[place] = static_cast<uint16_t>(lanes_above(scores, Floats{} + bar) & scan.wanted);
                        any |= wanted[place];
                      });
  size_t computed = scan.chosen_count * scan.panel_count;
  for (; any != 0; any &= any - 1) {
    const auto p = static_cast<size_t>(__builtin_ctz(any));
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
    cover_chosen<Tiles>(queries, some, count, static_cast<const float*>(scan.panels) + p * words, scan.dimension,
                        [&](size_t number, const float* scores) {
                          Reservoir* r = scan.reservoirs + some[number];
                          let_in(r, scores, slot);
                          if (r->count + kPanelWidth > scan.capacity) shrink(r, scan.keep, scan.capacity);
                        });
    computed += count * kPanelWidth;
  }
  return computed;
}

template <class Tiles>
void near_lanes(const void* rows, const float* norms, size_t row_count, const void* panels, size_t panel_count, size_t dimension,
                const float* bars, uint16_t* masks) {
  cover<Tiles>(rows, row_count, panels, panel_count, dimension, [&](size_t row, size_t panel, const float* scores) {
    unsigned mask = 0;
    for (size_t part = 0; part < kParts; ++part) {
      // norm - 2 * score < bar
      const Floats bar = ((Floats{} + norms[row]) - load(bars + panel * kPanelWidth + part * kLanes)) * 0.5F;
#if defined(__AVX512F__)
      mask = lanes_above(scores, bar);
#else
      const Floats values = load(scores + part * kLanes);
      for (size_t lane = 0; lane < kLanes; ++lane) mask |= static_cast<unsigned>(values[lane] > bar[lane]) << (part * kLanes + lane);
#endif
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
    const __m512 exact = _mm512_mul_ps(_mm512_sub_ps(_mm512_maskz_loadu_ps(mask, row + t), _mm512_maskz_loadu_ps(mask, packing.centre + t)), scale);
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

// Adds the products of four pairs of bytes to each sum. Written out because compilers move the sums about around the intrinsic.
inline __m512i add_products(__m512i sums, __m512i unsigned_bytes, __m512i signed_bytes) {
  __asm__("vpdpbusd %2, %1, %0" : "+v"(sums) : "v"(unsigned_bytes), "v"(signed_bytes));
  return sums;
}

struct ByteTiles {
  static size_t panel_words(size_t dimension) { return (quads(dimension) + 1) * kPanelWidth; }
  static size_t query_words(size_t dimension) { return quads(dimension); }

  template <size_t kQueries, size_t kPanels>
  static void run(const float* const* queries, const float* panels, size_t dimension, float* out) {
    const size_t words = quads(dimension);
    const size_t stride = panel_words(dimension);
    __m512i sums[kQueries][kPanels];
    for (size_t q = 0; q < kQueries; ++q)
      for (size_t p = 0; p < kPanels; ++p) sums[q][p] = _mm512_loadu_si512(panels + p * stride);
    for (size_t w = 0; w < words; ++w) {
      __m512i column[kPanels];
      for (size_t p = 0; p < kPanels; ++p) column[p] = _mm512_loadu_si512(panels + p * stride + (w + 1) * kPanelWidth);
      for (size_t q = 0; q < kQueries; ++q) {
        int32_t quad;
        __builtin_memcpy(&quad, queries[q] + w, sizeof quad);
        const __m512i value = _mm512_set1_epi32(quad);
        for (size_t p = 0; p < kPanels; ++p) sums[q][p] = add_products(sums[q][p], column[p], value);
      }
    }
    for (size_t q = 0; q < kQueries; ++q)
      for (size_t p = 0; p < kPanels; ++p) _mm512_storeu_ps(out + (q * kPanels + p) * kPanelWidth, _mm512_cvtepi32_ps(sums[q][p]));
  }
};

constexpr PanelKernels kBytes{byte_panel_bytes, byte_query_bytes, pack_byte_panel, pack_byte_query, scan<ByteTiles>, scan_blocks<ByteTiles>, near_lanes<ByteTiles>, -1073741824.0F, 2.0F};
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

const Kernels kTable{SMARTMINE_STRING(SMARTMINE_LEVEL), squared_distance, dot, squared_distances, finish, ranks,
                     {float_panel_bytes, float_query_bytes, pack_float_panel, pack_float_query, scan<FloatTiles>, scan_blocks<FloatTiles>, near_lanes<FloatTiles>, -__builtin_inff(), 0.0F},
                     SMARTMINE_BYTES};

}  // namespace smartmine::kernels::SMARTMINE_LEVEL
