#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "smartmine/core/rows.h"
#include "smartmine/graph/neighbors.h"
#include "smartmine/mining/batch_builder.h"
#include "smartmine/mining/labels.h"

// Which classes are confused with which, as the lists of their points tell it.
namespace smartmine {

/// Copies among points.
struct Copies {
  std::vector<std::uint32_t> of;  ///< The point of its class that stands for it, often itself; empty: no point has a copy in its class.
  std::vector<bool> elsewhere;    ///< Whether it has a copy in another class; empty: none has.

  bool stands_for_itself(std::uint32_t point) const { return of.empty() || of[point] == point; }
  std::uint32_t stand_in(std::uint32_t point) const { return of.empty() ? point : of[point]; }
  bool is_doubtful(std::uint32_t point) const { return !elsewhere.empty() && elsewhere[point]; }
};

/// Another class, and how near it is; more is nearer.
struct ClassLink {
  std::uint32_t other = 0;
  float weight = 0;
};

class ClassGraph {
 public:
  ClassGraph() = default;
  explicit ClassGraph(const std::vector<std::vector<ClassLink>>& rows);
  /// The strongest first; equal ones by class.
  std::span<const ClassLink> of(std::uint32_t label_class) const {
    return std::span(links_).subspan(offsets_[label_class], offsets_[label_class + 1] - offsets_[label_class]);
  }

 private:
  std::vector<std::size_t> offsets_;
  std::vector<ClassLink> links_;
};

/// Links two classes by the smaller of two counts: points of one that have points of the other among their first `options.negatives`
/// neighbours of other classes, and points of the other that they have there. Either takes part with all its points or hardly counts: a
/// point with a wrong label sees many strangers or is seen by many, but is one point in one of the counts, and one is taken off. Counts are
/// shares of the class, and the links of both directions add up. Copies count as one; a point with a copy in another class says nothing.
/// Classes most of whose lists see no other class are also linked to those with the nearest centres, if there are rows.
ClassGraph link_classes(const NeighborLists& lists, const LabelIndex& labels, const Copies& copies, const BatchBuilderOptions& options,
                        const Rows* rows, BatchStats& stats);

}  // namespace smartmine
