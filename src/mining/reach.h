#pragma once

#include <cstddef>
#include <cstdint>

#include "smartmine/core/rows.h"

namespace smartmine {

/// Tells how far a list must at least go, by a look at rows that makes no list. Immutable; concurrent use is safe.
class Reach {
 public:
  /// Of lists of `longest` at most. A few times as many rows are looked at, spread over all.
  Reach(const Rows& rows, std::size_t longest, unsigned threads);

  /// How many of the other rows surely lie nearer to a row than `bound` (squared), counted up to `longest`. There may be more. Surely: the
  /// same distance may come out a little otherwise where it is computed in another way.
  std::size_t nearer(std::uint32_t row, double bound) const;

 private:
  Rows rows_;
  std::size_t longest_;
  std::size_t looked_at_;
  double slack_;  // relative, of a squared distance
  double longest_row_;
};

}  // namespace smartmine
