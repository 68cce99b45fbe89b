// Compiled once per instruction set, with SMARTMINE_LEVEL naming it. No library header with inline code may be included
// here: the linker would be free to use a copy compiled for a wider set than the machine has.
#include "graph/kernels/kernels.h"
#include "graph/kernels/level_float_panels.h"
#include "graph/kernels/level_scans.h"
#if defined(__AVX512VNNI__)
#include "graph/kernels/level_byte_panels.h"
#endif
#if defined(__AMX_INT8__)
#include "graph/kernels/level_matrix_tiles.h"
#endif

#define SMARTMINE_STRING_OF(x) #x
#define SMARTMINE_STRING(x) SMARTMINE_STRING_OF(x)

namespace smartmine::kernels::SMARTMINE_LEVEL {

extern const Kernels kTable;

namespace {

#if defined(__AMX_INT8__)
constexpr PanelKernels kBytes{byte_panel_bytes,       byte_query_bytes,      pack_byte_panel, pack_byte_query,
                              gather_byte_panel,      scores<ByteTiles>,     scan_with_tiles, set_bars<ByteTiles>,
                              scan_blocks_with_tiles, near_lanes_with_tiles, -1073741824.0F,  2.0F};
#define SMARTMINE_BYTES &kBytes
#define SMARTMINE_MATRICES true
#elif defined(__AVX512VNNI__)
constexpr PanelKernels kBytes{byte_panel_bytes,       byte_query_bytes,      pack_byte_panel, pack_byte_query,
                              gather_byte_panel,      scores<ByteTiles>,     scan<ByteTiles>, set_bars<ByteTiles>,
                              scan_blocks<ByteTiles>, near_lanes<ByteTiles>, -1073741824.0F,  2.0F};
#define SMARTMINE_BYTES &kBytes
#else
#define SMARTMINE_BYTES nullptr
#endif
#ifndef SMARTMINE_MATRICES
#define SMARTMINE_MATRICES false
#endif

// Sorting by counting: quadratic, but without a branch.
void ranks(const float* keys, size_t count, uint32_t* places) {
#if defined(__AVX512F__)
  // Sixteen keys in a register meet all keys, one after another.
  const __m512i one = _mm512_set1_epi32(1);
  for (size_t first = 0; first < count; first += 16) {
    const size_t lanes = count - first < 16 ? count - first : 16;
    const auto valid = static_cast<__mmask16>((1U << lanes) - 1);
    const __m512 mine = _mm512_maskz_loadu_ps(valid, keys + first);
    __m512i before = _mm512_setzero_si512(), more = before;
    size_t j = 0;
    for (; j + 2 <= first; j += 2) {
      before = _mm512_mask_add_epi32(before, _mm512_cmp_ps_mask(_mm512_set1_ps(keys[j]), mine, _CMP_LE_OQ), before, one);
      more = _mm512_mask_add_epi32(more, _mm512_cmp_ps_mask(_mm512_set1_ps(keys[j + 1]), mine, _CMP_LE_OQ), more, one);
    }
    for (size_t lane = 0; lane < lanes; ++lane) {  // each other: equal keys stand before those after them
      const __m512 key = _mm512_set1_ps(keys[first + lane]);
      const auto later = static_cast<__mmask16>(0xfffeU << lane);
      const auto less =
          static_cast<__mmask16>(_mm512_cmp_ps_mask(key, mine, _CMP_LT_OQ) | (_mm512_cmp_ps_mask(key, mine, _CMP_EQ_OQ) & later));
      before = _mm512_mask_add_epi32(before, less, before, one);
    }
    for (j = first + lanes; j + 2 <= count; j += 2) {
      before = _mm512_mask_add_epi32(before, _mm512_cmp_ps_mask(_mm512_set1_ps(keys[j]), mine, _CMP_LT_OQ), before, one);
      more = _mm512_mask_add_epi32(more, _mm512_cmp_ps_mask(_mm512_set1_ps(keys[j + 1]), mine, _CMP_LT_OQ), more, one);
    }
    if (j < count) before = _mm512_mask_add_epi32(before, _mm512_cmp_ps_mask(_mm512_set1_ps(keys[j]), mine, _CMP_LT_OQ), before, one);
    _mm512_mask_storeu_epi32(places + first, valid, _mm512_add_epi32(before, more));
  }
#else
  for (size_t i = 0; i < count; ++i) {
    const float key = keys[i];
    uint32_t before = 0;
    for (size_t j = 0; j < i; ++j) before += keys[j] <= key;
    for (size_t j = i + 1; j < count; ++j) before += keys[j] < key;
    places[i] = before;
  }
#endif
}

}  // namespace

const Kernels kTable{SMARTMINE_STRING(SMARTMINE_LEVEL),
                     squared_distance,
                     dot,
                     squared_distances,
                     finish,
                     shrink,
                     ranks,
                     {float_panel_bytes, float_query_bytes, pack_float_panel, pack_float_query, gather_float_panel, scores<FloatTiles>,
                      scan<FloatTiles>, set_bars<FloatTiles>, scan_blocks<FloatTiles>, near_lanes<FloatTiles>, -__builtin_inff(), 0.0F},
                     SMARTMINE_BYTES,
                     SMARTMINE_MATRICES};

}  // namespace smartmine::kernels::SMARTMINE_LEVEL
