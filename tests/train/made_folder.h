#pragma once

#include <filesystem>
#include <string>

#include "smartmine/data/glyphs.h"
#include "smartmine/data/image.h"

namespace smartmine::test {

inline constexpr std::size_t kMadeClasses = 12, kMadeImages = 6;  // half of the classes train

/// A folder of folders: small pictures of characters, quickly trained on.
inline void make_image_folder(const std::filesystem::path& root, std::size_t classes = kMadeClasses, std::size_t images = kMadeImages) {
  const GlyphOptions options{.classes = classes, .images_per_class = images, .size = 16};
  for (std::size_t c = 0; c < classes; ++c) {
    const auto folder = root / ("class" + std::to_string(10 + c));
    std::filesystem::create_directories(folder);
    for (std::size_t i = 0; i < images; ++i) write_png(folder / (std::to_string(i) + ".png"), draw_glyph(options, c * images + i));
  }
}

}  // namespace smartmine::test
