#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "smartmine/core/buffer.h"
#include "smartmine/core/rows.h"

namespace smartmine {

/// Rows in an order that keeps near ones together in memory. A place is a position in that order.
class OrderedRows {
 public:
  OrderedRows() = default;
  OrderedRows(const Rows& rows, std::vector<std::uint32_t> order, unsigned threads);

  std::size_t size() const { return order_.size(); }
  std::uint32_t point(std::size_t place) const { return order_[place]; }  ///< The point at a place.
  std::uint32_t place(std::size_t point) const { return places_[point]; }
  Rows rows() const { return rows(0, size()); }
  /// Those at the places [first, last).
  Rows rows(std::size_t first, std::size_t last) const { return {values_.data() + first * dimension_, last - first, dimension_}; }
  /// The order itself, given away.
  std::vector<std::uint32_t> take_order() && { return std::move(order_); }

 private:
  std::size_t dimension_ = 0;
  std::vector<std::uint32_t> order_;
  std::vector<std::uint32_t> places_;
  Buffer<float> values_;
};

/// The order in which the points come.
std::vector<std::uint32_t> own_order(std::size_t size);

}  // namespace smartmine
