#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "graph/packed_rows.h"
#include "smartmine/core/buffer.h"

namespace smartmine {

/// Searches the points of a partition for the nearest to some of them: cells whose centroid is near enough are looked at, and in them the blocks of
/// sixteen points whose centre is near enough, where 'near enough' is a multiple of the squared distance to the farthest candidate so far. Points
/// are named by their position in the partition's order. Immutable; concurrent searches are safe, each with a Scratch of its own.
class CellSearch {
 public:
  /// `ordered`: the rows in the partition's order. `cell_begins` must outlive the search.
  CellSearch(const Rows& ordered, std::span<const std::uint32_t> cell_begins, const kernels::Kernels& kernels, unsigned threads);

  /// What turns a squared distance into packed units.
  float squared_scale() const { return frame_.scale * frame_.scale; }
  std::size_t cells() const { return begins_.size() - 1; }

  /// Runs of neighbouring cells that are searched together, as cells [first, last): big enough to make good use of what is read, small enough
  /// for the caches.
  struct Chunk {
    std::size_t first, last;
  };
  const std::vector<Chunk>& chunks() const { return chunks_; }

  /// Working space, and the result of the last search.
  struct Scratch {
    std::vector<std::uint32_t> queries;          ///< Positions of the points searched for.
    std::vector<std::uint16_t> lanes;            ///< Where the candidates of each stand in `reservoirs`.
    std::vector<kernels::Reservoir> reservoirs;  ///< `count` candidates, their positions in `slots`, in no order; the query may be one of them.
    std::uint64_t computed = 0;                  ///< Distances computed so far.
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
    std::vector<std::uint8_t> gathered;
    std::vector<const void*> row_pointers;
    std::vector<std::uint16_t> occluded;
  };

  /// Candidates for the points of a chunk, or only for those at the positions `only`, ascending and all of that chunk: about the nearest `keep` of
  /// each. Cells and blocks are looked into whose centre's squared distance is under `reach` times that of the farthest candidate; 0: the
  /// nearest few cells alone.
  void search(const Chunk& chunk, std::size_t keep, std::size_t near, float reach, Scratch& scratch, std::span<const std::uint32_t> only = {}) const;

  /// Of the candidates of the query at a position, the first ones in order of distance that no one chosen before occludes, at most `most`, as far as
  /// the packing tells: `candidates` and their squared distances in packed units, ascending. Returns their number; their places in `chosen`.
  std::size_t prune(std::span<const std::uint32_t> candidates, std::span<const float> distances, std::size_t most, std::uint32_t* chosen,
                    Scratch& scratch) const;
  /// For each of the candidates, ascending by their true squared distances to some point, a bit for every other that may be nearer to it than the
  /// point is: none that is nearer is left out. Written to `scratch.occluded`, (count + 15) / 16 words a candidate.
  void may_be_nearer(std::span<const std::uint32_t> candidates, std::span<const float> squared, Scratch& scratch) const;

 private:
  const std::uint8_t* panel(std::size_t index) const { return panels_.data() + index * panel_bytes_; }
  void look_at_nearest(const Chunk& chunk, std::size_t keep, std::size_t capacity, Scratch& scratch) const;

  std::size_t dimension_;
  std::span<const std::uint32_t> begins_;
  const kernels::Kernels& kernels_;
  const kernels::PanelKernels& panel_kernels_;
  Frame frame_;
  std::vector<float> centroids_;
  std::size_t panel_bytes_;
  std::size_t row_bytes_;
  std::vector<std::size_t> panel_begins_;         // first panel of each cell
  std::vector<std::size_t> centre_panel_begins_;  // first panel of its blocks' centres
  Buffer<std::uint8_t> packed_rows_;              // the points as rows, by position
  std::vector<float> row_norms_;
  std::vector<float> row_errors_;                 // what packing moved each of them by, in packed units
  Buffer<std::uint8_t> panels_;                   // the points, each cell from a new panel: a block a panel
  Buffer<std::uint8_t> centre_panels_;            // the centres of the blocks
  Buffer<std::uint8_t> packed_centroids_;         // the centroids of the cells, as rows
  std::vector<float> centroid_norms_;
  std::vector<Chunk> chunks_;
};

}  // namespace smartmine
