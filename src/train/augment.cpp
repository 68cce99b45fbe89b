#include "smartmine/train/augment.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "model/cuda/cut_out.h"
#include "smartmine/core/error.h"
#include "smartmine/core/random.h"
#include "train/upload.h"

namespace smartmine {
namespace {

/// A piece of an image in pixels from its corner.
struct Piece {
  double left, top, width, height;
  bool flipped;
};

Piece draw(const AugmentOptions& options, std::int64_t size, std::int64_t width, std::int64_t height, std::uint64_t epoch,
           std::uint64_t key) {
  Random random(options.seed, epoch, key);
  const bool flipped = options.flip && random.below(2) == 1;  // drawn first, so that it does not depend on the kind of crop
  const auto side = static_cast<double>(size);
  if (options.crop == Crop::kRandom) {
    const auto left = random.below(static_cast<std::uint64_t>(width - size + 1));
    const auto top = random.below(static_cast<std::uint64_t>(height - size + 1));
    return {static_cast<double>(left), static_cast<double>(top), side, side, flipped};
  }
  if (options.crop == Crop::kRandomResized) {
    const auto image_width = static_cast<double>(width);
    const auto image_height = static_cast<double>(height);
    const double area = image_width * image_height * (options.min_area + (options.max_area - options.min_area) * random.uniform());
    const double aspect = std::exp(std::log(options.max_aspect) * (2 * random.uniform() - 1));
    // A rectangle that would stick out is narrowed rather than drawn again, so that every image takes the same number of draws.
    const double piece_width = std::min(std::sqrt(area * aspect), image_width);
    const double piece_height = std::min(std::sqrt(area / aspect), image_height);
    return {(image_width - piece_width) * random.uniform(), (image_height - piece_height) * random.uniform(), piece_width, piece_height,
            flipped};
  }
  return {static_cast<double>((width - size) / 2), static_cast<double>((height - size) / 2), side, side, flipped};
}

constexpr std::uint64_t kJitterSeed = 0x6a69747465720000;  // a stream apart, so that crops are the same with and without

/// Of every image [N, 3]: what brightness, contrast and saturation are multiplied by.
std::vector<float> draw_jitter(const AugmentOptions& options, std::uint64_t epoch, std::span<const std::uint64_t> keys) {
  std::vector<float> factors;
  factors.reserve(3 * keys.size());
  for (const std::uint64_t key : keys) {
    Random random(options.seed ^ kJitterSeed, epoch, key);
    for (int i = 0; i < 3; ++i) factors.push_back(static_cast<float>(1 + options.colour_jitter * (2 * random.uniform() - 1)));
  }
  return factors;
}

/// The brightness that an eye sees: [N, 1, H, W] of [N, C, H, W], red first.
torch::Tensor grey_of(const torch::Tensor& pixels) {
  if (pixels.size(1) == 1) return pixels;
  return pixels.narrow(1, 0, 1) * 0.299 + pixels.narrow(1, 1, 1) * 0.587 + pixels.narrow(1, 2, 1) * 0.114;
}

/// `pixels` is float32 [N, C, H, W], 0 to 255, and stays so; `factors` [N, 3].
torch::Tensor jitter(const torch::Tensor& pixels, const torch::Tensor& factors) {
  const auto factor = [&](std::int64_t which) { return factors.narrow(1, which, 1).view({-1, 1, 1, 1}); };
  const auto away_from = [](const torch::Tensor& middle, const torch::Tensor& x, const torch::Tensor& times) {
    return (middle + (x - middle).mul_(times)).clamp_(0, 255);
  };
  torch::Tensor x = (pixels * factor(0)).clamp_(0, 255);
  x = away_from(grey_of(x).mean({1, 2, 3}, /*keepdim=*/true), x, factor(1));
  return x.size(1) == 1 ? x : away_from(grey_of(x), x, factor(2));
}

/// Whole pixels of every image: `rows` and `columns` are [N, size].
torch::Tensor gather(const torch::Tensor& images, const torch::Tensor& rows, const torch::Tensor& columns) {
  const torch::Tensor batch = torch::arange(images.size(0), rows.options());
  return images.index({batch.view({-1, 1, 1}), rows.unsqueeze(2), columns.unsqueeze(1)});
}

torch::Tensor to_device(std::vector<float>& values, std::int64_t columns, const torch::Device& device) {
  const auto count = static_cast<std::int64_t>(values.size());
  return upload(torch::from_blob(values.data(), {count / columns, columns}, torch::kFloat32), device);
}

}  // namespace

void AugmentOptions::validate() const {
  if (!(colour_jitter >= 0 && colour_jitter <= 1))
    throw InvalidArgument(fmt::format("colour_jitter is {}; it must be from 0 to 1", colour_jitter));
  if (evaluation_size < 0 || evaluation_size > 4096)
    throw InvalidArgument(fmt::format("evaluation_size is {}; it must be from 0 to 4096", evaluation_size));
  if (!(max_area > 0 && max_area <= 1))
    throw InvalidArgument(fmt::format("max_area is {}; it must be more than 0 and at most 1", max_area));
  if (!(min_area > 0 && min_area <= max_area))
    throw InvalidArgument(fmt::format("min_area is {}; it must be more than 0 and at most max_area, {}", min_area, max_area));
  if (!(max_aspect >= 1 && max_aspect <= 10)) throw InvalidArgument(fmt::format("max_aspect is {}; it must be from 1 to 10", max_aspect));
}

torch::Tensor turned(const torch::Tensor& images, std::span<const std::int64_t> quarters) {
  if (images.dim() != 4 || images.size(1) != images.size(2) || static_cast<std::size_t>(images.size(0)) != quarters.size())
    throw InvalidArgument(fmt::format("images are [{}], with {} turns; they must be [N, side, side, C] with N turns",
                                      fmt::join(images.sizes(), ", "), quarters.size()));
  constexpr std::int64_t kTurns = 4;
  std::array<std::vector<std::int64_t>, kTurns> places;
  for (std::size_t i = 0; i < quarters.size(); ++i)
    places[static_cast<std::size_t>((quarters[i] % kTurns + kTurns) % kTurns)].push_back(static_cast<std::int64_t>(i));
  torch::Tensor result = images.clone();
  for (std::int64_t times = 1; times < kTurns; ++times) {
    const std::vector<std::int64_t>& chosen = places[static_cast<std::size_t>(times)];
    if (chosen.empty()) continue;
    const torch::Tensor ids = torch::tensor(chosen, torch::kInt64).to(images.device());
    result.index_copy_(0, ids, torch::rot90(images.index_select(0, ids), times, {1, 2}));
  }
  return result;
}

Augmenter::Augmenter(const InputFormat& input, const AugmentOptions& options) : input_(input), options_(options) { options_.validate(); }

void Augmenter::check(const torch::Tensor& images, std::int64_t size) const {
  if (images.dim() != 4 || images.scalar_type() != torch::kUInt8 || images.size(0) == 0 || images.size(3) != input_.channels ||
      images.size(1) < size || images.size(2) < size)
    throw InvalidArgument(fmt::format("images are [{}] of {}; they must be Byte [N, H, W, {}] with H and W at least {}",
                                      fmt::join(images.sizes(), ", "), torch::toString(images.scalar_type()), input_.channels, size));
}

torch::Tensor Augmenter::preprocess(const torch::Tensor& pixels, torch::ScalarType type) const {
  const torch::Tensor ordered = input_.bgr ? pixels.flip(1) : pixels;
  const auto on_device = [&](const std::array<float, 3>& values) {
    std::vector<float> used(values.begin(), values.begin() + input_.channels);
    return to_device(used, input_.channels, pixels.device()).view({1, -1, 1, 1});
  };
  // In float32 first: bfloat16 has no room for 255 minus a mean.
  const torch::Tensor scaled = ordered.to(torch::kFloat32).sub_(on_device(input_.mean)).mul_(on_device(input_.scale)).to(type);
  return scaled.contiguous(scaled.is_cpu() ? torch::MemoryFormat::Contiguous : torch::MemoryFormat::ChannelsLast);
}

torch::Tensor Augmenter::training(const torch::Tensor& images, std::uint64_t epoch, std::span<const std::uint64_t> keys,
                                  torch::ScalarType type) const {
  torch::NoGradGuard no_grad;
  check(images, input_.size);
  const std::int64_t count = images.size(0), height = images.size(1), width = images.size(2), size = input_.size;
  if (keys.size() != static_cast<std::size_t>(count))
    throw InvalidArgument(fmt::format("there are {} keys for {} images; they must be as many", keys.size(), count));
  const bool resized = options_.crop == Crop::kRandomResized;
  std::vector<float> values;  // of every image: the first sample and the step along x, then along y, in pixels
  for (const std::uint64_t key : keys) {
    const Piece piece = draw(options_, size, width, height, epoch, key);
    const double step_x = piece.width / static_cast<double>(size);
    const double step_y = piece.height / static_cast<double>(size);
    // Whole pixels count from 0; positions for interpolation are those of samples' centres.
    const double start_x = piece.left + (resized ? step_x / 2 : 0);
    const double start_y = piece.top + (resized ? step_y / 2 : 0);
    const double last_x = start_x + step_x * static_cast<double>(size - 1);
    for (const double value : {piece.flipped ? last_x : start_x, piece.flipped ? -step_x : step_x, start_y, step_y})
      values.push_back(static_cast<float>(value));
  }
  const torch::Tensor plan = to_device(values, 4, images.device());
  torch::Tensor factors;
  if (options_.colour_jitter > 0) {
    std::vector<float> drawn = draw_jitter(options_, epoch, keys);
    factors = to_device(drawn, 3, images.device());
  }
  if (cuda::cuts_out(images, type)) return cuda::cut_out(images, plan, resized, factors, input_, size);

  const torch::Tensor steps = torch::arange(size, plan.options()).unsqueeze(0);
  const torch::Tensor x = plan.narrow(1, 0, 1) + steps * plan.narrow(1, 1, 1);
  const torch::Tensor y = plan.narrow(1, 2, 1) + steps * plan.narrow(1, 3, 1);
  const auto finish = [&](const torch::Tensor& cut) {
    return preprocess(factors.defined() ? jitter(cut.to(torch::kFloat32), factors) : cut, type);
  };
  if (!resized) return finish(gather(images, y.to(torch::kInt64), x.to(torch::kInt64)).permute({0, 3, 1, 2}));

  // grid_sample counts from -1 at the image's left edge to 1 at its right edge.
  const torch::Tensor grid_x = (x * (2.0 / static_cast<double>(width)) - 1).unsqueeze(1).expand({count, size, size});
  const torch::Tensor grid_y = (y * (2.0 / static_cast<double>(height)) - 1).unsqueeze(2).expand({count, size, size});
  const torch::Tensor pixels = images.permute({0, 3, 1, 2}).to(torch::kFloat32);
  const torch::Tensor sampled =
      torch::grid_sampler(pixels, torch::stack({grid_x, grid_y}, 3), /*bilinear=*/0, /*border=*/1, /*align_corners=*/false);
  return finish(sampled);
}

torch::Tensor Augmenter::evaluation(const torch::Tensor& images, torch::ScalarType type) const {
  torch::NoGradGuard no_grad;
  const std::int64_t size = options_.evaluation_size == 0 ? input_.size : options_.evaluation_size;
  check(images, size);
  const std::int64_t top = (images.size(1) - size) / 2, left = (images.size(2) - size) / 2;
  if (cuda::cuts_out(images, type)) {
    std::vector<float> plan = {static_cast<float>(left), 1, static_cast<float>(top), 1};
    return cuda::cut_out(images, to_device(plan, 4, images.device()), /*interpolate=*/false, {}, input_, size);
  }
  return preprocess(images.narrow(1, top, size).narrow(2, left, size).permute({0, 3, 1, 2}), type);
}

}  // namespace smartmine
