#include "graph/exact_lists.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "graph/exact_crowds.h"
#include "graph/list_writer.h"
#include "graph/packed_rows.h"
#include "smartmine/core/parallel.h"

namespace smartmine {

namespace {

constexpr std::size_t kTurnedShare = 32;  // rows are turned for at least one query in so many rows
constexpr std::size_t kQueryBlock = 48;   // queries scanned together: their candidates stay in the second-level cache

// Candidates by plain distances, for queries around which too many points lie closer together than the packing tells. Rows come in the
// order of their ids and only nearer ones are let in, so ties go to the lower id.
void scan_plainly(const Rows& rows, const float* query, std::uint32_t own, std::size_t count, const kernels::Kernels& kernels,
                  std::vector<std::uint32_t>& candidates) {
  constexpr std::size_t kBlock = 512;
  std::vector<float> scores(2 * count + 2 * kBlock), distances(kBlock);
  std::vector<std::uint32_t> slots(scores.size()), ids(kBlock);
  kernels::Reservoir best{-std::numeric_limits<float>::infinity(), 0, scores.data(), slots.data(), 0, 0, 0, false, 0};
  for (std::size_t first = 0; first < rows.size(); first += kBlock) {
    const std::size_t block = std::min(kBlock, rows.size() - first);
    std::iota(ids.begin(), ids.end(), static_cast<std::uint32_t>(first));
    kernels.squared_distances(query, rows.data(), ids.data(), block, rows.dimension(), distances.data());
    for (std::size_t i = 0; i < block; ++i) {
      if (!(-distances[i] > best.threshold) || ids[i] == own) continue;
      scores[best.count] = -distances[i];
      slots[best.count++] = ids[i];
    }
    if (best.count + kBlock > scores.size()) kernels.finish(&best, count, 0);
    if (best.count >= count && best.threshold == 0) break;  // nothing is nearer than nothing
  }
  kernels.finish(&best, count, 0);
  candidates.assign(slots.begin(), slots.begin() + best.count);
}

// Finds the lists of some queries, and counts the distances that takes.
class ListFinder {
 public:
  ListFinder(const Rows& rows, const ExactLists& lists, const kernels::Kernels& kernels, unsigned threads, const Progress& progress,
             std::string_view stage, std::span<const std::uint32_t> far)
      : rows_(rows), lists_(lists), kernels_(kernels), threads_(threads), progress_(progress), stage_(stage), far_(far) {}

  // Lists of `queries` by a scan of panels; returns the queries around which more points lie within the packing's error than there is room
  // for.
  std::vector<std::uint32_t> scan(const Frame& frame, const kernels::PanelKernels& panels, std::span<const std::uint32_t> queries);
  // Lists of `queries` by plain distances.
  void measure(std::span<const std::uint32_t> queries);
  std::uint64_t computed() const { return computed_; }
  // Queries of all members of a team.
  std::size_t total() const { return std::max(lists_.all, lists_.queries.size()); }

 private:
  // Entries to keep in a scan: the list, and the query itself where it is a row.
  std::size_t keep() const { return lists_.neighbors + (lists_.own.empty() ? 0 : 1); }
  std::uint32_t own_of(std::size_t query) const { return lists_.own.empty() ? 0xffffffffU : lists_.own[query]; }
  void write(ListWriter& writer, std::size_t query, std::span<const std::uint32_t> candidates) const {
    const std::size_t count = lists_.neighbors;
    writer.write(lists_.queries[query], rows_, candidates, count, lists_.ids.data() + query * count,
                 lists_.distances.data() + query * count);
  }
  // Candidates that a query has room for, by what a few rows need; 0: they need too much.
  std::size_t choose_room(const PackedRows& packed);
  // Adds the queries whose candidates do not fit to `crowded`; returns the most candidates that another one has.
  std::size_t scan_block(const PackedRows& packed, std::span<const std::uint32_t> queries, std::size_t capacity,
                         std::vector<std::uint32_t>& crowded);

