#pragma once

// Part of level.cpp, which alone includes it where the set multiplies matrices of bytes (AMX): the scans of byte panels, sixteen queries
// against the sixteen rows of a panel with one instruction for 64 coordinates. A panel as level_byte_panels.h lays it out is the right
// factor as it stands. Sums are whole numbers, so that results are those of the other scans to the last bit.
#include "graph/kernels/level_byte_panels.h"
#include "graph/kernels/level_scans.h"

namespace smartmine::kernels::SMARTMINE_LEVEL {
namespace {

constexpr size_t kTileRows = 16;
constexpr size_t kTileBytes = 64;  // of a row
constexpr size_t kMostTiledDimension = 1024;
constexpr size_t kStagedRows = 128;  // queries side by side, fewer where they are long: they stay in the nearest cache
constexpr size_t kStagedBytes = 2 * kTileRows * kMostTiledDimension;

// Products of staged queries with panels. kOneTile: the coordinates fill one row of a tile, which is what most are used with.
// Tiles 0 and 1 hold sums, 2 and 3 whole rows of queries, 4 whole rows of a panel; 5, 6 and 7 are the same for what is left over of the
// coordinates. The tiles are a thread's; whoever configures them gives them back, so that switching threads stays cheap.
template <bool kOneTile>
class MatrixTiles {
 public:
  explicit MatrixTiles(size_t dimension) : whole_(quads(dimension) / 16), rest_(quads(dimension) % 16) {
    struct {
      uint8_t palette, start, reserved[14];
      uint16_t row_bytes[16];
      uint8_t rows[16];
    } shape{};
    static_assert(sizeof shape == 64);
    shape.palette = 1;
    for (int tile = 0; tile < 8; ++tile) {
      shape.rows[tile] = kTileRows;
      shape.row_bytes[tile] = kTileBytes;
    }
    if (rest_ > 0) {
      shape.row_bytes[5] = shape.row_bytes[6] = static_cast<uint16_t>(rest_ * 4);
      shape.rows[7] = static_cast<uint8_t>(rest_);
    }
    _tile_loadconfig(&shape);
  }
  ~MatrixTiles() { _tile_release(); }
  MatrixTiles(const MatrixTiles&) = delete;
  MatrixTiles& operator=(const MatrixTiles&) = delete;

  // How many queries are staged at once.
  size_t at_once() const {
    const size_t fit = kStagedBytes / stride() / kTileRows * kTileRows;
    return fit < kStagedRows ? fit : kStagedRows;
  }

  inline __attribute__((always_inline)) void stage(const void* query, size_t place) {
    const auto* from = static_cast<const int8_t*>(query);
    int8_t* to = staged_ + place * stride();
    if (kOneTile) {
      _mm512_store_si512(to, _mm512_loadu_si512(from));
      return;
    }
    for (size_t part = 0; part < whole_; ++part) _mm512_store_si512(to + part * kTileBytes, _mm512_loadu_si512(from + part * kTileBytes));
    if (rest_ > 0)
      _mm512_store_si512(to + whole_ * kTileBytes,
                         _mm512_maskz_loadu_epi32(static_cast<__mmask16>((1U << rest_) - 1), from + whole_ * kTileBytes));
  }

  // The products of the first `count` staged queries, and of some rows after them that mean nothing.
  inline __attribute__((always_inline)) void multiply(size_t count, const float* panel) {
    bias_ = _mm512_loadu_si512(panel);
    const float* words = panel + kPanelWidth;
    if (kOneTile) _tile_loadd(4, words, kTileBytes);
    size_t first = 0;
    for (; first + kTileRows < count; first += 2 * kTileRows) multiply_tiles<true>(first, words);
    if (first < count) multiply_tiles<false>(first, words);
  }

  inline __m512i scores(size_t place) const { return _mm512_add_epi32(bias_, _mm512_load_si512(sums_ + place * kPanelWidth)); }

