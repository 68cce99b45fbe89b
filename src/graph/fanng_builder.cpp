#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <memory>
#include <numeric>

#include "graph/backtrack.h"
#include "graph/cell_search.h"
#include "graph/edge_lists.h"
#include "graph/exact_lists.h"
#include "graph/list_writer.h"
#include "graph/packed_points.h"
#include "graph/partition.h"
#include "graph/separation.h"
#include "graph/stopwatch.h"
#include "smartmine/core/buffer.h"
#include "smartmine/core/error.h"
#include "smartmine/core/parallel.h"
#include "smartmine/core/random.h"
#include "smartmine/graph/fanng.h"

namespace smartmine {

namespace {

constexpr std::uint64_t kSampleStream = 0x5341;
constexpr std::uint64_t kRandomEdgeStream = 0x5245;
constexpr std::uint64_t kStrangerStream = 0x5354;
constexpr std::size_t kExactBelow = 4096;        // so few points are compared all with all
constexpr std::size_t kCalibrationPoints = 512;  // points on which the reach of the search is settled
constexpr float kMostReach = 4;
constexpr std::size_t kMostRanks = 4096;  // places of a list that traps are looked for in
constexpr std::size_t kCopies = 8;        // edges to copies of a vertex
constexpr std::size_t kForward = 40;      // most edges chosen from its own neighbours
constexpr std::size_t kRandomEdges = 8;   // and random ones, for the long way; more where the success rate must be reached

/// Some points with their exact lists.
class RecallSample {
 public:
  RecallSample(const Rows& rows, std::vector<std::uint32_t> points, std::size_t neighbors, const kernels::Kernels& kernels,
               unsigned threads, std::uint64_t& computed, const Progress& progress)
      : points_(std::move(points)), neighbors_(neighbors), ids_(points_.size() * neighbors) {
    std::vector<const float*> queries(points_.size());
    std::vector<float> distances(ids_.size());
    for (std::size_t i = 0; i < points_.size(); ++i) queries[i] = rows[points_[i]];
    computed += find_exact_lists(rows, {queries, points_, neighbors, ids_, distances}, kernels, threads, progress, "recall");
    radii_.resize(points_.size());
    for (std::size_t i = 0; i < points_.size(); ++i) {
      radii_[i] = distances[(i + 1) * neighbors - 1];
      std::sort(ids_.begin() + static_cast<std::ptrdiff_t>(i * neighbors), ids_.begin() + static_cast<std::ptrdiff_t>((i + 1) * neighbors));
    }
  }

  const std::vector<std::uint32_t>& points() const { return points_; }

  /// Of a point's list, the entries that are right: in the exact list, or as near as its last (a tie).
  std::size_t hits(std::size_t index, std::span<const std::uint32_t> ids, std::span<const float> distances) const {
    std::size_t right = 0;
    const auto first = ids_.begin() + static_cast<std::ptrdiff_t>(index * neighbors_);
    for (std::size_t j = 0; j < ids.size(); ++j)
      right += distances[j] <= radii_[index] || std::binary_search(first, first + static_cast<std::ptrdiff_t>(neighbors_), ids[j]);
    return right;
  }

  double recall(const NeighborLists& lists) const {
    std::size_t right = 0;
    for (std::size_t i = 0; i < points_.size(); ++i) right += hits(i, lists.ids(points_[i]), lists.distances(points_[i]));
    return static_cast<double>(right) / static_cast<double>(points_.size() * neighbors_);
  }

 private:
  std::vector<std::uint32_t> points_;
  std::size_t neighbors_;
  std::vector<std::uint32_t> ids_;  // sorted, a list a point
  std::vector<float> radii_;
};

}  // namespace

/// Makes one graph. Inside, points are numbered by their place in an order that keeps near ones together in memory.
class FanngBuilder {
 public:
  FanngBuilder(const Rows& rows, const FanngOptions& options, const Fanng* previous, const Progress& progress)
      : rows_(rows), options_(options), previous_(previous), progress_(progress), kernels_(kernels::active()), size_(rows.size()) {}

  FanngResult build() {
    stats().index = "fanng";
    stats().kernel = kernels_.name;
    stats().recall_target = options_.recall_target;
    stats().unit_norm = check_rows(rows_, options_.threads).unit_norm;
    result_.lists = NeighborLists(size_, options_.neighbors);
    watch_.lap(stats(), "check");
    if (options_.start == Start::kRandom) {
      start_randomly();
    } else {
      if (options_.start == Start::kPrevious)
        start_from_previous();
      else
        start_from_partition();
    }
    publish();
    watch_.lap(stats(), "publish");
    watch_.finish(stats());
    return std::move(result_);
  }

 private:
  NeighborStats& stats() { return result_.stats; }
  std::size_t neighbors() const { return options_.neighbors; }
  /// Candidates measured in full: the list, the point itself, and some for what packing blurs.
  std::size_t scanned() const { return std::min(size_, neighbors() + 9 + neighbors() / 8); }
  /// Candidates a search brings home, the point itself included.
  std::size_t depth() const {
    return std::min(size_, std::max({asked_depth() + 1, scanned(), options_.refreshable ? 2 * neighbors() + 1 : 0}));
  }
  /// Of these, those considered for edges, if that is more than the list.
  std::size_t asked_depth() const {
    if (options_.edge_candidates > 0) return options_.edge_candidates;
    if (!certifies()) return 0;
    // Measured (docs/results.md): with fewer, traverse-add would have to add so many edges that it takes longer.
    if (size_ <= kCertifiedUnasked) return 300;
    return size_ <= 5 * kCertifiedUnasked ? 450 : 1000;
  }
  bool certifies() const { return options_.certify || size_ <= kCertifiedUnasked; }
  /// Of these, those kept besides the list.
  std::size_t beyond() const { return depth() - 1 - neighbors(); }

  // ---- order ----

  void take_order(std::vector<std::uint32_t> order) {
    order_ = std::move(order);
    place_.resize(size_);
    ordered_data_ = Buffer<float>(size_ * rows_.dimension());
    parallel_for(size_, 4096, options_.threads, [&](std::size_t begin, std::size_t end, unsigned) {
      for (std::size_t p = begin; p < end; ++p) {
        place_[order_[p]] = static_cast<std::uint32_t>(p);
        std::copy_n(rows_[order_[p]], rows_.dimension(), ordered_data_.data() + p * rows_.dimension());
      }
    });
  }
  Rows ordered() const { return {ordered_data_.data(), size_, rows_.dimension()}; }

