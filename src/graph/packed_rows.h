#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "graph/kernels/kernels.h"
#include "graph/rotation.h"
#include "smartmine/core/buffer.h"
#include "smartmine/core/progress.h"
#include "smartmine/core/rows.h"

namespace smartmine {

/// Where packed coordinates are measured from, and how finely.
struct Frame {
  std::vector<float> centre;
  float scale = 1;
  std::optional<Rotation> rotation = {};  ///< About the centre, before packing. PackedRows alone knows of it.
  kernels::Packing packing() const { return {rotation ? rotation->origin() : centre.data(), scale, centre.size()}; }
  /// Writes the row less the centre, turned, to `out`.
  void turn(const float* row, float* out) const;
};

/// The frame that suits a sample of the rows: their mean, and a scale that spends the 127 steps of a byte on nearly all coordinates. What
/// lies outside is clipped.
Frame sampled_frame(const Rows& rows, unsigned threads);
/// The frame that holds every row.
Frame whole_frame(const Rows& rows, unsigned threads);
/// The frame that holds every row but a few that lie at least twice as far out as nearly all others, if there are any: they would make the
/// steps of a byte coarse for these. Their ids are left in `far`, ascending.
Frame usual_frame(const Rows& rows, unsigned threads, std::vector<std::uint32_t>& far);
/// The frame `whole` of all rows but `far` with a rotation, if the steps of a byte are finer for it: where a few coordinates are much
/// larger than the others, one scale for all is coarse.
Frame turned_frame(const Rows& rows, Frame whole, unsigned threads, std::span<const std::uint32_t> far = {});

/// Panels of bytes where the machine has kernels for them and the dimension allows, of floats otherwise.
const kernels::PanelKernels& panel_kernels(const kernels::Kernels& kernels, std::size_t dimension);

/// Panels that so many points take.
inline std::size_t panels_of(std::size_t points) { return (points + kernels::kPanelWidth - 1) / kernels::kPanelWidth; }

/// Packs the `count` rows from `first` on, or those named by `ids` from there on, into panels, one after another. Returns the largest
/// distance between a row and its packed form, in packed units.
float pack_panels(const kernels::PanelKernels& kernels, const Frame& frame, const float* rows, std::size_t first, std::size_t count,
                  std::uint8_t* panels, std::span<const std::uint32_t> ids = {});

/// Rows packed into panels, sixteen to each, in order.
class PackedRows {
 public:
  /// Packs as `panel_kernels(kernels, dimension)` says, or as `panels` do, all rows but those left out: ids, ascending.
  PackedRows(const Rows& rows, const Frame& frame, const kernels::Kernels& kernels, unsigned threads);
  PackedRows(const Rows& rows, const Frame& frame, const kernels::Kernels& kernels, const kernels::PanelKernels& panels, unsigned threads,
             std::span<const std::uint32_t> left_out = {});

  std::size_t size() const { return size_; }
  /// The row at a slot: its number, unless some were left out.
  std::uint32_t row(std::uint32_t slot) const { return ids_.empty() ? slot : ids_[slot]; }
  const Frame& frame() const { return frame_; }
  std::size_t panel_count() const { return panels_of(size_); }
  const std::uint8_t* panel(std::size_t index) const { return panels_.data() + index * panel_bytes_; }
  const kernels::PanelKernels& kernels() const { return *kernels_; }
  const kernels::Kernels& table() const { return *table_; }
  /// Packs a row as a query and sets the reservoir's norm. Returns at least the distance between the row and its packed form. `scratch` has
  /// room for a row.
  float pack_query(const float* row, void* query, kernels::Reservoir* reservoir, float* scratch) const;
  /// Largest distance between a row and its packed form, in packed units.
  float error() const { return error_; }
  /// What rounding may add to the squared distance of a row and a query of this squared length, computed from scores or plainly, all in
  /// packed units: twice, once for each of two compared.
  float rounding(float query_norm) const;

 private:
  float longest_row(const Rows& rows, unsigned threads) const;  // squared, in packed units

  std::vector<std::uint32_t> ids_;  // of the rows that are packed; empty: all are
  std::size_t size_;
  Frame frame_;
  const kernels::Kernels* table_;
  const kernels::PanelKernels* kernels_;
  std::size_t panel_bytes_;
  Buffer<std::uint8_t> panels_;
  float error_ = 0;
  float longest_ = 0;  // squared length of the longest packed row
};

/// For each of rows[ids[i]] the packed row nearest to it (as far as the packing tells), ties to the first.
void assign_nearest(const Rows& rows, std::span<const std::uint32_t> ids, const PackedRows& packed, std::span<std::uint32_t> nearest,
                    unsigned threads, const Progress& progress, std::string_view stage);

}  // namespace smartmine
