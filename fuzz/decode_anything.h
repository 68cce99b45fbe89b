#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "smartmine/core/error.h"
#include "smartmine/data/image.h"

namespace smartmine {

/// Decodes `input` as an image; its first byte says at which size it is enough. Returns true if it was accepted, false if it was
/// refused as images must be: with an IoError of one line that starts with the name. Anything else is thrown on.
inline bool decode_anything(std::span<const std::uint8_t> input) {
  if (input.empty()) return false;
  // A copy of the exact size: one byte too far is then an error.
  const std::vector<std::uint8_t> copy(input.begin() + 1, input.end());
  DecodeOptions options;
  options.enough_width = input[0] % 16;
  options.enough_height = input[0] / 16;
  options.max_pixels = std::size_t{1} << 18;
  const auto must = [](bool holds, const char* what) {
    if (!holds) throw std::logic_error(what);
  };
  try {
    const Image image = decode_image(std::as_bytes(std::span(copy)), "image", options);
    must(image.width > 0 && image.height > 0 && image.width * image.height <= options.max_pixels, "an image of a wrong size");
    must(image.pixels.size() == image.width * image.height * 3, "an image's bytes do not fill it");
    unsigned sum = 0;
    for (const std::uint8_t value : image.pixels) sum += value;
    volatile unsigned keep = sum;  // a sanitizer that looks for uninitialised values sees them all
    (void)keep;
  } catch (const IoError& refused) {
    const std::string message = refused.what();
    must(message.starts_with("image: "), "a message does not start with the name");
    must(message.find('\n') == std::string::npos && message.size() < 1000, "a message is not one line");
    return false;
  }
  return true;
}

}  // namespace smartmine
