#include "smartmine/core/rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "smartmine/core/error.h"
#include "smartmine/core/parallel.h"

namespace smartmine {

Rows::Rows(const float* data, std::size_t size, std::size_t dimension) : data_(data), size_(size), dimension_(dimension) {
  if (size == 0) throw InvalidArgument("embeddings have no rows; at least 1 is needed");
  if (size > kMaxRows) throw InvalidArgument(fmt::format("embeddings have {} rows; at most {} are supported", size, kMaxRows));
  if (dimension == 0 || dimension > kMaxDimension)
    throw InvalidArgument(fmt::format("embeddings have dimension {}; it must be from 1 to {}", dimension, kMaxDimension));
  if (data == nullptr) throw InvalidArgument("embeddings point to no data");
}

RowsSummary check_rows(const Rows& rows, unsigned threads) {
  constexpr std::size_t kGrain = 4096;
  // Differences of two rows below this length have squares that a float can hold.
  const double longest = std::sqrt(static_cast<double>(std::numeric_limits<float>::max())) / 4.0;
  struct Piece {
    double low = std::numeric_limits<double>::infinity();
    double high = 0;
    bool unit = true;
    std::size_t bad_row = std::numeric_limits<std::size_t>::max();
  };
  std::vector<Piece> pieces((rows.size() + kGrain - 1) / kGrain);
  parallel_for(rows.size(), kGrain, threads, [&](std::size_t begin, std::size_t end, unsigned) {
    Piece& piece = pieces[begin / kGrain];
    for (std::size_t i = begin; i < end; ++i) {
      double sum = 0;
      for (const float value : rows.row(i)) sum += static_cast<double>(value) * static_cast<double>(value);
      const double norm = std::sqrt(sum);
      if (!(norm <= longest)) {  // also true for NaN
        piece.bad_row = i;
        return;
      }
      piece.low = std::min(piece.low, norm);
      piece.high = std::max(piece.high, norm);
      piece.unit = piece.unit && std::abs(norm - 1.0) <= 1e-3;
    }
  });
  RowsSummary summary;
  summary.min_norm = std::numeric_limits<double>::infinity();
  for (const Piece& piece : pieces) {
    if (piece.bad_row != std::numeric_limits<std::size_t>::max()) {
      const auto row = rows.row(piece.bad_row);
      for (std::size_t column = 0; column < row.size(); ++column)
        if (!std::isfinite(row[column]))
          throw InvalidArgument(fmt::format("embeddings hold {} at row {}, column {} (counted from 0); every value must be finite",
                                            std::isnan(row[column]) ? "NaN" : "an infinite value", piece.bad_row, column));
      throw InvalidArgument(
          fmt::format("row {} of the embeddings is longer than {:.3g}: its squared distances overflow", piece.bad_row, longest));
    }
    summary.min_norm = std::min(summary.min_norm, piece.low);
    summary.max_norm = std::max(summary.max_norm, piece.high);
    summary.unit_norm = summary.unit_norm && piece.unit;
  }
  return summary;
}

}  // namespace smartmine