  // For each of `count` queries, a mask of the lanes that are above its bar. `masks` has room for whole tiles.
  inline __attribute__((always_inline)) void compare(size_t count, const int32_t* bars, uint16_t* masks) const {
    for (size_t first = 0; first < count; first += kTileRows)
#pragma GCC unroll 16
      for (size_t q = first; q < first + kTileRows; ++q)
        masks[q] = static_cast<uint16_t>(_mm512_cmpgt_epi32_mask(scores(q), _mm512_set1_epi32(bars[q])));
  }

 private:
  size_t stride() const { return kOneTile ? kTileBytes : (whole_ + (rest_ > 0)) * kTileBytes; }

  template <bool kTwo>
  inline __attribute__((always_inline)) void multiply_tiles(size_t first, const float* words) {
    const size_t stride = this->stride();
    const int8_t* rows = staged_ + first * stride;
    int32_t* sums = sums_ + first * kPanelWidth;
    _tile_zero(0);
    if (kTwo) _tile_zero(1);
    for (size_t part = 0; part < (kOneTile ? 1 : whole_); ++part) {
      if (!kOneTile) _tile_loadd(4, words + part * 16 * kPanelWidth, kTileBytes);
      _tile_loadd(2, rows + part * kTileBytes, stride);
      if (kTwo) _tile_loadd(3, rows + kTileRows * stride + part * kTileBytes, stride);
      _tile_dpbsud(0, 2, 4);
      if (kTwo) _tile_dpbsud(1, 3, 4);
    }
    if (!kOneTile && rest_ > 0) {
      _tile_loadd(7, words + whole_ * 16 * kPanelWidth, kTileBytes);
      _tile_loadd(5, rows + whole_ * kTileBytes, stride);
      if (kTwo) _tile_loadd(6, rows + kTileRows * stride + whole_ * kTileBytes, stride);
      _tile_dpbsud(0, 5, 7);
      if (kTwo) _tile_dpbsud(1, 6, 7);
    }
    _tile_stored(0, sums, kTileBytes);
    if (kTwo) _tile_stored(1, sums + kTileRows * kPanelWidth, kTileBytes);
  }

