#include "smartmine/metrics/retrieval.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <limits>
#include <numeric>

#include "graph/kernels/kernels.h"
#include "metrics/classes.h"
#include "smartmine/core/buffer.h"
#include "smartmine/core/error.h"
#include "smartmine/core/parallel.h"
#include "smartmine/graph/exact_knn.h"

namespace smartmine {
namespace {

// Entries of the lists of one piece, eight bytes each: so many in any case, or this many a row.
constexpr std::size_t kManyEntries = std::size_t{1} << 23;
constexpr std::size_t kEntriesPerRow = 32;

// What one query adds to the means.
struct Score {
  std::size_t first_positive = std::numeric_limits<std::size_t>::max();  // its place, from 0
  double average_precision = 0;
  double r_precision = 0;
};

// Sees the neighbours of a query, nearest first, without the query.
class Scorer {
 public:
  Scorer(const Classes& classes, std::uint32_t query)
      : classes_(classes), label_class_(classes.of[query]), positives_(classes.sizes[label_class_] - 1) {}

  void see(std::uint32_t neighbor) {
    const std::size_t place = seen_++;
    if (classes_.of[neighbor] != label_class_) return;
    score_.first_positive = std::min(score_.first_positive, place);
    if (place >= positives_) return;
    ++found_;
    score_.average_precision += static_cast<double>(found_) / static_cast<double>(place + 1);
  }

  Score score() const {
    Score score = score_;
    if (positives_ > 0) {
      score.average_precision /= static_cast<double>(positives_);
      score.r_precision = static_cast<double>(found_) / static_cast<double>(positives_);
    }
    return score;
  }

 private:
  const Classes& classes_;
  std::uint32_t label_class_;
  std::size_t positives_;  // R
  std::size_t seen_ = 0;
  std::size_t found_ = 0;  // among the first R
  Score score_;
};

// Queries of lists of nearly the same length, that of the last.
struct Piece {
  std::span<const std::uint32_t> queries;
  std::size_t length = 0;
};

class Measurement {
 public:
  Measurement(const Rows& rows, const Classes& classes, const RetrievalOptions& options, const Progress& progress)
      : rows_(rows), classes_(classes), options_(options), progress_(progress) {
    result_.recall.assign(options.recall_at.size(), 0.0);
    result_.stats.queries = rows.size();
    result_.stats.classes = classes.sizes.size();
  }

  RetrievalResult run() {
    // Long lists last, so that a piece's lists are of about the same length.
    std::vector<std::uint32_t> order(rows_.size());
    std::iota(order.begin(), order.end(), 0U);
    if (options_.precision)
      std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) { return list_length(a) < list_length(b); });
    for (std::size_t begin = 0; begin < order.size();) {
      const Piece piece = next_piece(std::span(order).subspan(begin));
      scores_.assign(piece.queries.size(), Score{});
      if (is_long(piece.length))
        score_by_sorting(piece, begin);
      else
        score_by_lists(piece, begin);
      for (std::size_t i = 0; i < piece.queries.size(); ++i) add(piece.queries[i], scores_[i]);
      result_.stats.longest_list = std::max(result_.stats.longest_list, piece.length);
      begin += piece.queries.size();
    }
    finish();
    return std::move(result_);
  }

 private:
  // Neighbours to look at. With no k asked for, one at least: search wants to find something.
  std::size_t list_length(std::uint32_t query) const {
    std::size_t length = options_.recall_at.empty() ? 1 : options_.recall_at.back();
    if (options_.precision) length = std::max<std::size_t>(length, classes_.sizes[classes_.of[query]] - 1);
    return std::min(length, rows_.size() - 1);
  }

  // Above this, sorting all rows costs no more than keeping the best, and takes less memory.
  bool is_long(std::size_t length) const { return length > rows_.size() / 16; }

  Piece next_piece(std::span<const std::uint32_t> queries) const {
    const std::size_t shortest = list_length(queries.front());
    const std::size_t most_entries = std::max(kManyEntries, kEntriesPerRow * rows_.size());
    Piece piece{queries.first(1), shortest};
    for (std::size_t count = 1; count < queries.size(); ++count) {
      const std::size_t length = list_length(queries[count]);
      if (is_long(length) != is_long(shortest)) break;
      if (!is_long(length) && (length > shortest + shortest / 4 + 8 || (count + 1) * (length + 1) > most_entries)) break;
      piece = {queries.first(count + 1), length};
    }
    return piece;
  }

