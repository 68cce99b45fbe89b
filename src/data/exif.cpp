#include <cstdint>
#include <utility>

#include "data/codecs.h"

namespace smartmine {
namespace {

/// Numbers of a TIFF block in its byte order; what lies beyond its end reads as 0.
class TiffReader {
 public:
  TiffReader(std::span<const std::byte> bytes, bool big_endian) : bytes_(bytes), big_endian_(big_endian) {}

  std::uint32_t number(std::size_t offset, std::size_t size) const {
    if (offset > bytes_.size() || bytes_.size() - offset < size) return 0;
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < size; ++i) {
      const std::size_t at = big_endian_ ? offset + i : offset + size - 1 - i;
      value = value << 8 | std::to_integer<std::uint32_t>(bytes_[at]);
    }
    return value;
  }

 private:
  std::span<const std::byte> bytes_;
  bool big_endian_;
};

}  // namespace

int exif_orientation(std::span<const std::byte> tiff) {
  constexpr std::uint32_t kOrientationTag = 0x0112;
  constexpr std::uint32_t kShort = 3;
  if (tiff.size() < 8 || tiff[0] != tiff[1] || (tiff[0] != std::byte{'I'} && tiff[0] != std::byte{'M'})) return 1;
  const TiffReader reader(tiff, tiff[0] == std::byte{'M'});
  if (reader.number(2, 2) != 42) return 1;
  const std::size_t directory = reader.number(4, 4);
  const std::size_t entries = reader.number(directory, 2);
  for (std::size_t i = 0; i < entries; ++i) {
    const std::size_t entry = directory + 2 + i * 12;
    if (entry + 12 > tiff.size()) return 1;
    if (reader.number(entry, 2) != kOrientationTag) continue;
    const std::uint32_t value = reader.number(entry + 8, 2);
    return reader.number(entry + 2, 2) == kShort && value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return 1;
}

Image apply_orientation(Image image, int orientation) {
  if (orientation <= 1) return image;
  const bool swaps_sides = orientation >= 5;
  // 2, 3, 7 and 8 read the source's columns backwards, 3, 4, 6 and 7 its rows.
  const bool from_right = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  const bool from_bottom = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  Image turned(swaps_sides ? image.height : image.width, swaps_sides ? image.width : image.height);
  for (std::size_t y = 0; y < turned.height; ++y) {
    std::uint8_t* to = turned.row(y);
    for (std::size_t x = 0; x < turned.width; ++x, to += 3) {
      std::size_t source_x = swaps_sides ? y : x;
      std::size_t source_y = swaps_sides ? x : y;
      if (from_right) source_x = image.width - 1 - source_x;
      if (from_bottom) source_y = image.height - 1 - source_y;
      const std::uint8_t* from = image.row(source_y) + source_x * 3;
      to[0] = from[0];
      to[1] = from[1];
      to[2] = from[2];
    }
  }
  return turned;
}

}  // namespace smartmine
