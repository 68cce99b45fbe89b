#pragma once

#include <cstdint>

// What a pixel of a network's input is made of, for the kernels and for a test on a CPU alike.
#ifdef __CUDACC__
#define SMARTMINE_HOST_DEVICE __host__ __device__
#else
#define SMARTMINE_HOST_DEVICE
#endif

namespace smartmine::cuda {

/// How pieces of RGB images, one byte a value, become a network's input of size x size.
struct CutShape {
  int height, width;  // of the images
  int size;
  bool interpolate;  // else samples lie on whole pixels
  bool bgr;
  float mean[3], scale[3];  // in the network's order
};

/// Of an image: the first sample and the step along x, then along y, in pixels from its corner.
struct CutPlan {
  float x, step_x, y, step_y;
};

struct Colour {
  float v[3];
};

SMARTMINE_HOST_DEVICE inline float within(float value, float low, float high) { return value < low ? low : value > high ? high : value; }

SMARTMINE_HOST_DEVICE inline Colour sample(const std::uint8_t* image, const CutShape& shape, const CutPlan& plan, int row, int column) {
  const float x = plan.x + static_cast<float>(column) * plan.step_x, y = plan.y + static_cast<float>(row) * plan.step_y;
  Colour colour;
  if (!shape.interpolate) {
    const std::int64_t at = (static_cast<std::int64_t>(y) * shape.width + static_cast<std::int64_t>(x)) * 3;
    for (int c = 0; c < 3; ++c) colour.v[c] = static_cast<float>(image[at + c]);
    return colour;
  }
  // Centres of pixels are at halves; beyond the outermost ones the edge goes on.
  const float from_x = within(x - 0.5F, 0, static_cast<float>(shape.width - 1)),
              from_y = within(y - 0.5F, 0, static_cast<float>(shape.height - 1));
  const int left = static_cast<int>(from_x), top = static_cast<int>(from_y);
  const int right = left + 1 < shape.width ? left + 1 : left, bottom = top + 1 < shape.height ? top + 1 : top;
  const float across = from_x - static_cast<float>(left), down = from_y - static_cast<float>(top);
  for (int c = 0; c < 3; ++c) {
    const auto value = [&](int py, int px) {
      return static_cast<float>(image[(static_cast<std::int64_t>(py) * shape.width + px) * 3 + c]);
    };
    colour.v[c] = value(top, left) * (1 - across) * (1 - down) + value(top, right) * across * (1 - down) +
                  value(bottom, left) * (1 - across) * down + value(bottom, right) * across * down;
  }
  return colour;
}

/// The brightness that an eye sees.
SMARTMINE_HOST_DEVICE inline float grey_of(const Colour& colour) {
  return 0.299F * colour.v[0] + 0.587F * colour.v[1] + 0.114F * colour.v[2];
}

/// Distances from `middle` times `factor`.
SMARTMINE_HOST_DEVICE inline Colour away_from(float middle, Colour colour, float factor) {
  for (float& value : colour.v) value = within(middle + (value - middle) * factor, 0, 255);
  return colour;
}

/// `middle` is the mean grey of the cut after its brightness was changed.
SMARTMINE_HOST_DEVICE inline Colour jitter(const Colour& colour, const float* factors, float middle) {
  const Colour contrasted = away_from(middle, away_from(0, colour, factors[0]), factors[1]);
  return away_from(grey_of(contrasted), contrasted, factors[2]);
}

SMARTMINE_HOST_DEVICE inline Colour as_input(const Colour& colour, const CutShape& shape) {
  Colour result;
  for (int c = 0; c < 3; ++c) result.v[c] = (colour.v[shape.bgr ? 2 - c : c] - shape.mean[c]) * shape.scale[c];
  return result;
}

}  // namespace smartmine::cuda
