#include "smartmine/data/image.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "core/made_files.h"
#include "data/made_images.h"
#include "smartmine/core/error.h"

namespace smartmine {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace)
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::array<int, 3> pixel(const Image& image, std::size_t x, std::size_t y) {
  const std::uint8_t* p = image.row(y) + x * 3;
  return {p[0], p[1], p[2]};
}

using Rgb = std::array<int, 3>;

TEST(Image, PngsComeBackAsTheyWere) {
  for (const auto& [width, height] : {std::pair<std::size_t, std::size_t>{1, 1}, {7, 3}, {64, 100}}) {
    const Image image = noise(width, height);
    EXPECT_EQ(decode_image(encode_png(image), "image"), image);
  }
}

TEST(Image, JpegsComeBackNearlyAsTheyWere) {
  const Image image = gradient(70, 50);
  EXPECT_LT(mean_difference(decode_image(encode_jpeg(image, 95), "image"), image), 1.5);
  EXPECT_LT(encode_jpeg(image, 20).size(), encode_jpeg(image, 95).size());
}

TEST(Image, TheFirstBytesDecideNotTheEnding) {
  const TemporaryFolder folder;
  write_png(folder / "really_a_png.jpg", gradient(20, 10));
  write_jpeg(folder / "really_a_jpeg.png", gradient(20, 10));
  EXPECT_EQ(decode_image(folder / "really_a_png.jpg"), gradient(20, 10));
  EXPECT_LT(mean_difference(decode_image(folder / "really_a_jpeg.png"), gradient(20, 10)), 3);
}

TEST(Image, GreyJpegsBecomeRgb) {
  JpegRecipe recipe;
  recipe.components = 1;
  recipe.samples = recipe.stored = JCS_GRAYSCALE;
  const Image image = decode(make_jpeg(recipe, std::vector<std::uint8_t>(256, 90)));
  EXPECT_EQ(pixel(image, 3, 3), (Rgb{90, 90, 90}));
}

TEST(Image, CmykJpegsBecomeRgbWithAdobesInversion) {
  // Ink as Adobe stores it, inverted: cyan 255-55, magenta 255-155, yellow 255-255, black 255-200.
  std::vector<std::uint8_t> inverted;
  std::vector<std::uint8_t> plain;
  for (int i = 0; i < 256; ++i) {
    inverted.insert(inverted.end(), {55, 155, 255, 200});
    plain.insert(plain.end(), {200, 100, 0, 55});
  }
  const Rgb expected{55 * 200 / 255, 155 * 200 / 255, 200};
  for (const J_COLOR_SPACE stored : {JCS_CMYK, JCS_YCCK}) {
    JpegRecipe recipe;
    recipe.components = 4;
    recipe.samples = JCS_CMYK;
    recipe.stored = stored;
    recipe.adobe_marker = true;
    recipe.quality = 100;
    const Rgb found = pixel(decode(make_jpeg(recipe, inverted)), 5, 5);
    for (int c = 0; c < 3; ++c) EXPECT_NEAR(found[c], expected[c], 3) << c << " stored as " << stored;
  }
  JpegRecipe recipe;
  recipe.components = 4;
  recipe.samples = recipe.stored = JCS_CMYK;
  recipe.quality = 100;
  const Rgb found = pixel(decode(make_jpeg(recipe, plain)), 5, 5);
  for (int c = 0; c < 3; ++c) EXPECT_NEAR(found[c], expected[c], 3) << c << " without a marker";
}

