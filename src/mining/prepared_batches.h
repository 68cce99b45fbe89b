#pragma once

#include <cstddef>

#include "mining/batch_groups.h"
#include "mining/class_graph.h"
#include "smartmine/mining/batch_builder.h"

namespace smartmine {

/// build_batches in two steps, for batches of several shares from the same lists: what is found in these is found once.
class PreparedBatches {
 public:
  /// Throws as build_batches. The labels must outlive it; lists and rows need not.
  PreparedBatches(const NeighborLists& lists, const LabelIndex& labels, const BatchBuilderOptions& options, const Rows* rows = nullptr);

  /// As build_batches with these options instead. Throws InvalidArgument for a share above 0 if that of its own options is 0.
  ClassBatches make(double near_share, std::size_t rounds) const;
  /// What its own making took; not in the statistics of batches.
  double seconds() const { return stats_.seconds; }

 private:
  const LabelIndex& labels_;
  BatchBuilderOptions options_;
  BatchStats stats_;  // that all batches have in common
  Members members_;
  ClassGraph graph_;
};

}  // namespace smartmine
