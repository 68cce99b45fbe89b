#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "mining/class_graph.h"
#include "smartmine/graph/neighbors.h"
#include "smartmine/mining/batch_builder.h"
#include "smartmine/mining/labels.h"

// Who takes part in batches, and in which groups.
namespace smartmine {

/// Who takes part.
struct Members {
  std::vector<std::uint32_t> classes;  ///< That can give a pair.
  Copies copies;
};

/// Looks at the lists for copies if `options.near_share` is above 0. Where that leaves fewer than two classes, there are none.
Members find_members(const NeighborLists& lists, const LabelIndex& labels, const BatchBuilderOptions& options, BatchStats& stats);

/// Points of one class that go together.
struct Group {
  std::uint32_t label_class = 0;
  std::size_t number = 0;  ///< Among all groups.
};

/// The groups of one round in a random order.
struct Round {
  std::vector<Group> groups;
  std::vector<std::vector<std::uint32_t>> of_class;  ///< Those of each class, as places in `groups`, in their order.
};

/// The groups of one class, all rounds together.
struct ClassGroups {
  std::uint32_t label_class = 0;
  std::size_t first = 0;   ///< Number of the first.
  std::size_t count = 0;   ///< Of groups.
  std::size_t points = 0;  ///< That come in each round.
  std::size_t begin = 0;   ///< So many points come before their round: drawn, or small classes would all come in the same rounds.
};

/// The groups of all rounds. Each point comes once for each round, but a group need not be of one round: what does not fill one up goes
/// into the first of the next round, or takes in some of that. Only a class's very last group is filled up with points once more.
struct Groups {
  std::size_t size = 0;  ///< Points of a group.
  std::size_t rounds = 0;
  std::vector<std::uint32_t> members;  ///< Of the groups, `size` each.
  std::vector<ClassGroups> classes;

  std::span<const std::uint32_t> of(std::size_t number) const { return std::span(members).subspan(number * size, size); }
  Round round(std::size_t number, std::size_t all_classes, std::uint64_t seed) const;

 private:
  /// How many of a class's groups come before a round.
  std::size_t come_before(const ClassGroups& of, std::size_t round) const;
};

Groups divide(const LabelIndex& labels, const Members& members, const BatchBuilderOptions& options, std::size_t rounds, BatchStats& stats);

/// A seed of its own for each round of each seed.
std::uint64_t round_seed(std::uint64_t seed, std::size_t round);

}  // namespace smartmine