  std::vector<std::uint32_t> identity() const {
    std::vector<std::uint32_t> order(size_);
    std::iota(order.begin(), order.end(), 0U);
    return order;
  }

  // ---- recall ----

  RecallSample sample(const Rows& rows, std::vector<std::uint32_t> points) {
    return RecallSample(rows, std::move(points), neighbors(), kernels_, options_.threads, stats().distance_computations, progress_);
  }

  std::vector<std::uint32_t> spread_points(std::size_t count) const {
    count = std::min(count, size_);
    std::vector<std::uint32_t> points(count);
    Random random(options_.seed, kSampleStream);
    const std::size_t shift = random.below(std::max<std::size_t>(1, size_ / count));
    for (std::size_t s = 0; s < count; ++s)
      points[s] = static_cast<std::uint32_t>(s * size_ / count + shift) % static_cast<std::uint32_t>(size_);
    return points;
  }

  void judge_recall() {
    stats().recall_reached = stats().recall >= options_.recall_target;
    if (!stats().recall_reached)
      add_note(fmt::format("recall {:.4f} is under the {:.4f} asked for, and no larger search is left; exact search would reach it",
                           stats().recall, options_.recall_target));
  }

  // ---- lists from candidates ----

  // Scratch space of a thread that writes lists.
  struct Writing {
    explicit Writing(const kernels::Kernels& kernels) : writer(kernels) {}
    ListWriter writer;
    std::vector<std::uint32_t> candidates, sorted, begins, inside;
    std::vector<Found> found;
    std::vector<float> distances, keys;
    PackedPoints::Scratch packed;
  };

  // Writes the list of the point at `place` from its nearest candidates (places, without itself); all of them, measured and in order, are
  // left in `w.sorted` and `w.distances`.
  void write_list(std::size_t place, std::span<const std::uint32_t> candidates, Writing& w) {
    require(candidates.size() >= neighbors(), "a search found fewer candidates than the list is long");
    w.sorted.resize(candidates.size());
    w.distances.resize(candidates.size());
    w.writer.write(ordered()[place], ordered(), candidates, candidates.size(), w.sorted.data(), w.distances.data());
    const auto list = result_.lists.ids(order_[place]);
    const auto lengths = result_.lists.distances(order_[place]);
    for (std::size_t j = 0; j < neighbors(); ++j) list[j] = order_[w.sorted[j]];
    std::copy_n(w.distances.begin(), neighbors(), lengths.begin());
    order_ties(list, lengths);
  }

  // Room for the candidates that come after each list; where the graph is to be refreshed later it keeps them, and the list before them.
  void make_room_beyond() {
    if (options_.refreshable) {
      result_.graph.candidates_per_point_ = neighbors() + beyond();
      result_.graph.candidates_.resize(size_ * result_.graph.candidates_per_point_);
    } else {
      beyond_ = Buffer<std::uint32_t>(size_ * beyond());
    }
  }
  std::uint32_t* beyond_of(std::size_t place) {
    if (!options_.refreshable) return beyond_.data() + place * beyond();
    return result_.graph.candidates_.data() + place * result_.graph.candidates_per_point_ + neighbors();
  }

  // Remembers the candidates of the point at `place`, in order, at most as many as there is room for after the list.
  void keep_candidates(std::size_t place, std::span<const std::uint32_t> candidates) {
    std::uint32_t* kept = beyond_of(place);
    if (options_.refreshable) std::copy_n(candidates.begin(), neighbors(), kept - neighbors());
    const std::size_t count = std::min(beyond(), candidates.size() - neighbors());
    std::copy_n(candidates.begin() + static_cast<std::ptrdiff_t>(neighbors()), count, kept);
    std::fill(kept + count, kept + beyond(), static_cast<std::uint32_t>(place));
  }

  // ---- the partition start ----

  // Places [first, last): a group of points whose neighbours are in it too, in most sets all points. Large ones are searched by cells.
  struct Group {
    std::size_t first = 0, last = 0;
    Partition partition;  // of a large one, counted from its first place
    std::unique_ptr<PackedPoints> packed;
    std::unique_ptr<CellSearch> search;
    float reach = 0;
    std::size_t size() const { return last - first; }
  };

  void start_from_partition() {
    make_room_beyond();
    forward_ = Buffer<std::uint32_t>(size_ * kForward);
    forward_counts_.assign(size_, 0);
    std::vector<Group> groups = group_points();
    watch_.lap(stats(), "partition");
    for (Group& group : groups) {
      if (group.partition.order.empty()) continue;
      group.packed = std::make_unique<PackedPoints>(rows_of(group), kernels_, options_.threads);
      group.search = std::make_unique<CellSearch>(rows_of(group), *group.packed, group.partition.cell_begins, kernels_, options_.threads);
      group.reach = calibrate(group);
    }
    watch_.lap(stats(), "calibration");
    const RecallSample truth = sample(rows_, spread_points(options_.recall_sample));
    stats().recall_sample = truth.points().size();
    watch_.lap(stats(), "recall");
    for (const Group& group : groups)
      if (group.search == nullptr) list_exactly(group);
    while (true) {
      for (const Group& group : groups)
        if (group.search != nullptr) search_cells(group);
      watch_.lap(stats(), "lists");
      exchange();
      watch_.lap(stats(), "exchange");
      stats().recall = truth.recall(result_.lists);
      if (stats().recall >= options_.recall_target) break;
      bool wider = false;
      for (Group& group : groups) {
        if (group.search == nullptr || group.reach >= kMostReach) continue;
        group.reach += group.reach < 1.5F ? 0.1F : 0.5F;
        wider = true;
      }
      if (!wider) break;
    }
    // Points packed about different centres cannot be compared; those of an attempt to refresh are in another order.
    packed_ = groups.size() == 1 ? std::move(groups[0].packed) : nullptr;
    groups.clear();
    make_edges();
    watch_.lap(stats(), "edges");
    certify();
    if (stats().recall < options_.recall_target) search_for_more(truth);
    judge_recall();
  }

