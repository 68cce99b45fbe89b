#include "smartmine/model/resnet.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "smartmine/core/error.h"

namespace smartmine {
namespace {

constexpr double kMomentum = 0.1;  // of the running averages
constexpr double kEpsilon = 1e-5;
constexpr std::uint64_t kStream = 0x726573;

struct Depth {
  std::int64_t layers;
  bool bottleneck;  // three convolutions a block, the last four times as wide
  std::array<std::int64_t, 4> blocks;
};
constexpr std::array<Depth, 2> kDepths = {{{18, false, {2, 2, 2, 2}}, {50, true, {3, 4, 6, 3}}}};
constexpr std::int64_t kBottleneck = 4;

const Depth* find_depth(std::int64_t layers) {
  const auto* const found = std::find_if(kDepths.begin(), kDepths.end(), [&](const Depth& depth) { return depth.layers == layers; });
  return found == kDepths.end() ? nullptr : found;
}

}  // namespace

InputFormat input_of(std::int64_t size, std::int64_t channels, const std::array<double, 3>& mean, const std::array<double, 3>& deviation) {
  constexpr double kMost = 255;
  InputFormat input{.resize = std::max<std::int64_t>(256, size * 9 / 8), .size = size, .channels = channels};
  for (std::size_t c = 0; c < mean.size(); ++c) {
    input.mean[c] = static_cast<float>(kMost * mean[c]);
    input.scale[c] = static_cast<float>(1 / (kMost * deviation[c]));
  }
  return input;
}

void ResNetOptions::validate() const {
  if (find_depth(layers) == nullptr) throw InvalidArgument(fmt::format("layers is {}; it must be 18 or 50", layers));
  if (input_size < 64 || input_size > 448)
    throw InvalidArgument(fmt::format("input_size is {}; resnet{} takes 64 to 448", input_size, layers));
}

ResNet::Layer ResNet::add_layer(const std::string& convolution, const std::string& norm, const std::array<std::int64_t, 4>& shape,
                                Random& random) {
  const auto [in, out, kernel, stride] = shape;
  const torch::Tensor filters = torch::empty({out, in, kernel, kernel});
  fill_normal(filters, std::sqrt(2.0 / static_cast<double>(out * kernel * kernel)), random);
  return {.filters = add_parameter(convolution + ".weight", filters),
          .norm_weight = add_parameter(norm + ".weight", torch::ones({out})),
          .norm_bias = add_parameter(norm + ".bias", torch::zeros({out})),
          .running_mean = add_buffer(norm + ".running_mean", torch::zeros({out})),
          .running_variance = add_buffer(norm + ".running_var", torch::ones({out})),
          .stride = stride,
          .padding = kernel / 2};
}

ResNet::Block ResNet::add_block(const std::string& name, std::int64_t in, std::int64_t width, std::int64_t stride, Random& random) {
  Block block;
  const auto add = [&](std::int64_t from, std::int64_t to, std::int64_t kernel, std::int64_t step) {
    const std::string number = std::to_string(block.layers.size() + 1);
    block.layers.push_back(add_layer(name + ".conv" + number, name + ".bn" + number, {from, to, kernel, step}, random));
  };
  const bool bottleneck = find_depth(options_.layers)->bottleneck;
  const std::int64_t out = bottleneck ? kBottleneck * width : width;
  if (bottleneck) {
    add(in, width, 1, 1);
    add(width, width, 3, stride);
    add(width, out, 1, 1);
  } else {
    add(in, width, 3, stride);
    add(width, width, 3, 1);
  }
  if (stride != 1 || in != out)
    block.shortcut.push_back(add_layer(name + ".downsample.0", name + ".downsample.1", {in, out, 1, stride}, random));
  return block;
}

ResNet::ResNet(const ResNetOptions& options)
    : Backbone("resnet" + std::to_string(options.layers)),
      options_(options),
      input_(input_of(options.input_size, 3, options.mean, options.deviation)) {
  options_.validate();
  const Depth& depth = *find_depth(options.layers);
  Random random(options.seed, kStream);
  constexpr std::int64_t kStem = 64;
  stem_.push_back(add_layer("conv1", "bn1", {3, kStem, 7, 2}, random));
  std::int64_t in = kStem;
  for (std::size_t stage = 0; stage < depth.blocks.size(); ++stage) {
    const std::int64_t width = kStem << stage;
    for (std::int64_t i = 0; i < depth.blocks[stage]; ++i) {
      const std::int64_t stride = stage > 0 && i == 0 ? 2 : 1;
      blocks_.push_back(add_block("layer" + std::to_string(stage + 1) + "." + std::to_string(i), in, width, stride, random));
      in = depth.bottleneck ? kBottleneck * width : width;
    }
  }
  feature_dimension_ = in;
}

namespace {

/// With stored averages a batch norm only scales and shifts, so it goes into the convolution's filters and bias. That is one pass over the
/// activations less, and gradients reach all parameters through it.
template <class Layer>
Convolution folded(const Layer& layer) {
  const torch::Tensor scale = layer.norm_weight * (layer.running_variance + kEpsilon).rsqrt();
  return {.weight = layer.filters * scale.view({-1, 1, 1, 1}),
          .bias = layer.norm_bias - layer.running_mean * scale,
          .stride = layer.stride,
          .padding = layer.padding};
}

}  // namespace

torch::Tensor ResNet::normed(const torch::Tensor& x, const Layer& layer) const {
  const auto type = x.scalar_type();
  if (!norms_of_batches()) {
    const Convolution convolution = folded(layer);
    return torch::conv2d(x, convolution.weight.to(type), convolution.bias.to(type), layer.stride, layer.padding);
  }
  const torch::Tensor sums = torch::conv2d(x, layer.filters.to(type), {}, layer.stride, layer.padding);
  // The averages are taken in the parameters' own type, which has room for them.
  return torch::batch_norm(sums.to(layer.norm_weight.scalar_type()), layer.norm_weight, layer.norm_bias, layer.running_mean,
                           layer.running_variance, /*training=*/true, kMomentum, kEpsilon, /*cudnn_enabled=*/true)
      .to(type);
}

torch::Tensor ResNet::rectified_layer(const torch::Tensor& x, const Layer& layer) const {
  return norms_of_batches() ? normed(x, layer).relu_() : rectified(x, folded(layer));
}

torch::Tensor ResNet::forward(const torch::Tensor& images) {
  torch::Tensor x = rectified_layer(images, stem_.front());
  x = torch::max_pool2d(x, 3, 2, 1);
  for (const Block& block : blocks_) {
    torch::Tensor sum = x;
    for (std::size_t i = 0; i + 1 < block.layers.size(); ++i) sum = rectified_layer(sum, block.layers[i]);
    sum = normed(sum, block.layers.back());
    x = sum.add_(block.shortcut.empty() ? x : normed(x, block.shortcut.front())).relu_();
  }
  return pool_all(x, options_.pooling);
}

}  // namespace smartmine
