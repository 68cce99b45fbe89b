#include "mining/reach.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "graph/kernels/kernels.h"

namespace smartmine {
namespace {

constexpr std::size_t kLooks = 4;    // rows looked at for every entry of the longest list
constexpr std::size_t kBlock = 512;  // rows measured at once

}  // namespace

Reach::Reach(const Rows& rows, std::size_t longest, unsigned threads)
    : rows_(rows),
      longest_(longest),
      looked_at_(longest < rows.size() / kLooks ? kLooks * longest : rows.size()),
      // Sums of so many squares, each way of adding them up.
      slack_(2.0 * static_cast<double>(rows.dimension() + 8) * static_cast<double>(std::numeric_limits<float>::epsilon())),
      longest_row_(check_rows(rows, threads).max_norm) {}

std::size_t Reach::nearer(std::uint32_t row, double bound) const {
  const double sure = bound * (1 - slack_);
  double square = 0;
  for (const float value : rows_.row(row)) square += static_cast<double>(value) * static_cast<double>(value);
  // No point can be farther away than this.
  const double farthest = std::sqrt(square) + longest_row_;
  if (farthest * farthest < sure) return std::min(longest_, rows_.size() - 1);

  const kernels::Kernels& kernels = kernels::active();
  std::array<std::uint32_t, kBlock> ids;
  std::array<float, kBlock> distances;
  std::size_t count = 0;
  for (std::size_t first = 0; first < looked_at_ && count < longest_; first += kBlock) {
    const std::size_t block = std::min(kBlock, looked_at_ - first);
    for (std::size_t i = 0; i < block; ++i) {
      const std::uint64_t place = (first + i) * static_cast<std::uint64_t>(rows_.size()) / looked_at_;
      ids[i] = static_cast<std::uint32_t>(place);
    }
    kernels.squared_distances(rows_[row], rows_.data(), ids.data(), block, rows_.dimension(), distances.data());
    for (std::size_t i = 0; i < block; ++i) count += ids[i] != row && static_cast<double>(distances[i]) < sure;
  }
  return std::min(count, longest_);
}

}  // namespace smartmine