  Rows rows_of(const Group& group) const {
    return {ordered_data_.data() + group.first * rows_.dimension(), group.size(), rows_.dimension()};
  }

  std::vector<Group> group_points() {
    const std::size_t few = std::max(kExactBelow, 8 * depth());
    std::vector<std::vector<std::uint32_t>> parts;
    if (size_ < few)
      parts.push_back(identity());
    else
      parts = separate(rows_, 2 * depth(), options_.seed, options_.threads, kernels_, stats().distance_computations, progress_);
    std::vector<Group> groups(parts.size());
    std::vector<std::uint32_t> order;
    order.reserve(size_);
    for (std::size_t g = 0; g < parts.size(); ++g) {
      std::vector<std::uint32_t>& members = parts[g];
      groups[g].first = order.size();
      groups[g].last = order.size() + members.size();
      if (members.size() < few) {
        order.insert(order.end(), members.begin(), members.end());
        continue;
      }
      const auto cell_size = static_cast<std::size_t>(std::clamp(0.6 * std::sqrt(static_cast<double>(members.size())), 64.0, 256.0));
      Buffer<float> values(parts.size() == 1 ? 0 : members.size() * rows_.dimension());
      if (parts.size() > 1)
        for (std::size_t i = 0; i < members.size(); ++i)
          std::copy_n(rows_[members[i]], rows_.dimension(), values.data() + i * rows_.dimension());
      const Rows mine = parts.size() == 1 ? rows_ : Rows(values.data(), members.size(), rows_.dimension());
      groups[g].partition =
          partition_rows(mine, cell_size, options_.seed, options_.threads, kernels_, stats().distance_computations, progress_);
      for (const std::uint32_t place : groups[g].partition.order) order.push_back(members[place]);
    }
    take_order(std::move(order));
    return groups;
  }

  // The lists of a small group by looking at all its pairs.
  void list_exactly(const Group& group) {
    const Rows mine = rows_of(group);
    const std::size_t size = group.size(), count = std::min(depth(), size) - 1;
    std::vector<std::uint32_t> ids(size * count), own(size);
    std::vector<float> distances(size * count);
    std::vector<const float*> queries(size);
    for (std::size_t i = 0; i < size; ++i) queries[i] = mine[i];
    std::iota(own.begin(), own.end(), 0U);
    stats().distance_computations +=
        find_exact_lists(mine, {queries, own, count, ids, distances}, kernels_, options_.threads, progress_, "lists");
    EdgeLists pruned(size, kForward);
    parallel_for(size, 64, options_.threads, [&](std::size_t begin, std::size_t end, unsigned) {
      std::vector<Edge> candidates;
      for (std::size_t i = begin; i < end; ++i) {
        const std::size_t place = group.first + i;
        const std::span<std::uint32_t> near = std::span(ids).subspan(i * count, count);
        const float* lengths = distances.data() + i * count;
        candidates.clear();
        for (std::size_t j = 0; j < count; ++j)
          if (lengths[j] > 0 || j < kCopies) candidates.push_back({lengths[j], near[j]});
        pruned.prune(i, candidates, mine, kernels_);
        for (const Edge& edge : pruned.of(i))
          forward_[place * kForward + forward_counts_[place]++] = static_cast<std::uint32_t>(group.first + edge.end);
        for (std::uint32_t& other : near) other += static_cast<std::uint32_t>(group.first);
        const auto list = result_.lists.ids(order_[place]);
        for (std::size_t j = 0; j < neighbors(); ++j) list[j] = order_[near[j]];
        std::copy_n(lengths, neighbors(), result_.lists.distances(order_[place]).begin());
        order_ties(list, result_.lists.distances(order_[place]));
        keep_candidates(place, near);
      }
    });
  }

  // The smallest reach that brings a sample of points to the recall asked for, with something to spare.
  float calibrate(const Group& group) {
    const CellSearch& search = *group.search;
    const std::vector<std::uint32_t>& cell_begins = group.partition.cell_begins;
    // A few points from each of a few chunks: a chunk costs much the same for one point as for many.
    const auto& chunks = search.chunks();
    const std::size_t chosen = std::min<std::size_t>(chunks.size(), 32);
    std::vector<CellSearch::Chunk> sampled(chosen);
    std::vector<std::vector<std::uint32_t>> places(chosen);
    std::vector<std::size_t> firsts(chosen);
    std::vector<std::uint32_t> points;
    for (std::size_t c = 0; c < chosen; ++c) {
      sampled[c] = chunks[c * chunks.size() / chosen];
      const std::size_t begin = cell_begins[sampled[c].first], count = cell_begins[sampled[c].last] - begin;
      const std::size_t take = std::min(count, kCalibrationPoints / chosen);
      firsts[c] = points.size();
      for (std::size_t i = 0; i < take; ++i) {
        places[c].push_back(static_cast<std::uint32_t>(begin + i * count / take));
        points.push_back(places[c].back());
      }
    }
    const RecallSample truth = sample(rows_of(group), points);
    const auto recall_at = [&](float reach) {
      std::atomic<std::size_t> right{0};
      std::atomic<std::uint64_t> computed{0};
      parallel_for(chosen, 1, options_.threads, [&](std::size_t begin, std::size_t end, unsigned) {
        CellSearch::Scratch scratch;
        Writing w(kernels_);
        w.sorted.resize(neighbors());
        w.distances.resize(neighbors());
        for (std::size_t c = begin; c < end; ++c) {
          search.search(sampled[c], scanned(), scanned(), reach, scratch, places[c]);
          for (std::size_t i = 0; i < scratch.queries.size(); ++i) {
            gather(scratch, i, scanned(), group.first, w);
            w.writer.write(ordered()[group.first + scratch.queries[i]], ordered(), w.candidates, neighbors(), w.sorted.data(),
                           w.distances.data());
            for (std::uint32_t& place : w.sorted) place -= static_cast<std::uint32_t>(group.first);
            right += truth.hits(firsts[c] + i, w.sorted, w.distances);
          }
        }
        computed += scratch.computed;
      });
      stats().distance_computations += computed;
      return static_cast<double>(right) / static_cast<double>(points.size() * neighbors());
    };
    // The exchange that follows mends about half of what is missing (measured at recalls near 0.97). The sample is small: ask for a little
    // more.
    const double goal = 0.85 * (1 - options_.recall_target) * 2;
    // What is missing falls about exponentially with the reach: two or three looks settle it.
    float reach = 1.1F, earlier_reach = 0;
    double earlier_log = 0, slope = -8.6;
    for (int look = 0; look < 8; ++look) {
      const double missing = std::max(1e-6, 1 - recall_at(reach));
      if (missing <= goal && missing > 0.8 * goal) break;
      if (look > 0 && reach != earlier_reach)
        slope = std::clamp((std::log(missing) - earlier_log) / static_cast<double>(reach - earlier_reach), -40.0, -2.0);
      earlier_reach = reach;
      earlier_log = std::log(missing);
      const double step = (std::log(0.9 * goal) - earlier_log) / slope;
      const float next = std::clamp(reach + static_cast<float>(std::clamp(step, -0.3, 1.0)), 0.7F, kMostReach);
      if (missing <= goal && next <= reach && look >= 2) break;
      if (next == reach) break;
      reach = next;
    }
    return reach;
  }

