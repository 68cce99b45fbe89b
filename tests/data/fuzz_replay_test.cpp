// Sends made images through the fuzzer's own entry, so that its promises are held where there is no libFuzzer.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "../../fuzz/decode_anything.h"
#include "data/made_images.h"
#include "smartmine/core/random.h"

namespace smartmine {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace)

bool accepted(const std::string& file, std::uint8_t sizes = 0) {
  std::string input(1, static_cast<char>(sizes));
  input += file;
  return decode_anything({reinterpret_cast<const std::uint8_t*>(input.data()), input.size()});
}

std::vector<std::string> good_images() {
  const Image image = gradient(24, 20);
  JpegRecipe progressive;
  progressive.progressive = true;
  JpegRecipe turned;
  turned.app1 = std::string("Exif\0\0", 6) + exif_block(6, true);
  JpegRecipe cmyk;
  cmyk.components = 4;
  cmyk.samples = cmyk.stored = JCS_CMYK;
  cmyk.adobe_marker = true;
  const auto palette = [](png_structp png, png_infop info) {
    const png_color colors[] = {{10, 20, 30}, {200, 100, 50}};
    const png_byte alphas[] = {100, 255};
    png_set_PLTE(png, info, colors, 2);
    png_set_tRNS(png, info, alphas, 2, nullptr);
  };
  return {make_jpeg(image),
          make_jpeg(image, progressive),
          make_jpeg(image, turned),
          make_jpeg(cmyk, std::vector<std::uint8_t>(16 * 16 * 4, 99)),
          text(encode_png(image)),
          make_png(9, 2, 4, PNG_COLOR_TYPE_PALETTE, {{1, 16, 17, 0, 1}, {0, 0, 1, 1, 0}}, PNG_INTERLACE_ADAM7, palette),
          make_png(3, 1, 16, PNG_COLOR_TYPE_GRAY_ALPHA, {{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}})};
}

TEST(ImageFuzzReplay, GoodImagesAreAcceptedAtAnySize) {
  for (const std::string& file : good_images())
    for (const int sizes : {0, 0x11, 0x32, 0xff}) EXPECT_TRUE(accepted(file, static_cast<std::uint8_t>(sizes)));
  EXPECT_FALSE(accepted("nonsense"));
  EXPECT_FALSE(decode_anything({}));
}

TEST(ImageFuzzReplay, EveryImageCutAnywhereIsReadOrRefused) {
  for (const std::string& file : good_images())
    for (std::size_t size = 0; size < file.size(); ++size) EXPECT_NO_THROW(accepted(file.substr(0, size))) << size;
}

TEST(ImageFuzzReplay, EveryByteChangedIsReadOrRefused) {
  for (const std::string& file : good_images())
    for (std::size_t at = 0; at < file.size(); ++at)
      for (const int value : {0, 1, 0x7f, 0xff}) {
        std::string damaged = file;
        damaged[at] = static_cast<char>(value);
        EXPECT_NO_THROW(accepted(damaged, 0x11)) << at << ' ' << value;
      }
}

TEST(ImageFuzzReplay, ManyRandomDamagesAreReadOrRefused) {
  const auto files = good_images();
  Random random(7);
  for (int round = 0; round < 5000; ++round) {
    std::string damaged = files[random.below(files.size())];
    for (std::uint64_t changes = 1 + random.below(4); changes > 0; --changes) {
      const std::size_t at = random.below(damaged.size());
      switch (random.below(3)) {
        case 0:
          damaged[at] = static_cast<char>(random.below(256));
          break;
        case 1:
          damaged.insert(at, 1, static_cast<char>(random.below(256)));
          break;
        default:
          damaged.erase(at, 1 + random.below(9));
      }
      if (damaged.empty()) damaged = "x";
    }
    EXPECT_NO_THROW(accepted(damaged, static_cast<std::uint8_t>(random.below(256)))) << "in round " << round;
  }
}

}  // namespace
}  // namespace smartmine
