#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "smartmine/core/progress.h"
#include "smartmine/core/rows.h"
#include "smartmine/graph/neighbor_index.h"

namespace smartmine {

struct Team;

/// Options for measuring retrieval.
struct RetrievalOptions {
  std::vector<std::size_t> recall_at = {1, 2, 4, 8};  ///< The k of each recall@k, ascending; one beyond the other rows means all of them.
  bool precision = true;                              ///< MAP@R and R-precision too: they need lists as long as the query's class.
  unsigned threads = 0;                               ///< 0: all cores. Never changes the result.
  const Team* team = nullptr;                         ///< That shares the queries: a call of all its members. Never changes the result.
  bool gpu = false;          ///< Look for neighbours on GPUs where there are some, every row is a query and no list is too long for one.
  DeviceSearch device = {};  ///< Is used in place of the GPUs' own search. The CPU goes on where either fails.
  void validate() const;     ///< Throws InvalidArgument naming the field, its value and the allowed range.
};

/// What measuring retrieval cost and what it was measured on.
struct RetrievalStats {
  std::size_t queries = 0;                   ///< All rows.
  std::size_t classes = 0;                   ///< Distinct labels.
  std::size_t queries_without_positive = 0;  ///< Rows alone in their class: misses of recall@k, left out of MAP@R and R-precision.
  std::size_t longest_list = 0;              ///< Most neighbours a query needed.
  std::uint64_t distance_computations = 0;   ///< Pairs whose distance was computed, in any precision.
  double seconds = 0;
  std::string note;  ///< What an operator should know, in words; mostly empty.
};

/// How well the nearest rows share a query's class; all in [0, 1]. Every row is a query among all other rows, in the order of
/// (Euclidean distance, id); the query itself is left out by its index. R is the number of other rows of the query's class.
struct RetrievalResult {
  /// recall@k for each k of the options: the share of all queries with one of their class among the k nearest.
  std::vector<double> recall;
  /// MAP@R: the mean over queries with R > 0 of 1/R * sum over the R nearest of (is of the class) * (precision so far). NaN unless asked
  /// for.
  double map_at_r = 0;
  /// R-precision: the mean over the same queries of the share of their class among the R nearest. NaN unless asked for.
  double r_precision = 0;
  RetrievalStats stats;
};

/// Measures retrieval by exact search. Queries go in pieces of bounded memory, a few hundred bytes a row and thread, however large a class
/// is. Throws InvalidArgument for another number of labels than rows, fewer than 2 rows, values that are not finite, one class only (every
/// answer would be right) and classes of one member only (every answer would be wrong).
RetrievalResult measure_retrieval(const Rows& rows, std::span<const std::int64_t> labels, const RetrievalOptions& options = {},
                                  const Progress& progress = {});

/// The same with queries and what is searched for them apart: nothing is left out, and R is the number of rows of the gallery of the
/// query's class. Throws InvalidArgument for another number of labels than rows on either side, none, another dimension, values that are
/// not finite, and a gallery without the class of any query.
RetrievalResult measure_retrieval(const Rows& queries, std::span<const std::int64_t> query_labels, const Rows& gallery,
                                  std::span<const std::int64_t> gallery_labels, const RetrievalOptions& options = {},
                                  const Progress& progress = {});

}  // namespace smartmine
