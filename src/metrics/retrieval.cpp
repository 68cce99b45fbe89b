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
#include "smartmine/graph/gpu_lists.h"
#include "smartmine/graph/neighbor_index.h"
#include "smartmine/graph/team.h"

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

/// Queries and what is searched for them: other rows, or the same, where a query is no answer to itself.
struct Sides {
  const Rows& queries;
  const Rows& gallery;
  bool apart = false;
  std::vector<std::uint32_t> query_class = {};    // of each query
  std::vector<std::uint32_t> gallery_class = {};  // of each row of the gallery
  std::vector<std::size_t> gallery_sizes = {};    // rows of the gallery of each class

  /// Right answers to a query.
  std::size_t positives(std::uint32_t query) const { return gallery_sizes[query_class[query]] - (apart ? 0 : 1); }
  /// Answers to a query, right or wrong.
  std::size_t others() const { return gallery.size() - (apart ? 0 : 1); }
  bool is_itself(std::uint32_t query, std::uint32_t row) const { return !apart && query == row; }
};

// Sees the neighbours of a query, nearest first, without the query.
class Scorer {
 public:
  Scorer(const Sides& sides, std::uint32_t query)
      : sides_(sides), label_class_(sides.query_class[query]), positives_(sides.positives(query)) {}

  void see(std::uint32_t neighbor) {
    const std::size_t place = seen_++;
    if (sides_.gallery_class[neighbor] != label_class_) return;
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
  const Sides& sides_;
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
  Measurement(const Sides& sides, const RetrievalOptions& options, const Progress& progress)
      : sides_(sides), queries_(sides.queries), gallery_(sides.gallery), options_(options), progress_(progress) {
    result_.recall.assign(options.recall_at.size(), 0.0);
    result_.stats.queries = queries_.size();
    result_.stats.classes = sides.gallery_sizes.size();
  }

  RetrievalResult run() {
    // Long lists last, so that a piece's lists are of about the same length.
    std::vector<std::uint32_t> order(queries_.size());
    std::iota(order.begin(), order.end(), 0U);
    if (options_.precision)
      std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) { return list_length(a) < list_length(b); });
    result_.stats.longest_list = list_length(order.back());
    scores_.resize(order.size());
    if (score_on_device())
      std::iota(order.begin(), order.end(), 0U);
    else
      score_on_cpus(order);
    // Sums have the same bits whoever has found the scores: the queries are added in one order.
    for (const std::uint32_t query : order) add(query, scores_[query]);
    result_.stats.distance_computations = team_sum(options_.team, result_.stats.distance_computations);
    finish();
    return std::move(result_);
  }

 private:
  // Neighbours to look at. With no k asked for, one at least: search wants to find something.
  std::size_t list_length(std::uint32_t query) const {
    std::size_t length = options_.recall_at.empty() ? 1 : options_.recall_at.back();
    if (options_.precision) length = std::max(length, sides_.positives(query));
    return std::min(length, sides_.others());
  }

  // Above this, sorting all rows costs no more than keeping the best, and takes less memory.
  bool is_long(std::size_t length) const { return length > gallery_.size() / 16; }

  Piece next_piece(std::span<const std::uint32_t> queries) const {
    const std::size_t shortest = list_length(queries.front());
    const std::size_t most_entries = std::max(kManyEntries, kEntriesPerRow * gallery_.size());
    Piece piece{queries.first(1), shortest};
    for (std::size_t count = 1; count < queries.size(); ++count) {
      const std::size_t length = list_length(queries[count]);
      if (is_long(length) != is_long(shortest)) break;
      if (!is_long(length) && (length > shortest + shortest / 4 + 8 || (count + 1) * (length + 1) > most_entries)) break;
      piece = {queries.first(count + 1), length};
    }
    return piece;
  }

  // Lists of all rows at once, by the first of a team. False: there is no GPU, or it cannot, or its lists do not stand up to a sample;
  // the last two are noted.
  bool score_on_device() {
    const Team* const team = options_.team;
    const bool is_first = team == nullptr || team->member == 0;
    const bool scored = is_first && (options_.gpu || options_.device) && find_on_device(result_.stats.longest_list);
    if (team == nullptr) return scored;
    if (team_sum(team, scored ? 1 : 0) == 0) return false;
    std::vector<std::size_t> begins(team->size + 1, queries_.size());
    begins[0] = 0;
    team->gather(scores_.data(), sizeof(Score), begins);
    return true;
  }

  bool find_on_device(std::size_t longest) {
    constexpr std::size_t kMostEntries = std::size_t{1} << 29;
    if (sides_.apart || queries_.size() * longest > kMostEntries) return false;
    const DeviceSearch search = options_.device ? options_.device : gpu_search(longest, queries_.dimension());
    if (!search) return false;
    const Progress progress = !progress_ ? Progress() : [&](const ProgressEvent& event) {
      return progress_({"retrieval", event.done, event.total});
    };
    NeighborIndex index({.kind = IndexKind::kDevice, .neighbors = longest, .threads = options_.threads});
    NeighborResult found;
    try {
      found = index.neighbors(queries_, {.device = search}, progress);
    } catch (const Cancelled&) {
      throw;
    } catch (const InternalError&) {
      throw;
    } catch (const Error& error) {
      result_.stats.note = fmt::format("the CPU looked for neighbours, for the device did not ({})", error.what());
      return false;
    }
    if (!found.stats.recall_reached) {
      result_.stats.note = fmt::format("the CPU looked for neighbours, for the device's lists had a recall of {:.4f}", found.stats.recall);
      return false;
    }
    result_.stats.distance_computations = found.stats.distance_computations;
    parallel_for(queries_.size(), 256, options_.threads, [&](std::size_t begin, std::size_t end, unsigned) {
      for (std::size_t i = begin; i < end; ++i) {
        const auto query = static_cast<std::uint32_t>(i);
        Scorer scorer(sides_, query);
        for (const std::uint32_t neighbor : found.lists.ids(i).first(list_length(query))) scorer.see(neighbor);
        scores_[i] = scorer.score();
      }
    });
    return true;
  }

  // Members of a team take turns along the order, so that each has short lists and long ones.
  void score_on_cpus(std::span<const std::uint32_t> order) {
    const Team* const team = options_.team;
    const std::size_t members = team == nullptr ? 1 : team->size, member = team == nullptr ? 0 : team->member;
    std::vector<std::size_t> begins = {0};
    for (std::size_t m = 0; m < members; ++m) begins.push_back(begins.back() + (order.size() + members - 1 - m) / members);
    std::vector<std::uint32_t> own;
    for (std::size_t i = member; i < order.size(); i += members) own.push_back(order[i]);
    own_queries_ = own.size();
    std::vector<Score> by_member(order.size());
    for (std::size_t begin = 0; begin < own.size();) {
      const Piece piece = next_piece(std::span<const std::uint32_t>(own).subspan(begin));
      const std::span<Score> scores = std::span(by_member).subspan(begins[member] + begin, piece.queries.size());
      if (is_long(piece.length))
        score_by_sorting(piece, begin, scores);
      else
        score_by_lists(piece, begin, scores);
      begin += piece.queries.size();
    }
    if (team != nullptr) team->gather(by_member.data(), sizeof(Score), begins);
    for (std::size_t i = 0; i < order.size(); ++i) scores_[order[i]] = by_member[begins[i % members] + i / members];
  }

  void score_by_lists(const Piece& piece, std::size_t before, std::span<Score> scores) {
    const std::size_t dimension = queries_.dimension();
    Buffer<float> values(piece.queries.size() * dimension);
    for (std::size_t i = 0; i < piece.queries.size(); ++i)
      std::copy_n(queries_[piece.queries[i]], dimension, values.data() + i * dimension);
    const Progress progress = !progress_ ? Progress() : [&](const ProgressEvent& event) {
      return progress_({"retrieval", before + std::min(event.done, piece.queries.size()), own_queries_});
    };
    // One more than needed, for the query is found too, unless rows equal to it fill the list.
    const std::size_t wanted = piece.length + (sides_.apart ? 0 : 1);
    const NeighborResult found = NeighborIndex({.kind = IndexKind::kExact, .neighbors = wanted, .threads = options_.threads})
                                     .search(gallery_, Rows(values.data(), piece.queries.size(), dimension), progress);
    result_.stats.distance_computations += found.stats.distance_computations;
    parallel_for(piece.queries.size(), 256, options_.threads, [&](std::size_t begin, std::size_t end, unsigned) {
      for (std::size_t i = begin; i < end; ++i) {
        Scorer scorer(sides_, piece.queries[i]);
        for (const std::uint32_t neighbor : found.lists.ids(i))
          if (!sides_.is_itself(piece.queries[i], neighbor)) scorer.see(neighbor);
        scores[i] = scorer.score();
      }
    });
  }

  void score_by_sorting(const Piece& piece, std::size_t before, std::span<Score> scores) {
    const kernels::Kernels& kernels = kernels::active();
    const std::size_t size = gallery_.size();
    const Progress progress = !progress_ ? Progress() : [&](const ProgressEvent& event) {
      return progress_({"retrieval", before + event.done, own_queries_});
    };
    parallel_for(
        piece.queries.size(), 16, options_.threads,
        [&](std::size_t begin, std::size_t end, unsigned) {
          Buffer<std::uint64_t> keys(sides_.others());
          for (std::size_t i = begin; i < end; ++i) {
            const std::uint32_t query = piece.queries[i];
            std::uint64_t* key = keys.data();
            for (std::uint32_t other = 0; other < size; ++other) {
              if (sides_.is_itself(query, other)) continue;
              // Floats that are not negative are ordered as their bits are.
              const float squared = kernels.squared_distance(queries_[query], gallery_[other], gallery_.dimension());
              *key++ = std::uint64_t{std::bit_cast<std::uint32_t>(squared)} << 32 | other;
            }
            const auto last = keys.begin() + list_length(query);
            if (last != keys.end()) std::nth_element(keys.begin(), last, keys.end());
            std::sort(keys.begin(), last);
            Scorer scorer(sides_, query);
            std::for_each(keys.begin(), last, [&](std::uint64_t k) { scorer.see(static_cast<std::uint32_t>(k)); });
            scores[i] = scorer.score();
          }
        },
        progress, "retrieval");
    result_.stats.distance_computations += static_cast<std::uint64_t>(piece.queries.size()) * sides_.others();
  }

  void add(std::uint32_t query, const Score& score) {
    if (sides_.positives(query) == 0) ++result_.stats.queries_without_positive;
    for (std::size_t i = 0; i < result_.recall.size(); ++i) result_.recall[i] += score.first_positive < options_.recall_at[i] ? 1.0 : 0.0;
    result_.map_at_r += score.average_precision;
    result_.r_precision += score.r_precision;
  }

  void finish() {
    const auto answerable = static_cast<double>(queries_.size() - result_.stats.queries_without_positive);
    for (double& recall : result_.recall) recall /= static_cast<double>(queries_.size());
    constexpr double kNotAsked = std::numeric_limits<double>::quiet_NaN();
    result_.map_at_r = options_.precision ? result_.map_at_r / answerable : kNotAsked;
    result_.r_precision = options_.precision ? result_.r_precision / answerable : kNotAsked;
  }

  const Sides& sides_;
  const Rows& queries_;
  const Rows& gallery_;
  const RetrievalOptions& options_;
  const Progress& progress_;
  std::vector<Score> scores_;    // of each query
  std::size_t own_queries_ = 0;  // of this member of a team
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
  Sides sides{.queries = rows, .gallery = rows, .apart = false, .query_class = classes.of, .gallery_class = classes.of};
  sides.gallery_sizes.assign(classes.sizes.begin(), classes.sizes.end());
  RetrievalResult result = Measurement(sides, options, progress).run();
  result.stats.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return result;
}