  // The candidates a search left for its i-th query as places, without the query, about in order of distance; their squared distances in
  // packed units are left in `w.keys`.
  void gather(CellSearch::Scratch& scratch, std::size_t i, std::size_t keep, std::size_t first, Writing& w) const {
    kernels::Reservoir& reservoir = scratch.reservoirs[scratch.lanes[i]];
    kernels_.finish(&reservoir, keep, 8);
    w.found.clear();
    for (std::uint32_t entry = 0; entry < reservoir.count; ++entry)
      if (reservoir.slots[entry] != scratch.queries[i])
        w.found.push_back({static_cast<std::uint32_t>(first + reservoir.slots[entry]), reservoir.norm - 2 * reservoir.scores[entry]});
    sort_by_counting(reservoir.norm - 2 * reservoir.threshold, w);
  }

  // Sorts `w.found` into `w.candidates` and `w.keys` by counting in steps of the farthest distance: near enough, and much quicker than
  // sorting.
  static void sort_by_counting(float farthest, Writing& w) {
    constexpr std::size_t kSteps = 512;
    const float steps = farthest > 0 ? static_cast<float>(kSteps - 1) / farthest : 0.0F;
    const auto step_of = [&](const Found& found) {
      return static_cast<std::size_t>(std::clamp(found.distance * steps, 0.0F, static_cast<float>(kSteps - 1)));
    };
    w.begins.assign(kSteps + 1, 0);
    for (const Found& found : w.found) ++w.begins[step_of(found) + 1];
    for (std::size_t step = 0; step < kSteps; ++step) w.begins[step + 1] += w.begins[step];
    w.candidates.resize(w.found.size());
    w.keys.resize(w.found.size());
    for (const Found& found : w.found) {
      const std::uint32_t at = w.begins[step_of(found)]++;
      w.candidates[at] = found.id;
      w.keys[at] = found.distance;
    }
  }

  // Edges from the point at `place` to its candidates, pruned in bytes. The first `measured` of them are in true order, with their
  // distances in `w.distances`. Points are packed from the place `first` on.
  void choose_forward(std::size_t place, std::size_t measured, std::size_t first, const PackedPoints& packed, Writing& w) {
    for (std::size_t j = 0; j < measured; ++j) w.keys[j] = w.distances[j] * packed.squared_scale();
    const std::size_t considered = std::min(w.candidates.size(), std::max(measured, asked_depth()));
    // Copies of the point do not occlude each other; a few of them are enough.
    std::size_t copies = 0;
    while (copies < measured && w.distances[copies] == 0) ++copies;
    const std::size_t skipped = copies - std::min(copies, kCopies);
    w.inside.clear();
    for (std::size_t j = skipped; j < considered; ++j) w.inside.push_back(w.candidates[j] - static_cast<std::uint32_t>(first));
    std::uint32_t* forward = forward_.data() + place * kForward;
    const std::size_t chosen =
        packed.prune(w.inside, std::span(w.keys).subspan(skipped, considered - skipped), kForward, forward, w.packed);
    for (std::size_t e = 0; e < chosen; ++e) forward[e] += static_cast<std::uint32_t>(first);
    forward_counts_[place] = static_cast<std::uint8_t>(chosen);
  }

  void search_cells(const Group& group) {
    const CellSearch& search = *group.search;
    const PackedPoints& packed = *group.packed;
    std::vector<CellSearch::Scratch> scratches(resolve_threads(options_.threads));
    std::atomic<std::uint64_t> computed{0};
    parallel_for(
        search.chunks().size(), 1, options_.threads,
        [&](std::size_t begin, std::size_t end, unsigned worker) {
          CellSearch::Scratch& scratch = scratches[worker];
          Writing w(kernels_);
          for (std::size_t c = begin; c < end; ++c) {
            search.search(search.chunks()[c], std::min(depth(), group.size()), scanned(), group.reach, scratch);
            for (std::size_t i = 0; i < scratch.queries.size(); ++i) {
              const std::size_t place = group.first + scratch.queries[i];
              gather(scratch, i, depth(), group.first, w);
              const std::size_t measured = std::min(scanned() - 1, w.candidates.size());
              write_list(place, std::span(w.candidates).first(measured), w);
              std::copy(w.sorted.begin(), w.sorted.end(), w.candidates.begin());  // now in true order, as far as they are measured
              keep_candidates(place, w.candidates);
              choose_forward(place, measured, group.first, packed, w);
            }
          }
          computed += w.packed.computed;
        },
        progress_, "lists");
    for (const CellSearch::Scratch& scratch : scratches) stats().distance_computations += scratch.computed;
    stats().distance_computations += computed;
  }

