#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <span>
#include <string>

#include "smartmine/core/error.h"
#include "smartmine/data/image.h"

namespace smartmine {

/// Throws the IoError for an image that cannot be decoded: what is wrong with it, and a hint.
[[noreturn]] inline void refuse_image(const std::string& name, const std::string& wrong, const char* hint) {
  throw IoError(fmt::format("{}: {}; {}", name, wrong, hint));
}

inline constexpr const char* kDamagedHint = "the file is damaged; replace or remove it";
inline constexpr const char* kCutShortHint = "the file is cut short; copy it again or remove it";

/// Refuses what no file of `size` bytes can hold, at most `pixels_per_byte` each, and what is over the limit. Nothing of the image's size
/// is reserved before this.
inline void check_pixel_count(const std::string& name, std::size_t width, std::size_t height, std::size_t size, std::size_t pixels_per_byte,
                              std::size_t max_pixels) {
  if (width == 0 || height == 0) refuse_image(name, fmt::format("the image is {} x {} pixels", width, height), kDamagedHint);
  const std::size_t pixels = width * height;  // both are under 2^31
  if (pixels / pixels_per_byte > size + 64)
    refuse_image(name, fmt::format("claims to be {} x {} pixels, more than its {} bytes can hold", width, height, size), kDamagedHint);
  if (pixels > max_pixels)
    refuse_image(name, fmt::format("is {} x {} pixels, over the limit of {} million", width, height, max_pixels / 1000000),
                 "make it smaller or raise the limit");
}

Image decode_jpeg(std::span<const std::byte> file, const std::string& name, const DecodeOptions& options);
Image decode_png(std::span<const std::byte> file, const std::string& name, const DecodeOptions& options);

/// The EXIF orientation, 1 to 8, in a TIFF block; 1 if there is none or the block is damaged.
int exif_orientation(std::span<const std::byte> tiff);

/// The image turned and mirrored the way the orientation says it should be seen.
Image apply_orientation(Image image, int orientation);

}  // namespace smartmine
