#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "smartmine/core/error.h"
#include "smartmine/data/image.h"

namespace smartmine {
namespace {

constexpr int kFractionBits = 22;  // 8 bits of value and sign leave this much of an int32
constexpr std::int32_t kHalf = 1 << (kFractionBits - 1);

/// Which source pixels make up each pixel along one side, and with what weight.
struct Filter {
  std::size_t taps = 0;            // weights reserved a pixel
  std::vector<std::size_t> first;  // first source pixel
  std::vector<std::size_t> count;  // source pixels, at most taps
  std::vector<std::int32_t> weights;
};

Filter triangle_filter(std::size_t source, double from, double to, std::size_t target) {
  const double scale = (to - from) / static_cast<double>(target);
  const double reach = std::max(scale, 1.0);  // when shrinking, the triangle grows to cover every source pixel
  Filter filter;
  filter.taps = static_cast<std::size_t>(std::ceil(reach)) * 2 + 1;
  filter.first.resize(target);
  filter.count.resize(target);
  filter.weights.resize(target * filter.taps);
  std::vector<double> exact(filter.taps);
  for (std::size_t i = 0; i < target; ++i) {
    const double centre = from + (static_cast<double>(i) + 0.5) * scale;
    const auto begin = static_cast<std::size_t>(std::max(0.0, centre - reach + 0.5));
    const std::size_t end = std::min({source, static_cast<std::size_t>(centre + reach + 0.5), begin + filter.taps});
    double sum = 0;
    for (std::size_t x = begin; x < end; ++x) {
      const double distance = std::abs(static_cast<double>(x) + 0.5 - centre) / reach;
      sum += exact[x - begin] = std::max(0.0, 1.0 - distance);
    }
    filter.first[i] = begin;
    filter.count[i] = end - begin;
    std::int32_t* weights = filter.weights.data() + i * filter.taps;
    for (std::size_t k = 0; k < end - begin; ++k)
      weights[k] = static_cast<std::int32_t>(std::lround(exact[k] / sum * (1 << kFractionBits)));
    while (filter.count[i] > 1 && weights[filter.count[i] - 1] == 0) --filter.count[i];  // a side that keeps its length needs one each
  }
  return filter;
}

std::uint8_t to_byte(std::int32_t sum) { return static_cast<std::uint8_t>(std::clamp(sum >> kFractionBits, 0, 255)); }

void resize_row(const std::uint8_t* from, std::uint8_t* to, const Filter& filter) {
  for (std::size_t x = 0; x < filter.first.size(); ++x, to += 3) {
    const std::uint8_t* source = from + filter.first[x] * 3;
    const std::int32_t* weights = filter.weights.data() + x * filter.taps;
    std::int32_t red = kHalf;
    std::int32_t green = kHalf;
    std::int32_t blue = kHalf;
    for (std::size_t k = 0; k < filter.count[x]; ++k, source += 3) {
      red += source[0] * weights[k];
      green += source[1] * weights[k];
      blue += source[2] * weights[k];
    }
    to[0] = to_byte(red);
    to[1] = to_byte(green);
    to[2] = to_byte(blue);
  }
}

}  // namespace

Image resize(const Image& image, std::size_t width, std::size_t height, const Box& box) {
  constexpr std::size_t kMostSide = 65535;
  if (width == 0 || height == 0 || width > kMostSide || height > kMostSide)
    throw InvalidArgument(fmt::format("cannot resize to {} x {}; both must be 1 to {}", width, height, kMostSide));
  if (image.width == 0 || image.height == 0) throw InvalidArgument("cannot resize an image without pixels");
  const auto image_width = static_cast<double>(image.width);
  const auto image_height = static_cast<double>(image.height);
  if (!(box.left >= 0 && box.left < box.right && box.right <= image_width && box.top >= 0 && box.top < box.bottom &&
        box.bottom <= image_height))
    throw InvalidArgument(fmt::format("cannot resize the part {}, {}, {}, {} of an image of {} x {}; it must be inside and not empty",
                                      box.left, box.top, box.right, box.bottom, image.width, image.height));
  if (box.left == 0 && box.top == 0 && box.right == static_cast<double>(width) && box.bottom == static_cast<double>(height) &&
      width == image.width && height == image.height)
    return image;

  const Filter across = triangle_filter(image.width, box.left, box.right, width);
  const Filter down = triangle_filter(image.height, box.top, box.bottom, height);
  const std::size_t first_row = down.first.front();
  const std::size_t last_row = down.first.back() + down.count.back();
  Image narrow(width, last_row - first_row);
  for (std::size_t y = first_row; y < last_row; ++y) resize_row(image.row(y), narrow.row(y - first_row), across);

  Image result(width, height);
  std::vector<std::int32_t> sums(width * 3);
  for (std::size_t y = 0; y < height; ++y) {
    std::fill(sums.begin(), sums.end(), kHalf);
    for (std::size_t k = 0; k < down.count[y]; ++k) {
      const std::uint8_t* from = narrow.row(down.first[y] - first_row + k);
      const std::int32_t weight = down.weights[y * down.taps + k];
      for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += from[i] * weight;
    }
    std::transform(sums.begin(), sums.end(), result.row(y), to_byte);
  }
  return result;
}

Image resize(const Image& image, std::size_t width, std::size_t height) {
  return resize(image, width, height, {0, 0, static_cast<double>(image.width), static_cast<double>(image.height)});
}

Image resize_shorter_side(const Image& image, std::size_t side) {
  if (image.width == 0 || image.height == 0) throw InvalidArgument("cannot resize an image without pixels");
  const auto longer = static_cast<double>(std::max(image.width, image.height));
  const auto shorter = static_cast<double>(std::min(image.width, image.height));
  const auto other = static_cast<std::size_t>(std::lround(static_cast<double>(side) * longer / shorter));
  return image.width < image.height ? resize(image, side, other) : resize(image, other, side);
}

Image resize_to_cover(const Image& image, std::size_t width, std::size_t height) {
  if (width == 0 || height == 0) return resize(image, width, height);  // says what is wrong
  const auto image_width = static_cast<double>(image.width);
  const auto image_height = static_cast<double>(image.height);
  const auto shape = static_cast<double>(width) / static_cast<double>(height);
  const double box_width = std::min(image_width, image_height * shape);
  const double box_height = std::min(image_height, image_width / shape);
  const double left = (image_width - box_width) / 2;
  const double top = (image_height - box_height) / 2;
  return resize(image, width, height, {left, top, std::min(image_width, left + box_width), std::min(image_height, top + box_height)});
}

}  // namespace smartmine
