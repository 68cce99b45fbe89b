#include "smartmine/train/augment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <map>
#include <set>
#include <vector>

#include "model/cuda/cut_pixel.h"
#include "smartmine/core/error.h"
#include "smartmine/core/random.h"
#include "train/shards.h"

namespace smartmine {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
using Keys = std::vector<std::uint64_t>;

constexpr std::int64_t kHeight = 12, kWidth = 14, kSize = 8;
const InputFormat kPlain{.size = kSize, .channels = 3};

/// Red is the column, green the row, blue the image (as far as a byte goes), all times 10.
torch::Tensor coordinates(std::int64_t count) {
  torch::Tensor images = torch::empty({count, kHeight, kWidth, 3}, torch::kUInt8);
  images.select(3, 0).copy_((torch::arange(kWidth) * 10).view({1, 1, -1}).expand({count, kHeight, kWidth}));
  images.select(3, 1).copy_((torch::arange(kHeight) * 10).view({1, -1, 1}).expand({count, kHeight, kWidth}));
  images.select(3, 2).copy_((torch::arange(count) * 10).view({-1, 1, 1}).expand({count, kHeight, kWidth}));
  return images;
}

float at(const torch::Tensor& out, std::int64_t image, std::int64_t channel, std::int64_t y, std::int64_t x) {
  return out[image][channel][y][x].item<float>();
}

TEST(Augmenter, CutsTheMiddleForEvaluation) {
  const torch::Tensor out = Augmenter(kPlain, {}).evaluation(coordinates(2));
  EXPECT_EQ(out.sizes(), (std::vector<std::int64_t>{2, 3, kSize, kSize}));
  EXPECT_TRUE(out.is_contiguous());
  EXPECT_EQ(at(out, 0, 0, 0, 0), 30);  // (14 - 8) / 2
  EXPECT_EQ(at(out, 0, 1, 0, 0), 20);
  EXPECT_EQ(at(out, 1, 0, 7, 7), 100);
  EXPECT_EQ(at(out, 1, 2, 3, 3), 10);
}

TEST(Augmenter, EvaluatesOnAnotherSizeIfAskedTo) {
  const Augmenter augmenter(kPlain, {.evaluation_size = 12});
  const torch::Tensor out = augmenter.evaluation(coordinates(2));
  EXPECT_EQ(out.sizes(), (std::vector<std::int64_t>{2, 3, 12, 12}));
  EXPECT_EQ(at(out, 0, 0, 0, 0), 10);  // (14 - 12) / 2
  EXPECT_EQ(at(out, 0, 1, 0, 0), 0);
  EXPECT_EQ(augmenter.training(coordinates(2), 1, Keys{1, 2}).size(2), kSize);
  EXPECT_THAT([&] { Augmenter(kPlain, {.evaluation_size = 13}).evaluation(coordinates(1)); },
              ThrowsMessage<InvalidArgument>(HasSubstr("H and W at least 13")));
  EXPECT_THAT([&] { Augmenter(kPlain, {.evaluation_size = -1}); }, ThrowsMessage<InvalidArgument>(HasSubstr("evaluation_size is -1")));
}

TEST(Augmenter, PreparesValuesAsTheNetworkWantsThem) {
  InputFormat input = kPlain;
  input.bgr = true;
  input.mean = {1, 2, 3};
  input.scale = {0.5F, 0.25F, 2};
  const torch::Tensor out = Augmenter(input, {}).evaluation(coordinates(2));
  EXPECT_EQ(at(out, 1, 0, 0, 0), (10 - 1) * 0.5);  // blue first
  EXPECT_EQ(at(out, 1, 1, 0, 0), (20 - 2) * 0.25);
  EXPECT_EQ(at(out, 1, 2, 0, 0), (30 - 3) * 2);
  EXPECT_EQ(Augmenter(input, {}).evaluation(coordinates(1), torch::kBFloat16).scalar_type(), torch::kBFloat16);
}

TEST(Augmenter, RandomCropsAreExactPiecesAndReachEveryPlace) {
  constexpr std::int64_t kCount = 500;
  Keys keys(kCount);
  for (std::size_t i = 0; i < keys.size(); ++i) keys[i] = i;
  const torch::Tensor out = Augmenter(kPlain, {.crop = Crop::kRandom}).training(coordinates(kCount), 1, keys);
  std::set<std::pair<float, float>> corners;
  int flipped = 0;
  for (std::int64_t i = 0; i < kCount; ++i) {
    const bool mirrored = at(out, i, 0, 0, 0) > at(out, i, 0, 0, 1);
    flipped += mirrored ? 1 : 0;
    const float left = at(out, i, 0, 0, mirrored ? kSize - 1 : 0);
    const float top = at(out, i, 1, 0, 0);
    corners.emplace(left, top);
    for (std::int64_t x = 0; x < kSize; ++x) EXPECT_EQ(at(out, i, 0, 3, mirrored ? kSize - 1 - x : x), left + 10 * static_cast<float>(x));
    for (std::int64_t y = 0; y < kSize; ++y) EXPECT_EQ(at(out, i, 1, y, 2), top + 10 * static_cast<float>(y));
  }
  EXPECT_EQ(corners.size(), 7U * 5U);
  EXPECT_GT(flipped, 200);
  EXPECT_LT(flipped, 300);
}

TEST(Augmenter, ResizedCropsAreStraightPiecesOfTheRightArea) {
  constexpr std::int64_t kCount = 300;
  Keys keys(kCount);
  for (std::size_t i = 0; i < keys.size(); ++i) keys[i] = 1000 + i;
  const AugmentOptions options{.crop = Crop::kRandomResized, .min_area = 0.3, .max_area = 0.6, .flip = false};
  const torch::Tensor out = Augmenter(kPlain, options).training(coordinates(kCount), 1, keys);
  double smallest = 1, largest = 0;
  for (std::int64_t i = 0; i < kCount; ++i) {
    // Away from the border, where pixels are repeated, values rise evenly: by the piece's width over the crop's.
    const double width = (at(out, i, 0, 4, 5) - at(out, i, 0, 4, 2)) / 3 / 10 * kSize;
    const double height = (at(out, i, 1, 5, 4) - at(out, i, 1, 2, 4)) / 3 / 10 * kSize;
    const double area = width * height / (kWidth * kHeight);
    smallest = std::min(smallest, area);
    largest = std::max(largest, area);
    EXPECT_GT(width / height, 0.74);
    EXPECT_LT(width / height, 1.35);
    EXPECT_NEAR(at(out, i, 0, 4, 4) - at(out, i, 0, 4, 3), at(out, i, 0, 4, 3) - at(out, i, 0, 4, 2), 1e-3);
    EXPECT_GE(at(out, i, 0, 0, 0), 0);
    EXPECT_LE(at(out, i, 0, 0, kSize - 1), 10 * (kWidth - 1) + 1e-3);
  }
  EXPECT_GT(smallest, 0.29);
  EXPECT_LT(smallest, 0.33);
  EXPECT_GT(largest, 0.56);
  EXPECT_LT(largest, 0.61);
}

TEST(Augmenter, AWholeResizedImageIsItself) {
  const InputFormat input{.size = 12, .channels = 1};
  const torch::Tensor image = (torch::arange(144) % 251).to(torch::kUInt8).view({1, 12, 12, 1});
  const AugmentOptions options{.crop = Crop::kRandomResized, .min_area = 1, .max_area = 1, .max_aspect = 1, .flip = false};
  const torch::Tensor out = Augmenter(input, options).training(image, 1, Keys{5});
  EXPECT_LT((out.view({-1}) - image.view({-1}).to(torch::kFloat32)).abs().max().item<float>(), 1e-2);
}

TEST(Turned, ImagesAreTurnedEachByItsOwnNumberOfQuarters) {
  const torch::Tensor images = torch::arange(6 * 9).to(torch::kUInt8).view({6, 3, 3, 1});
  const torch::Tensor out = turned(images, std::vector<std::int64_t>{0, 1, 2, 3, 4, 1});
  const std::vector<std::vector<std::int64_t>> corners = {{0, 2}, {2, 8}, {8, 6}, {6, 0}, {0, 2}, {2, 8}};  // the top ones, before
  for (std::int64_t i = 0; i < 6; ++i) {
    EXPECT_EQ(out[i][0][0][0].item<std::int64_t>(), 9 * i + corners[static_cast<std::size_t>(i)][0]) << i;
    EXPECT_EQ(out[i][0][2][0].item<std::int64_t>(), 9 * i + corners[static_cast<std::size_t>(i)][1]) << i;
    EXPECT_EQ(out[i][1][1][0].item<std::int64_t>(), 9 * i + 4) << i;
  }
  EXPECT_THAT([&] { turned(images, std::vector<std::int64_t>{1}); }, ThrowsMessage<InvalidArgument>(HasSubstr("with 1 turns")));
  EXPECT_THROW(turned(coordinates(1), std::vector<std::int64_t>{1}), InvalidArgument);
}

TEST(Turned, BatchesTurnAsAWholeOrClassByClass) {
  const std::vector<std::uint32_t> classes = {7, 7, 3, 3, 9, 9, 1, 1, 2, 2, 4, 4}, others = {3, 8, 7};
  std::set<std::int64_t> whole;
  std::map<std::uint32_t, std::set<std::int64_t>> of_class;
  std::size_t mixed = 0;
  for (std::size_t batch = 0; batch < 40; ++batch) {
    const auto alike = draw_turns(/*by_class=*/false, 5, batch, classes), apart = draw_turns(/*by_class=*/true, 5, batch, classes);
    EXPECT_EQ(std::set<std::int64_t>(alike.begin(), alike.end()).size(), 1U);
    whole.insert(alike[0]);
    for (std::size_t i = 0; i < classes.size(); ++i) {
      EXPECT_EQ(apart[i], apart[i / 2 * 2]);  // images of a class stay together
      of_class[classes[i]].insert(apart[i]);
    }
    mixed += std::set<std::int64_t>(apart.begin(), apart.end()).size() > 1;
    const auto again = draw_turns(/*by_class=*/true, 5, batch, others);  // in another shard
    EXPECT_EQ(again[0], apart[2]);
    EXPECT_EQ(again[2], apart[0]);
  }
  EXPECT_EQ(whole, (std::set<std::int64_t>{0, 1, 2, 3}));
  for (const auto& [of, turns] : of_class) EXPECT_EQ(turns, (std::set<std::int64_t>{0, 1, 2, 3})) << of;
  EXPECT_GT(mixed, 35U);
}

TEST(Augmenter, WhatIsDrawnDependsOnSeedEpochAndKeyAlone) {
  const torch::Tensor images = coordinates(1).expand({6, kHeight, kWidth, 3}).contiguous();
  for (const Crop crop : {Crop::kRandom, Crop::kRandomResized}) {
    const Augmenter augmenter(kPlain, {.crop = crop, .seed = 3});
    const torch::Tensor out = augmenter.training(images, 2, Keys{10, 11, 12, 13, 14, 15});
    EXPECT_TRUE(out.equal(augmenter.training(images, 2, Keys{10, 11, 12, 13, 14, 15})));
    // In another batch, at another place.
    EXPECT_TRUE(out.narrow(0, 3, 2).equal(augmenter.training(images.narrow(0, 0, 2), 2, Keys{13, 14})));
    EXPECT_FALSE(out.equal(augmenter.training(images, 3, Keys{10, 11, 12, 13, 14, 15})));
    EXPECT_FALSE(out.equal(Augmenter(kPlain, {.crop = crop, .seed = 4}).training(images, 2, Keys{10, 11, 12, 13, 14, 15})));
    const int threads = torch::get_num_threads();
    torch::set_num_threads(1);
    EXPECT_TRUE(out.equal(augmenter.training(images, 2, Keys{10, 11, 12, 13, 14, 15})));
    torch::set_num_threads(threads);
  }
}

/// An image, three values a pixel, by plain loops: brightness, contrast about the mean grey, saturation about each pixel's own.
std::vector<double> jittered(const std::vector<double>& rgb, const std::vector<double>& f) {
  const auto clamp = [](double value) { return std::min(255.0, std::max(0.0, value)); };
  const auto grey = [](const double* p) { return 0.299 * p[0] + 0.587 * p[1] + 0.114 * p[2]; };
  std::vector<double> out = rgb;
  for (double& value : out) value = clamp(value * f[0]);
  double mean = 0;
  for (std::size_t i = 0; i < out.size(); i += 3) mean += grey(&out[i]) / (static_cast<double>(out.size()) / 3);
  for (double& value : out) value = clamp(mean + f[1] * (value - mean));
  for (std::size_t i = 0; i < out.size(); i += 3) {
    const double own = grey(&out[i]);
    for (std::size_t c = 0; c < 3; ++c) out[i + c] = clamp(own + f[2] * (out[i + c] - own));
  }
  return out;
}

TEST(Augmenter, JittersBrightnessContrastAndSaturation) {
  constexpr std::int64_t kCount = 40;
  Keys keys(kCount);
  for (std::size_t i = 0; i < keys.size(); ++i) keys[i] = i;
  for (const Crop crop : {Crop::kCentre, Crop::kRandomResized}) {
    const AugmentOptions plain{.crop = crop, .min_area = 0.5, .seed = 9};
    AugmentOptions changed = plain;
    changed.colour_jitter = 0.4;
    const torch::Tensor before = Augmenter(kPlain, plain).training(coordinates(kCount), 3, keys).permute({0, 2, 3, 1}).contiguous();
    const torch::Tensor after = Augmenter(kPlain, changed).training(coordinates(kCount), 3, keys).permute({0, 2, 3, 1}).contiguous();
    EXPECT_LE(after.max().item<float>(), 255);
    EXPECT_GE(after.min().item<float>(), 0);
    std::set<float> brightness;
    for (std::int64_t i = 0; i < kCount; ++i) {
      // What was drawn is keyed as crops are, from a stream of its own.
      Random random(std::uint64_t{9} ^ 0x6a69747465720000, 3, keys[static_cast<std::size_t>(i)]);
      std::vector<double> factors;
      for (int f = 0; f < 3; ++f) factors.push_back(0.6 + 0.8 * random.uniform());
      const torch::Tensor image = before[i].to(torch::kFloat64).contiguous();
      const std::vector<double> expected =
          jittered(std::vector<double>(image.data_ptr<double>(), image.data_ptr<double>() + image.numel()), factors);
      const torch::Tensor got = after[i].to(torch::kFloat64).contiguous();
      for (std::int64_t p = 0; p < got.numel(); ++p)
        ASSERT_NEAR(got.data_ptr<double>()[p], expected[static_cast<std::size_t>(p)], 0.02) << "image " << i << ", value " << p;
      brightness.insert(after[i].mean().item<float>());
    }
    EXPECT_GT(brightness.size(), 30U);
    // In another batch, at another place.
    EXPECT_TRUE(Augmenter(kPlain, changed)
                    .training(coordinates(kCount).narrow(0, 7, 2), 3, Keys{7, 8})
                    .permute({0, 2, 3, 1})
                    .equal(after.narrow(0, 7, 2)));
    EXPECT_FALSE(after.equal(Augmenter(kPlain, changed).training(coordinates(kCount), 4, keys).permute({0, 2, 3, 1})));
    // Evaluation sees images as they are.
    EXPECT_TRUE(Augmenter(kPlain, changed).evaluation(coordinates(2)).equal(Augmenter(kPlain, plain).evaluation(coordinates(2))));
  }
}

TEST(Augmenter, JittersGreyImagesWithoutSaturation) {
  const InputFormat input{.size = 8, .channels = 1};
  const torch::Tensor image = (torch::arange(64) * 2 + 40).to(torch::kUInt8).view({1, 8, 8, 1});
  const AugmentOptions options{.crop = Crop::kCentre, .flip = false, .colour_jitter = 0.3, .seed = 4};
  const torch::Tensor out = Augmenter(input, options).training(image, 1, Keys{6}).view({-1}).to(torch::kFloat64);
  Random random(std::uint64_t{4} ^ 0x6a69747465720000, 1, 6);
  const double brightness = 0.7 + 0.6 * random.uniform(), contrast = 0.7 + 0.6 * random.uniform();
  const torch::Tensor bright = (image.view({-1}).to(torch::kFloat64) * brightness).clamp(0, 255);
  const torch::Tensor expected = (bright.mean() + contrast * (bright - bright.mean())).clamp(0, 255);
  EXPECT_LT((out - expected).abs().max().item<double>(), 0.02);
}

/// An input made pixel by pixel with the functions that the kernels of a GPU are made of.
torch::Tensor cut_by_pixels(const torch::Tensor& images, const cuda::CutShape& shape, const cuda::CutPlan& plan,
                            const std::vector<float>& factors) {
  torch::Tensor result = torch::empty({images.size(0), 3, shape.size, shape.size});
  for (std::int64_t image = 0; image < images.size(0); ++image) {
    const auto* pixels = images[image].data_ptr<std::uint8_t>();
    float middle = 0;
    for (int row = 0; row < shape.size; ++row)
      for (int column = 0; column < shape.size; ++column)
        middle += cuda::grey_of(cuda::away_from(0, cuda::sample(pixels, shape, plan, row, column), factors[0])) /
                  static_cast<float>(shape.size * shape.size);
    for (int row = 0; row < shape.size; ++row) {
      for (int column = 0; column < shape.size; ++column) {
        const cuda::Colour colour = cuda::jitter(cuda::sample(pixels, shape, plan, row, column), factors.data(), middle);
        const cuda::Colour input = cuda::as_input(colour, shape);
        for (int c = 0; c < 3; ++c) result[image][c][row][column] = input.v[c];
      }
    }
  }
  return result;
}

TEST(CutPixels, InterpolateAsTorchDoes) {
  torch::manual_seed(3);
  const torch::Tensor images = torch::randint(256, {2, kHeight, kWidth, 3}, torch::kUInt8);
  const cuda::CutShape shape{
      .height = kHeight, .width = kWidth, .size = kSize, .interpolate = true, .bgr = false, .mean = {}, .scale = {1, 1, 1}};
  for (const cuda::CutPlan plan : {cuda::CutPlan{0.4F, 1.7F, 0.6F, 1.4F}, cuda::CutPlan{13.8F, -1.7F, 0.1F, 1.69F}}) {
    const torch::Tensor steps = torch::arange(kSize, torch::kFloat32);
    const torch::Tensor x = (plan.x + steps * plan.step_x) * (2.0 / kWidth) - 1, y = (plan.y + steps * plan.step_y) * (2.0 / kHeight) - 1;
    const torch::Tensor grid = torch::stack({x.view({1, -1}).expand({kSize, kSize}), y.view({-1, 1}).expand({kSize, kSize})}, 2);
    const torch::Tensor expected =
        torch::grid_sampler(images.permute({0, 3, 1, 2}).to(torch::kFloat32), grid.unsqueeze(0).expand({2, kSize, kSize, 2}), 0, 1, false);
    EXPECT_TRUE(torch::allclose(cut_by_pixels(images, shape, plan, {1, 1, 1}), expected, 1e-4, 1e-2));
  }
}

TEST(CutPixels, AreTheMiddleOfTheImageAsTheEvaluationHasIt) {
  InputFormat input = kPlain;
  input.bgr = true;
  input.mean = {1, 2, 3};
  input.scale = {0.5F, 0.25F, 2};
  const cuda::CutShape shape{
      .height = kHeight, .width = kWidth, .size = kSize, .interpolate = false, .bgr = true, .mean = {1, 2, 3}, .scale = {0.5F, 0.25F, 2}};
  EXPECT_TRUE(
      torch::allclose(cut_by_pixels(coordinates(2), shape, {3, 1, 2, 1}, {1, 1, 1}), Augmenter(input, {}).evaluation(coordinates(2))));
}

TEST(CutPixels, ChangeBrightnessThenContrastThenSaturation) {
  const cuda::Colour colour{{100, 200, 50}};
  const float factors[3] = {1.2F, 0.5F, 0.8F};
  const cuda::Colour result = cuda::jitter(colour, factors, 90);
  // 120, 240, 60; 105, 165, 75; grey of these is 136.8.
  EXPECT_NEAR(result.v[0], 136.8 + (105 - 136.8) * 0.8, 1e-3);
  EXPECT_NEAR(result.v[1], 136.8 + (165 - 136.8) * 0.8, 1e-3);
  EXPECT_NEAR(result.v[2], 136.8 + (75 - 136.8) * 0.8, 1e-3);
}

TEST(Augmenter, GivesTheSameOnAGpuInBfloat16) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "needs a CUDA device";
  torch::manual_seed(3);
  const torch::Tensor images = torch::randint(256, {5, 40, 44, 3}, torch::kUInt8);
  InputFormat input{.size = 32, .channels = 3, .bgr = true, .mean = {104, 117, 123}};
  for (const Crop crop : {Crop::kCentre, Crop::kRandom, Crop::kRandomResized}) {
    for (const double colour_jitter : {0.0, 0.4}) {
      const Augmenter augmenter(input, {.crop = crop, .colour_jitter = colour_jitter});
      const Keys keys = {4, 8, 15, 16, 23};
      const torch::Tensor expected = augmenter.training(images, 2, keys);
      const torch::Tensor own = augmenter.training(images.to(torch::kCUDA), 2, keys, torch::kBFloat16);
      EXPECT_TRUE(own.is_contiguous(torch::MemoryFormat::ChannelsLast));
      EXPECT_LE((own.to(torch::kCPU, torch::kFloat32) - expected).abs().max().item<float>(), 0.51F);  // half a step of bfloat16 at 128
      EXPECT_LE(
          (augmenter.evaluation(images.to(torch::kCUDA), torch::kBFloat16).to(torch::kCPU, torch::kFloat32) - augmenter.evaluation(images))
              .abs()
              .max()
              .item<float>(),
          0.51F);
    }
  }
}

