#include <csetjmp>
#include <cstdint>
#include <cstdio>  // jpeglib.h needs it
#include <cstdlib>
#include <cstring>

#include <jpeglib.h>

#include <jerror.h>

#include "data/codecs.h"

// libjpeg reports an error through a function that must not return, and C++ exceptions must not pass through C code. So every call into it
// is made from a plain function without anything to destroy, started by `survives`, to which the error function jumps back.

namespace smartmine {
namespace {

constexpr int kMostScans = 200;  // a few bytes can ask for a thousand passes over a huge image; cameras write about ten

struct Guard {
  jpeg_error_mgr errors{};
  std::jmp_buf escape{};
  char message[JMSG_LENGTH_MAX] = {};
  bool ended_early = false;  // no end marker: harmless once all pixels are there
};

Guard& guard_of(j_common_ptr info) { return *static_cast<Guard*>(info->client_data); }

[[noreturn]] void leave(j_common_ptr info) {
  Guard& guard = guard_of(info);
  info->err->format_message(info, guard.message);
  std::longjmp(guard.escape, 1);  // NOLINT(cert-err52-cpp): out of C code, over nothing that has a destructor
}

void on_message(j_common_ptr info, int level) {
  if (level >= 0) return;  // traces
  switch (info->err->msg_code) {
    case JWRN_JPEG_EOF:
      guard_of(info).ended_early = true;
      return;
    case JWRN_EXTRANEOUS_DATA:
    case JWRN_ADOBE_XFORM:
    case JWRN_JFIF_MAJOR:
    case JWRN_BOGUS_PROGRESSION:
      return;  // oddities that cost no pixel
    default:
      leave(info);
  }
}

void set_up(j_common_ptr info, Guard& guard) {
  info->err = jpeg_std_error(&guard.errors);
  info->client_data = &guard;
  guard.errors.error_exit = leave;
  guard.errors.emit_message = on_message;
  guard.errors.output_message = [](j_common_ptr) {};
}

/// Runs a step, which must be free of objects with destructors; false if libjpeg gave up, with guard.message set.
template <class State>
bool survives(State& state, void (*step)(State&)) {
  if (setjmp(state.guard.escape) != 0) return false;  // NOLINT(cert-err52-cpp)
  step(state);
  return true;
}

struct JpegReader {
  jpeg_decompress_struct info{};
  jpeg_progress_mgr progress{};
  Guard guard;
  std::span<const std::byte> file;
  std::uint8_t* pixels = nullptr;
  std::uint8_t* cmyk_row = nullptr;

  ~JpegReader() { jpeg_destroy_decompress(&info); }
};

void read_header(JpegReader& reader) {
  jpeg_create_decompress(&reader.info);
  jpeg_save_markers(&reader.info, JPEG_APP0 + 1, 0xffff);
  jpeg_mem_src(&reader.info, reinterpret_cast<const unsigned char*>(reader.file.data()), static_cast<unsigned long>(reader.file.size()));
  jpeg_read_header(&reader.info, TRUE);
  reader.info.progress = &reader.progress;
  reader.progress.progress_monitor = [](j_common_ptr info) {
    if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number > kMostScans) ERREXIT(info, JERR_BAD_PROGRESSION);
  };
}

void start(JpegReader& reader) { jpeg_start_decompress(&reader.info); }

void read_rows(JpegReader& reader) {
  jpeg_decompress_struct& info = reader.info;
  const std::size_t width = info.output_width;
  while (info.output_scanline < info.output_height) {
    std::uint8_t* to = reader.pixels + info.output_scanline * width * 3;
    JSAMPROW row = reader.cmyk_row != nullptr ? reader.cmyk_row : to;
    jpeg_read_scanlines(&info, &row, 1);
    if (reader.cmyk_row == nullptr) continue;
    // Adobe stores how much light is left rather than how much ink is there.
    const unsigned flip = info.saw_Adobe_marker != 0 ? 0 : 255;
    for (std::size_t x = 0; x < width; ++x, row += 4)
      for (std::size_t c = 0; c < 3; ++c) *to++ = static_cast<std::uint8_t>(((row[c] ^ flip) * (row[3] ^ flip) + 127) / 255);
  }
}

int orientation_of(const jpeg_decompress_struct& info) {
  for (const jpeg_marker_struct* marker = info.marker_list; marker != nullptr; marker = marker->next) {
    constexpr std::size_t kPrefix = 6;
    if (marker->data_length > kPrefix && std::memcmp(marker->data, "Exif\0", kPrefix) == 0)
      return exif_orientation(std::as_bytes(std::span(marker->data, marker->data_length)).subspan(kPrefix));
  }
  return 1;
}

/// The largest of 1, 2, 4 and 8 that divides the image and leaves at least twice what is enough.
unsigned reduction(std::size_t width, std::size_t height, const DecodeOptions& options, bool swaps_sides) {
  if (options.enough_width == 0 || options.enough_height == 0) return 1;
  if (swaps_sides) std::swap(width, height);
  unsigned by = 1;
  while (by < 8 && width / (by * 2) >= 2 * options.enough_width && height / (by * 2) >= 2 * options.enough_height) by *= 2;
  return by;
}

struct JpegWriter {
  jpeg_compress_struct info{};
  Guard guard;
  const Image* image = nullptr;
  int quality = 0;
  unsigned char* bytes = nullptr;
  unsigned long size = 0;