TEST(Image, GreyPngsOfEveryDepthBecomeRgb) {
  // The same four greys at every depth that has them: black, a third, two thirds, white.
  EXPECT_EQ(decode(make_png(4, 1, 8, PNG_COLOR_TYPE_GRAY, {{0, 85, 170, 255}})).pixels,
            (std::vector<std::uint8_t>{0, 0, 0, 85, 85, 85, 170, 170, 170, 255, 255, 255}));
  EXPECT_EQ(pixel(decode(make_png(4, 1, 2, PNG_COLOR_TYPE_GRAY, {{0b00011011}})), 1, 0), (Rgb{85, 85, 85}));
  EXPECT_EQ(pixel(decode(make_png(4, 1, 4, PNG_COLOR_TYPE_GRAY, {{0x05, 0xaf}})), 2, 0), (Rgb{170, 170, 170}));
  EXPECT_EQ(pixel(decode(make_png(4, 1, 1, PNG_COLOR_TYPE_GRAY, {{0b01010000}})), 1, 0), (Rgb{255, 255, 255}));
  EXPECT_EQ(pixel(decode(make_png(4, 1, 1, PNG_COLOR_TYPE_GRAY, {{0b01010000}})), 2, 0), (Rgb{0, 0, 0}));
  EXPECT_EQ(pixel(decode(make_png(2, 1, 16, PNG_COLOR_TYPE_GRAY, {{0, 0, 0x55, 0x55}})), 1, 0), (Rgb{85, 85, 85}));
}

TEST(Image, PalettePngsOfEveryDepthBecomeRgb) {
  const auto palette = [](png_structp png, png_infop info) {
    const png_color colors[] = {{10, 20, 30}, {200, 100, 50}};
    png_set_PLTE(png, info, colors, 2);
  };
  const std::vector<std::pair<int, std::uint8_t>> depths = {{1, 0b01000000}, {2, 0b00010000}, {4, 0x01}};
  for (const auto& [depth, row] : depths) {
    const Image image = decode(make_png(2, 1, depth, PNG_COLOR_TYPE_PALETTE, {{row}}, PNG_INTERLACE_NONE, palette));
    EXPECT_EQ(pixel(image, 0, 0), (Rgb{10, 20, 30})) << depth;
    EXPECT_EQ(pixel(image, 1, 0), (Rgb{200, 100, 50})) << depth;
  }
  EXPECT_EQ(pixel(decode(make_png(2, 1, 8, PNG_COLOR_TYPE_PALETTE, {{1, 0}}, PNG_INTERLACE_NONE, palette)), 0, 0), (Rgb{200, 100, 50}));
}

TEST(Image, TransparentPngsLieOnWhite) {
  EXPECT_EQ(decode(make_png(3, 1, 8, PNG_COLOR_TYPE_RGBA, {{10, 20, 30, 255, 10, 20, 30, 0, 0, 100, 200, 51}})).pixels,
            (std::vector<std::uint8_t>{10, 20, 30, 255, 255, 255, 204, 224, 244}));
  EXPECT_EQ(decode(make_png(2, 1, 8, PNG_COLOR_TYPE_GRAY_ALPHA, {{0, 0, 0, 51}})).pixels,
            (std::vector<std::uint8_t>{255, 255, 255, 204, 204, 204}));
  EXPECT_EQ(decode(make_png(1, 1, 16, PNG_COLOR_TYPE_RGBA, {{10, 10, 20, 20, 30, 30, 255, 255}})).pixels,
            (std::vector<std::uint8_t>{10, 20, 30}));
  const auto clear_entry = [](png_structp png, png_infop info) {
    const png_color colors[] = {{10, 20, 30}, {200, 100, 50}};
    const png_byte alphas[] = {0, 255};
    png_set_PLTE(png, info, colors, 2);
    png_set_tRNS(png, info, alphas, 2, nullptr);
  };
  EXPECT_EQ(decode(make_png(2, 1, 8, PNG_COLOR_TYPE_PALETTE, {{0, 1}}, PNG_INTERLACE_NONE, clear_entry)).pixels,
            (std::vector<std::uint8_t>{255, 255, 255, 200, 100, 50}));
}

