#pragma once

#include <cstddef>
#include <cstdint>

#include "smartmine/data/dataset.h"

namespace smartmine {

/// Options for the built-in data set: characters of an invented script, drawn from a seed. The last five say how much the drawings of one
/// character differ; 0 takes that difference away.
struct GlyphOptions {
  std::size_t classes = 200;          ///< Characters; the first half is for training, the second for testing, as with the birds.
  std::size_t images_per_class = 20;  ///< Drawings of each.
  std::size_t size = 28;              ///< Pixels a side.
  std::uint64_t seed = 1;
  double bend = 1;        ///< Strokes are bent by hand, each by itself and all together.
  double tilt = 1;        ///< Turned, slanted and stretched.
  double shift = 1;       ///< Moved from the middle, as a part of the room there is.
  double thickness = 1;   ///< Thin pens and thick ones.
  double noise = 1;       ///< Grain, faint ink and grey paper.
  void validate() const;  ///< Throws InvalidArgument naming the field, its value and the allowed range.
};

/// Draws one character: drawing / images_per_class is its class, the rest which drawing of it. Dark ink on light paper, grey.
/// The same options give the same picture whoever asks, and whatever `classes` is.
Image draw_glyph(const GlyphOptions& options, std::uint64_t drawing);

/// The data set, drawn image by image when asked for. Labels are 0, 1, ...; training and test classes are disjoint.
DataSplits make_glyphs(const GlyphOptions& options = {});

}  // namespace smartmine
