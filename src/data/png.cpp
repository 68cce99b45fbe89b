#include <png.h>

#include <csetjmp>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>

#include "data/codecs.h"

// As with libjpeg: libpng is called only from plain functions without anything to destroy, started by `survives`, and its errors jump back
// there.

namespace smartmine {
namespace {

struct PngState {
  png_structp png = nullptr;
  png_infop info = nullptr;
  std::jmp_buf escape{};
  char message[200] = {};
};

[[noreturn]] void leave(png_structp png, png_const_charp message) {
  auto& state = *static_cast<PngState*>(png_get_error_ptr(png));
  std::snprintf(state.message, sizeof state.message, "%s", message);
  std::longjmp(state.escape, 1);  // NOLINT(cert-err52-cpp): out of C code, over nothing that has a destructor
}

void pass_over_warning(png_structp /*png*/, png_const_charp /*message*/) {}

template <class State>
bool survives(State& state, void (*step)(State&)) {
  if (setjmp(state.escape) != 0) return false;  // NOLINT(cert-err52-cpp)
  step(state);
  return true;
}

struct PngReader : PngState {
  std::span<const std::byte> left;
  bool cut_short = false;
  png_bytep* rows = nullptr;

  ~PngReader() { png_destroy_read_struct(&png, &info, nullptr); }
};

void take_bytes(png_structp png, png_bytep to, std::size_t size) {
  auto& reader = *static_cast<PngReader*>(png_get_io_ptr(png));
  if (size > reader.left.size()) {
    reader.cut_short = true;
    png_error(png, "it ends too early");
  }
  std::memcpy(to, reader.left.data(), size);
  reader.left = reader.left.subspan(size);
}

void read_header(PngReader& reader) {
  reader.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, static_cast<PngState*>(&reader), leave, pass_over_warning);
  if (reader.png != nullptr) reader.info = png_create_info_struct(reader.png);
  if (reader.info == nullptr) {
    std::strcpy(reader.message, "out of memory");
    std::longjmp(reader.escape, 1);  // NOLINT(cert-err52-cpp)
  }
  png_set_read_fn(reader.png, &reader, take_bytes);
  png_read_info(reader.png, reader.info);
}

/// To 8-bit RGB, or RGBA where something is transparent.
void start(PngReader& reader) {
  png_set_expand(reader.png);
  png_set_scale_16(reader.png);
  png_set_gray_to_rgb(reader.png);
  png_set_interlace_handling(reader.png);
  png_read_update_info(reader.png, reader.info);
}

void read_rows(PngReader& reader) {
  png_read_image(reader.png, reader.rows);
  png_read_end(reader.png, reader.info);
}

/// Lays RGBA on white, in place.
void flatten(Image& image) {
  const std::size_t count = image.width * image.height;
  const std::uint8_t* from = image.pixels.data();
  std::uint8_t* to = image.pixels.data();
  for (std::size_t i = 0; i < count; ++i, from += 4) {
    const unsigned alpha = from[3];
    for (std::size_t c = 0; c < 3; ++c) *to++ = static_cast<std::uint8_t>((from[c] * alpha + 255 * (255 - alpha) + 127) / 255);
  }
  image.pixels.resize(count * 3);
}

int orientation_of(PngReader& reader) {
  png_uint_32 size = 0;
  png_bytep exif = nullptr;
  if (png_get_eXIf_1(reader.png, reader.info, &size, &exif) == 0 || exif == nullptr) return 1;
  return exif_orientation(std::as_bytes(std::span(exif, size)));
}

struct PngWriter : PngState {
  const Image* image = nullptr;
  std::vector<std::byte> out;

  ~PngWriter() { png_destroy_write_struct(&png, &info); }
};

void put_bytes(png_structp png, png_bytep from, std::size_t size) {
  auto& writer = *static_cast<PngWriter*>(png_get_io_ptr(png));
  bool done = false;
  try {
    const auto* bytes = reinterpret_cast<const std::byte*>(from);
    writer.out.insert(writer.out.end(), bytes, bytes + size);
    done = true;
  } catch (const std::exception&) {
    // Out of memory; must not travel through libpng.
  }
  if (!done) png_error(png, "out of memory");
}

void write_all(PngWriter& writer) {
  writer.png = png_create_write_struct(PNG_LIBPNG_VER_STRING, static_cast<PngState*>(&writer), leave, pass_over_warning);
  if (writer.png != nullptr) writer.info = png_create_info_struct(writer.png);
  if (writer.info == nullptr) {
    std::strcpy(writer.message, "out of memory");
    std::longjmp(writer.escape, 1);  // NOLINT(cert-err52-cpp)
  }
  const Image& image = *writer.image;
  png_set_write_fn(writer.png, &writer, put_bytes, nullptr);
  png_set_IHDR(writer.png, writer.info, static_cast<png_uint_32>(image.width), static_cast<png_uint_32>(image.height), 8,
               PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_write_info(writer.png, writer.info);
  for (std::size_t y = 0; y < image.height; ++y) png_write_row(writer.png, image.row(y));
  png_write_end(writer.png, writer.info);
}

}  // namespace

Image decode_png(std::span<const std::byte> file, const std::string& name, const DecodeOptions& options) {
  PngReader reader;
  reader.left = file;
  const auto fail = [&] {
    refuse_image(name, fmt::format("cannot decode this PNG: {}", reader.message), reader.cut_short ? kCutShortHint : kDamagedHint);
  };
  if (!survives(reader, read_header)) fail();
  // Deflate turns a byte into 1032 at most, each of up to 8 pixels.
  check_pixel_count(name, png_get_image_width(reader.png, reader.info), png_get_image_height(reader.png, reader.info), file.size(),
                    1032 * 8, options.max_pixels);
  if (!survives(reader, start)) fail();

  Image image;
  image.width = png_get_image_width(reader.png, reader.info);
  image.height = png_get_image_height(reader.png, reader.info);
  const std::size_t channels = png_get_channels(reader.png, reader.info);
  require(png_get_bit_depth(reader.png, reader.info) == 8 && (channels == 3 || channels == 4), "a PNG was not turned into 8-bit RGB");
  image.pixels.resize(image.width * image.height * channels);
  std::vector<png_bytep> rows(image.height);
  for (std::size_t y = 0; y < image.height; ++y) rows[y] = image.pixels.data() + y * image.width * channels;
  reader.rows = rows.data();
  if (!survives(reader, read_rows)) fail();
  if (channels == 4) flatten(image);
  return apply_orientation(std::move(image), orientation_of(reader));
}

std::vector<std::byte> encode_png(const Image& image) {
  constexpr std::size_t kMostSide = 1000000;  // libpng's own limit
  if (image.width == 0 || image.height == 0 || image.width > kMostSide || image.height > kMostSide)
    throw InvalidArgument(fmt::format("image is {} x {}; a PNG is 1 to {} pixels a side", image.width, image.height, kMostSide));
  require(image.pixels.size() == image.width * image.height * 3, "an image's bytes do not fill it");
  PngWriter writer;
  writer.image = &image;
  if (!survives(writer, write_all)) throw Error(fmt::format("cannot encode a PNG: {}", writer.message));
  return std::move(writer.out);
}

}  // namespace smartmine
