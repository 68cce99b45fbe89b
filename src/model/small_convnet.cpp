#include "smartmine/model/small_convnet.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

#include "smartmine/core/error.h"

namespace smartmine {
namespace {

constexpr double kMomentum = 0.1;  // of the running averages
constexpr double kEpsilon = 1e-5;
constexpr std::uint64_t kStream = 0x7363;

struct Shape {
  std::int64_t filters, kernel, stride;
};
constexpr std::array<Shape, 4> kShapes = {{{32, 5, 2}, {64, 3, 2}, {128, 3, 2}, {128, 3, 1}}};

}  // namespace

void SmallConvnetOptions::validate() const {
  if (input_size < 16 || input_size > 256) throw InvalidArgument(fmt::format("input_size is {}; it must be from 16 to 256", input_size));
  if (channels != 1 && channels != 3) throw InvalidArgument(fmt::format("channels is {}; it must be 1 or 3", channels));
}

SmallConvnet::SmallConvnet(const SmallConvnetOptions& options) : Backbone("small") {
  options.validate();
  constexpr float kMiddle = 127.5F;
  const float zero = options.channels == 1 ? 255.0F : kMiddle;
  input_ = {.resize = options.input_size,
            .size = options.input_size,
            .channels = options.channels,
            .mean = {zero, zero, zero},
            .scale = {1 / kMiddle, 1 / kMiddle, 1 / kMiddle}};
  Random random(options.seed, kStream);
  std::int64_t in = options.channels;
  std::int64_t side = options.input_size;
  for (const Shape& shape : kShapes) {
    const std::string number = std::to_string(layers_.size() + 1);
    Layer layer{.filters = torch::empty({shape.filters, in, shape.kernel, shape.kernel}),
                .norm_weight = torch::ones({shape.filters}),
                .norm_bias = torch::zeros({shape.filters}),
                .running_mean = torch::zeros({shape.filters}),
                .running_variance = torch::ones({shape.filters}),
                .stride = shape.stride,
                .padding = shape.kernel / 2};
    fill_normal(layer.filters, std::sqrt(2.0 / static_cast<double>(in * shape.kernel * shape.kernel)), random);
    // Bare modules give the parameters their names: "conv1.weight", "norm1.weight", "norm1.bias", "norm1.running_mean",
    // "norm1.running_var".
    layer.filters = register_module("conv" + number, std::make_shared<torch::nn::Module>())->register_parameter("weight", layer.filters);
    const auto norm = register_module("norm" + number, std::make_shared<torch::nn::Module>());
    layer.norm_weight = norm->register_parameter("weight", layer.norm_weight);
    layer.norm_bias = norm->register_parameter("bias", layer.norm_bias);
    layer.running_mean = norm->register_buffer("running_mean", layer.running_mean);
    layer.running_variance = norm->register_buffer("running_var", layer.running_variance);
    layers_.push_back(std::move(layer));
    in = shape.filters;
    side = (side + shape.stride - 1) / shape.stride;
  }
  feature_dimension_ = in * side * side;
}

torch::Tensor SmallConvnet::forward(const torch::Tensor& images) {
  torch::Tensor x = images;
  for (const Layer& layer : layers_) {
    const auto type = x.scalar_type();
    x = torch::conv2d(x, layer.filters.to(type), {}, layer.stride, layer.padding);
    // The averages are taken in the parameters' own type, which has room for them.
    x = torch::batch_norm(x.to(layer.norm_weight.scalar_type()), layer.norm_weight, layer.norm_bias, layer.running_mean,
                          layer.running_variance, is_training(), kMomentum, kEpsilon, /*cudnn_enabled=*/true)
            .relu_()
            .to(type);
  }
  const auto type = x.scalar_type() == torch::kFloat64 ? torch::kFloat64 : torch::kFloat32;
  return x.flatten(1).to(type);
}

}  // namespace smartmine
