#include "smartmine/data/data_uri.h"

#include <cstdint>
#include <string_view>

namespace smartmine {

std::string jpeg_data_uri(std::span<const std::byte> file) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text = "data:image/jpeg;base64,";
  text.reserve(text.size() + (file.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < file.size(); i += 3) {
    std::uint32_t bits = 0;
    for (std::size_t k = 0; k < 3; ++k) bits = (bits << 8) | (i + k < file.size() ? std::to_integer<std::uint32_t>(file[i + k]) : 0U);
    for (std::size_t k = 0; k < 4; ++k) text += i + k <= file.size() ? kDigits[(bits >> (18 - 6 * k)) & 63U] : '=';
  }
  return text;
}

}  // namespace smartmine
