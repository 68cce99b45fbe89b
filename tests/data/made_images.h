#pragma once

#include <png.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include <jpeglib.h>

#include "smartmine/core/random.h"
#include "smartmine/data/image.h"

namespace smartmine::testing {

inline std::span<const std::byte> bytes(const std::string& file) { return std::as_bytes(std::span(file)); }

inline std::string text(const std::vector<std::byte>& file) { return {reinterpret_cast<const char*>(file.data()), file.size()}; }

inline Image decode(const std::string& file, const DecodeOptions& options = {}) { return decode_image(bytes(file), "image", options); }

/// Every pixel different and nothing symmetric.
inline Image noise(std::size_t width, std::size_t height, std::uint64_t seed = 1) {
  Image image(width, height);
  Random random(seed);
  for (std::uint8_t& value : image.pixels) value = static_cast<std::uint8_t>(random.below(256));
  return image;
}

/// Smooth, as photos are, so that a JPEG keeps it well.
inline Image gradient(std::size_t width, std::size_t height) {
  Image image(width, height);
  for (std::size_t y = 0; y < height; ++y)
    for (std::size_t x = 0; x < width; ++x) {
      std::uint8_t* pixel = image.row(y) + x * 3;
      pixel[0] = static_cast<std::uint8_t>(x * 255 / width);
      pixel[1] = static_cast<std::uint8_t>(y * 255 / height);
      pixel[2] = static_cast<std::uint8_t>((x + y) * 128 / (width + height));
    }
  return image;
}

inline int largest_difference(const Image& a, const Image& b) {
  if (a.width != b.width || a.height != b.height) return 256;
  int largest = 0;
  for (std::size_t i = 0; i < a.pixels.size(); ++i) largest = std::max(largest, std::abs(int{a.pixels[i]} - int{b.pixels[i]}));
  return largest;
}

inline double mean_difference(const Image& a, const Image& b) {
  if (a.width != b.width || a.height != b.height) return 256;
  double sum = 0;
  for (std::size_t i = 0; i < a.pixels.size(); ++i) sum += std::abs(int{a.pixels[i]} - int{b.pixels[i]});
  return sum / static_cast<double>(a.pixels.size());
}

/// What a test's JPEG is made of: samples as they are given to libjpeg.
struct JpegRecipe {
  unsigned width = 16;
  unsigned height = 16;
  int components = 3;
  J_COLOR_SPACE samples = JCS_RGB;
  J_COLOR_SPACE stored = JCS_YCbCr;
  bool progressive = false;
  bool adobe_marker = false;
  std::string app1;  ///< A marker's content, such as EXIF.
  int quality = 95;
};

inline std::string make_jpeg(const JpegRecipe& recipe, const std::vector<std::uint8_t>& samples) {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* out = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &out, &size);
  info.image_width = recipe.width;
  info.image_height = recipe.height;
  info.input_components = recipe.components;
  info.in_color_space = recipe.samples;
  jpeg_set_defaults(&info);
  jpeg_set_colorspace(&info, recipe.stored);
  jpeg_set_quality(&info, recipe.quality, TRUE);
  info.write_Adobe_marker = recipe.adobe_marker ? TRUE : FALSE;
  if (recipe.progressive) jpeg_simple_progression(&info);
  jpeg_start_compress(&info, TRUE);
  if (!recipe.app1.empty())
    jpeg_write_marker(&info, JPEG_APP0 + 1, reinterpret_cast<const JOCTET*>(recipe.app1.data()), static_cast<unsigned>(recipe.app1.size()));
  for (unsigned y = 0; y < recipe.height; ++y) {
    auto* row = const_cast<JSAMPROW>(samples.data() + std::size_t{y} * recipe.width * static_cast<unsigned>(recipe.components));
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  std::string file(reinterpret_cast<const char*>(out), size);
  jpeg_destroy_compress(&info);
  std::free(out);
  return file;
}

/// The image as a JPEG with what `recipe` asks for.
inline std::string make_jpeg(const Image& image, JpegRecipe recipe = {}) {
  recipe.width = static_cast<unsigned>(image.width);
  recipe.height = static_cast<unsigned>(image.height);
  return make_jpeg(recipe, image.pixels);
}

/// A PNG of any kind: `rows` are packed as the format packs them. `more` may set a palette and such.
inline std::string make_png(unsigned width, unsigned height, int depth, int color, const std::vector<std::vector<std::uint8_t>>& rows,
                            int interlace = PNG_INTERLACE_NONE, const std::function<void(png_structp, png_infop)>& more = {}) {
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  std::string file;
  png_set_write_fn(
      png, &file,
      [](png_structp writer, png_bytep data, std::size_t size) {
        static_cast<std::string*>(png_get_io_ptr(writer))->append(reinterpret_cast<const char*>(data), size);
      },
      nullptr);
  png_set_IHDR(png, info, width, height, depth, color, interlace, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  if (more) more(png, info);
  png_write_info(png, info);
  std::vector<png_bytep> pointers;
  for (const auto& row : rows) pointers.push_back(const_cast<png_bytep>(row.data()));
  png_write_image(png, pointers.data());
  png_write_end(png, info);
  png_destroy_write_struct(&png, &info);
  return file;
}

/// A TIFF block that says how the image is to be turned.
inline std::string exif_block(int orientation, bool big_endian) {
  const auto number = [&](unsigned value, int size) {
    std::string out;
    for (int i = 0; i < size; ++i) out += static_cast<char>(value >> (8 * (big_endian ? size - 1 - i : i)) & 0xff);
    return out;
  };
  std::string block = big_endian ? "MM" : "II";
  block += number(42, 2) + number(8, 4) + number(2, 2);
  block += number(0x010e, 2) + number(2, 2) + number(4, 4) + std::string("abc\0", 4);  // a description comes first
  block += number(0x0112, 2) + number(3, 2) + number(1, 4) + number(static_cast<unsigned>(orientation), 2) + number(0, 2);
  return block + number(0, 4);
}

}  // namespace smartmine::testing
