#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "graph/packed_rows.h"
#include "smartmine/core/buffer.h"

namespace smartmine {

/// Points packed one by one, to be compared a few at a time in any selection. Immutable; concurrent use is safe, each with a Scratch of its
/// own.
class PackedPoints {
 public:
  /// Packs as `panel_kernels(kernels, dimension)` says, or as `panels` do.
  PackedPoints(const Rows& rows, const kernels::Kernels& kernels, unsigned threads);
  PackedPoints(const Rows& rows, const kernels::PanelKernels& panels, unsigned threads);

  const Frame& frame() const { return frame_; }
  const kernels::PanelKernels& kernels() const { return kernels_; }
  std::size_t dimension() const { return frame_.centre.size(); }
  std::size_t row_bytes() const { return row_bytes_; }
  const std::uint8_t* row(std::size_t point) const { return rows_.data() + point * row_bytes_; }
  /// Squared length of a point as its queries' reservoirs need it.
  float norm(std::size_t point) const { return norms_[point]; }
  /// What turns a squared distance into packed units.
  float squared_scale() const { return frame_.scale * frame_.scale; }

  /// A squared distance, in packed units, up to which those around a point are hard to tell from each other.
  float blur() const;

  struct Scratch {
    std::vector<std::uint16_t> masks;  ///< Result of may_be_nearer.
    std::uint64_t computed = 0;        ///< Distances computed so far.
    std::vector<std::uint8_t> panels;
    std::vector<const void*> rows;
    std::vector<float> norms;
    std::vector<float> bars;
  };

  /// Scores of the candidates as a query by the point has them: squared distance = norm(point) - 2 * score. `out` has room for whole
  /// panels.
  void scores(std::size_t point, std::span<const std::uint32_t> candidates, float* out, Scratch& scratch) const;

  /// Squared distances between a point and the candidates, in packed units.
  void distances(std::size_t point, std::span<const std::uint32_t> candidates, float* out, Scratch& scratch) const;

  /// Of the candidates, ascending by their squared distances in packed units from some point, those that no one chosen before occludes, as
  /// far as the packing tells. Writes at most `most` to `chosen` and returns their number.
  std::size_t prune(std::span<const std::uint32_t> candidates, std::span<const float> distances, std::size_t most, std::uint32_t* chosen,
                    Scratch& scratch) const;

  /// For each of the candidates, ascending by their true squared distances from some point, a bit for every other that it may be nearer to
  /// than that point is: none that it is nearer to is left out. Written to `scratch.masks`, (count + 15) / 16 words a candidate.
  void may_be_nearer(std::span<const std::uint32_t> candidates, std::span<const float> squared, Scratch& scratch) const;

 private:
  std::size_t gather(std::span<const std::uint32_t> candidates, Scratch& scratch) const;  // returns the number of panels

  Frame frame_;
  const kernels::PanelKernels& kernels_;
  std::size_t row_bytes_;
  std::size_t panel_bytes_;
  Buffer<std::uint8_t> rows_;
  std::vector<float> norms_;
  std::vector<float> errors_;  // what packing moved each of them by, in packed units
};

}  // namespace smartmine
