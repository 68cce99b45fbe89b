#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "graph/kernels/kernels.h"
#include "smartmine/core/progress.h"
#include "smartmine/core/rows.h"

namespace smartmine {

/// The exact lists of some queries among some rows.
struct ExactLists {
  std::span<const float* const> queries;  ///< The queries themselves,
  std::span<const std::uint32_t> own;     ///< and the row each of them is, to be left out; empty: none is.
  std::size_t neighbors = 0;              ///< Length of a list.
  std::span<std::uint32_t> ids;           ///< Filled: a list a query,
  std::span<float> distances;             ///< nearest first, ties to the lower id, squared.
  std::size_t all = 0;                    ///< Queries that a team has together, of which these are a part; 0: these are all.
  bool first = true;                      ///< Of these parts, the one that counts what all compute alike.
  bool crowds_apart = true;               ///< Crowds are searched on their own; how many distances that takes depends on the part.
};

/// Fills `lists`. Returns the number of distances computed.
std::uint64_t find_exact_lists(const Rows& rows, const ExactLists& lists, const kernels::Kernels& kernels, unsigned threads,
                               const Progress& progress, std::string_view stage);

}  // namespace smartmine
