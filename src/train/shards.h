#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "smartmine/loss/batch_loss.h"
#include "train/epoch.h"

namespace smartmine {

/// A batch of a plan.
struct Batch {
  std::span<const std::uint32_t> items;
  std::size_t number = 0;     ///< Of the batch in its epoch.
  std::size_t first_key = 0;  ///< Of its first image in the epoch's plan: keys the randomness of its augmentation.
  Memory* memory = nullptr;   ///< Asked for the nearest others, and then told where these have come to. Null: there is none.
};

/// The loss of a batch, from its images on, with the gradients of all parameters taken. One shard is one pass forward and back. Several are
/// passes of their own, each over its part of the images; the loss is that of the whole batch, and the shards' gradients are added in a
/// tree that depends on nothing but their number. So is the mean of what batch norms remember. Which rank passes which shard changes no
/// bit. With ranks the value is rank 0's, so that all do the same about it. Gradients must not be there before.
BatchLoss take_gradients(const Epoch& epoch, const Batch& batch);

/// Those of a batch's images that this rank passes, and so has to have.
std::span<const std::uint32_t> own_items(const Epoch& epoch, std::span<const std::uint32_t> items);

}  // namespace smartmine
