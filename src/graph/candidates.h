#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "graph/build_task.h"
#include "graph/list_writer.h"
#include "graph/ordered_rows.h"
#include "graph/packed_points.h"
#include "graph/place_set.h"
#include "smartmine/core/buffer.h"

namespace smartmine {

/// Edges to copies of a vertex that are considered.
inline constexpr std::size_t kCopies = 8;

/// For each place, the edges chosen from its own neighbours: at most kMost.
class ForwardEdges {
 public:
  static constexpr std::size_t kMost = 40;
  ForwardEdges() = default;
  explicit ForwardEdges(std::size_t places) : ends_(places * kMost), counts_(places, 0) {}

  std::span<const std::uint32_t> of(std::size_t place) const { return {ends_.data() + place * kMost, counts_[place]}; }
  void add(std::size_t place, std::uint32_t end) { ends_[place * kMost + counts_[place]++] = end; }
  /// Where up to kMost ends of the edges of `place` may be written, and how many were.
  std::uint32_t* room(std::size_t place) { return ends_.data() + place * kMost; }
  void set_count(std::size_t place, std::size_t count) { counts_[place] = static_cast<std::uint8_t>(count); }
  void share(const Team& team, std::span<const std::size_t> begins) {
    if (counts_.empty()) return;
    team.gather(ends_.data(), kMost * sizeof(std::uint32_t), begins);
    team.gather(counts_.data(), 1, begins);
  }

 private:
  Buffer<std::uint32_t> ends_;
  std::vector<std::uint8_t> counts_;
};

/// Scratch space of a thread that writes lists.
struct ListScratch {
  explicit ListScratch(const kernels::Kernels& kernels) : writer(kernels) {}
  ListWriter writer;
  std::vector<std::uint32_t> candidates, sorted, begins, inside;
  std::vector<Found> found;
  std::vector<float> distances, keys;
  PackedPoints::Scratch packed;

  /// Sorts `found` into `candidates` and `keys` by counting in steps of the farthest distance: near enough, and much quicker than sorting.
  void sort_by_counting(float farthest);
};

/// The lists of all points, the candidates that come after them, and the edges chosen from both.
class Candidates {
 public:
  explicit Candidates(const BuildTask& task);

  NeighborLists lists;   ///< By point.
  ForwardEdges forward;  ///< By place. Empty for a build that begins with random edges.

  /// Writes the list of the point at `place` from its nearest candidates (places, without itself); all of them, measured and in order,
  /// are left in `w.sorted` and `w.distances`.
  void write_list(std::size_t place, std::span<const std::uint32_t> candidates, const OrderedRows& ordered, ListScratch& w);
  /// The same from candidates that were measured already. As many as the list and what is kept after it are left in order.
  void write_list(std::size_t place, std::span<const Found> candidates, const OrderedRows& ordered, ListScratch& w);
  /// Remembers the candidates of the point at `place`, in order, at most as many as there is room for after the list.
  void keep(std::size_t place, std::span<const std::uint32_t> candidates);
  /// The candidates that come after the list of the point at `place`; its own place where there are none.
  std::span<const std::uint32_t> after_list(std::size_t place) const {
    return {(refreshable_ ? kept_.data() : after_.data()) + offset(place), beyond_};
  }

  /// Whether candidates are kept for a refresh.
  bool refreshable() const { return refreshable_; }
  /// The places on the list of the point at `place`; at equal distances in any order. `scratch` may be where they are.
  std::span<const std::uint32_t> listed(std::size_t place, const OrderedRows& ordered, std::vector<std::uint32_t>& scratch) const;
  /// Remembers the list of the point at `place` as it now is, before what was kept of it. Of use for a refresh alone. The last
  /// two are scratch space, the set one of all places.
  void keep_list(std::size_t place, const OrderedRows& ordered, PlaceSet& on_list, std::vector<std::uint32_t>& left);

  /// Gives up the candidates after the lists, which take more memory than these; what a refresh starts from stays.
  void forget_after_lists() { after_ = {}; }

  /// Gives the members of a team what each has found for its own places, of which member i has those from begins[i] on: all but the lists
  /// and what a refresh starts from,
  void share(const Team& team, std::span<const std::size_t> begins);
  /// and these.
  void share_lists(const Team& team, const OrderedRows& ordered, std::span<const std::size_t> begins);

  /// What a refresh starts from, given away: for each place so many candidates, the list's and those after it.
  std::size_t kept_per_point() const { return refreshable_ ? neighbors_ + beyond_ : 0; }
  std::vector<std::uint32_t> take_kept() && { return std::move(kept_); }

 private:
  void take_list(std::size_t place, const OrderedRows& ordered, const ListScratch& w);
  std::size_t offset(std::size_t place) const { return refreshable_ ? place * (neighbors_ + beyond_) + neighbors_ : place * beyond_; }
  std::size_t neighbors_;
  std::size_t beyond_;
  bool refreshable_;
  std::vector<std::uint32_t> kept_;  // of a graph that is to be refreshed: all candidates of each place, else
  Buffer<std::uint32_t> after_;      // those after its list
};

/// Chooses edges from the point at `place` to `w.candidates`, pruned in packed units. The first `measured` of them are in true order, with
/// their distances in `w.distances`. Points are packed from the place `first` on.
void choose_forward(const BuildTask& task, std::size_t place, std::size_t measured, std::size_t first, const PackedPoints& packed,
                    ListScratch& w, ForwardEdges& forward);

/// A point with too few candidates gets the first points there are, so that every list is full.
void fill_up(std::size_t place, std::size_t wanted, std::size_t size, std::vector<std::uint32_t>& candidates);

/// A point may have missed a neighbour that did find it. Every point tells those on its list that would want it and, as far as a sketch of
/// their lists tells, do not have it. These are the points of a group, from the first of `shares` to the last; those that member i of a
/// team (null: none) has the lists of, and then mends, begin at shares[i]. What is kept for a refresh is mended with them.
void exchange_neighbors(const OrderedRows& ordered, Candidates& candidates, unsigned threads, const Team* team,
                        std::span<const std::size_t> shares);

}  // namespace smartmine
