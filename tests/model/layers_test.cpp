#include "smartmine/model/layers.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <array>
#include <vector>

namespace smartmine {
namespace {

torch::Tensor random_images(std::int64_t channels, std::int64_t side, std::int64_t batch = 3) {
  return torch::randn({batch, channels, side, side}).contiguous(torch::MemoryFormat::ChannelsLast);
}

TEST(Layers, PutRectifiedConvolutionsSideBySide) {
  torch::manual_seed(1);
  const torch::Tensor x = random_images(8, 9), other = random_images(16, 9);
  const Convolution one{.weight = torch::randn({8, 8, 1, 1}), .bias = torch::randn({8})};
  const Convolution three{.weight = torch::randn({24, 16, 3, 3}), .bias = torch::randn({24}), .padding = 1};
  const std::array<Branch, 2> branches = {{{x, one}, {other, three}}};
  const torch::Tensor expected = torch::cat(
      {torch::relu(torch::conv2d(x, one.weight, one.bias)), torch::relu(torch::conv2d(other, three.weight, three.bias, 1, 1))}, 1);
  EXPECT_TRUE(torch::allclose(rectified(branches), expected));
  EXPECT_TRUE(torch::allclose(rectified(other, three), expected.narrow(1, 8, 24)));
}

TEST(Layers, PoolWindowsThatHangOverTheEdge) {
  torch::Tensor x = torch::zeros({1, 1, 4, 4});
  x[0][0][3][3] = 5;
  const torch::Tensor y = max_pool(x, 2, 0);
  EXPECT_EQ(y.sizes(), (torch::IntArrayRef{1, 1, 2, 2}));
  EXPECT_EQ(y[0][0][1][1].item<float>(), 5);
  EXPECT_EQ(y.sum().item<float>(), 5);
}

/// What a layer gives in bfloat16 and its gradients, against torch's own operations on the same values.
class OwnKernels : public testing::Test {
 protected:
  void SetUp() override {
    if (!torch::cuda::is_available()) GTEST_SKIP() << "needs a CUDA device";
    torch::manual_seed(7);
  }

  /// Values that bfloat16 has, channels last on the device, wanting a gradient.
  static torch::Tensor leaf(const torch::Tensor& values, torch::ScalarType type) {
    torch::Tensor x = values.to(torch::kBFloat16).to(torch::kCUDA, type);
    if (x.dim() == 4) x = x.contiguous(torch::MemoryFormat::ChannelsLast);
    return x.requires_grad_(true);
  }

  /// Layers map tensors to one. `reference_type` is what the reference's tensors have where ours have bfloat16. Every value may be off by a
  /// rounding of bfloat16, and by `tolerance` of the largest for its sums.
  template <class Layer, class Reference>
  static void expect_alike(const std::vector<torch::Tensor>& values, const std::vector<bool>& is_parameter, const Layer& layer,
                           const Reference& reference, torch::ScalarType reference_type, double tolerance) {
    std::vector<torch::Tensor> own, exact;
    for (std::size_t i = 0; i < values.size(); ++i) {
      own.push_back(leaf(values[i], is_parameter[i] ? torch::kFloat32 : torch::kBFloat16));
      exact.push_back(leaf(values[i], is_parameter[i] ? torch::kFloat32 : reference_type));
    }
    const torch::Tensor y = layer(own), expected = reference(exact);
    ASSERT_EQ(y.scalar_type(), torch::kBFloat16);
    ASSERT_EQ(y.sizes(), expected.sizes());
    expect_close(y, expected, tolerance, "output");
    const torch::Tensor gradient = torch::randn(y.sizes()).to(torch::kBFloat16).to(torch::kCUDA);
    y.backward(gradient);
    expected.backward(gradient.to(expected.scalar_type()));
    for (std::size_t i = 0; i < values.size(); ++i) expect_close(own[i].grad(), exact[i].grad(), tolerance, "gradient");
  }

  static void expect_close(const torch::Tensor& own, const torch::Tensor& exact, double tolerance, const char* what) {
    const torch::Tensor difference = (own.detach().to(torch::kFloat32) - exact.detach().to(torch::kFloat32)).abs();
    const torch::Tensor allowed =
        exact.detach().to(torch::kFloat32).abs() / 128 + tolerance * exact.detach().to(torch::kFloat32).abs().max();
    EXPECT_TRUE((difference <= allowed).all().item<bool>()) << what << " is off by up to " << difference.max().item<float>();
  }
};

TEST_F(OwnKernels, PoolAsTorchDoes) {
  for (const auto& [side, stride, padding] : {std::array{14, 2, 0}, std::array{15, 2, 0}, std::array{7, 1, 1}, std::array{114, 2, 0}}) {
    const auto pool = [&](auto& in) { return max_pool(in[0], stride, padding); };
    expect_alike({random_images(64, side)}, {false}, pool, pool, torch::kFloat32, 1e-6);
    // Equal values: the first of a window gets the gradient.
    expect_alike({random_images(24, side).round()}, {false}, pool, pool, torch::kFloat32, 1e-6);
  }
}

TEST_F(OwnKernels, RectifyAsTorchDoes) {
  const std::vector<torch::Tensor> values = {random_images(32, 13, 5), torch::randn({48, 32, 1, 1}) / 6,   torch::randn({48}),
                                             random_images(16, 13, 5), torch::randn({208, 16, 3, 3}) / 12, torch::randn({208})};
  const auto layer = [](const std::vector<torch::Tensor>& in) {
    const Convolution one{.weight = in[1], .bias = in[2]}, three{.weight = in[4], .bias = in[5], .padding = 1};
    const std::array<Branch, 2> branches = {{{in[0], one}, {in[3], three}}};
    return rectified(branches);
  };
  // From the same convolutions, so that the same values are cut off at 0.
  const auto reference = [](const std::vector<torch::Tensor>& in) {
    const auto part = [](const torch::Tensor& x, const torch::Tensor& weight, const torch::Tensor& bias, std::int64_t padding) {
      const torch::Tensor sum = torch::conv2d(x, weight.to(torch::kBFloat16), {}, 1, padding);
      return (sum.to(torch::kFloat32) + bias.view({1, -1, 1, 1})).relu().to(torch::kBFloat16);
    };
    return torch::cat({part(in[0], in[1], in[2], 0), part(in[3], in[4], in[5], 1)}, 1);
  };
  expect_alike(values, {false, true, true, false, true, true}, layer, reference, torch::kBFloat16, 1e-3);
}

TEST_F(OwnKernels, NormaliseAsTorchDoes) {
  const auto norm = [](auto& in) { return local_response_norm(in[0]); };
  for (const std::int64_t channels : {64, 192})
    expect_alike({60 * random_images(channels, 11)}, {false}, norm, norm, torch::kFloat32, 1e-3);
}

TEST_F(OwnKernels, GiveTheSameTwice) {
  const torch::Tensor values = random_images(64, 57, 8);
  const auto once = [&] {
    const torch::Tensor x = leaf(values, torch::kBFloat16), bias = leaf(torch::ones({64}), torch::kFloat32);
    const Convolution one{.weight = torch::eye(64).view({64, 64, 1, 1}).to(torch::kCUDA), .bias = bias};
    max_pool(local_response_norm(rectified(x, one)), 1, 1).square().sum().backward();
    return std::pair(x.grad(), bias.grad());
  };
  const auto first = once(), second = once();
  EXPECT_TRUE(torch::equal(first.first, second.first));
  EXPECT_TRUE(torch::equal(first.second, second.second));
}

}  // namespace
}  // namespace smartmine
