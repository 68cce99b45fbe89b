#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "graph/candidates.h"
#include "graph/cell_search.h"
#include "graph/partition.h"

namespace smartmine {

/// Places [first, last): a group of points whose neighbours are in it too, in most sets all points. Large ones are searched by cells.
struct Group {
  std::size_t first = 0, last = 0;
  Partition partition;                   ///< Of a large one, counted from its first place; empty: every pair is looked at.
  std::unique_ptr<PackedPoints> packed;  ///< Of a large one,
  std::unique_ptr<CellSearch> search;    ///< which looks into cells
  float reach = 0;                       ///< as far as this
  std::size_t near = 0;                  ///< times the distance of so many-th candidate.
  std::size_t measured = 0;              ///< So many candidates, the point itself included, are measured in full.
  float crowded = 0;                     ///< Points whose list ends nearer than this, squared, are searched for again: crowd_lists.h.
  bool joins = false;                    ///< Its points look at the lists of their neighbours, and are searched less for it.
  std::vector<std::size_t> shares;       ///< Places where those begin that each member of a team lists, and the last end.
  std::size_t size() const { return last - first; }
};

/// All points, group after group.
struct GroupedRows {
  OrderedRows ordered;
  std::vector<Group> groups;
};

/// Finds the groups and an order that keeps near points of a group together. Adds what it computes to `computed`.
GroupedRows group_rows(const BuildTask& task, std::uint64_t& computed);

/// Makes the large groups ready to be searched, with the smallest reach that brings a sample of their points to the recall asked for. Where
/// bytes are too coarse for that, more candidates are measured in full, or the group is packed as floats.
void prepare_searches(const BuildTask& task, const OrderedRows& ordered, std::vector<Group>& groups, std::uint64_t& computed);

/// The candidates of the points of a small group by looking at all its pairs.
void list_all_pairs(const BuildTask& task, const OrderedRows& ordered, const Group& group, Candidates& candidates, std::uint64_t& computed);

/// The candidates of the points of a large group by looking into its cells.
void list_by_cells(const BuildTask& task, const OrderedRows& ordered, const Group& group, Candidates& candidates, std::uint64_t& computed);

/// Edges from the lists as they are, of a build that was to do without and whose lists fell short.
void choose_edges_from_lists(const BuildTask& task, const OrderedRows& ordered, const Group& group, Candidates& candidates,
                             std::uint64_t& computed);

/// Lets the searches reach farther. Returns false if none can.
bool widen(std::vector<Group>& groups);

/// Lets them measure more candidates in full. Returns false if none can.
bool measure_more(std::vector<Group>& groups);

}  // namespace smartmine
