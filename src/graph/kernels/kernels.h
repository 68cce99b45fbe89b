#pragma once

// The inner loops of neighbour search, one table of function pointers per instruction set. This header is included by
// the files compiled for each of them, so it holds declarations only and includes no header with inline code.
#include <stddef.h>
#include <stdint.h>

namespace smartmine::kernels {

/// Candidates stand in panels of this many, so that one register holds the same coordinate of all of them.
inline constexpr size_t kPanelWidth = 16;
/// A reservoir must have room for this many entries beyond what it keeps.
inline constexpr size_t kReservoirSlack = 64;
/// Byte panels hold sums in 32 bits: no more coordinates than this.
inline constexpr size_t kMaxByteDimension = 16384;

/// The best candidates of one query so far. A score is q.c - |c|^2 / 2 (plus a constant of the query): larger is nearer.
struct Reservoir {
  float threshold;      // only larger scores are let in
  uint32_t count;       // entries in use
  float* scores;        // `capacity` of each
  uint32_t* slots;      // position of the candidate in the scan
  float norm;           // |q|^2 in the units of the scores, constant included: squared distance = norm - 2 * score
  float slack;          // distance that rounding may hide, in the units of the scores' square root
  float slack_squared;  // the same for a squared distance
  bool overflowed;      // more candidates than fit lie within the slack of the last one kept
  float near;           // score of the candidate that the reach of a search is measured by, or a little less
};

/// Points packed for a scan: coordinates less `centre`, times `scale`, panel after panel.
struct Packing {
  const float* centre;
  float scale;
  size_t dimension;
};

/// A block of queries against a run of panels.
struct Scan {
  const void* queries;  // pack_query's output, one after another
  size_t query_count;
  const void* panels;  // pack_panel's output, one after another
  size_t panel_count;
  uint32_t first_slot;  // slot of the first panel's first candidate
  size_t dimension;
  Reservoir* reservoirs;  // one a query
  size_t keep;            // best candidates to keep (k)
  size_t capacity;        // of every reservoir: at least keep + kReservoirSlack
};

/// Some queries against a few blocks: panels with a centre each. A query looks into a block only if the block's centre is near enough.
struct BlockScan {
  const void* queries;     // pack_query's output, one after another
  const uint16_t* chosen;  // the queries that take part
  size_t chosen_count;     // at most kMaxChosen
  const void* centres;     // pack_panel's output: the centres of the blocks, a lane each
  const void* panels;      // the blocks
  size_t panel_count;      // at most kPanelWidth
  uint32_t first_slot;
  size_t dimension;
  Reservoir* reservoirs;
  size_t keep;
  size_t capacity;
  size_t near;  // a block is near if its centre's squared distance is under `reach` times that of the near-th best candidate
  float reach;
  void* bars;  // set_bars' output
  void* centre_bars;
  const float* next_panel;  // what will be scanned next, if anything: fetched ahead
};
inline constexpr size_t kMaxChosen = 1024;

/// One way of holding panels and scanning them.
struct PanelKernels {
  size_t (*panel_bytes)(size_t dimension);
  size_t (*query_bytes)(size_t dimension);
  /// Packs `count` (at most kPanelWidth) rows; missing lanes never score. Returns the largest distance between a row and its packed
  /// form, in packed units.
  float (*pack_panel)(const Packing& packing, const float* rows, const uint32_t* ids, size_t count, void* panel);
  /// Packs one row as a query and sets the reservoir's norm. Returns the distance between the row and its packed form.
  float (*pack_query)(const Packing& packing, const float* row, void* query, Reservoir* reservoir);
  /// Packs `count` rows, at least one, that pack_query has packed into a panel.
  void (*gather_panel)(const void* rows, const uint32_t* ids, size_t count, size_t dimension, void* panel);
  /// The scores of one packed row against panels, kPanelWidth each.
  void (*scores)(const void* row, const void* panels, size_t panel_count, size_t dimension, float* out);
  /// Lets every candidate that beats a query's threshold into its reservoir, shrinking full reservoirs to the best `keep`
  /// (and whatever lies within the slack of them).
  void (*scan)(const Scan& scan);
  /// Prepares what scan_blocks compares with, a 32-bit word a reservoir, for the chosen reservoirs, each finished.
  void (*set_bars)(Reservoir* reservoirs, const uint16_t* chosen, size_t count, size_t keep, size_t near, float reach, void* bars,
                   void* centre_bars);
  /// As BlockScan says; returns how many distances it computed.
  size_t (*scan_blocks)(const BlockScan& scan);
  /// For each of `row_count` packed rows and each panel, a mask of the lanes whose squared distance (in packed units) is under their bar.
  void (*near_lanes)(const void* const* rows, const float* norms, size_t row_count, const void* panels, size_t panel_count,
                     size_t dimension, const float* bars, uint16_t* masks);
  /// A threshold below every score a real candidate can have.
  float lowest_score;
  /// What halving norms may add to a squared distance computed from scores, twice.
  float score_rounding;
};

/// Everything one instruction set offers.
struct Kernels {
  const char* name;
  /// Sum of squared differences.
  float (*squared_distance)(const float* a, const float* b, size_t dimension);
  float (*dot)(const float* a, const float* b, size_t dimension);
  /// Squared distances from one row to each of rows[ids[0]], rows[ids[1]], ...
  void (*squared_distances)(const float* from, const float* rows, const uint32_t* ids, size_t count, size_t dimension, float* out);
  /// Shrinks a reservoir to its best `keep` at once, dropping slack and later ties; up to `spare` more may stay.
  void (*finish)(Reservoir* reservoir, size_t keep, size_t spare);
  /// Shrinks a reservoir as a scan does when it is full: to its best `keep` and whatever lies within the slack of them.
  void (*shrink)(Reservoir* reservoir, size_t keep, size_t capacity);
  /// Places of `count` keys in ascending order, equal keys in the order they stand in.
  void (*ranks)(const float* keys, size_t count, uint32_t* places);
  PanelKernels floats;        ///< Panels of float32.
  const PanelKernels* bytes;  ///< Panels of 8-bit integers, several times faster; null where the set has none.
  bool matrices;              ///< Whether these are multiplied as whole matrices.
};

/// The table for the machine, or the level the environment variable SMARTMINE_KERNEL names. Throws InvalidArgument if that
/// names no level or one this machine cannot run.
const Kernels& active();

/// Tables this machine can run, slowest first.
size_t available(const Kernels** tables, size_t capacity);

}  // namespace smartmine::kernels
