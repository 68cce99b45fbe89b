#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "graph/kernels/kernels.h"
#include "smartmine/core/progress.h"
#include "smartmine/core/rows.h"

namespace smartmine {

/// Finds groups of rows that lie at least ten times closer together than they are to other groups, so that the nearest neighbours of a row
/// are in its own group and one packing would be too coarse for all of them. Returns the rows of each group, ascending; a single group if
/// there is no such gap. Judged on a sample: groups of under `smallest` rows join the nearest larger one. Deterministic for a seed.
std::vector<std::vector<std::uint32_t>> separate(const Rows& rows, std::size_t smallest, std::uint64_t seed, unsigned threads,
                                                 const kernels::Kernels& kernels, std::uint64_t& distance_computations,
                                                 const Progress& progress);

}  // namespace smartmine
