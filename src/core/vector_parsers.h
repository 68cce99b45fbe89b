#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "smartmine/core/vector_files.h"

namespace smartmine {

/// A whole file in memory, however it came there; tests and the fuzzer make theirs without a disk.
struct FileBytes {
  std::span<const std::byte> bytes;
  std::filesystem::path path;                    ///< For messages, and its ending for the format.
  std::function<void(std::size_t)> done_before;  ///< Told now and then how far a conversion has come; may be empty.
};

/// A float matrix: in the file's own bytes where these can be used as they are, else in `converted`.
struct ParsedMatrix {
  const float* in_place = nullptr;
  Buffer<float> converted;
  std::size_t rows = 0;
  std::size_t columns = 0;
};

/// What read_embeddings, read_ids and read_labels do once they have the bytes.
ParsedMatrix parse_embeddings(const FileBytes& file, std::string_view what = "embeddings");
NeighborIds parse_ids(const FileBytes& file);
std::vector<std::int64_t> parse_labels(const FileBytes& file);

}  // namespace smartmine