  // A point may have missed a neighbour that did find it. Every point tells those on its list that would want it and, as far as a sketch of
  // their lists tells, do not have it.
  void exchange() {
    constexpr std::size_t kSketchWords = 16;  // 1,024 bits, of which a list of a hundred sets a tenth
    const auto bit_of = [](std::uint32_t place) { return (place * 0x9e3779b1U) >> 22; };
    std::vector<std::uint64_t> sketches(size_ * kSketchWords, 0);
    std::vector<float> radii(size_);
    parallel_for(size_, 2048, options_.threads, [&](std::size_t begin, std::size_t end, unsigned) {
      for (std::size_t p = begin; p < end; ++p) {
        radii[p] = result_.lists.distances(order_[p])[neighbors() - 1];
        for (const std::uint32_t id : result_.lists.ids(order_[p])) {
          const std::uint32_t bit = bit_of(place_[id]);
          sketches[p * kSketchWords + bit / 64] |= std::uint64_t{1} << (bit % 64);
        }
      }
    });
    struct Offer {
      std::uint32_t to;    // a place
      std::uint32_t from;  // a point
      float squared;
    };
    constexpr std::size_t kPiece = 8192;
    std::vector<std::vector<Offer>> pieces((size_ + kPiece - 1) / kPiece);
    parallel_for(size_, kPiece, options_.threads, [&](std::size_t begin, std::size_t end, unsigned) {
      std::vector<Offer>& offers = pieces[begin / kPiece];
      std::vector<std::uint32_t> places(neighbors());
      for (std::size_t p = begin; p < end; ++p) {
        const auto ids = result_.lists.ids(order_[p]);
        const auto distances = result_.lists.distances(order_[p]);
        const std::uint32_t bit = bit_of(static_cast<std::uint32_t>(p));
        for (std::size_t j = 0; j < ids.size(); ++j) {
          places[j] = place_[ids[j]];
          __builtin_prefetch(&sketches[places[j] * kSketchWords + bit / 64]);
        }
        for (std::size_t j = 0; j < ids.size(); ++j)
          if (distances[j] < radii[places[j]] && (sketches[places[j] * kSketchWords + bit / 64] >> (bit % 64) & 1) == 0)
            offers.push_back({places[j], order_[p], distances[j]});
      }
    });
    // By receiver, in the order of the givers.
    std::vector<std::uint64_t> begins(size_ + 1, 0);
    for (const auto& piece : pieces)
      for (const Offer& offer : piece) ++begins[offer.to + 1];
    std::partial_sum(begins.begin(), begins.end(), begins.begin());
    std::vector<Found> offered(begins.back());
    {
      std::vector<std::uint64_t> next(begins.begin(), begins.end() - 1);
      for (const auto& piece : pieces)
        for (const Offer& offer : piece) offered[next[offer.to]++] = {offer.from, offer.squared};
    }
    pieces = {};
    parallel_for(size_, 2048, options_.threads, [&](std::size_t begin, std::size_t end, unsigned) {
      std::vector<Found> merged;
      for (std::size_t p = begin; p < end; ++p) {
        if (begins[p] == begins[p + 1]) continue;
        const auto ids = result_.lists.ids(order_[p]);
        const auto distances = result_.lists.distances(order_[p]);
        merged.assign(offered.data() + begins[p], offered.data() + begins[p + 1]);
        for (std::size_t j = 0; j < ids.size(); ++j) merged.push_back({ids[j], distances[j]});
        const auto nearer = [](const Found& a, const Found& b) { return a.distance != b.distance ? a.distance < b.distance : a.id < b.id; };
        std::sort(merged.begin(), merged.begin() + static_cast<std::ptrdiff_t>(begins[p + 1] - begins[p]), nearer);
        std::inplace_merge(merged.begin(), merged.begin() + static_cast<std::ptrdiff_t>(begins[p + 1] - begins[p]), merged.end(), nearer);
        for (std::size_t j = 0; j < ids.size(); ++j) {
          ids[j] = merged[j].id;
          distances[j] = merged[j].distance;
        }
      }
    });
  }

  // ---- edges ----

  // A vertex from which no edge leads nearer to a point that it is among the nearest of, and that point.
  struct Trap {
    std::uint32_t vertex, point;
  };

  // Going downhill to a point must not stop at one of the point's own nearest. Such a vertex has an edge to the point or to one that is
  // nearer to the point, and that would be among its nearest too: no distance is needed to see it.
  std::vector<Trap> find_traps(std::size_t known) {
    constexpr std::size_t kPiece = 2048;
    std::vector<std::vector<Trap>> found((size_ + kPiece - 1) / kPiece);
    std::vector<std::vector<std::uint16_t>> ranks(resolve_threads(options_.threads));
    parallel_for(
        size_, kPiece, options_.threads,
        [&](std::size_t begin, std::size_t end, unsigned worker) {
          constexpr std::uint16_t kNone = 0xffff;
          constexpr std::size_t kAhead = 8;
          std::vector<std::uint16_t>& rank = ranks[worker];
          if (rank.empty()) rank.assign(size_, kNone);
          std::vector<std::uint32_t> near(known);
          std::vector<Trap>& traps = found[begin / kPiece];
          for (std::size_t point = begin; point < end; ++point) {
            const auto ids = result_.lists.ids(order_[point]);
            for (std::size_t j = 0; j < std::min(known, neighbors()); ++j) near[j] = place_[ids[j]];
            if (known > neighbors())
              std::copy_n(beyond_of(point), known - neighbors(), near.begin() + static_cast<std::ptrdiff_t>(neighbors()));
            rank[point] = 0;
            for (std::size_t j = known; j-- > 0;)
              if (near[j] != point) rank[near[j]] = static_cast<std::uint16_t>(j + 1);
            for (std::size_t j = 0; j < known; ++j) {
              const std::uint32_t vertex = near[j];
              if (j + kAhead < known) __builtin_prefetch(forward_.data() + near[j + kAhead] * kForward);
              const std::uint32_t* ends = forward_.data() + vertex * kForward;
              const std::size_t count = forward_counts_[vertex];
              bool nearer = vertex == point;
              for (std::size_t e = 0; e < count && !nearer; ++e) nearer = rank[ends[e]] < j + 1;
              if (!nearer) traps.push_back({vertex, static_cast<std::uint32_t>(point)});
            }
            for (const std::uint32_t vertex : near) rank[vertex] = kNone;
            rank[point] = kNone;
          }
        },
        progress_, "traps");
    std::vector<Trap> all;
    std::size_t total = 0;
    for (const auto& piece : found) total += piece.size();
    all.reserve(total);
    for (auto& piece : found) {
      all.insert(all.end(), piece.begin(), piece.end());
      piece = {};
    }
    return all;
  }

