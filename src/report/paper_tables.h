#pragma once

#include <span>
#include <string_view>

namespace smartmine {

/// A row of the paper's tables 1 and 2: what a way to train reached on unseen classes, in per cent.
struct PaperRow {
  std::string_view name;
  std::string_view system;  ///< Ours for it.
  double nmi;
  double recall_at_1;
  double recall_at_2;
  double recall_at_4;
  double recall_at_8;
};

/// The paper's table for a data set; empty: it has none.
std::span<const PaperRow> paper_table(std::string_view dataset);

}  // namespace smartmine
