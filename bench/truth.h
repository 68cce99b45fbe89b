#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "shared_array.h"
#include "smartmine/core/rows.h"

namespace smartmine::bench {

/// Exact lists of up to 1,000 evenly spread rows, in memory shared with child processes.
class Truth {
 public:
  Truth(const Rows& rows, std::size_t neighbors, unsigned threads);

  std::size_t samples() const { return samples_; }
  std::size_t row(std::size_t sample) const { return sample * size_ / samples_; }

  /// Share of true neighbours in the lists that `list_of` gives for the sampled rows: ids without the row itself, at most
  /// as many as `neighbors`. An id that comes twice counts once.
  double recall(const std::function<std::vector<std::int64_t>(std::size_t row)>& list_of) const;

 private:
  std::size_t size_;
  std::size_t neighbors_;
  std::size_t samples_;
  SharedArray<std::uint32_t> ids_;  // of each sample, ascending
};

}  // namespace smartmine::bench