TEST(Augmenter, NamesBadArguments) {
  const auto made = [](AugmentOptions options) { return [options] { Augmenter(kPlain, options); }; };
  EXPECT_THAT(made({.min_area = 0}), ThrowsMessage<InvalidArgument>(HasSubstr("min_area is 0")));
  EXPECT_THAT(made({.min_area = 0.5, .max_area = 0.4}), ThrowsMessage<InvalidArgument>(HasSubstr("min_area is 0.5")));
  EXPECT_THAT(made({.max_area = 1.5}), ThrowsMessage<InvalidArgument>(HasSubstr("max_area is 1.5")));
  EXPECT_THAT(made({.colour_jitter = 1.5}), ThrowsMessage<InvalidArgument>(HasSubstr("colour_jitter is 1.5; it must be from 0 to 1")));
  EXPECT_THAT(made({.max_aspect = 0.5}), ThrowsMessage<InvalidArgument>(HasSubstr("max_aspect is 0.5")));
  const Augmenter augmenter(kPlain, {});
  EXPECT_THAT(
      [&] {
        augmenter.evaluation(torch::zeros({1, 4, 4, 3}, torch::kUInt8));
      },
      ThrowsMessage<InvalidArgument>(HasSubstr("[1, 4, 4, 3]")));
  EXPECT_THAT(
      [&] {
        augmenter.evaluation(torch::zeros({1, 9, 9, 1}, torch::kUInt8));
      },
      ThrowsMessage<InvalidArgument>(HasSubstr("[1, 9, 9, 1]")));
  EXPECT_THAT([&] { augmenter.evaluation(torch::zeros({1, 9, 9, 3})); }, ThrowsMessage<InvalidArgument>(HasSubstr("Float")));
  EXPECT_THAT([&] { augmenter.training(coordinates(2), 1, Keys{1}); }, ThrowsMessage<InvalidArgument>(HasSubstr("1 keys for 2 images")));
}

}  // namespace
}  // namespace smartmine
