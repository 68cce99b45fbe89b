#include <cmath>
#include <vector>

#include "smartmine/mining/smart_miner.h"

namespace smartmine {

FoundKappa find_kappa(const NeighborLists& lists, const LabelIndex& labels, const SmartMinerOptions& options, const Progress& progress) {
  constexpr double kLargest = 4;
  constexpr std::size_t kTries = 21;     // down to 1/256
  constexpr double kNearlyAsMany = 0.9;  // of the most that any of them mines
  std::vector<FoundKappa> tried;
  double most = 0;
  for (std::size_t i = 0; i < kTries; ++i) {
    report(progress, "kappa", i, kTries);
    SmartMinerOptions with = options;
    with.longer_lists = {};
    with.kappa = kLargest * std::exp2(-0.5 * static_cast<double>(i));
    const MiningStats stats = SmartMiner(with).select(lists, labels).stats;
    const std::size_t mined = stats.mined + stats.mined_outside_positive + stats.mined_nearer_positive;
    const double share = stats.triplets == 0 ? 0 : static_cast<double>(mined) / static_cast<double>(stats.triplets);
    tried.push_back({with.kappa, share});
    most = std::max(most, share);
  }
  for (const FoundKappa& each : tried)
    if (each.mined_share >= kNearlyAsMany * most) return each;
  return tried.front();
}

}  // namespace smartmine
