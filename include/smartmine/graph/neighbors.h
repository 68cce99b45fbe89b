#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "smartmine/core/buffer.h"
#include "smartmine/core/rows.h"

namespace smartmine {

/// Rows that follow each other.
struct RowRange {
  std::size_t first = 0;
  std::size_t count = 0;
};

/// For each of `size()` points its `neighbors()` nearest others: ids and squared Euclidean distances, nearest first,
/// equal distances by id, never the point itself, never an id twice. Immutable in use; concurrent reads are safe.
class NeighborLists {
 public:
  NeighborLists() = default;
  /// Lists whose entries are still to be written.
  NeighborLists(std::size_t size, std::size_t neighbors)
      : size_(size), neighbors_(neighbors), ids_(size * neighbors), distances_(size * neighbors) {}
  /// The same in memory from elsewhere, size * neighbors of each.
  NeighborLists(std::size_t size, std::size_t neighbors, std::shared_ptr<std::uint32_t[]> ids, std::shared_ptr<float[]> distances)
      : size_(size), neighbors_(neighbors), ids_(std::move(ids), size * neighbors), distances_(std::move(distances), size * neighbors) {}

  std::size_t size() const { return size_; }
  std::size_t neighbors() const { return neighbors_; }
  std::span<const std::uint32_t> ids(std::size_t point) const { return {ids_.data() + point * neighbors_, neighbors_}; }
  std::span<const float> distances(std::size_t point) const { return {distances_.data() + point * neighbors_, neighbors_}; }
  std::span<std::uint32_t> ids(std::size_t point) { return {ids_.data() + point * neighbors_, neighbors_}; }
  std::span<float> distances(std::size_t point) { return {distances_.data() + point * neighbors_, neighbors_}; }
  /// All ids (or distances), point after point.
  std::span<const std::uint32_t> all_ids() const { return ids_.span(); }
  std::span<const float> all_distances() const { return distances_.span(); }
  std::span<std::uint32_t> all_ids() { return ids_.span(); }
  std::span<float> all_distances() { return distances_.span(); }

  /// Throws InvalidArgument naming the first list that is unsorted, names its own point, an id out of range or an id
  /// twice, or holds a distance that is negative or not finite. For lists that come from elsewhere.
  void validate() const;

 private:
  std::size_t size_ = 0;
  std::size_t neighbors_ = 0;
  Buffer<std::uint32_t> ids_;
  Buffer<float> distances_;
};

/// Makes lists whose entries are still to be written, where the caller wants to have them: in a file, say. May be called again when a
/// search begins anew; the lists of before are then no longer in use. Empty: lists are made in memory.
using ListMaker = std::function<NeighborLists(std::size_t size, std::size_t neighbors)>;
inline NeighborLists make_lists(const ListMaker& maker, std::size_t size, std::size_t neighbors) {
  return maker ? maker(size, neighbors) : NeighborLists(size, neighbors);
}

/// What computing lists cost and what it reached. Every result carries one.
struct NeighborStats {
  std::string index;                            ///< "exact", "exact-cuda" or "fanng".
  std::string kernel;                           ///< Instruction set of the kernels, e.g. "avx512vnni".
  double seconds = 0;                           ///< All stages together, without reading or writing files.
  std::map<std::string, double> stage_seconds;  ///< By stage.
  std::uint64_t distance_computations = 0;      ///< Pairs whose distance was computed, in any precision.
  double recall = 1;                            ///< Share of true neighbours found, on `recall_sample` points.
  double recall_target = 0;                     ///< What was asked for.
  std::size_t recall_sample = 0;                ///< Points compared with exact search; 0: not measured (exact).
  bool recall_reached = true;                   ///< False: every means was used up and recall is still too low.
  double success_rate = 0;                      ///< Share of fresh random pairs that descend to their target (fanng).
  double success_bound = 0;                     ///< Lower confidence bound of that share; one that is reached holds in 95 of 100 builds.
  double success_target = 0;                    ///< What was asked for (fanng).
  std::size_t success_pairs = 0;                ///< Fresh pairs it was measured on; 0: lists alone were wanted, or there is no graph.
  bool success_reached = true;                  ///< The bound is at least the target.
  bool certified = false;                       ///< The success rate was pursued, as far as the other options let it (fanng).
  double mean_degree = 0;                       ///< Edges a vertex (fanng).
  std::size_t max_degree = 0;                   ///< Most edges of a vertex (fanng).
  std::uint64_t edges_added = 0;                ///< Edges traverse-add put in (fanng).
  std::uint64_t rows_certified = 0;             ///< Rows whose candidates certainly held the whole list at the first attempt (GPU).
  std::uint64_t rows_again = 0;                 ///< Rows that took a second attempt for that (GPU).
  std::uint64_t rows_measured = 0;              ///< Rows that were compared with all others in float instead (GPU).
  bool unit_norm = true;                        ///< False: rows differ from length 1; distances are plain Euclidean.
  std::size_t peak_memory_bytes = 0;            ///< Of the whole process, so far.
  std::string note;                             ///< What an operator should know, in words; mostly empty.
};

/// Lists and what they cost.
struct NeighborResult {
  NeighborLists lists;
  NeighborStats stats;
};

/// Most resident memory this process has had, in bytes; 0 where the system does not tell.
std::size_t peak_memory_bytes();

}  // namespace smartmine
