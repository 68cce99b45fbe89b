#pragma once

#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "smartmine/core/progress.h"
#include "smartmine/data/image_store.h"
#include "smartmine/model/embedding_model.h"
#include "smartmine/run/config.h"
#include "smartmine/train/augment.h"
#include "smartmine/train/ranks.h"

namespace smartmine {

/// The images of a store, served on the device. On a GPU all are kept there as bytes if they fit into the cache, so that steps never wait
/// for the host; otherwise, and on a CPU, they come from the store.
class DeviceImages {
 public:
  DeviceImages(ImageStore& store, const torch::Device& device);
  /// uint8 [N, H, W, C].
  torch::Tensor get(std::span<const std::uint32_t> items);
  /// Says what will be asked for next.
  void prefetch(std::span<const std::uint32_t> items);
  std::size_t size() const { return store_.dataset().size(); }

 private:
  torch::Tensor from_store(std::span<const std::size_t> items);

  ImageStore& store_;
  torch::Device device_;
  torch::Tensor all_;        // undefined: from the store
  bool all_cached_ = false;  // the store has everything at hand
};

/// A model where it is to run, with what turns images into its input.
struct Network {
  torch::Device device;
  torch::ScalarType type;         ///< That it computes in.
  bool new_layer_loaded = false;  ///< config.model.weights had a new layer.
  std::shared_ptr<EmbeddingModel> model;
  /// More of it, for shards that a CPU passes at the same time. What they are made of is the model's; what they gather is their own.
  std::vector<std::shared_ptr<EmbeddingModel>> twins;
  std::int64_t at_once = 1;  ///< Passes that have threads of their own.
  Augmenter augmenter;
  Ranks* ranks = nullptr;  ///< That share passes over all images; null: this process does them alone.

  /// Of the run's configuration (resolved), with random weights or those of config.model.weights. Sets the number of torch's threads.
  explicit Network(const RunConfig& config, Ranks* with = nullptr);

  /// What a store must hold for this network.
  ImageStoreOptions store_options(const RunConfig& config) const;
  /// Evaluation pass over all images: [N, dimension] on the device.
  torch::Tensor embed(DeviceImages& images, const Progress& progress, std::string_view stage) const;
  /// Lets the new layer start as config.model.new_layer_start says, from the images to train on, unless weights had one. Returns what is to
  /// be said about it, mostly nothing.
  std::string start_new_layer(const RunConfig& config, DeviceImages& images, std::span<const std::int64_t> labels,
                              const Progress& progress);

 private:
  torch::Tensor pass(DeviceImages& images, std::int64_t width, const std::function<torch::Tensor(const torch::Tensor&)>& forward,
                     const Progress& progress, std::string_view stage) const;
};

}  // namespace smartmine
