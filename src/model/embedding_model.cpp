#include "smartmine/model/embedding_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "smartmine/core/error.h"
#include "smartmine/core/rows.h"
#include "smartmine/model/googlenet.h"
#include "smartmine/model/resnet.h"
#include "smartmine/model/scripted_network.h"
#include "smartmine/model/small_convnet.h"
#include "smartmine/run/backbone_traits.h"

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

namespace {

/// Mean and deviation of the input: those given, or ImageNet's.
std::pair<std::array<double, 3>, std::array<double, 3>> normalisation(const ModelOptions& options) {
  return {options.input_mean.empty() ? kImageNetMean : parse_mean("input-mean", options.input_mean),
          options.input_deviation.empty() ? kImageNetDeviation : parse_deviation("input_deviation", options.input_deviation)};
}

std::shared_ptr<Backbone> make_backbone(const ModelOptions& options, Pooling pooling) {
  if (options.backbone == "small") {
    SmallConvnetOptions small{.seed = options.seed};
    if (options.input_size != 0) small.input_size = options.input_size;
    if (options.channels != 0) small.channels = options.channels;
    return std::make_shared<SmallConvnet>(small);
  }
  const BackboneTraits& traits = *known_backbone(options.backbone);
  const std::int64_t size = options.input_size != 0 ? options.input_size : traits.input_size;
  if (options.backbone == "googlenet") return std::make_shared<GoogLeNet>(options.seed, pooling, size);
  const auto [mean, deviation] = normalisation(options);
  if (is_backbone_file(options.backbone))
    return std::make_shared<ScriptedNetwork>(ScriptedNetworkOptions{.path = options.backbone,
                                                                    .input_size = size,
                                                                    .channels = options.channels == 0 ? 3 : options.channels,
                                                                    .mean = mean,
                                                                    .deviation = deviation,
                                                                    .frozen_norms = options.frozen_norms,
                                                                    .device = options.device});
  return std::make_shared<ResNet>(ResNetOptions{.layers = options.backbone == "resnet18" ? 18 : 50,
                                                .pooling = pooling,
                                                .input_size = size,
                                                .mean = mean,
                                                .deviation = deviation,
                                                .frozen_norms = options.frozen_norms,
                                                .seed = options.seed});
}

}  // namespace

std::shared_ptr<EmbeddingModel> make_model(const ModelOptions& options) {
  const Pooling pooling = pooling_of(options.pooling);
  const BackboneTraits* const traits = known_backbone(options.backbone);
  if (traits == nullptr)
    throw InvalidArgument(fmt::format("backbone is '{}'; it must be one of {}, or a TorchScript file, such as net.pt", options.backbone,
                                      fmt::join(backbone_names(), ", ")));
  if (pooling != Pooling::kAverage && !traits->pools)
    throw InvalidArgument(
        fmt::format("pooling is '{}'; {} does not pool its last layer, so it must be left at average", options.pooling, traits->name));
  if (!traits->takes_mean && !(options.input_mean.empty() && options.input_deviation.empty()))
    throw InvalidArgument(fmt::format("input_mean is '{}', input_deviation '{}'; {} has its own, so they must be empty", options.input_mean,
                                      options.input_deviation, traits->name));
  if (options.channels != 0 && options.channels != 3 && !traits->grey)
    throw InvalidArgument(fmt::format("channels is {}; {} takes 3 only", options.channels, traits->name));
  return std::make_shared<EmbeddingModel>(make_backbone(options, pooling), options.embedding_dimension, options.dropout, options.seed);
}

}  // namespace smartmine
