#include "graph/ordered_rows.h"

#include <algorithm>
#include <numeric>

#include "smartmine/core/parallel.h"

namespace smartmine {

OrderedRows::OrderedRows(const Rows& rows, std::vector<std::uint32_t> order, unsigned threads)
    : dimension_(rows.dimension()), order_(std::move(order)), places_(rows.size()), values_(rows.size() * rows.dimension()) {
  parallel_for(size(), 4096, threads, [&](std::size_t begin, std::size_t end, unsigned) {
    for (std::size_t p = begin; p < end; ++p) {
      places_[order_[p]] = static_cast<std::uint32_t>(p);
      std::copy_n(rows[order_[p]], dimension_, values_.data() + p * dimension_);
    }
  });
}

std::vector<std::uint32_t> own_order(std::size_t size) {
  std::vector<std::uint32_t> order(size);
  std::iota(order.begin(), order.end(), 0U);
  return order;
}

}  // namespace smartmine