  void score_by_lists(const Piece& piece, std::size_t before) {
    const std::size_t dimension = rows_.dimension();
    Buffer<float> values(piece.queries.size() * dimension);
    for (std::size_t i = 0; i < piece.queries.size(); ++i) std::copy_n(rows_[piece.queries[i]], dimension, values.data() + i * dimension);
    const Progress progress = !progress_ ? Progress() : [&](const ProgressEvent& event) {
      return progress_({"retrieval", before + std::min(event.done, piece.queries.size()), rows_.size()});
    };
    // One more than needed, for the query is found too, unless rows equal to it fill the list.
    const NeighborResult found = ExactKnn({.neighbors = piece.length + 1, .threads = options_.threads})
                                     .search(rows_, Rows(values.data(), piece.queries.size(), dimension), progress);
    result_.stats.distance_computations += found.stats.distance_computations;
    parallel_for(piece.queries.size(), 256, options_.threads, [&](std::size_t begin, std::size_t end, unsigned) {
      for (std::size_t i = begin; i < end; ++i) {
        Scorer scorer(classes_, piece.queries[i]);
        for (const std::uint32_t neighbor : found.lists.ids(i))
          if (neighbor != piece.queries[i]) scorer.see(neighbor);
        scores_[i] = scorer.score();
      }
    });
  }

  void score_by_sorting(const Piece& piece, std::size_t before) {
    const kernels::Kernels& kernels = kernels::active();
    const std::size_t size = rows_.size();
    const Progress progress = !progress_ ? Progress() : [&](const ProgressEvent& event) {
      return progress_({"retrieval", before + event.done, size});
    };
    parallel_for(
        piece.queries.size(), 16, options_.threads,
        [&](std::size_t begin, std::size_t end, unsigned) {
          Buffer<std::uint64_t> keys(size - 1);
          for (std::size_t i = begin; i < end; ++i) {
            const std::uint32_t query = piece.queries[i];
            std::uint64_t* key = keys.data();
            for (std::uint32_t other = 0; other < size; ++other) {
              if (other == query) continue;
              // Floats that are not negative are ordered as their bits are.
              const float squared = kernels.squared_distance(rows_[query], rows_[other], rows_.dimension());
              *key++ = std::uint64_t{std::bit_cast<std::uint32_t>(squared)} << 32 | other;
            }
            const auto last = keys.begin() + list_length(query);
            if (last != keys.end()) std::nth_element(keys.begin(), last, keys.end());
            std::sort(keys.begin(), last);
            Scorer scorer(classes_, query);
            std::for_each(keys.begin(), last, [&](std::uint64_t k) { scorer.see(static_cast<std::uint32_t>(k)); });
            scores_[i] = scorer.score();
          }
        },
        progress, "retrieval");
    result_.stats.distance_computations += static_cast<std::uint64_t>(piece.queries.size()) * (size - 1);
  }

  void add(std::uint32_t query, const Score& score) {
    if (classes_.sizes[classes_.of[query]] == 1) ++result_.stats.queries_without_positive;
    for (std::size_t i = 0; i < result_.recall.size(); ++i) result_.recall[i] += score.first_positive < options_.recall_at[i] ? 1.0 : 0.0;
    result_.map_at_r += score.average_precision;
    result_.r_precision += score.r_precision;
  }

  void finish() {
    const auto answerable = static_cast<double>(rows_.size() - result_.stats.queries_without_positive);
    for (double& recall : result_.recall) recall /= static_cast<double>(rows_.size());
    constexpr double kNotAsked = std::numeric_limits<double>::quiet_NaN();
    result_.map_at_r = options_.precision ? result_.map_at_r / answerable : kNotAsked;
    result_.r_precision = options_.precision ? result_.r_precision / answerable : kNotAsked;
  }

  const Rows& rows_;
  const Classes& classes_;
  const RetrievalOptions& options_;
  const Progress& progress_;
  std::vector<Score> scores_;  // of the piece under way
  RetrievalResult result_;
};

}  // namespace

void RetrievalOptions::validate() const {
  for (std::size_t i = 0; i < recall_at.size(); ++i) {
    if (recall_at[i] < 1 || recall_at[i] > kMaxRows)
      throw InvalidArgument(fmt::format("recall_at has {}; each k must be from 1 to {}", recall_at[i], kMaxRows));
    if (i > 0 && recall_at[i] <= recall_at[i - 1])
      throw InvalidArgument(fmt::format("recall_at has {} behind {}; they must ascend", recall_at[i], recall_at[i - 1]));
  }
  if (recall_at.empty() && !precision) throw InvalidArgument("recall_at is empty and precision is false; there is nothing to measure");
}

RetrievalResult measure_retrieval(const Rows& rows, std::span<const std::int64_t> labels, const RetrievalOptions& options,
                                  const Progress& progress) {
  const auto begin = std::chrono::steady_clock::now();
  options.validate();
  if (labels.size() != rows.size())
    throw InvalidArgument(fmt::format("there are {} labels but {} embeddings; each needs exactly one", labels.size(), rows.size()));
  if (rows.size() < 2) throw InvalidArgument("there is only 1 embedding; a neighbour must be another, so at least 2 are needed");
  const Classes classes(labels);
  if (classes.sizes.size() == 1)
    throw InvalidArgument(
        fmt::format("labels name one class only ({} for all {} points); every answer would be right", labels.front(), labels.size()));
  if (classes.sizes.size() == rows.size())
    throw InvalidArgument(fmt::format("each of the {} classes has one member only; no answer could be right", classes.sizes.size()));
  check_rows(rows, options.threads);
  RetrievalResult result = Measurement(rows, classes, options, progress).run();
  result.stats.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return result;
}

}  // namespace smartmine