  alignas(64) int8_t staged_[kStagedBytes];
  alignas(64) int32_t sums_[kStagedRows * kPanelWidth];
  __m512i bias_;
  size_t whole_, rest_;
};

// `take(place)` is called for the places of masks that are not empty. Few are, and whether one is cannot be foretold: they are picked out
// first.
template <class Take>
inline __attribute__((always_inline)) void for_each_passed(const uint16_t* masks, size_t count, const Take& take) {
  for (size_t first = 0; first < count; first += 32) {
    const size_t left = count - first;
    const auto valid = left >= 32 ? ~static_cast<__mmask32>(0) : static_cast<__mmask32>((1ULL << left) - 1);
    const __m512i some = _mm512_maskz_loadu_epi16(valid, masks + first);
    for (unsigned passed = _mm512_test_epi16_mask(some, some); passed != 0; passed &= passed - 1)
      take(first + static_cast<size_t>(__builtin_ctz(passed)));
  }
}

inline void let_in_lanes(Reservoir* r, __m512i sums, unsigned passed, uint32_t slot) {
  const __m512i lanes =
      _mm512_add_epi32(_mm512_set1_epi32(static_cast<int>(slot)), _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
  const auto mask = static_cast<__mmask16>(passed);
  _mm512_storeu_ps(r->scores + r->count, _mm512_maskz_compress_ps(mask, _mm512_cvtepi32_ps(sums)));
  _mm512_storeu_si512(r->slots + r->count, _mm512_maskz_compress_epi32(mask, lanes));
  r->count += static_cast<uint32_t>(__builtin_popcount(passed));
}

template <bool kOneTile>
void scan_by_tiles(const Scan& scan) {
  MatrixTiles<kOneTile> tiles(scan.dimension);
  int32_t bars[kStagedRows];
  uint16_t masks[kStagedRows];
  const size_t words = ByteTiles::panel_words(scan.dimension), query_bytes = byte_query_bytes(scan.dimension);
  const size_t at_once = tiles.at_once();
  for (size_t from = 0; from < scan.query_count; from += at_once) {
    const size_t count = scan.query_count - from < at_once ? scan.query_count - from : at_once;
    for (size_t q = 0; q < count; ++q) {
      bars[q] = ByteTiles::word(scan.reservoirs[from + q].threshold);
      tiles.stage(static_cast<const int8_t*>(scan.queries) + (from + q) * query_bytes, q);
    }
    for (size_t panel = 0; panel < scan.panel_count; ++panel) {
      const auto slot = scan.first_slot + static_cast<uint32_t>(panel * kPanelWidth);
      tiles.multiply(count, static_cast<const float*>(scan.panels) + panel * words);
      tiles.compare(count, bars, masks);
      for_each_passed(masks, count, [&](size_t query) {
        Reservoir* r = scan.reservoirs + from + query;
        let_in_lanes(r, tiles.scores(query), masks[query], slot);
        if (r->count + kPanelWidth <= scan.capacity) return;
        shrink(r, scan.keep, scan.capacity);
        bars[query] = ByteTiles::word(r->threshold);
      });
    }
  }
}

template <bool kOneTile>
size_t scan_blocks_by_tiles(const BlockScan& scan) {
  MatrixTiles<kOneTile> tiles(scan.dimension);
  const float* panels = static_cast<const float*>(scan.panels);
  auto* bars = static_cast<int32_t*>(scan.bars);
  auto* centre_bars = static_cast<int32_t*>(scan.centre_bars);
  const size_t words = ByteTiles::panel_words(scan.dimension), query_bytes = byte_query_bytes(scan.dimension);
  const size_t at_once = tiles.at_once();
  uint16_t wanted[kMaxChosen + 2 * kPanelWidth];  // for each chosen query, the blocks it looks into
  uint16_t some[kMaxChosen + 2 * kPanelWidth];    // the queries that look into a block
  int32_t staged_bars[kStagedRows];
  uint16_t masks[kStagedRows];
  const auto stage = [&](const uint16_t* numbers, size_t count, const int32_t* from) __attribute__((always_inline)) {
    for (size_t q = 0; q < count; ++q) {
      tiles.stage(static_cast<const int8_t*>(scan.queries) + numbers[q] * query_bytes, q);
      staged_bars[q] = from[numbers[q]];
    }
  };
  __m512i all = _mm512_setzero_si512();
  for (size_t from = 0; from < scan.chosen_count; from += at_once) {
    const size_t count = scan.chosen_count - from < at_once ? scan.chosen_count - from : at_once;
    stage(scan.chosen + from, count, centre_bars);
    tiles.multiply(count, static_cast<const float*>(scan.centres));
    tiles.compare(count, staged_bars, wanted + from);
    for (size_t q = 0; q < count; q += 32) {
      const auto valid = count - q >= 32 ? ~static_cast<__mmask32>(0) : static_cast<__mmask32>((1ULL << (count - q)) - 1);
      all = _mm512_or_si512(all, _mm512_maskz_loadu_epi16(valid, wanted + from + q));
    }
  }
  const auto pairs = static_cast<unsigned>(_mm512_reduce_or_epi32(all));
  unsigned any = (pairs | pairs >> 16) & ((1U << scan.panel_count) - 1);
  size_t computed = scan.chosen_count * scan.panel_count;
  for (; any != 0; any &= any - 1) {
    const auto p = static_cast<size_t>(__builtin_ctz(any));
    const unsigned after = any & (any - 1);
    const float* next = after == 0 ? scan.next_panel : panels + static_cast<size_t>(__builtin_ctz(after)) * words;
    for (size_t line = 0; line < words && line < 64 * 16; line += 16) __builtin_prefetch(next + line);
    size_t visits = 0;
    for (size_t place = 0; place < scan.chosen_count; place += 32) {
      const size_t left = scan.chosen_count - place;
      const auto valid = left >= 32 ? ~static_cast<__mmask32>(0) : static_cast<__mmask32>((1ULL << left) - 1);
      const __mmask32 yes = _mm512_mask_test_epi16_mask(valid, _mm512_maskz_loadu_epi16(valid, wanted + place),
                                                        _mm512_set1_epi16(static_cast<short>(1 << p)));
      for (unsigned part = 0; part < 2; ++part) {
        const auto half = static_cast<__mmask16>(yes >> (16 * part));
        const __m512i numbers =
            _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(static_cast<__mmask16>(valid >> (16 * part)), scan.chosen + place + 16 * part));
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(some + visits), _mm512_cvtepi32_epi16(_mm512_maskz_compress_epi32(half, numbers)));
        visits += static_cast<size_t>(__builtin_popcount(half));
      }
    }
    const auto slot = scan.first_slot + static_cast<uint32_t>(p * kPanelWidth);
    for (size_t from = 0; from < visits; from += at_once) {
      const size_t count = visits - from < at_once ? visits - from : at_once;
      stage(some + from, count, bars);
      tiles.multiply(count, panels + p * words);
      tiles.compare(count, staged_bars, masks);
      for_each_passed(masks, count, [&](size_t place) {
        const size_t query = some[from + place];
        Reservoir* r = scan.reservoirs + query;
        let_in_lanes(r, tiles.scores(place), masks[place], slot);
        if (r->count + kPanelWidth <= scan.capacity) return;
        shrink(r, scan.keep, scan.capacity);
        measure_near(r, scan.near, scan.keep);
        bars[query] = ByteTiles::word(r->threshold);
        centre_bars[query] = ByteTiles::word(centre_bar(*r, scan.reach));
      });
    }
    computed += visits * kPanelWidth;
  }
  return computed;
}

template <bool kOneTile>
void near_lanes_by_tiles(const void* const* rows, const float* norms, size_t row_count, const void* panels, size_t panel_count,
                         size_t dimension, const float* bars, uint16_t* masks) {
  MatrixTiles<kOneTile> tiles(dimension);
  const size_t words = ByteTiles::panel_words(dimension), at_once = tiles.at_once();
  for (size_t from = 0; from < row_count; from += at_once) {
    const size_t count = row_count - from < at_once ? row_count - from : at_once;
    for (size_t row = 0; row < count; ++row) tiles.stage(rows[from + row], row);
    for (size_t panel = 0; panel < panel_count; ++panel) {
      const Floats panel_bars = load(bars + panel * kPanelWidth);
      tiles.multiply(count, static_cast<const float*>(panels) + panel * words);
      for (size_t row = 0; row < count; ++row) {
        // norm - 2 * score < bar
        const Floats bar = ((Floats{} + norms[from + row]) - panel_bars) * 0.5F;
        masks[(from + row) * panel_count + panel] = static_cast<uint16_t>(lanes_above((Floats)_mm512_cvtepi32_ps(tiles.scores(row)), bar));
      }
    }
  }
}

inline bool fills_one_tile(size_t dimension) { return quads(dimension) == kTileBytes / 4; }

void scan_with_tiles(const Scan& some) {
  if (some.dimension > kMostTiledDimension || some.query_count < kTileRows / 2)
    scan<ByteTiles>(some);
  else if (fills_one_tile(some.dimension))
    scan_by_tiles<true>(some);
  else
    scan_by_tiles<false>(some);
}

size_t scan_blocks_with_tiles(const BlockScan& scan) {
  if (scan.dimension > kMostTiledDimension || scan.chosen_count < kTileRows / 4) return scan_blocks<ByteTiles>(scan);
  return fills_one_tile(scan.dimension) ? scan_blocks_by_tiles<true>(scan) : scan_blocks_by_tiles<false>(scan);
}

void near_lanes_with_tiles(const void* const* rows, const float* norms, size_t row_count, const void* panels, size_t panel_count,
                           size_t dimension, const float* bars, uint16_t* masks) {
  if (dimension > kMostTiledDimension || row_count < kTileRows / 2)
    near_lanes<ByteTiles>(rows, norms, row_count, panels, panel_count, dimension, bars, masks);
  else if (fills_one_tile(dimension))
    near_lanes_by_tiles<true>(rows, norms, row_count, panels, panel_count, dimension, bars, masks);
  else
    near_lanes_by_tiles<false>(rows, norms, row_count, panels, panel_count, dimension, bars, masks);
}

}  // namespace
}  // namespace smartmine::kernels::SMARTMINE_LEVEL
