#pragma once

#include <cstdint>
#include <optional>

#include "graph/candidates.h"
#include "graph/recall_sample.h"

namespace smartmine {

/// How lists are made from those of an earlier graph.
struct Refresh {
  std::size_t helpers;       ///< Points on the list of a point at whose nearest it looks too:
  bool anywhere = false;     ///< the nearest few, or any;
  bool whole_lists = false;  ///< as many as a list is long, or half as many.
  bool exchanges = false;    ///< Whether an exchange follows.
};

/// All that is tried for lists alone before a partition is, and what is done where edges are wanted.
inline constexpr Refresh kMostRefresh{.helpers = 16, .anywhere = true, .whole_lists = true, .exchanges = true};
inline constexpr Refresh kRefreshForEdges{.helpers = 3, .whole_lists = true, .exchanges = true};

/// The least work with which the sample's lists reach the recall asked for, as far as they tell; all of it if nothing less does; nothing if
/// that will not. `recall` is what the sample's lists came to.
std::optional<Refresh> choose_refresh(const BuildTask& task, const Fanng& previous, const OrderedRows& ordered, const PackedPoints& packed,
                                      const RecallSample& truth, double& recall, std::uint64_t& computed);

/// The candidates of all points from those of an earlier graph: every point looks at its earlier candidates, at the nearest of its
/// nearest few, the helpers, and at a few random ones, by which parts that have drifted together find each other.
/// `ordered` is in the earlier graph's order, and `packed` the same packed. Adds what it computes to `computed`.
Candidates list_from_previous(const BuildTask& task, const Fanng& previous, const Refresh& how, const OrderedRows& ordered,
                              const PackedPoints& packed, std::uint64_t& computed);

/// Whether edges are chosen anew while candidates are looked at; else those of the earlier graph will do.
bool chooses_edges(const BuildTask& task, const Fanng& previous);

/// The earlier edges stand for those chosen from the neighbours; the traps tell where they no longer do.
ForwardEdges forward_from_previous(const Fanng& previous, const OrderedRows& ordered, unsigned threads);

}  // namespace smartmine