TEST(Image, InterlacedPngsAreTheSame) {
  const Image image = noise(13, 11);
  std::vector<std::vector<std::uint8_t>> rows;
  for (std::size_t y = 0; y < image.height; ++y) rows.emplace_back(image.row(y), image.row(y) + image.width * 3);
  EXPECT_EQ(decode(make_png(13, 11, 8, PNG_COLOR_TYPE_RGB, rows, PNG_INTERLACE_ADAM7)), image);
}

/// What must be seen of a 3 x 2 picture a b c / d e f at each orientation; from the EXIF standard's table of which side is which.
const std::vector<std::vector<std::string>> kSeen = {{"abc", "def"},     {"cba", "fed"},     {"fed", "cba"},     {"def", "abc"},
                                                     {"ad", "be", "cf"}, {"da", "eb", "fc"}, {"fc", "eb", "da"}, {"cf", "be", "ad"}};

Image letters(const std::vector<std::string>& rows, std::size_t block) {
  Image image(rows[0].size() * block, rows.size() * block);
  for (std::size_t y = 0; y < image.height; ++y)
    for (std::size_t x = 0; x < image.width; ++x)
      for (std::size_t c = 0; c < 3; ++c) image.row(y)[x * 3 + c] = static_cast<std::uint8_t>((rows[y / block][x / block] - 'a') * 40 + 20);
  return image;
}

TEST(Image, ExifOrientationsOfJpegsAreCarriedOut) {
  for (int orientation = 1; orientation <= 8; ++orientation)
    for (const bool big_endian : {false, true}) {
      JpegRecipe recipe;
      recipe.app1 = std::string("Exif\0\0", 6) + exif_block(orientation, big_endian);
      const Image found = decode(make_jpeg(letters(kSeen[0], 16), recipe));
      EXPECT_LT(largest_difference(found, letters(kSeen[static_cast<std::size_t>(orientation - 1)], 16)), 8) << orientation;
    }
}

TEST(Image, ExifOrientationsOfPngsAreCarriedOut) {
  for (int orientation = 1; orientation <= 8; ++orientation) {
    const Image image = letters(kSeen[0], 1);
    std::string exif = exif_block(orientation, true);
    const std::string file =
        make_png(3, 2, 8, PNG_COLOR_TYPE_RGB, {{image.row(0), image.row(0) + 9}, {image.row(1), image.row(1) + 9}}, PNG_INTERLACE_NONE,
                 [&](png_structp png, png_infop info) {
                   png_set_eXIf_1(png, info, static_cast<png_uint_32>(exif.size()), reinterpret_cast<png_bytep>(exif.data()));
                 });
    EXPECT_EQ(decode(file), letters(kSeen[static_cast<std::size_t>(orientation - 1)], 1)) << orientation;
  }
}

TEST(Image, DamagedExifIsPassedOver) {
  const Image upright = letters(kSeen[0], 16);
  const std::string good = std::string("Exif\0\0", 6) + exif_block(6, false);
  for (std::size_t size = 0; size + 10 < good.size(); ++size) {
    JpegRecipe recipe;
    recipe.app1 = good.substr(0, size);
    EXPECT_EQ(decode(make_jpeg(upright, recipe)).width, upright.width) << size;
  }
  for (const int orientation : {0, 9, 255}) {
    JpegRecipe recipe;
    recipe.app1 = std::string("Exif\0\0", 6) + exif_block(orientation, false);
    EXPECT_EQ(decode(make_jpeg(upright, recipe)).width, upright.width);
  }
}

TEST(Image, EveryCutPngIsRefused) {
  const std::string file = text(encode_png(gradient(9, 9)));
  for (std::size_t size = 0; size < file.size(); ++size)
    EXPECT_THAT(io_error([&] { decode(file.substr(0, size)); }), AllOf(StartsWith("image: "), HasSubstr("; "))) << size;
}

