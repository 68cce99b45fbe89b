#include "smartmine/model/googlenet.h"

#include <cmath>

#include "smartmine/core/error.h"

namespace smartmine {
namespace {

constexpr std::uint64_t kStream = 0x676f6f;

/// Inception modules in order: channels in, then out of 1x1, 3x3_reduce, 3x3, 5x5_reduce, 5x5, pool_proj.
struct InceptionShape {
  const char* name;
  std::int64_t in;
  std::array<std::int64_t, 6> out;
};
constexpr std::array<InceptionShape, 9> kInceptions = {{{"inception_3a", 192, {64, 96, 128, 16, 32, 32}},
                                                        {"inception_3b", 256, {128, 128, 192, 32, 96, 64}},
                                                        {"inception_4a", 480, {192, 96, 208, 16, 48, 64}},
                                                        {"inception_4b", 512, {160, 112, 224, 24, 64, 64}},
                                                        {"inception_4c", 512, {128, 128, 256, 24, 64, 64}},
                                                        {"inception_4d", 512, {112, 144, 288, 32, 64, 64}},
                                                        {"inception_4e", 528, {256, 160, 320, 32, 128, 128}},
                                                        {"inception_5a", 832, {256, 160, 320, 32, 128, 128}},
                                                        {"inception_5b", 832, {384, 192, 384, 48, 128, 128}}}};
constexpr std::array<std::size_t, 2> kPoolAfter = {1, 6};  // 3b and 4e

}  // namespace

torch::Tensor GoogLeNet::Inception::operator()(const torch::Tensor& x) const {
  const std::array<Branch, 4> branches = {
      {{x, one}, {rectified(x, three_reduce), three}, {rectified(x, five_reduce), five}, {max_pool(x, 1, 1), pool}}};
  return rectified(branches);
}

Convolution GoogLeNet::add_convolution(const std::string& name, std::int64_t in, std::int64_t out, std::int64_t kernel, std::int64_t stride,
                                       Random& random) {
  // A bare module gives the parameters their Caffe names, "conv1/7x7_s2.weight".
  const auto layer = register_module(name, std::make_shared<torch::nn::Module>());
  const torch::Tensor weight = torch::empty({out, in, kernel, kernel});
  fill_normal(weight, std::sqrt(2.0 / static_cast<double>(in * kernel * kernel)), random);
  return {.weight = layer->register_parameter("weight", weight),
          .bias = layer->register_parameter("bias", torch::zeros({out})),
          .stride = stride,
          .padding = kernel / 2};
}

GoogLeNet::Inception GoogLeNet::add_inception(const std::string& name, std::int64_t in, const std::array<std::int64_t, 6>& out,
                                              Random& random) {
  return {.one = add_convolution(name + "/1x1", in, out[0], 1, 1, random),
          .three_reduce = add_convolution(name + "/3x3_reduce", in, out[1], 1, 1, random),
          .three = add_convolution(name + "/3x3", out[1], out[2], 3, 1, random),
          .five_reduce = add_convolution(name + "/5x5_reduce", in, out[3], 1, 1, random),
          .five = add_convolution(name + "/5x5", out[3], out[4], 5, 1, random),
          .pool = add_convolution(name + "/pool_proj", in, out[5], 1, 1, random)};
}

GoogLeNet::GoogLeNet(std::uint64_t seed, Pooling pooling, std::int64_t input_size)
    : Backbone("googlenet"),
      input_{.resize = std::max<std::int64_t>(256, input_size * 9 / 8),
             .size = input_size,
             .channels = 3,
             .bgr = true,
             .mean = {104, 117, 123}},
      pooling_(pooling) {
  if (input_size < 160 || input_size > 448)
    throw InvalidArgument("input_size is " + std::to_string(input_size) + "; googlenet takes 160 to 448");
  Random random(seed, kStream);
  conv1_ = add_convolution("conv1/7x7_s2", 3, 64, 7, 2, random);
  conv2_reduce_ = add_convolution("conv2/3x3_reduce", 64, 64, 1, 1, random);
  conv2_ = add_convolution("conv2/3x3", 64, 192, 3, 1, random);
  for (const InceptionShape& shape : kInceptions) inceptions_.push_back(add_inception(shape.name, shape.in, shape.out, random));
}

std::vector<std::string> GoogLeNet::left_out() const { return {"loss1/", "loss2/", "loss3/"}; }

torch::Tensor GoogLeNet::forward(const torch::Tensor& images) {
  torch::Tensor x = local_response_norm(max_pool(rectified(images, conv1_), 2, 0));
  x = max_pool(local_response_norm(rectified(rectified(x, conv2_reduce_), conv2_)), 2, 0);
  for (std::size_t i = 0; i < inceptions_.size(); ++i) {
    x = inceptions_[i](x);
    if (std::find(kPoolAfter.begin(), kPoolAfter.end(), i) != kPoolAfter.end()) x = max_pool(x, 2, 0);
  }
  return pool_all(x, pooling_);  // pool5 averages all of its 7x7 input
}

}  // namespace smartmine
