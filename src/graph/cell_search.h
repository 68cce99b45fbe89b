#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "graph/packed_points.h"
#include "smartmine/core/buffer.h"

namespace smartmine {

/// Searches the points of a partition for the nearest to some of them: cells whose centroid is near enough are looked at, and in them the
/// blocks of sixteen points whose centre is near enough, where 'near enough' is a multiple of the squared distance to the farthest
/// candidate so far. Points are named by their position in the partition's order. Immutable; concurrent searches are safe, each with a
/// Scratch of its own.
class CellSearch {
 public:
  /// `ordered`: the rows in the partition's order, and `points` the same packed. `points` and `cell_begins` must outlive the search.
  CellSearch(const Rows& ordered, const PackedPoints& points, std::span<const std::uint32_t> cell_begins, const kernels::Kernels& kernels,
             unsigned threads);

  std::size_t cells() const { return begins_.size() - 1; }

  /// Runs of neighbouring cells that are searched together, as cells [first, last): big enough to make good use of what is read, small
  /// enough for the caches.
  struct Chunk {
    std::size_t first, last;
  };
  const std::vector<Chunk>& chunks() const { return chunks_; }

  /// Working space, and the result of the last search.
  struct Scratch {
    std::vector<std::uint32_t> queries;  ///< Positions of the points searched for.
    std::vector<std::uint16_t> lanes;    ///< Where the candidates of each stand in `reservoirs`.
    std::vector<kernels::Reservoir>
        reservoirs;              ///< `count` candidates, their positions in `slots`, in no order; the query may be one of them.
    std::uint64_t computed = 0;  ///< Distances computed so far.
    std::vector<float> scores;
    std::vector<std::uint32_t> slots;
    std::vector<std::uint8_t> rows;
    std::vector<float> bars;
    std::vector<std::uint32_t> take_bars;
    std::vector<std::uint32_t> centre_bars;
    std::vector<std::uint16_t> masks;
    std::vector<std::uint16_t> chosen;
    std::vector<std::uint32_t> order;
    std::vector<float> centre_distances;
    std::vector<float> nearness;
    std::vector<const void*> row_pointers;
    struct Seen {  // a cell that has been looked at for the queries of some panels of the chunk
      std::uint32_t cell, first, last;
    };
    std::vector<Seen> seen;
  };

  /// Candidates for the points of a chunk, or only for those at the positions `only`, ascending and all of that chunk: about the nearest
  /// `keep` of each. Cells and blocks are looked into whose centre's squared distance is under `reach` times that of the farthest
  /// candidate; 0: the nearest few cells alone.
  void search(const Chunk& chunk, std::size_t keep, std::size_t near, float reach, Scratch& scratch,
              std::span<const std::uint32_t> only = {}) const;

 private:
  const std::uint8_t* panel(std::size_t index) const { return panels_.data() + index * panel_bytes_; }
  void look_at_nearest(const Chunk& chunk, std::size_t keep, std::size_t capacity, Scratch& scratch) const;

  const PackedPoints& points_;
  std::size_t dimension_;
  std::span<const std::uint32_t> begins_;
  const kernels::Kernels& kernels_;
  const kernels::PanelKernels& panel_kernels_;
  std::size_t panel_bytes_;
  std::size_t row_bytes_;
  std::vector<std::size_t> panel_begins_;         // first panel of each cell
  std::vector<std::size_t> centre_panel_begins_;  // first panel of its blocks' centres
  Buffer<std::uint8_t> panels_;                   // the points, each cell from a new panel: a block a panel
  Buffer<std::uint8_t> centre_panels_;            // the centres of the blocks
  Buffer<std::uint8_t> packed_centroids_;         // the centroids of the cells, as rows
  Buffer<std::uint8_t> centroid_panels_;          // and as panels
  std::vector<float> centroid_norms_;
  std::vector<Chunk> chunks_;
};

}  // namespace smartmine
