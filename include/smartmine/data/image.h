#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace smartmine {

/// A picture of 8-bit RGB: three bytes a pixel, rows from the top, without gaps.
struct Image {
  std::size_t width = 0;
  std::size_t height = 0;
  std::vector<std::uint8_t> pixels;  ///< width * height * 3 bytes.

  Image() = default;
  Image(std::size_t w, std::size_t h, std::uint8_t fill = 0) : width(w), height(h), pixels(w * h * 3, fill) {}
  std::uint8_t* row(std::size_t y) { return pixels.data() + y * width * 3; }
  const std::uint8_t* row(std::size_t y) const { return pixels.data() + y * width * 3; }
  bool operator==(const Image&) const = default;
};

/// Options for decoding.
struct DecodeOptions {
  /// A large JPEG may come back smaller than it is, by a half, a quarter or an eighth, but never under twice this size, so
  /// that resizing to it afterwards looks the same. 0 in either: always the full size.
  std::size_t enough_width = 0;
  std::size_t enough_height = 0;
  /// Images of more pixels are refused; a few bytes can claim to be gigabytes.
  std::size_t max_pixels = std::size_t{1} << 27;
  void validate() const;
};

/// Decodes a JPEG or a PNG; the first bytes decide which, not the name. Grey, palette, CMYK and 16-bit images become 8-bit RGB,
/// transparent ones lie on white, an EXIF orientation is carried out, colour profiles are passed over. `name` is what messages call
/// the image. Throws IoError saying what is wrong for anything that is empty, cut short, damaged, of another kind or too large.
Image decode_image(std::span<const std::byte> file, const std::string& name, const DecodeOptions& options = {});

/// The same from a file.
Image decode_image(const std::filesystem::path& path, const DecodeOptions& options = {});

/// Whether `file` starts as a JPEG or a PNG does.
bool is_image(std::span<const std::byte> file);

/// The whole file of an image. Throw InvalidArgument for an image without pixels or too large for the format, and for a quality
/// outside 1 to 100.
std::vector<std::byte> encode_png(const Image& image);
std::vector<std::byte> encode_jpeg(const Image& image, int quality = 90);

/// Writes a whole file, committed.
void write_png(const std::filesystem::path& path, const Image& image);
void write_jpeg(const std::filesystem::path& path, const Image& image, int quality = 90);

/// A part of an image, in pixels from its top left corner; may cut through pixels.
struct Box {
  double left = 0;
  double top = 0;
  double right = 0;
  double bottom = 0;
};

/// Scales `box` of the image to width x height with a triangle filter that covers every pixel (bilinear when enlarging, antialiased
/// when shrinking). Throws InvalidArgument for an empty image, a size of 0 or a box that is empty or not inside the image.
Image resize(const Image& image, std::size_t width, std::size_t height, const Box& box);

/// Squashes the whole image into width x height.
Image resize(const Image& image, std::size_t width, std::size_t height);

/// Scales so that the shorter side is `side`; the shape is kept.
Image resize_shorter_side(const Image& image, std::size_t side);

/// Scales the largest centred part of the image that has the shape of width x height: the shape is kept, what stands over is cut.
Image resize_to_cover(const Image& image, std::size_t width, std::size_t height);

/// One byte a pixel, the luma of ITU-R 601.
std::vector<std::uint8_t> grey(const Image& image);

}  // namespace smartmine
