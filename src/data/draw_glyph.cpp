#include "smartmine/data/glyphs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "smartmine/core/error.h"
#include "smartmine/core/random.h"
#include "smartmine/core/rows.h"

namespace smartmine {
namespace {

enum class Draw : std::uint64_t { kCharacter = 0x676c79706801, kDrawing };

struct Point {
  double x = 0;
  double y = 0;
};

/// A stroke is a smooth line through its points; the character fills about -1 to 1.
using Stroke = std::vector<Point>;

double between(Random& random, double low, double high) { return low + (high - low) * random.uniform(); }

/// A point of the Catmull-Rom curve through a, b, c, d between b and c.
Point on_curve(const Point& a, const Point& b, const Point& c, const Point& d, double t) {
  const auto blend = [t](double p, double q, double r, double s) {
    return 0.5 * (2 * q + (r - p) * t + (2 * p - 5 * q + 4 * r - s) * t * t + (3 * q - p - 3 * r + s) * t * t * t);
  };
  return {blend(a.x, b.x, c.x, d.x), blend(a.y, b.y, c.y, d.y)};
}

/// The stroke as a polyline.
Stroke smooth(const Stroke& stroke) {
  constexpr int kSteps = 6;
  Stroke line;
  for (std::size_t i = 0; i + 1 < stroke.size(); ++i) {
    const Point& before = stroke[i == 0 ? 0 : i - 1];
    const Point& after = stroke[std::min(i + 2, stroke.size() - 1)];
    for (int step = 0; step < kSteps; ++step)
      line.push_back(on_curve(before, stroke[i], stroke[i + 1], after, static_cast<double>(step) / kSteps));
  }
  line.push_back(stroke.back());
  return line;
}

/// The character as its inventor meant it: two to four strokes, each starting anew or on an earlier one.
std::vector<Stroke> character(std::uint64_t seed, std::uint64_t label) {
  Random random(seed, static_cast<std::uint64_t>(Draw::kCharacter), label);
  std::vector<Stroke> strokes(2 + random.below(3));
  for (std::size_t s = 0; s < strokes.size(); ++s) {
    Point at{between(random, -0.9, 0.9), between(random, -0.9, 0.9)};
    if (s > 0 && random.uniform() < 0.6) {
      const Stroke& earlier = strokes[random.below(s)];
      at = earlier[random.below(earlier.size())];
    }
    // A pen that keeps its direction for a while and turns at its own rate: bars, hooks, bows and loops.
    double direction = between(random, 0, 2 * std::numbers::pi);
    const double turn = random.uniform() < 0.35 ? 0 : between(random, -1.6, 1.6);
    const std::size_t points = 3 + random.below(3);
    const double step = between(random, 0.45, 0.8);
    strokes[s].push_back(at);
    while (strokes[s].size() < points) {
      Point next{at.x + step * std::cos(direction), at.y + step * std::sin(direction)};
      if (std::abs(next.x) > 1 || std::abs(next.y) > 1) {  // turn back at the edge
        direction += std::numbers::pi * between(random, 0.4, 0.9);
        next = {std::clamp(at.x + step * std::cos(direction), -1.0, 1.0), std::clamp(at.y + step * std::sin(direction), -1.0, 1.0)};
      }
      strokes[s].push_back(at = next);
      direction += turn;
    }
  }
  // To the middle, and to a common size.
  Point low = strokes[0][0];
  Point high = low;
  for (const Stroke& stroke : strokes)
    for (const Point& point : stroke) {
      low = {std::min(low.x, point.x), std::min(low.y, point.y)};
      high = {std::max(high.x, point.x), std::max(high.y, point.y)};
    }
  const double half = std::max({high.x - low.x, high.y - low.y, 0.5}) / 2;
  for (Stroke& stroke : strokes)
    for (Point& point : stroke) point = {(point.x - (low.x + high.x) / 2) / half, (point.y - (low.y + high.y) / 2) / half};
  return strokes;
}

/// Squared distance of a point to a piece of a line.
float squared_distance(float x, float y, const Point& from, const Point& to) {
  const auto ax = static_cast<float>(from.x);
  const auto ay = static_cast<float>(from.y);
  const float dx = static_cast<float>(to.x) - ax;
  const float dy = static_cast<float>(to.y) - ay;
  const float length = dx * dx + dy * dy;
  const float along = length > 0 ? std::clamp(((x - ax) * dx + (y - ay) * dy) / length, 0.0F, 1.0F) : 0.0F;
  const float ex = x - ax - along * dx;
  const float ey = y - ay - along * dy;
  return ex * ex + ey * ey;
}

/// Squared distance of every pixel's middle to the nearest ink, where it is under `reach` pixels.
std::vector<float> distances(const std::vector<Stroke>& lines, std::size_t size, double reach) {
  std::vector<float> nearest(size * size, 1e9F);
  const auto clip = [size](double value) { return static_cast<std::size_t>(std::clamp(value, 0.0, static_cast<double>(size))); };
  for (const Stroke& line : lines)
    for (std::size_t i = 0; i + 1 < line.size(); ++i) {
      const Point& from = line[i];
      const Point& to = line[i + 1];
      const std::size_t left = clip(std::min(from.x, to.x) - reach);
      const std::size_t right = clip(std::max(from.x, to.x) + reach + 1);
      const std::size_t bottom = clip(std::max(from.y, to.y) + reach + 1);
      for (std::size_t y = clip(std::min(from.y, to.y) - reach); y < bottom; ++y)
        for (std::size_t x = left; x < right; ++x) {
          float& value = nearest[y * size + x];
          value = std::min(value, squared_distance(static_cast<float>(x) + 0.5F, static_cast<float>(y) + 0.5F, from, to));
        }
    }
  return nearest;
}

void check(bool holds, const char* field, double value, const char* range) {
  if (!holds) throw InvalidArgument(fmt::format("glyphs: {} is {}; it must be {}", field, value, range));
}

}  // namespace

void GlyphOptions::validate() const {
  check(classes >= 4 && classes <= 1000000, "classes", static_cast<double>(classes), "4 to 1000000");
  check(images_per_class >= 1 && images_per_class <= 100000, "images_per_class", static_cast<double>(images_per_class), "1 to 100000");
  check(classes * images_per_class <= kMaxRows, "classes * images_per_class", static_cast<double>(classes * images_per_class),
        "under 2^31");
  check(size >= 8 && size <= 512, "size", static_cast<double>(size), "8 to 512");
  check(bend >= 0 && bend <= 3, "bend", bend, "0 to 3");
  check(tilt >= 0 && tilt <= 3, "tilt", tilt, "0 to 3");
  check(shift >= 0 && shift <= 3, "shift", shift, "0 to 3");
  check(thickness >= 0 && thickness <= 1, "thickness", thickness, "0 to 1");
  check(noise >= 0 && noise <= 3, "noise", noise, "0 to 3");
}

Image draw_glyph(const GlyphOptions& options, std::uint64_t drawing) {
  std::vector<Stroke> strokes = character(options.seed, drawing / options.images_per_class);
  // Keyed by class and number apart, so that more drawings a class leave the first ones as they were.
  const std::uint64_t key = drawing / options.images_per_class << 32 | drawing % options.images_per_class;
  Random random(options.seed, static_cast<std::uint64_t>(Draw::kDrawing), key);

  // By hand: each stroke is put a little elsewhere, each of its points too.
  for (Stroke& stroke : strokes) {
    const Point off{0.06 * options.bend * random.normal(), 0.06 * options.bend * random.normal()};
    for (Point& point : stroke) {
      point.x += off.x + 0.06 * options.bend * random.normal();
      point.y += off.y + 0.06 * options.bend * random.normal();
    }
  }
  // The whole is bent by slow waves, then turned, slanted and stretched.
  struct Wave {
    double amplitude, fx, fy, phase;
  } waves[4];
  for (Wave& wave : waves)
    wave = {0.06 * options.bend * random.normal(), between(random, -2.2, 2.2), between(random, -2.2, 2.2),
            between(random, 0, 2 * std::numbers::pi)};
  const auto sway = [&](const Wave& wave, const Point& at) {
    return wave.amplitude * std::sin(wave.fx * at.x + wave.fy * at.y + wave.phase);
  };
  const double angle = 0.19 * options.tilt * random.normal();
  const double slant = 0.19 * options.tilt * random.normal();
  const double stretch_x = std::exp(0.12 * options.tilt * random.normal());
  const double stretch_y = std::exp(0.12 * options.tilt * random.normal());
  const auto size = static_cast<double>(options.size);
  const double radius = 0.34 * size;
  const Point middle{size / 2 + 0.07 * size * options.shift * random.normal(), size / 2 + 0.07 * size * options.shift * random.normal()};
  std::vector<Stroke> lines;
  for (const Stroke& stroke : strokes) {
    Stroke line = smooth(stroke);
    for (Point& at : line) {
      const Point bent{at.x + sway(waves[0], at) + sway(waves[1], at), at.y + sway(waves[2], at) + sway(waves[3], at)};
      const double x = stretch_x * (bent.x + slant * bent.y);
      const double y = stretch_y * bent.y;
      at = {middle.x + radius * (std::cos(angle) * x - std::sin(angle) * y),
            middle.y + radius * (std::sin(angle) * x + std::cos(angle) * y)};
    }
    lines.push_back(std::move(line));
  }

  const double half_width = size / 28 * (0.85 + options.thickness * between(random, -0.4, 0.45));
  const std::vector<float> nearest = distances(lines, options.size, half_width + 1);
  const double paper = 255 - options.noise * between(random, 0, 40);
  const double ink = options.noise * between(random, 0, 70);
  const double grain = options.noise * between(random, 4, 22);
  Image image(options.size, options.size);
  for (std::size_t i = 0; i < nearest.size(); ++i) {
    const double covered = std::clamp(half_width + 0.5 - std::sqrt(static_cast<double>(nearest[i])), 0.0, 1.0);
    const double value = paper + covered * (ink - paper) + grain * random.normal();
    const auto byte = static_cast<std::uint8_t>(std::clamp(std::lround(value), 0L, 255L));
    std::fill_n(image.pixels.begin() + static_cast<std::ptrdiff_t>(i * 3), 3, byte);
  }
  return image;
}

}  // namespace smartmine