TEST(Image, CutJpegsAreRefusedUnlessOnlyTheEndMarkerIsMissing) {
  for (const bool progressive : {false, true}) {
    JpegRecipe recipe;
    recipe.progressive = progressive;
    const std::string file = make_jpeg(noise(40, 40), recipe);
    for (std::size_t size = 0; size + 3 < file.size(); ++size) {
      const std::string message = io_error([&] { decode(file.substr(0, size)); });
      EXPECT_THAT(message, StartsWith("image: ")) << size;
      if (size > 700) {
        EXPECT_THAT(message, HasSubstr("the file is cut short")) << size;
      }
    }
  }
  const std::string file = make_jpeg(noise(40, 40));
  EXPECT_EQ(decode(file.substr(0, file.size() - 2)), decode(file));
  JpegRecipe progressive;
  progressive.progressive = true;
  const std::string passes = make_jpeg(noise(40, 40), progressive);
  EXPECT_EQ(decode(passes).width, 40U);
  EXPECT_THAT(io_error([&] { decode(passes.substr(0, passes.size() - 2)); }), HasSubstr("its last passes are missing"));
}

TEST(Image, DamagedFilesAreRefused) {
  std::string png = text(encode_png(gradient(50, 50)));
  png[png.size() / 2] = static_cast<char>(png[png.size() / 2] ^ 0x55);
  EXPECT_THAT(io_error([&] { decode(png); }), HasSubstr("the file is damaged"));
  // An end marker amid the pixels, and a table that is not one.
  const std::string jpeg = make_jpeg(noise(64, 64));
  std::string ended = jpeg;
  ended.replace(ended.size() / 2, 2, "\xff\xd9");
  EXPECT_THAT(io_error([&] { decode(ended); }), HasSubstr("cannot decode this JPEG: Corrupt JPEG data: premature end of data segment"));
  std::string table = jpeg;
  table.replace(table.find("\xff\xc4") + 5, 16, std::string(16, '\x7f'));
  EXPECT_THAT(io_error([&] { decode(table); }), HasSubstr("cannot decode this JPEG: Bogus Huffman table definition"));
}

/// The CRC-32 of a PNG chunk, bit by bit.
std::uint32_t png_checksum(const std::string& chunk) {
  std::uint32_t crc = 0xffffffff;
  for (const char byte : chunk) {
    crc ^= static_cast<std::uint8_t>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xedb88320U : 0U);
  }
  return ~crc;
}

TEST(Image, HugeSizesAreRefusedBeforeMemoryIsReserved) {
  std::string png = make_png(1, 1, 8, PNG_COLOR_TYPE_GRAY, {{0}});
  png.replace(16, 8, std::string("\x00\x0e\x00\x00\x00\x0e\x00\x00", 8));
  const std::uint32_t checksum = png_checksum(png.substr(12, 17));
  for (std::size_t i = 0; i < 4; ++i) png[29 + i] = static_cast<char>(checksum >> (24 - 8 * i) & 0xff);
  EXPECT_THAT(io_error([&] { decode(png); }), HasSubstr("claims to be 917504 x 917504 pixels, more than its"));

  std::string jpeg = make_jpeg(gradient(16, 16));
  const std::size_t frame = jpeg.find("\xff\xc0");
  ASSERT_NE(frame, std::string::npos);
  jpeg.replace(frame + 5, 4, "\xff\xdc\xff\xdc");  // 65,500 a side
  EXPECT_THAT(io_error([&] { decode(jpeg); }), HasSubstr("claims to be 65500 x 65500 pixels, more than its"));

  DecodeOptions few;
  few.max_pixels = 99;
  EXPECT_THAT(io_error([&] { decode(text(encode_png(gradient(10, 10))), few); }), HasSubstr("is 10 x 10 pixels, over the limit"));
  few.max_pixels = 100;
  EXPECT_NO_THROW(decode(text(encode_png(gradient(10, 10))), few));
  few.max_pixels = 0;
  EXPECT_THROW(decode(png, few), InvalidArgument);
}