  // The edges to its own neighbours, those out of its traps, and a few random ones, pruned by occlusion.
  void make_edges() {
    std::vector<std::uint64_t> begins(size_ + 1, 0);
    std::vector<std::uint32_t> ways_out;
    {
      const std::vector<Trap> traps =
          find_traps(std::min({neighbors() + beyond(), std::max<std::size_t>(neighbors(), asked_depth()), kMostRanks}));
      for (const Trap& trap : traps) ++begins[trap.vertex + 1];
      std::partial_sum(begins.begin(), begins.end(), begins.begin());
      ways_out.resize(traps.size());
      std::vector<std::uint64_t> next(begins.begin(), begins.end() - 1);
      for (const Trap& trap : traps) ways_out[next[trap.vertex]++] = trap.point;
    }
    watch_.lap(stats(), "traps");
    const Rows rows = ordered();
    edges_ = std::make_unique<EdgeLists>(size_, options_.max_degree);
    std::atomic<std::uint64_t> computed{0};
    parallel_for(
        size_, 512, options_.threads,
        [&](std::size_t begin, std::size_t end, unsigned) {
          std::vector<std::uint32_t> ends;
          std::vector<float> lengths;
          std::vector<Edge> candidates;
          PackedPoints::Scratch scratch;
          std::uint64_t some = 0;
          for (std::size_t p = begin; p < end; ++p) {
            ends.assign(forward_.data() + p * kForward, forward_.data() + p * kForward + forward_counts_[p]);
            ends.insert(ends.end(), ways_out.data() + begins[p], ways_out.data() + begins[p + 1]);
            lengths.resize(ends.size());
            kernels_.squared_distances(rows[p], rows.data(), ends.data(), ends.size(), rows.dimension(), lengths.data());
            candidates.clear();
            for (std::size_t i = 0; i < ends.size(); ++i) candidates.push_back({lengths[i], ends[i]});
            add_random(p, rows, candidates);
            some += candidates.size();
            finish_candidates(p, candidates);
            if (packed_ == nullptr) {
              some += edges_->prune(p, candidates, rows, kernels_);
              continue;
            }
            ends.clear();
            lengths.clear();
            for (const Edge& edge : candidates) {
              ends.push_back(edge.end);
              lengths.push_back(edge.squared);
            }
            packed_->may_be_nearer(ends, lengths, scratch);
            const std::size_t words = (ends.size() + 15) / 16;
            some += edges_->prune(p, candidates, rows, kernels_,
                                  [&](std::size_t i, std::size_t j) { return (scratch.masks[i * words + j / 16] >> (j % 16) & 1) != 0; });
          }
          computed += some + scratch.computed;
        },
        progress_, "edges");
    stats().distance_computations += computed;
  }

  void add_random(std::size_t vertex, const Rows& rows, std::vector<Edge>& candidates) const {
    Random random(options_.seed, kRandomEdgeStream, vertex);
    const std::size_t count = options_.start != Start::kRandom && certifies() ? 4 * kRandomEdges : kRandomEdges;
    for (std::size_t i = 0; i < count; ++i) {
      const auto end = static_cast<std::uint32_t>(random.below(size_));
      candidates.push_back({kernels_.squared_distance(rows[vertex], rows[end], rows.dimension()), end});
    }
  }

  static void finish_candidates(std::size_t vertex, std::vector<Edge>& candidates) {
    std::sort(candidates.begin(), candidates.end());
    candidates.erase(std::unique(candidates.begin(), candidates.end(), [](const Edge& a, const Edge& b) { return a.end == b.end; }),
                     candidates.end());
    candidates.erase(std::remove_if(candidates.begin(), candidates.end(), [&](const Edge& edge) { return edge.end == vertex; }),
                     candidates.end());
  }

  void certify() {
    TraverseOptions how{.target = options_.success_target, .seed = options_.seed, .threads = options_.threads};
    if (options_.start == Start::kRandom) {
      how.batch = std::max<std::size_t>(256, size_ / 4);
      how.most_pairs = 2000 * size_ + 100000;
    } else {
      how.batch = std::max<std::size_t>(1024, size_ / 16);
      how.most_pairs = 100 * size_ + 100000;
      if (!certifies()) how.hopeless_below = 1;
    }
    // Pairs that the earlier build has mended would not be fresh.
    if (options_.start == Start::kPrevious) how.seed ^= 0x9e3779b97f4a7c15U * (previous_->edges_.size() + 1);
    const TraverseResult reached = traverse_add(*edges_, ordered(), how, kernels_, progress_);
    stats().success_target = options_.success_target;
    stats().certified = options_.start == Start::kRandom || certifies();
    stats().success_rate = reached.rate;
    stats().success_bound = reached.bound;
    stats().success_pairs = reached.pairs;
    stats().success_reached = reached.reached;
    stats().edges_added = reached.added;
    stats().distance_computations += reached.computed;
    watch_.lap(stats(), "traverse_add");
  }

  // ---- the random start ----

  void start_randomly() {
    take_order(identity());
    make_room_beyond();
    edges_ = std::make_unique<EdgeLists>(size_, options_.max_degree);
    parallel_for(size_, 1024, options_.threads, [&](std::size_t begin, std::size_t end, unsigned) {
      std::vector<Edge> candidates;
      for (std::size_t p = begin; p < end; ++p) {
        candidates.clear();
        add_random(p, ordered(), candidates);
        finish_candidates(p, candidates);
        edges_->prune(p, candidates, ordered(), kernels_);
      }
    });
    watch_.lap(stats(), "random_edges");
    certify();
    const RecallSample truth = sample(rows_, spread_points(options_.recall_sample));
    stats().recall_sample = truth.points().size();
    watch_.lap(stats(), "recall");
    stats().recall = 0;
    search_for_more(truth);
    judge_recall();
  }

