#include "train/longer_lists.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "smartmine/graph/neighbor_index.h"
#include "train/device_knn.h"

namespace smartmine {

LongerListSearch::LongerListSearch(const Rows& rows, torch::Tensor device, unsigned threads, Ranks* ranks)
    : rows_(rows), device_(std::move(device)), threads_(threads), ranks_(ranks), known_(rows.size()) {}

/// Each rank finds some. All ask for the same ones, since all select alike.
NeighborLists LongerListSearch::shared_lists(std::span<const std::uint32_t> missing, std::size_t neighbors) const {
  if (ranks_ == nullptr) return lists_of_some(rows_, missing, neighbors, threads_).lists;
  const Team team = team_of(*ranks_);
  const std::vector<std::size_t> begins = team_shares(&team, missing.size());
  const auto [begin, end] = own_share(&team, begins);
  NeighborLists all(missing.size(), neighbors);
  if (begin < end) {
    const NeighborLists own = lists_of_some(rows_, missing.subspan(begin, end - begin), neighbors, threads_).lists;
    std::ranges::copy(own.all_ids(), all.all_ids().subspan(begin * neighbors).begin());
    std::ranges::copy(own.all_distances(), all.all_distances().subspan(begin * neighbors).begin());
  }
  team.gather(all.all_ids().data(), neighbors * sizeof(std::uint32_t), begins);
  team.gather(all.all_distances().data(), neighbors * sizeof(float), begins);
  return all;
}

NeighborLists LongerListSearch::find(std::span<const std::uint32_t> anchors, std::size_t neighbors) {
  const auto begin = std::chrono::steady_clock::now();
  std::vector<std::uint32_t> missing;
  for (const std::uint32_t anchor : anchors)
    if (known_[anchor].size() < neighbors) missing.push_back(anchor);
  if (!missing.empty()) {
    const bool on_device = device_.defined() && device_.is_cuda();
    const NeighborLists found = on_device ? device_lists_of_some(device_, missing, neighbors).lists : shared_lists(missing, neighbors);
    for (std::size_t i = 0; i < missing.size(); ++i) {
      std::vector<Found>& known = known_[missing[i]];
      known.resize(neighbors);
      for (std::size_t j = 0; j < neighbors; ++j) known[j] = {found.ids(i)[j], found.distances(i)[j]};
    }
  }
  NeighborLists lists(anchors.size(), neighbors);
  for (std::size_t i = 0; i < anchors.size(); ++i)
    for (std::size_t j = 0; j < neighbors; ++j) {
      lists.ids(i)[j] = known_[anchors[i]][j].id;
      lists.distances(i)[j] = known_[anchors[i]][j].distance;
    }
  seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return lists;
}

}  // namespace smartmine