TEST(Image, OtherFilesAreNamed) {
  EXPECT_THAT(io_error([] { decode(""); }), HasSubstr("the file is empty"));
  EXPECT_THAT(io_error([] { decode("\xff"); }), HasSubstr("only 1 bytes long"));
  EXPECT_THAT(io_error([] { decode("GIF89a......."); }), HasSubstr("neither a JPEG nor a PNG but looks like a GIF"));
  EXPECT_THAT(io_error([] { decode("<html>"); }), HasSubstr("web page"));
  EXPECT_THAT(io_error([] { decode("something"); }), HasSubstr("is neither a JPEG nor a PNG; "));
  const TemporaryFolder folder;
  EXPECT_THAT(io_error([&] { decode_image(folder / "none.jpg"); }), AllOf(HasSubstr("none.jpg: "), HasSubstr("No such file")));
  EXPECT_THAT(io_error([&] { decode_image(folder.path()); }), HasSubstr("this is a folder"));
  save(folder / "empty.png", "");
  EXPECT_THAT(io_error([&] { decode_image(folder / "empty.png"); }), HasSubstr("empty.png: the file is empty"));
}

TEST(Image, LargeJpegsAreDecodedSmallerWhenLittleIsEnough) {
  const Image large = gradient(900, 700);
  const std::string file = make_jpeg(large);
  DecodeOptions options;
  options.enough_width = options.enough_height = 80;
  const Image reduced = decode(file, options);
  EXPECT_EQ(reduced.width, 225U);
  EXPECT_EQ(reduced.height, 175U);
  EXPECT_LT(mean_difference(resize(reduced, 80, 80), resize(decode(file), 80, 80)), 0.7);
  options.enough_height = 200;  // half of 700 would be under twice this
  EXPECT_EQ(decode(file, options).width, 900U);
  // The sides are those of the turned image.
  JpegRecipe recipe;
  recipe.app1 = std::string("Exif\0\0", 6) + exif_block(6, false);
  options.enough_width = 60;
  options.enough_height = 220;
  const Image turned = decode(make_jpeg(large, recipe), options);
  EXPECT_EQ(turned.width, 350U);
  EXPECT_EQ(turned.height, 450U);
}

TEST(Image, EncodersRefuseWhatTheyCannotWrite) {
  EXPECT_THROW(encode_png(Image()), InvalidArgument);
  EXPECT_THROW(encode_jpeg(Image()), InvalidArgument);
  EXPECT_THROW(encode_jpeg(Image(65501, 1)), InvalidArgument);
  EXPECT_THROW(encode_jpeg(Image(1, 1), 0), InvalidArgument);
  EXPECT_THROW(encode_jpeg(Image(1, 1), 101), InvalidArgument);
  EXPECT_THAT(io_error([] { write_png("/nowhere/at/all.png", Image(1, 1)); }), HasSubstr("/nowhere/at/all.png"));
}

TEST(Resize, FollowsTheTriangleByHand) {
  Image image(4, 1);
  for (std::size_t x : {2, 3}) image.row(0)[x * 3] = 255;
  const Image half = resize(image, 2, 1);  // weights 3/4, 3/4, 1/4 of the pixels within reach
  EXPECT_EQ(half.pixels[0], 36);
  EXPECT_EQ(half.pixels[3], 219);
  Image two(2, 1);
  two.row(0)[3] = 255;
  const Image twice = resize(two, 4, 1);
  EXPECT_EQ((std::vector<int>{twice.pixels[0], twice.pixels[3], twice.pixels[6], twice.pixels[9]}), (std::vector<int>{0, 64, 191, 255}));
}

