#pragma once

#include <torch/types.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace smartmine {

/// Types a weights file may hold, with their names in the two kinds of file.
struct TensorType {
  torch::ScalarType type;
  std::string_view safetensors;
  std::string_view storage;  // PyTorch's class of storage
  std::size_t bytes;
};
inline constexpr TensorType kTensorTypes[] = {
    {torch::kFloat32, "F32", "FloatStorage", 4},      {torch::kFloat16, "F16", "HalfStorage", 2},
    {torch::kBFloat16, "BF16", "BFloat16Storage", 2}, {torch::kFloat64, "F64", "DoubleStorage", 8},
    {torch::kInt64, "I64", "LongStorage", 8},         {torch::kInt32, "I32", "IntStorage", 4},
    {torch::kInt16, "I16", "ShortStorage", 2},        {torch::kInt8, "I8", "CharStorage", 1},
    {torch::kUInt8, "U8", "ByteStorage", 1},          {torch::kBool, "BOOL", "BoolStorage", 1}};

/// Number of elements of a shape, or nothing if that does not fit 63 bits or a length is negative.
inline std::optional<std::int64_t> element_count(const std::vector<std::int64_t>& shape) {
  std::int64_t count = 1;
  for (const std::int64_t length : shape) {
    if (length < 0) return std::nullopt;
    if (length != 0 && count > std::numeric_limits<std::int64_t>::max() / length) return std::nullopt;
    count *= length;
  }
  return count;
}

/// Floats of any width as float32; everything else as it is.
inline torch::Tensor as_weights(const torch::Tensor& tensor) { return tensor.is_floating_point() ? tensor.to(torch::kFloat32) : tensor; }

/// `name` as part of a one-line message: printable and not too long.
inline std::string in_quotes(std::string_view name) {
  constexpr std::size_t kLongest = 80;
  std::string out = "'";
  for (const char c : name.substr(0, kLongest)) out += c < ' ' || c > '~' ? '?' : c;
  return out + (name.size() > kLongest ? "...'" : "'");
}

}  // namespace smartmine
