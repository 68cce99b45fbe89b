#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace smartmine {

/// The file of a JPEG as text that stands for it in HTML and JSON: data:image/jpeg;base64,...
std::string jpeg_data_uri(std::span<const std::byte> file);

}  // namespace smartmine