/// The same filter in doubles, both directions at once.
Image resize_exactly(const Image& image, std::size_t width, std::size_t height, const Box& box) {
  Image out(width, height);
  const auto weight = [](double pixel_at, double from, double to, std::size_t size, std::size_t i) {
    const double scale = (to - from) / static_cast<double>(size);
    const double centre = from + (static_cast<double>(i) + 0.5) * scale;
    return std::max(0.0, 1.0 - std::abs(pixel_at + 0.5 - centre) / std::max(1.0, scale));
  };
  for (std::size_t y = 0; y < height; ++y)
    for (std::size_t x = 0; x < width; ++x)
      for (std::size_t c = 0; c < 3; ++c) {
        double sum = 0;
        double total = 0;
        for (std::size_t v = 0; v < image.height; ++v)
          for (std::size_t u = 0; u < image.width; ++u) {
            const double w = weight(static_cast<double>(u), box.left, box.right, width, x) *
                             weight(static_cast<double>(v), box.top, box.bottom, height, y);
            sum += w * image.row(v)[u * 3 + c];
            total += w;
          }
        out.row(y)[x * 3 + c] = static_cast<std::uint8_t>(std::lround(sum / total));
      }
  return out;
}

TEST(Resize, AgreesWithTheFilterInDoubles) {
  const Image image = noise(23, 17);
  for (const auto& [width, height] : {std::pair<std::size_t, std::size_t>{5, 4}, {23, 9}, {50, 31}, {1, 1}, {22, 18}}) {
    EXPECT_LE(largest_difference(resize(image, width, height), resize_exactly(image, width, height, {0, 0, 23, 17})), 1);
    const Box box{3.25, 1.5, 20, 11.75};
    EXPECT_LE(largest_difference(resize(image, width, height, box), resize_exactly(image, width, height, box)), 1);
  }
  EXPECT_EQ(resize(image, 23, 17), image);
}

TEST(Resize, OneColourStaysThatColour) {
  const Image image(31, 47, 201);
  for (const std::size_t size : {1, 7, 31, 100}) EXPECT_EQ(resize(image, size, size), Image(size, size, 201));
}

TEST(Resize, ShorterSideKeepsTheShape) {
  const Image wide = resize_shorter_side(Image(400, 200), 50);
  EXPECT_EQ(wide.width, 100U);
  EXPECT_EQ(wide.height, 50U);
  const Image tall = resize_shorter_side(Image(200, 300), 50);
  EXPECT_EQ(tall.width, 50U);
  EXPECT_EQ(tall.height, 75U);
}

TEST(Resize, CoverTakesTheMiddle) {
  Image image(30, 10);  // black, white, black
  for (std::size_t y = 0; y < 10; ++y) std::fill(image.row(y) + 30, image.row(y) + 60, 255);
  EXPECT_EQ(resize_to_cover(image, 10, 10), Image(10, 10, 255));
  const Image thin = resize_to_cover(Image(10, 300, 9), 20, 60);
  EXPECT_EQ(thin, Image(20, 60, 9));
}

TEST(Resize, RefusesNonsense) {
  const Image image(4, 4);
  EXPECT_THROW(resize(image, 0, 4), InvalidArgument);
  EXPECT_THROW(resize_to_cover(image, 4, 0), InvalidArgument);
  EXPECT_THROW(resize(Image(), 4, 4), InvalidArgument);
  EXPECT_THROW(resize_shorter_side(Image(), 4), InvalidArgument);
  EXPECT_THROW(resize(image, 2, 2, {0, 0, 5, 4}), InvalidArgument);
  EXPECT_THROW(resize(image, 2, 2, {2, 0, 2, 4}), InvalidArgument);
  EXPECT_THROW(resize(image, 2, 2, {std::nan(""), 0, 4, 4}), InvalidArgument);
}

TEST(Image, GreyIsLumaAndKeepsGreys) {
  Image image(2, 1);
  image.pixels = {255, 0, 0, 77, 77, 77};
  EXPECT_EQ(grey(image), (std::vector<std::uint8_t>{76, 77}));
}

}  // namespace
}  // namespace smartmine