  ~JpegWriter() {
    jpeg_destroy_compress(&info);
    std::free(bytes);  // NOLINT(cppcoreguidelines-no-malloc): libjpeg made it with malloc
  }
};

void write_all(JpegWriter& writer) {
  jpeg_compress_struct& info = writer.info;
  jpeg_create_compress(&info);
  jpeg_mem_dest(&info, &writer.bytes, &writer.size);
  info.image_width = static_cast<JDIMENSION>(writer.image->width);
  info.image_height = static_cast<JDIMENSION>(writer.image->height);
  info.input_components = 3;
  info.in_color_space = JCS_RGB;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, writer.quality, TRUE);
  jpeg_start_compress(&info, TRUE);
  while (info.next_scanline < info.image_height) {
    auto* row = const_cast<JSAMPROW>(writer.image->row(info.next_scanline));
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
}

}  // namespace

Image decode_jpeg(std::span<const std::byte> file, const std::string& name, const DecodeOptions& options) {
  JpegReader reader;
  reader.file = file;
  set_up(reinterpret_cast<j_common_ptr>(&reader.info), reader.guard);
  const auto fail = [&] {
    refuse_image(name, fmt::format("cannot decode this JPEG: {}", reader.guard.message),
                 reader.guard.ended_early ? kCutShortHint : kDamagedHint);
  };
  jpeg_decompress_struct& info = reader.info;
  if (!survives(reader, read_header)) fail();
  // A block of 8 x 8 pixels takes a bit at least.
  check_pixel_count(name, info.image_width, info.image_height, file.size(), 512, options.max_pixels);
  const bool cmyk = info.jpeg_color_space == JCS_CMYK || info.jpeg_color_space == JCS_YCCK;
  if (info.jpeg_color_space == JCS_UNKNOWN)
    refuse_image(name, fmt::format("has {} colour components, of which nothing is known", info.num_components), "save it as RGB or grey");
  info.out_color_space = cmyk ? JCS_CMYK : JCS_RGB;
  const int orientation = orientation_of(info);
  info.scale_num = 1;
  info.scale_denom = reduction(info.image_width, info.image_height, options, orientation >= 5);
  if (!survives(reader, start)) fail();

  Image image(info.output_width, info.output_height);
  std::vector<std::uint8_t> cmyk_row(cmyk ? image.width * 4 : 0);
  reader.pixels = image.pixels.data();
  reader.cmyk_row = cmyk ? cmyk_row.data() : nullptr;
  if (!survives(reader, read_rows)) fail();
  // Decoded scan by scan, it would look whole and be coarse.
  if (reader.guard.ended_early && jpeg_has_multiple_scans(&info) != 0)
    refuse_image(name, "cannot decode this JPEG: its last passes are missing", kCutShortHint);
  return apply_orientation(std::move(image), orientation);
}

std::vector<std::byte> encode_jpeg(const Image& image, int quality) {
  if (quality < 1 || quality > 100) throw InvalidArgument(fmt::format("quality is {}; it must be 1 to 100", quality));
  constexpr std::size_t kMostSide = 65500;
  if (image.width == 0 || image.height == 0 || image.width > kMostSide || image.height > kMostSide)
    throw InvalidArgument(fmt::format("image is {} x {}; a JPEG is 1 to {} pixels a side", image.width, image.height, kMostSide));
  require(image.pixels.size() == image.width * image.height * 3, "an image's bytes do not fill it");
  JpegWriter writer;
  writer.image = &image;
  writer.quality = quality;
  set_up(reinterpret_cast<j_common_ptr>(&writer.info), writer.guard);
  if (!survives(writer, write_all)) throw Error(fmt::format("cannot encode a JPEG: {}", writer.guard.message));
  const auto* bytes = reinterpret_cast<const std::byte*>(writer.bytes);
  return {bytes, bytes + writer.size};
}

}  // namespace smartmine
