#pragma once

#include <torch/types.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "smartmine/graph/neighbors.h"
#include "smartmine/loss/multisimilarity_loss.h"
#include "smartmine/mining/labels.h"

namespace smartmine {

/// The epoch's embeddings of all training images, which were computed for mining, as something to compare batches with. A batch is given
/// the nearest rows of its images, by the lists, and leaves its own embeddings behind.
class Memory {
 public:
  /// Of each image the first `neighbors` of other classes in its list are kept, and an eighth as many of its own, at least one.
  Memory(const torch::Tensor& embeddings, const NeighborLists& lists, const LabelIndex& labels, std::size_t neighbors);
  /// As `save` wrote it. Throws IoError if it does not fit the labels.
  Memory(const std::filesystem::path& file, const LabelIndex& labels, torch::Device device);
  void save(const std::filesystem::path& file) const;

  /// The neighbours of these images that are not among them, each once, in order of their ids.
  ReferenceRows recall(std::span<const std::uint32_t> items) const;
  /// Replaces the rows of these images. Of one that comes several times, the last row counts. Rows that are not finite change nothing.
  void refresh(std::span<const std::uint32_t> items, const torch::Tensor& embeddings);

 private:
  torch::Tensor rows_;              // [N, D], on the device
  std::vector<std::int32_t> near_;  // [N, neighbors_]; kNone behind those there are
  std::size_t neighbors_ = 0;
  const LabelIndex* labels_;
};

}  // namespace smartmine
