#pragma once

#include <torch/types.h>

#include <cstdint>
#include <span>

#include "smartmine/model/backbone.h"

namespace smartmine {

/// How training images are cut out.
enum class Crop {
  kCentre,         ///< The middle, always.
  kRandom,         ///< A square of the network's size anywhere in the image.
  kRandomResized,  ///< A rectangle of random area and shape, scaled to the network's size.
};

/// Options for what happens to training images.
struct AugmentOptions {
  Crop crop = Crop::kRandom;
  double min_area = 0.3;             ///< Of kRandomResized: share of the image, in (0, max_area].
  double max_area = 1.0;             ///< In [min_area, 1].
  double max_aspect = 4.0 / 3;       ///< Of kRandomResized: width to height from 1 / this to this, from 1 to 10.
  std::int64_t evaluation_size = 0;  ///< Side of the centre crop of the evaluation pass. 0: what the network is trained on.
  bool flip = true;                  ///< Mirrors every other image, by chance.
  double colour_jitter = 0;          ///< Brightness, contrast and saturation each times a factor from 1 - this to 1 + this. In [0, 1].
  std::uint64_t seed = 1;            ///< Randomness is keyed by (seed, epoch, key of the image).
  /// Throws InvalidArgument naming the field, its value and the allowed range.
  void validate() const;
};

/// Images [N, side, side, C], each turned counterclockwise by its number of `quarters`, times 90 degrees. Throws InvalidArgument if they
/// are no squares or there are not as many quarters.
torch::Tensor turned(const torch::Tensor& images, std::span<const std::int64_t> quarters);

/// Makes what a network eats of batches of decoded images, on the device the batch is on and in a few operations for the whole of it.
/// Immutable; concurrent use is safe. Results depend on the images and the keys alone.
class Augmenter {
 public:
  /// Throws InvalidArgument for bad options.
  Augmenter(const InputFormat& input, const AugmentOptions& options);

  /// Images of the training pass: uint8 [N, H, W, C], RGB or grey, to `type` [N, C, size, size]; contiguous on a CPU, channels last
  /// elsewhere. `keys` tells the images of an epoch apart, one an image: what was drawn for a key does not depend on the batch it is in.
  /// Throws InvalidArgument if the images are smaller than the crop or of another kind.
  torch::Tensor training(const torch::Tensor& images, std::uint64_t epoch, std::span<const std::uint64_t> keys,
                         torch::ScalarType type = torch::kFloat32) const;

  /// Images of the evaluation pass: the centre crop of evaluation_size, exactly.
  torch::Tensor evaluation(const torch::Tensor& images, torch::ScalarType type = torch::kFloat32) const;

 private:
  void check(const torch::Tensor& images, std::int64_t size) const;
  torch::Tensor preprocess(const torch::Tensor& pixels, torch::ScalarType type) const;

  InputFormat input_;
  AugmentOptions options_;
};

}  // namespace smartmine
