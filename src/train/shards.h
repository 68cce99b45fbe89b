#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "smartmine/loss/batch_loss.h"
#include "train/epoch.h"

namespace smartmine {

/// A batch of a plan.
struct Batch {
  std::span<const std::uint32_t> items;
  std::size_t number = 0;          ///< Of the batch in its epoch.
  std::size_t first_key = 0;       ///< Of its first image in the epoch's plan: keys the randomness of its augmentation.
  const Memory* memory = nullptr;  ///< Asked for the nearest others. Null: there is none.
};

/// What passing a batch leaves beside gradients.
struct Pass {
  BatchLoss loss;
  torch::Tensor embedded;  ///< Of all images of the batch, without gradients.
};

/// The loss of a batch, from its images on, with the gradients of all parameters taken. One shard is one pass forward and back. Several are
/// passes of their own, each over its part of the images; the loss is that of the whole batch, and the shards' gradients are added in a
/// tree that depends on nothing but their number. So is the mean of what batch norms remember. Which rank passes which shard changes no
/// bit. With ranks the value is rank 0's, so that all do the same about it. Gradients must not be there before.
Pass take_gradients(const Epoch& epoch, const Batch& batch);

/// By how many times 90 degrees the images of a batch are turned, 0 to 3: all alike, or all of a class. What is drawn for a class depends
/// on nothing else in the batch.
std::vector<std::int64_t> draw_turns(bool by_class, std::uint64_t seed, std::size_t batch, std::span<const std::uint32_t> classes);

/// Those of a batch's images that this rank passes, and so has to have.
std::span<const std::uint32_t> own_items(const Epoch& epoch, std::span<const std::uint32_t> items);

}  // namespace smartmine