  // Lists by backtrack search from each point's own vertex. How many distances that takes is settled on the sample: twice as many until
  // they reach the recall. Where looking at all pairs would be quicker it is done instead; where both would take hours, the lists stay as
  // they are.
  void search_for_more(const RecallSample& truth) {
    constexpr std::size_t kMostDistances = 32768;
    constexpr std::size_t kExactUpTo = 200000;
    const std::size_t most = std::min({size_, kMostDistances, std::max<std::size_t>(size_ / 4, 4096)});
    const Rows rows = ordered();
    std::vector<std::unique_ptr<Backtrack>> searches(resolve_threads(options_.threads));
    // Searches for the point at each of `count` places and hands its candidates to `take`.
    const auto search = [&](std::size_t count, std::size_t budget, const auto& place_of, const auto& take) {
      std::atomic<std::uint64_t> computed{0};
      parallel_for(
          count, 16, options_.threads,
          [&](std::size_t begin, std::size_t end, unsigned worker) {
            if (searches[worker] == nullptr) searches[worker] = std::make_unique<Backtrack>(size_);
            Backtrack& backtrack = *searches[worker];
            Writing w(kernels_);
            std::uint64_t some = 0;
            for (std::size_t i = begin; i < end; ++i) {
              const std::size_t place = place_of(i);
              backtrack.run(rows, rows[place], static_cast<std::uint32_t>(place), budget, kernels_,
                            [this](std::uint32_t vertex) { return EdgeEnds{edges_->of(vertex)}; });
              w.candidates.clear();
              for (const Found& found : backtrack.found())
                if (found.id != place) w.candidates.push_back(found.id);
              merge_list(place, w.candidates);
              some += backtrack.found().size() + w.candidates.size();
              take(i, place, w);
            }
            computed += some;
          },
          progress_, "search");
      stats().distance_computations += computed;
    };
    for (std::size_t budget = std::min(most, 8 * neighbors()), last = 0; budget != last;
         last = budget, budget = std::min(most, 2 * budget)) {
      std::atomic<std::size_t> right{0};
      search(
          truth.points().size(), budget, [&](std::size_t i) { return place_[truth.points()[i]]; },
          [&](std::size_t i, std::size_t place, Writing& w) {
            const std::size_t count = std::min(neighbors(), w.candidates.size());
            w.sorted.resize(count);
            w.distances.resize(count);
            w.writer.write(rows[place], rows, w.candidates, count, w.sorted.data(), w.distances.data());
            for (std::uint32_t& id : w.sorted) id = order_[id];
            right += truth.hits(i, w.sorted, w.distances);
          });
      if (static_cast<double>(right) < options_.recall_target * static_cast<double>(truth.points().size() * neighbors())) continue;
      search(
          size_, budget, [](std::size_t i) { return i; },
          [&](std::size_t, std::size_t place, Writing& w) {
            fill_up(place, w.candidates);
            write_list(place, w.candidates, w);
            keep_candidates(place, w.sorted);
          });
      stats().recall = truth.recall(result_.lists);
      watch_.lap(stats(), "search");
      return;
    }
    if (size_ <= kExactUpTo || options_.start == Start::kRandom) {
      std::vector<const float*> queries(size_);
      for (std::size_t i = 0; i < size_; ++i) queries[i] = rows_[i];
      stats().distance_computations +=
          find_exact_lists(rows_, {queries, identity(), neighbors(), result_.lists.all_ids(), result_.lists.all_distances()}, kernels_,
                           options_.threads, progress_, "search");
      stats().recall = truth.recall(result_.lists);
      add_note("no search through the graph reached the recall asked for: all pairs were looked at");
    }
    watch_.lap(stats(), "search");
  }

  // What is known of a point's list joins what a search found.
  void merge_list(std::size_t place, std::vector<std::uint32_t>& candidates) const {
    if (options_.start == Start::kRandom) return;
    const std::size_t found = candidates.size();
    for (const std::uint32_t id : result_.lists.ids(order_[place])) candidates.push_back(place_[id]);
    std::sort(candidates.begin(), candidates.end());
    if (found != candidates.size()) candidates.erase(std::unique(candidates.begin(), candidates.end()), candidates.end());
  }

  // A vertex that can reach too few others gets the first points there are, so that every list is full.
  void fill_up(std::size_t place, std::vector<std::uint32_t>& candidates) const {
    if (candidates.size() >= neighbors()) return;
    std::vector<std::uint32_t> have(candidates);
    std::sort(have.begin(), have.end());
    for (std::uint32_t other = 0; other < size_ && candidates.size() < neighbors(); ++other)
      if (other != place && !std::binary_search(have.begin(), have.end(), other)) candidates.push_back(other);
  }

  struct EdgeEnds {
    std::span<const Edge> edges;
    std::size_t size() const { return edges.size(); }
    std::uint32_t operator[](std::size_t i) const { return edges[i].end; }
  };

  // ---- the previous start ----

  void start_from_previous() {
    const std::size_t known = previous_->candidates_per_point_;
    if (size_ < std::max(kExactBelow, 8 * depth())) return start_from_partition();  // looking at all pairs is quicker
    if (known < std::min(2 * neighbors(), size_ - 1)) {
      start_from_partition();
      add_note(fmt::format("the previous graph keeps {} candidates a point and lists of {} need {}: built from a partition instead", known,
                           neighbors(), 2 * neighbors()));
      return;
    }
    take_order(previous_->order_);
    packed_ = std::make_unique<PackedPoints>(ordered(), kernels_, options_.threads);
    watch_.lap(stats(), "order");
    make_room_beyond();
    forward_ = Buffer<std::uint32_t>(size_ * kForward);
    forward_counts_.assign(size_, 0);
    list_from_previous();
    watch_.lap(stats(), "lists");
    exchange();
    watch_.lap(stats(), "exchange");
    const RecallSample truth = sample(rows_, spread_points(options_.recall_sample));
    stats().recall_sample = truth.points().size();
    stats().recall = truth.recall(result_.lists);
    watch_.lap(stats(), "recall");
    if (stats().recall < options_.recall_target) {
      const double reached = stats().recall;
      stats().recall_sample = 0;
      start_from_partition();
      add_note(
          fmt::format("from the previous graph the lists reached a recall of {:.4f}, too little: built from a partition instead", reached));
      return;
    }
    if (!certifies()) take_previous_edges();
    make_edges();
    watch_.lap(stats(), "edges");
    certify();
  }

