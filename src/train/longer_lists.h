#pragma once

#include <torch/types.h>

#include <cstdint>
#include <span>
#include <vector>

#include "smartmine/core/rows.h"
#include "smartmine/graph/fanng.h"
#include "smartmine/graph/neighbors.h"
#include "smartmine/train/ranks.h"

namespace smartmine {

/// Longer lists of some images, by exact search where the embeddings are. They are kept while an epoch is planned: kappas that are tried
/// one after the other ask for the same ones.
class LongerListSearch {
 public:
  /// `device` are the same embeddings as `rows`; where it is on the CPU, or undefined, the search is the library's own, which `ranks`
  /// share.
  LongerListSearch(const Rows& rows, torch::Tensor device, unsigned threads, Ranks* ranks = nullptr);

  /// As LongerLists of mining/smart_miner.h has it.
  NeighborLists find(std::span<const std::uint32_t> anchors, std::size_t neighbors);
  double seconds() const { return seconds_; }

 private:
  NeighborLists shared_lists(std::span<const std::uint32_t> missing, std::size_t neighbors) const;

  const Rows& rows_;
  torch::Tensor device_;
  unsigned threads_;
  Ranks* ranks_;
  std::vector<std::vector<Found>> known_;  // by image; empty: none yet
  double seconds_ = 0;
};

}  // namespace smartmine