RetrievalResult measure_retrieval(const Rows& queries, std::span<const std::int64_t> query_labels, const Rows& gallery,
                                  std::span<const std::int64_t> gallery_labels, const RetrievalOptions& options, const Progress& progress) {
  const auto begin = std::chrono::steady_clock::now();
  options.validate();
  const auto check_side = [&](const char* name, const Rows& rows, std::span<const std::int64_t> labels) {
    if (labels.size() != rows.size())
      throw InvalidArgument(fmt::format("{} has {} labels but {} embeddings; each needs exactly one", name, labels.size(), rows.size()));
    if (rows.size() == 0) throw InvalidArgument(fmt::format("{} has no embeddings; at least 1 is needed", name));
  };
  check_side("queries", queries, query_labels);
  check_side("gallery", gallery, gallery_labels);
  if (queries.dimension() != gallery.dimension())
    throw InvalidArgument(fmt::format("queries are of dimension {} and the gallery of {}; they must be of the same network",
                                      queries.dimension(), gallery.dimension()));
  std::vector<std::int64_t> all(query_labels.begin(), query_labels.end());
  all.insert(all.end(), gallery_labels.begin(), gallery_labels.end());
  const Classes classes(all);
  const auto first_of_gallery = classes.of.begin() + static_cast<std::ptrdiff_t>(queries.size());
  Sides sides{.queries = queries,
              .gallery = gallery,
              .apart = true,
              .query_class = {classes.of.begin(), first_of_gallery},
              .gallery_class = {first_of_gallery, classes.of.end()}};
  sides.gallery_sizes.assign(classes.sizes.size(), 0);
  for (const std::uint32_t label : sides.gallery_class) ++sides.gallery_sizes[label];
  if (std::all_of(sides.query_class.begin(), sides.query_class.end(), [&](std::uint32_t c) { return sides.gallery_sizes[c] == 0; }))
    throw InvalidArgument("gallery has no class of any query; no answer could be right");
  check_rows(queries, options.threads);
  check_rows(gallery, options.threads);
  RetrievalResult result = Measurement(sides, options, progress).run();
  result.stats.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return result;
}

}  // namespace smartmine