  // Every point looks at its earlier candidates, at those of its three nearest, and at a few random ones, by which parts that have drifted
  // together find each other.
  void list_from_previous() {
    const std::size_t helpers = std::min<std::size_t>(3, previous_->candidates_per_point_);
    constexpr std::size_t kStrangers = 4;
    const std::size_t known = previous_->candidates_per_point_;
    const std::vector<std::uint32_t>& earlier = previous_->candidates_;
    std::atomic<std::uint64_t> computed{0};
    std::vector<std::vector<std::uint32_t>> marks(resolve_threads(options_.threads));
    parallel_for(
        size_, 256, options_.threads,
        [&](std::size_t begin, std::size_t end, unsigned worker) {
          std::vector<std::uint32_t>& seen = marks[worker];  // the last point that looked at each place, counted from 1
          if (seen.empty()) seen.assign(size_, 0);
          Writing w(kernels_);
          std::uint64_t some = 0;
          for (std::size_t p = begin; p < end; ++p) {
            const auto mark = static_cast<std::uint32_t>(p + 1);
            w.candidates.clear();
            seen[p] = mark;
            const auto look_at = [&](std::uint32_t place) {
              if (seen[place] == mark) return;
              seen[place] = mark;
              w.candidates.push_back(place);
            };
            const std::uint32_t* mine = earlier.data() + p * known;
            for (std::size_t j = 0; j < known; ++j) look_at(mine[j]);
            for (std::size_t helper = 0; helper < helpers; ++helper) {
              const std::uint32_t* theirs = earlier.data() + mine[helper] * known;
              for (std::size_t j = 0; j < neighbors(); ++j) look_at(theirs[j]);
            }
            Random random(options_.seed, kStrangerStream, p);
            for (std::size_t i = 0; i < kStrangers; ++i) look_at(static_cast<std::uint32_t>(random.below(size_)));
            fill_up(p, w.candidates);
            w.keys.resize(w.candidates.size());
            packed_->distances(p, w.candidates, w.keys.data(), w.packed);
            float farthest = 0;
            w.found.clear();
            for (std::size_t i = 0; i < w.candidates.size(); ++i) {
              w.found.push_back({w.candidates[i], w.keys[i]});
              farthest = std::max(farthest, w.keys[i]);
            }
            sort_by_counting(farthest, w);
            const std::size_t measured = std::min(neighbors() + 8, w.candidates.size());
            some += measured;
            write_list(p, std::span(w.candidates).first(measured), w);
            std::copy(w.sorted.begin(), w.sorted.end(), w.candidates.begin());
            keep_candidates(p, w.candidates);
            if (certifies()) choose_forward(p, measured, 0, *packed_, w);
          }
          computed += some + w.packed.computed;
        },
        progress_, "lists");
    stats().distance_computations += computed;
  }

  // The earlier edges stand for those chosen from the neighbours; the traps tell where they no longer do.
  void take_previous_edges() {
    parallel_for(size_, 2048, options_.threads, [&](std::size_t begin, std::size_t end, unsigned) {
      for (std::size_t p = begin; p < end; ++p)
        for (const std::uint32_t point : previous_->edges(order_[p]).first(std::min(kForward, previous_->edges(order_[p]).size())))
          forward_[p * kForward + forward_counts_[p]++] = place_[point];
    });
  }

  void add_note(const std::string& text) { stats().note += (stats().note.empty() ? "" : "; ") + text; }

  // ---- the result ----

  void publish() {
    Fanng& graph = result_.graph;
    graph.dimension_ = rows_.dimension();
    graph.offsets_.resize(size_ + 1);
    graph.offsets_[0] = 0;
    std::size_t most = 0;
    for (std::size_t i = 0; i < size_; ++i) {
      const std::size_t degree = edges_->of(place_[i]).size();
      graph.offsets_[i + 1] = graph.offsets_[i] + degree;
      most = std::max(most, degree);
    }
    graph.edges_.resize(graph.offsets_.back());
    parallel_for(size_, 4096, options_.threads, [&](std::size_t begin, std::size_t end, unsigned) {
      for (std::size_t i = begin; i < end; ++i) {
        std::uint32_t* out = graph.edges_.data() + graph.offsets_[i];
        for (const Edge& edge : edges_->of(place_[i])) *out++ = order_[edge.end];
      }
    });
    stats().mean_degree = static_cast<double>(graph.edges_.size()) / static_cast<double>(size_);
    stats().max_degree = most;
    if (options_.refreshable) graph.order_ = std::move(order_);
  }

  Rows rows_;
  FanngOptions options_;
  const Fanng* previous_;
  const Progress& progress_;
  const kernels::Kernels& kernels_;
  std::size_t size_;
  Stopwatch watch_;
  FanngResult result_;
  std::vector<std::uint32_t> order_;      // the point at each place
  std::vector<std::uint32_t> place_;      // the place of each point
  Buffer<float> ordered_data_;            // the rows by place
  std::unique_ptr<PackedPoints> packed_;  // the same for quick comparisons; none where there are few
  std::unique_ptr<EdgeLists> edges_;      // by place
  Buffer<std::uint32_t> beyond_;          // for each place, candidates that come after its list
  Buffer<std::uint32_t> forward_;         // for each place, the edges chosen from its own neighbours
  std::vector<std::uint8_t> forward_counts_;
};

FanngResult build_fanng(const Rows& rows, const FanngOptions& options, const Fanng* previous, const Progress& progress) {
  options.validate();
  if (options.neighbors >= rows.size())
    throw InvalidArgument(fmt::format("neighbors is {}; with {} rows it must be under {}", options.neighbors, rows.size(), rows.size()));
  if (options.start == Start::kPrevious) {
    if (previous == nullptr) throw InvalidArgument("start is previous, but no previous graph was given");
    if (previous->size() != rows.size() || previous->dimension() != rows.dimension())
      throw InvalidArgument(
          fmt::format("the previous graph is of {} points of dimension {}, the embeddings are {} of dimension {}; they must agree",
                      previous->size(), previous->dimension(), rows.size(), rows.dimension()));
  }
  return FanngBuilder(rows, options, previous, progress).build();
}

}  // namespace smartmine
