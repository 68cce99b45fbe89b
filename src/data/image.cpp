#include "smartmine/data/image.h"

#include <array>
#include <string_view>

#include "data/codecs.h"
#include "smartmine/core/mapped_file.h"
#include "smartmine/core/output_file.h"

namespace smartmine {
namespace {

constexpr std::string_view kJpegStart = "\xff\xd8\xff";
constexpr std::string_view kPngStart = "\x89PNG\r\n\x1a\n";

std::string_view text(std::span<const std::byte> bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

/// What a file that is neither JPEG nor PNG seems to be; "" if nobody knows.
std::string_view other_kind(std::string_view file) {
  if (file.starts_with("GIF8")) return "a GIF";
  if (file.starts_with("BM")) return "a BMP";
  if (file.starts_with("RIFF") && file.substr(0, 12).ends_with("WEBP")) return "a WebP";
  if (file.starts_with(std::string_view("II*\0", 4)) || file.starts_with(std::string_view("MM\0*", 4))) return "a TIFF";
  if (file.size() >= 12 && file.substr(4, 4) == "ftyp") return "a HEIC, AVIF or video file";
  if (file.starts_with("<") || file.starts_with("{")) return "a text or web page";
  if (file.starts_with("version https://git-lfs")) return "a Git LFS pointer";
  return "";
}

void write_file(const std::filesystem::path& path, const std::vector<std::byte>& bytes) {
  OutputFile file(path);
  file.write(bytes.data(), bytes.size());
  file.commit();
}

}  // namespace

void DecodeOptions::validate() const {
  constexpr std::size_t kMost = std::size_t{1} << 40;
  if (max_pixels == 0 || max_pixels > kMost) throw InvalidArgument(fmt::format("max_pixels is {}; it must be 1 to {}", max_pixels, kMost));
}

bool is_image(std::span<const std::byte> file) { return text(file).starts_with(kJpegStart) || text(file).starts_with(kPngStart); }

Image decode_image(std::span<const std::byte> file, const std::string& name, const DecodeOptions& options) {
  options.validate();
  const std::string_view start = text(file);
  if (start.starts_with(kJpegStart)) return decode_jpeg(file, name, options);
  if (start.starts_with(kPngStart)) return decode_png(file, name, options);
  if (file.empty()) refuse_image(name, "the file is empty", "replace or remove it");
  if (kPngStart.starts_with(start) || kJpegStart.starts_with(start))
    refuse_image(name, fmt::format("the file is only {} bytes long", file.size()), kCutShortHint);
  const std::string_view kind = other_kind(start);
  refuse_image(name, fmt::format("is neither a JPEG nor a PNG{}{}", kind.empty() ? "" : " but looks like ", kind), "convert or remove it");
}

Image decode_image(const std::filesystem::path& path, const DecodeOptions& options) {
  const MappedFile file(path);
  return decode_image(file.bytes(), path.string(), options);
}

void write_png(const std::filesystem::path& path, const Image& image) { write_file(path, encode_png(image)); }

void write_jpeg(const std::filesystem::path& path, const Image& image, int quality) { write_file(path, encode_jpeg(image, quality)); }

std::vector<std::uint8_t> grey(const Image& image) {
  std::vector<std::uint8_t> out(image.width * image.height);
  const std::uint8_t* from = image.pixels.data();
  // 0.299, 0.587 and 0.114 of 2^16; they add up to it, so grey stays as it was.
  for (std::size_t i = 0; i < out.size(); ++i, from += 3)
    out[i] = static_cast<std::uint8_t>((from[0] * 19595U + from[1] * 38470U + from[2] * 7471U + 32768U) >> 16);
  return out;
}

}  // namespace smartmine
