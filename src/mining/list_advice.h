#pragma once

#include <cstddef>

#include "smartmine/mining/smart_miner.h"
#include "smartmine/mining/triplet.h"

namespace smartmine {

/// What was seen of lists beside their statistics.
struct ListsSeen {
  std::size_t points = 0;
  std::size_t most_uses = 0;      ///< Of a point as a negative; 0: no cap.
  std::size_t ready = 0;          ///< Lists that held a positive and a negative beyond the bound,
  std::size_t ready_in_half = 0;  ///< the latter in their first half.
};

/// Writes the note: what an operator should know; if too many lists lack a positive or a negative, also what to do about it.
void add_advice(MiningStats& stats, const SmartMinerOptions& options, const ListsSeen& seen);

}  // namespace smartmine
