#include "smartmine/model/embedding_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <utility>

#include "smartmine/core/error.h"
#include "smartmine/core/rows.h"
#include "smartmine/model/googlenet.h"
#include "smartmine/model/small_convnet.h"

namespace smartmine {
namespace {

constexpr std::uint64_t kNewLayerStream = 0x6e6c;  // apart from the backbone's streams

Pooling pooling_of(const std::string& name) {
  if (name == "average") return Pooling::kAverage;
  if (name == "max") return Pooling::kMax;
  if (name == "both") return Pooling::kBoth;
  throw InvalidArgument(fmt::format("pooling is '{}'; it must be one of average, max, both", name));
}

}  // namespace

EmbeddingModel::EmbeddingModel(std::shared_ptr<Backbone> backbone, std::int64_t dimension, double dropout, std::uint64_t seed)
    : Module("EmbeddingModel"), backbone_(std::move(backbone)), dimension_(dimension), dropout_(dropout) {
  if (dimension < 1 || dimension > static_cast<std::int64_t>(kMaxDimension))
    throw InvalidArgument(fmt::format("embedding_dimension is {}; it must be from 1 to {}", dimension, kMaxDimension));
  if (!(dropout >= 0 && dropout < 1)) throw InvalidArgument(fmt::format("dropout is {}; it must be at least 0 and less than 1", dropout));
  register_module("backbone", backbone_);
  embedding_ = register_module("embedding", torch::nn::Linear(backbone_->feature_dimension(), dimension));
  Random random(seed, kNewLayerStream);
  fill_normal(embedding_->weight, 1 / std::sqrt(static_cast<double>(backbone_->feature_dimension())), random);
  torch::NoGradGuard no_grad;
  embedding_->bias.zero_();
}

torch::Tensor EmbeddingModel::raw(const torch::Tensor& images) {
  torch::Tensor features = backbone_->forward(images);
  if (is_training() && dropout_ > 0) {
    if (!generator_ || generator_->device() != features.device())
      generator_ = at::globalContext().defaultGenerator(features.device()).clone();
    generator_->set_current_seed(dropout_seed_);
    const torch::Tensor kept = torch::empty_like(features, features.options().requires_grad(false)).bernoulli_(1 - dropout_, *generator_);
    features = features * kept / (1 - dropout_);
  }
  return embedding_->forward(features);
}

torch::Tensor EmbeddingModel::forward(const torch::Tensor& images) {
  // A row of zeros has no direction; the bound keeps it at zero instead of NaN.
  return torch::nn::functional::normalize(raw(images), torch::nn::functional::NormalizeFuncOptions().p(2).dim(1).eps(1e-12));
}

NamedTensors EmbeddingModel::state() const {
  NamedTensors state;
  for (const auto& parameter : backbone_->named_parameters()) state.emplace(parameter.key(), parameter.value());
  for (const auto& buffer : backbone_->named_buffers()) state.emplace(buffer.key(), buffer.value());
  state.emplace("embedding.weight", embedding_->weight);
  state.emplace("embedding.bias", embedding_->bias);
  return state;
}

void EmbeddingModel::set_new_layer(const LayerValues& values) {
  if (values.weight.sizes() != embedding_->weight.sizes() || values.bias.sizes() != embedding_->bias.sizes())
    throw InvalidArgument(fmt::format("new layer: {} and {} values are of another shape; it has {} and {}", values.weight.numel(),
                                      values.bias.numel(), embedding_->weight.numel(), embedding_->bias.numel()));
  const torch::NoGradGuard no_grad;
  embedding_->weight.copy_(values.weight);
  embedding_->bias.copy_(values.bias);
}

void EmbeddingModel::use_channels_last() {
  for (torch::Tensor& parameter : backbone_->parameters())
    if (parameter.dim() == 4) parameter.set_data(parameter.detach().contiguous(torch::MemoryFormat::ChannelsLast));
}

std::vector<std::string> backbone_names() { return {"googlenet", "small"}; }

std::shared_ptr<EmbeddingModel> make_model(const ModelOptions& options) {
  std::shared_ptr<Backbone> backbone;
  const Pooling pooling = pooling_of(options.pooling);
  if (options.backbone == "small") {
    if (pooling != Pooling::kAverage)
      throw InvalidArgument(
          fmt::format("pooling is '{}'; small does not pool its last layer, so it must be left at average", options.pooling));
    SmallConvnetOptions small{.seed = options.seed};
    if (options.input_size != 0) small.input_size = options.input_size;
    if (options.channels != 0) small.channels = options.channels;
    backbone = std::make_shared<SmallConvnet>(small);
  } else if (options.backbone == "googlenet") {
    backbone = options.input_size == 0 ? std::make_shared<GoogLeNet>(options.seed, pooling)
                                       : std::make_shared<GoogLeNet>(options.seed, pooling, options.input_size);
    const InputFormat& input = backbone->input();
    if (options.channels != 0 && options.channels != input.channels)
      throw InvalidArgument(fmt::format("channels is {}; googlenet takes {} only", options.channels, input.channels));
  } else {
    throw InvalidArgument(fmt::format("backbone is '{}'; it must be one of {}", options.backbone, fmt::join(backbone_names(), ", ")));
  }
  return std::make_shared<EmbeddingModel>(std::move(backbone), options.embedding_dimension, options.dropout, options.seed);
}

}  // namespace smartmine
