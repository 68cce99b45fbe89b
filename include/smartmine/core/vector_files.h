#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string_view>
#include <vector>

#include "smartmine/core/buffer.h"
#include "smartmine/core/rows.h"

namespace smartmine {

/// Vectors and the memory they lie in: a mapped file or a buffer. Immutable; copies share the memory.
class Embeddings {
 public:
  /// Takes over `values`, `size` rows of `dimension` floats. Throws InvalidArgument as Rows does, or if their number differs.
  Embeddings(Buffer<float> values, std::size_t size, std::size_t dimension);

  /// A view of `rows` that keeps `owner`, and with it the memory, alive.
  Embeddings(std::shared_ptr<const void> owner, const Rows& rows) : owner_(std::move(owner)), rows_(rows) {}

  /// Valid as long as this object or a copy of it.
  const Rows& rows() const { return rows_; }

 private:
  std::shared_ptr<const void> owner_;
  Rows rows_;
};

/// Neighbours computed elsewhere: `columns` ids a row, row after row. Every id is below 2^31; nothing else is checked.
struct NeighborIds {
  std::size_t rows = 0;
  std::size_t columns = 0;
  Buffer<std::uint32_t> ids;
};

// All readers throw IoError naming the path, the place and a hint. A file that starts as a .npy file is read as one; the
// others are told by their ending. Files are read once, and never reserve more memory than a multiple of their size.

/// Reads a matrix of floats: .npy (float16, float32, float64), .fvecs or .fbin. float32 .npy and .fbin stay in the mapped
/// file, the others are converted on the way. A float64 too large for a float is an error; NaN and infinite values are
/// left for check_rows, which looks at every value once, whatever the source. `what` is what messages call the matrix, for
/// files of other floats, such as the distances that belong to ids.
Embeddings read_embeddings(const std::filesystem::path& path, std::string_view what = "embeddings");

/// Reads an N x K matrix of ids: .npy of any integer type or .ivecs.
NeighborIds read_ids(const std::filesystem::path& path);

/// Reads N labels: .npy of any integer type, 1-D or N x 1.
std::vector<std::int64_t> read_labels(const std::filesystem::path& path);

}  // namespace smartmine
