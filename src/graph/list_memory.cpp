#include "smartmine/graph/list_memory.h"

#include "graph/build_task.h"
#include "graph/candidates.h"

namespace smartmine {

std::uint64_t list_memory_bytes(const Rows& rows, const FanngOptions& options) {
  constexpr double kId = sizeof(std::uint32_t), kEntry = kId + sizeof(float);
  const Progress none;
  const bool edges = options.for_search || options.certify || options.start == Start::kRandom;
  const BuildTask task{rows, options, kernels::active(), none, edges};
  const auto neighbors = static_cast<double>(options.neighbors), beyond = static_cast<double>(task.beyond());
  // The rows once in order, twice as bytes, and what is kept of each list for a while (measured: docs/results.md).
  double each = neighbors * kEntry + 1.5 * sizeof(float) * static_cast<double>(rows.dimension()) + 250;
  const double kept = (options.refreshable ? neighbors + beyond : beyond) * kId;
  each += kept;
  if (options.start == Start::kPrevious) each += 2 * neighbors * kId;  // what the graph before has kept
  if (edges) each += static_cast<double>(ForwardEdges::kMost) * kId + options.max_degree * kEntry;
  return static_cast<std::uint64_t>(each * static_cast<double>(rows.size()));
}

}  // namespace smartmine
