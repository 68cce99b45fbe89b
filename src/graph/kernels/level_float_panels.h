#pragma once

// Part of level.cpp, which alone includes it: panels of floats: [bias of 16][coordinate 0 of 16][coordinate 1 of 16]...
#include "graph/kernels/level_lanes.h"

namespace smartmine::kernels::SMARTMINE_LEVEL {
namespace {

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

}  // namespace
}  // namespace smartmine::kernels::SMARTMINE_LEVEL