  const Rows& rows_;
  const ExactLists& lists_;
  const kernels::Kernels& kernels_;
  unsigned threads_;
  const Progress& progress_;
  std::string_view stage_;
  std::span<const std::uint32_t> far_;  // rows that are not scanned: candidates of every query
  std::atomic<std::uint64_t> computed_{0};
};

std::size_t ListFinder::scan_block(const PackedRows& packed, std::span<const std::uint32_t> queries, std::size_t capacity,
                                   std::vector<std::uint32_t>& crowded) {
  const kernels::PanelKernels& panels = packed.kernels();
  const std::size_t block = queries.size(), dimension = rows_.dimension(), query_bytes = panels.query_bytes(dimension);
  std::vector<std::uint8_t> packed_queries(block * query_bytes);
  Buffer<float> scores(block * capacity);
  Buffer<std::uint32_t> slots(block * capacity);
  std::vector<kernels::Reservoir> reservoirs(block);
  std::vector<float> scratch(dimension);
  for (std::size_t i = 0; i < block; ++i) {
    kernels::Reservoir& r = reservoirs[i];
    r = {panels.lowest_score, 0, scores.data() + i * capacity, slots.data() + i * capacity, 0, 0, 0, false, 0};
    const float error = packed.pack_query(lists_.queries[queries[i]], packed_queries.data() + i * query_bytes, &r, scratch.data());
    // If e is what packing may add to a distance, the last of the true list is at most e beyond the last of the packed one, and may itself
    // look e farther than it is. Rounding in the sums comes on top.
    r.slack = 2.0F * 1.0001F * (error + packed.error());
    r.slack_squared = packed.rounding(r.norm) + panels.score_rounding;
  }
  panels.scan({packed_queries.data(), block, packed.panel(0), packed.panel_count(), 0, dimension, reservoirs.data(), keep(), capacity});
  std::uint64_t distances = block * rows_.size();
  ListWriter writer(kernels_);
  std::vector<std::uint32_t> candidates;
  std::size_t most = 0;
  for (std::size_t i = 0; i < block; ++i) {
    if (reservoirs[i].overflowed || reservoirs[i].count < std::min(keep(), packed.size())) {
      crowded.push_back(queries[i]);
      continue;
    }
    // What came in under an earlier threshold goes; there is room for all that is within the slack.
    if (reservoirs[i].count > keep()) kernels_.shrink(&reservoirs[i], keep(), capacity + kernels::kReservoirSlack);
    most = std::max<std::size_t>(most, reservoirs[i].count);
    candidates.clear();
    const std::uint32_t own = own_of(queries[i]);
    for (std::uint32_t entry = 0; entry < reservoirs[i].count; ++entry)
      if (const std::uint32_t row = packed.row(reservoirs[i].slots[entry]); row != own) candidates.push_back(row);
    for (const std::uint32_t row : far_)
      if (row != own) candidates.push_back(row);
    distances += candidates.size();
    write(writer, queries[i], candidates);
  }
  computed_ += distances;
  return most;
}

std::size_t ListFinder::choose_room(const PackedRows& packed) {
  constexpr std::size_t kLittle = 4 * kernels::kReservoirSlack, kFewQueries = 1024, kProbes = 32, kLeast = 448;
  if (&packed.kernels() == &kernels_.floats) return 2 * keep() + kLittle;
  if (total() < kFewQueries || rows_.size() < kFewQueries || lists_.own.empty()) return 12 * keep() + kLittle;
  // Little room keeps thresholds fresh, and panels in the second-level cache; too little has queries scanned again. Rows are tried, not
  // queries, so that all members of a team choose the same.
  std::vector<const float*> rows(kProbes);
  for (std::size_t i = 0; i < kProbes; ++i) rows[i] = rows_[packed.row(static_cast<std::uint32_t>(i * packed.size() / kProbes))];
  std::vector<std::uint32_t> ids(kProbes * lists_.neighbors), probes(kProbes), crowded;
  std::vector<float> distances(ids.size());
  std::iota(probes.begin(), probes.end(), 0U);
  const ExactLists lists{rows, {}, lists_.neighbors, ids, distances};
  ListFinder trial(rows_, lists, kernels_, threads_, progress_, stage_, far_);
  const std::size_t most = trial.scan_block(packed, probes, 64 * keep() + kLittle, crowded);
  if (lists_.first) computed_ += trial.computed();
  // To measure a great part of all rows for each query takes longer than to scan floats.
  const bool too_many = most > rows_.size() / 4 && most > 16 * keep();
  return crowded.size() > kProbes / 2 || too_many ? 0 : std::max(kLeast, most + most / 4 + kLittle);
}

std::vector<std::uint32_t> ListFinder::scan(const Frame& frame, const kernels::PanelKernels& panels,
                                            std::span<const std::uint32_t> queries) {
  const PackedRows packed(rows_, frame, kernels_, panels, threads_, far_);
  const std::size_t capacity = choose_room(packed);
  if (capacity == 0) return {queries.begin(), queries.end()};
  std::vector<std::vector<std::uint32_t>> crowded((queries.size() + kQueryBlock - 1) / kQueryBlock);
  parallel_for(
      queries.size(), kQueryBlock, threads_,
      [&](std::size_t begin, std::size_t end, unsigned) {
        scan_block(packed, queries.subspan(begin, end - begin), capacity, crowded[begin / kQueryBlock]);
      },
      progress_, stage_);
  std::vector<std::uint32_t> rest;
  for (const std::vector<std::uint32_t>& some : crowded) rest.insert(rest.end(), some.begin(), some.end());
  return rest;
}

void ListFinder::measure(std::span<const std::uint32_t> queries) {
  parallel_for(
      queries.size(), 16, threads_,
      [&](std::size_t begin, std::size_t end, unsigned) {
        ListWriter writer(kernels_);
        std::vector<std::uint32_t> candidates;
        for (std::size_t i = begin; i < end; ++i) {
          scan_plainly(rows_, lists_.queries[queries[i]], own_of(queries[i]), lists_.neighbors, kernels_, candidates);
          write(writer, queries[i], candidates);
        }
        computed_ += (end - begin) * rows_.size();
      },
      progress_, stage_);
}

}  // namespace

std::uint64_t find_exact_lists(const Rows& rows, const ExactLists& lists, const kernels::Kernels& kernels, unsigned threads,
                               const Progress& progress, std::string_view stage) {
  // A few rows that are much longer than the others would make bytes coarse for all, and the bounds of what rounding may hide wide.
  std::vector<std::uint32_t> far;
  const Frame frame = usual_frame(rows, threads, far);
  ListFinder finder(rows, lists, kernels, threads, progress, stage, far);
  std::vector<std::uint32_t> queries, far_queries;
  std::uint64_t in_crowds = 0;
  for (std::uint32_t q = 0; q < lists.queries.size(); ++q) {
    const bool is_far = !far.empty() && !lists.own.empty() && std::binary_search(far.begin(), far.end(), lists.own[q]);
    (is_far ? far_queries : queries).push_back(q);
  }
  // Rows so close together or so far apart that the frame's scale is not for floats are measured plainly.
  if (frame.scale > 1e-15F && frame.scale < 1e15F) {
    const kernels::PanelKernels& best = panel_kernels(kernels, rows.dimension());
    // Turning all rows pays where that many are searched for.
    const bool turns = &best != &kernels.floats && kTurnedShare * finder.total() >= rows.size();
    queries = finder.scan(turns ? turned_frame(rows, frame, threads, far) : frame, best, queries);
    if (lists.crowds_apart) in_crowds = list_crowded({rows, lists, kernels, threads, progress, stage}, queries);
    if (!queries.empty() && &best != &kernels.floats) queries = finder.scan(frame, kernels.floats, queries);
  }
  queries.insert(queries.end(), far_queries.begin(), far_queries.end());
  finder.measure(queries);
  return finder.computed() + in_crowds;
}

}  // namespace smartmine
