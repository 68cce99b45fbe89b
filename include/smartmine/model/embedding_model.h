#pragma once

#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "smartmine/model/backbone.h"
#include "smartmine/model/new_layer.h"
#include "smartmine/run/backbone_traits.h"

namespace smartmine {

/// Tensors by name, as a weights file has them.
using NamedTensors = std::map<std::string, torch::Tensor>;

/// A backbone, dropout if asked for, and a new fully connected layer. `forward` gives the embedding, [N, dimension], unit norm.
/// Not safe for concurrent use.
class EmbeddingModel : public torch::nn::Module {
 public:
  /// Throws InvalidArgument for a dimension outside 1 to kMaxDimension or dropout outside [0, 1). The new layer starts from `seed`.
  EmbeddingModel(std::shared_ptr<Backbone> backbone, std::int64_t dimension, double dropout, std::uint64_t seed);

  /// The embedding; every row has length 1. Always float32 (or float64 for float64 images).
  torch::Tensor forward(const torch::Tensor& images);
  /// The same before it is brought to length 1, for losses that want it so.
  torch::Tensor raw(const torch::Tensor& images);

  Backbone& backbone() { return *backbone_; }
  const Backbone& backbone() const { return *backbone_; }
  const InputFormat& input() const { return backbone_->input(); }
  std::int64_t dimension() const { return dimension_; }

  std::vector<torch::Tensor> trunk_parameters() const { return backbone_->parameters(); }
  /// These are trained at 10 times the trunk's learning rate.
  std::vector<torch::Tensor> new_layer_parameters() const { return embedding_->parameters(); }

  /// Parameters and buffers, sharing the model's memory: the backbone's under their own names, the new layer as
  /// "embedding.weight" and "embedding.bias".
  NamedTensors state() const;

  /// Puts values into the new layer. Throws InvalidArgument if they are of another shape.
  void set_new_layer(const LayerValues& values);

  /// Keys the dropout of the following forward passes. Call it with a number of the step, and a resumed run drops the same.
  void seed_dropout(std::uint64_t seed) { dropout_seed_ = seed; }

  /// Lays out all filters channels last, which GPUs prefer. Values stay.
  void use_channels_last();

 private:
  std::shared_ptr<Backbone> backbone_;
  torch::nn::Linear embedding_{nullptr};
  std::int64_t dimension_;
  double dropout_;
  std::uint64_t dropout_seed_ = 0;
  std::optional<at::Generator> generator_;
};

/// Options for a model by name.
struct ModelOptions {
  std::string backbone = "small";  ///< One of backbone_names(), or the path of a TorchScript file.
  std::int64_t embedding_dimension = 64;
  double dropout = 0;                  ///< Share of features dropped before the new layer while training. In [0, 1).
  std::int64_t input_size = 0;         ///< Side of the images. 0: the backbone's own.
  std::int64_t channels = 0;           ///< 1 or 3. 0: the backbone's own. Only small and files take others.
  std::string input_mean = {};         ///< As parse_channels has it, of values from 0 to 1, red first; empty: the backbone's own.
  std::string input_deviation = {};    ///< Likewise. Of ResNets and files.
  std::string pooling = "average";     ///< Of the last layer of googlenet and ResNets: average, max or both (their sum).
  bool frozen_norms = false;           ///< Batch norms of ResNets and files use their stored averages in training too, and keep them.
  torch::Device device = torch::kCPU;  ///< That a file is loaded on. The others are made on the CPU; `to` moves the model.
  std::uint64_t seed = 1;              ///< Of the initial weights.
};

/// Throws InvalidArgument naming the option, its value and the range.
std::shared_ptr<EmbeddingModel> make_model(const ModelOptions& options);

}  // namespace smartmine
