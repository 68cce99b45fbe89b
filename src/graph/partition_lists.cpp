#include "graph/partition_lists.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <numeric>

#include "graph/edge_lists.h"
#include "graph/exact_lists.h"
#include "graph/join.h"
#include "graph/recall_sample.h"
#include "graph/separation.h"
#include "smartmine/core/parallel.h"

namespace smartmine {

namespace {

constexpr std::size_t kCalibrationPoints = 512;  // points on which the reach of the search is settled
constexpr float kMostReach = 4;
constexpr std::size_t kMostMeasured = 512;  // candidates of a point, where bytes are coarse
// What a join mends of what is missing after the exchange. Measured: 0.54 to 0.58 of 4 to 12 % of lists of 100 at 1,000,000 x 64, of which
// it sees the first half; 0.8 of 8 and of 17 % of lists of 50 and 0.9 of 17 % of lists of 10 at 2,000,000. Of more points it mends less.
double join_mends(std::size_t neighbors) { return neighbors <= Join().entries ? 0.7 : 0.45; }

// The candidates a search left for its i-th query as places, without the query, about in order of distance; their squared distances in
// packed units are left in `w.keys`.
void gather(const BuildTask& task, CellSearch::Scratch& scratch, std::size_t i, std::size_t keep, std::size_t first, ListScratch& w) {
  kernels::Reservoir& reservoir = scratch.reservoirs[scratch.lanes[i]];
  task.kernels.finish(&reservoir, keep, 8);
  w.found.clear();
  for (std::uint32_t entry = 0; entry < reservoir.count; ++entry)
    if (reservoir.slots[entry] != scratch.queries[i])
      w.found.push_back({static_cast<std::uint32_t>(first + reservoir.slots[entry]), reservoir.norm - 2 * reservoir.scores[entry]});
  w.sort_by_counting(reservoir.norm - 2 * reservoir.threshold);
}

// A few points from each of a few chunks: a chunk costs much the same for one point as for many.
struct Calibration {
  std::vector<CellSearch::Chunk> chunks;
  std::vector<std::vector<std::uint32_t>> places;  // of each chunk
  std::vector<std::size_t> firsts;                 // where they begin in
  std::vector<std::uint32_t> points;               // all of them
  std::vector<std::size_t> numbers;                // of each of these, its number in the sample that has the exact lists
};

Calibration choose_points(const Group& group) {
  const std::vector<std::uint32_t>& cell_begins = group.partition.cell_begins;
  const auto& chunks = group.search->chunks();
  const std::size_t chosen = std::min<std::size_t>(chunks.size(), 32);
  Calibration sample;
  sample.places.resize(chosen);
  for (std::size_t c = 0; c < chosen; ++c) {
    sample.chunks.push_back(chunks[c * chunks.size() / chosen]);
    const std::size_t begin = cell_begins[sample.chunks[c].first], count = cell_begins[sample.chunks[c].last] - begin;
    const std::size_t take = std::min(count, kCalibrationPoints / chosen);
    sample.firsts.push_back(sample.points.size());
    for (std::size_t i = 0; i < take; ++i) {
      sample.places[c].push_back(static_cast<std::uint32_t>(begin + i * count / take));
      sample.numbers.push_back(sample.points.size());
      sample.points.push_back(sample.places[c].back());
    }
  }
  return sample;
}

// Those of a sample whose true lists do not end nearer than `crowded`.
Calibration without_crowded(const Calibration& sample, const RecallSample& truth, float crowded) {
  Calibration rest;
  for (std::size_t c = 0; c < sample.chunks.size(); ++c) {
    std::vector<std::uint32_t> places;
    const std::size_t first = rest.points.size();
    for (std::size_t i = 0; i < sample.places[c].size(); ++i) {
      const std::size_t number = sample.numbers[sample.firsts[c] + i];
      if (truth.radius(number) < crowded) continue;
      places.push_back(sample.places[c][i]);
      rest.points.push_back(sample.places[c][i]);
      rest.numbers.push_back(number);
    }
    if (places.empty()) continue;
    rest.chunks.push_back(sample.chunks[c]);
    rest.places.push_back(std::move(places));
    rest.firsts.push_back(first);
  }
  return rest;
}

// The recall of lists of a sample of points, if the first measured[0], measured[1], ... of all candidates are measured in full; these
// ascend.
std::vector<double> recalls_at(float reach, std::span<const std::size_t> measured, const BuildTask& task, const OrderedRows& ordered,
                               const Group& group, const Calibration& sample, const RecallSample& truth, std::uint64_t& distances) {
  const Rows rows = ordered.rows();
  const std::size_t most = measured.back();
  std::vector<std::atomic<std::size_t>> right(measured.size());
  std::atomic<std::uint64_t> computed{0};
  parallel_for(sample.chunks.size(), 1, task.threads(), [&](std::size_t begin, std::size_t end, unsigned) {
    CellSearch::Scratch scratch;
    ListScratch w(task.kernels);
    w.sorted.resize(task.neighbors());
    w.distances.resize(task.neighbors());
    for (std::size_t c = begin; c < end; ++c) {
      group.search->search(sample.chunks[c], most, task.scanned(), reach, scratch, sample.places[c]);
      for (std::size_t i = 0; i < scratch.queries.size(); ++i) {
        gather(task, scratch, i, most, group.first, w);
        for (std::size_t m = 0; m < measured.size(); ++m) {
          const auto some = std::span(w.candidates).first(m + 1 == measured.size() ? w.candidates.size() : measured[m]);
          w.writer.write(rows[group.first + scratch.queries[i]], rows, some, task.neighbors(), w.sorted.data(), w.distances.data());
          for (std::uint32_t& place : w.sorted) place -= static_cast<std::uint32_t>(group.first);
          right[m] += truth.hits(sample.numbers[sample.firsts[c] + i], w.sorted, w.distances);
        }
      }
    }
    computed += scratch.computed;
  });
  distances += computed;
  std::vector<double> recalls;
  for (const std::size_t hits : right)
    recalls.push_back(static_cast<double>(hits) / static_cast<double>(sample.points.size() * task.neighbors()));
  return recalls;
}

// Where rows are of very unequal lengths, or in crowds, one scale for the bytes of all is too coarse: however much is looked at, the true
// neighbours are not among the candidates that are measured. If that is why more than `harmless` is missing, lets the group measure more of
// them, as many as it takes, leaves its crowds to a search of their own, or packs it as floats, which are nearly exact and four times as
// slow. Returns whether it did any of these. Crowds are of points whose true lists end nearer than `crowded`; they are taken out of the
// sample.
bool sharpen(double harmless, float crowded, const BuildTask& task, const OrderedRows& ordered, Group& group, Calibration& sample,
             const RecallSample& truth, std::uint64_t& computed) {
  constexpr std::size_t kMostTimes = 8;
  constexpr float kEverything = 1e9F;
  const bool bytes = &group.packed->kernels() != &task.kernels.floats;
  std::vector<std::size_t> measured = {group.measured};
  const auto measure_up_to = [&](std::size_t most) {
    while (bytes && 2 * measured.back() <= std::min(most, group.size())) measured.push_back(2 * measured.back());
  };
  const auto enough_for = [&](const Calibration& some) {
    if (some.points.empty()) return measured.begin();
    const std::vector<double> recalls = recalls_at(kEverything, measured, task, ordered, group, some, truth, computed);
    const auto enough = std::find_if(recalls.begin(), recalls.end(), [&](double recall) { return 1 - recall <= harmless; });
    return measured.begin() + (enough - recalls.begin());
  };
  measure_up_to(std::max(2 * group.measured, std::min(kMostMeasured, kMostTimes * group.measured)));
  auto enough = bytes ? enough_for(sample) : measured.end();
  if (enough == measured.begin()) return false;
  if (enough == measured.end() && group.crowded == 0) {
    Calibration rest = without_crowded(sample, truth, crowded);
    measure_up_to(std::max(kMostMeasured, kMostTimes * group.measured));
    enough = measured.end();
    if (rest.points.size() < sample.points.size()) enough = enough_for(rest);
    if (enough != measured.end()) {
      group.crowded = crowded;
      sample = std::move(rest);
    }
  }
  if (enough != measured.end()) {
    group.measured = *enough;
    return true;
  }
  if (!bytes) return false;
  const Rows rows = ordered.rows(group.first, group.last);
  group.search.reset();  // not both at once
  group.packed = std::make_unique<PackedPoints>(rows, task.kernels.floats, task.threads());
  group.search = std::make_unique<CellSearch>(rows, *group.packed, group.partition.cell_begins, task.kernels, task.threads());
  return true;
}

// What may be missing before the exchange, so that no more than `allowed` is missing after it. Of what lists miss it mends the more the
// less that is: 0.56 of 1.5 %, 0.48 of 3 %, 0.36 of 8 %, 0.28 of 16 %, 0.16 of 42 % with lists of 100 (measured at 100,000 x 64), and more
// of shorter lists.
double missing_before_exchange(double allowed) {
  const auto left = [](double missing) { return missing * (1 - std::clamp(0.053 - 0.123 * std::log(missing), 0.0, 0.6)); };
  double low = allowed, high = 1;
  for (int step = 0; step < 40; ++step) {
    const double middle = (low + high) / 2;
    (left(middle) <= allowed ? low : high) = middle;
  }
  return low;
}

// Settles on the smallest reach that brings a sample of points to the recall asked for, with something to spare.
void calibrate(const BuildTask& task, const OrderedRows& ordered, Group& group, std::uint64_t& computed) {
  Calibration sample = choose_points(group);
  const RecallSample truth(task, ordered.rows(group.first, group.last), sample.points, computed);
  // The exchange that follows mends next to nothing of noise, which is told by how much of it a search looks at. The sample is small: ask
  // for a little more.
  constexpr double kNoise = 0.4;
  const double missing_allowed = 0.85 * (1 - task.options.recall_target);
  const double missing_before = missing_before_exchange(missing_allowed / (group.joins ? 1 - join_mends(task.neighbors()) : 1));
  // What is missing falls about exponentially with the reach: two or three looks settle it.
  constexpr float kFirstReach = 1.1F;
  constexpr double kUsualSlope = -8.6, kHarmless = 0.25;  // of what may be missing may be missing for want of fine bytes
  float& reach = group.reach = kFirstReach;
  float earlier_reach = 0;
  double earlier_log = 0, slope = kUsualSlope;
  // Cells were found in this packing: what it does not tell apart they do not either, whatever they are packed as later on.
  const float crowded = group.packed->blur() / group.packed->squared_scale();
  int sharpened = 0;
  for (int look = 0; look < 8 && !sample.points.empty(); ++look) {
    const std::uint64_t before = computed;
    const double recall = recalls_at(reach, {&group.measured, 1}, task, ordered, group, sample, truth, computed)[0];
    const double missing = std::max(1e-6, 1 - recall);
    const double distances = static_cast<double>(computed - before) / static_cast<double>(sample.points.size());
    const double goal = distances > kNoise * static_cast<double>(group.size()) ? missing_allowed : missing_before;
    if (missing <= goal && missing > 0.8 * goal) break;
    // To reach farther has not helped as expected.
    if (sharpened < 2 && look >= 2 && reach > std::max(kFirstReach, earlier_reach) && missing > goal) {
      ++sharpened;
      if (sharpen(kHarmless * goal, crowded, task, ordered, group, sample, truth, computed)) {
        slope = kUsualSlope;
        look = -1;  // from here as from the beginning
        continue;
      }
      sharpened = 2;  // bytes are not to blame
    }
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
}

// Edges of a point of a small group, whose rows are `mine`, to the near ones of it, nearest first. These and `i` count from the first place
// of the group.
void choose_edges(std::size_t i, std::span<const std::uint32_t> near, std::span<const float> squared, std::size_t first, const Rows& mine,
                  const BuildTask& task, EdgeLists& pruned, std::vector<Edge>& edges, ForwardEdges& forward) {
  edges.clear();
  for (std::size_t j = 0; j < near.size(); ++j)
    if (squared[j] > 0 || j < kCopies) edges.push_back({squared[j], near[j]});
  pruned.prune(i, edges, mine, task.kernels);
  for (const Edge& edge : pruned.of(i)) forward.add(first + i, static_cast<std::uint32_t>(first + edge.end));
}

}  // namespace

GroupedRows group_rows(const BuildTask& task, std::uint64_t& computed) {
  const Rows& rows = task.rows;
  std::vector<std::vector<std::uint32_t>> parts;
  if (task.size() < task.few())
    parts.push_back(own_order(task.size()));
  else
    parts = separate(rows, 2 * task.depth(), task.options.seed, task.threads(), task.kernels, computed, task.progress);
  std::vector<Group> groups(parts.size());
  std::vector<std::uint32_t> order;
  order.reserve(task.size());
  for (std::size_t g = 0; g < parts.size(); ++g) {
    const std::vector<std::uint32_t>& members = parts[g];
    groups[g].first = order.size();
    groups[g].last = order.size() + members.size();
    if (members.size() < task.few()) {
      order.insert(order.end(), members.begin(), members.end());
      continue;
    }
    const auto cell_size = static_cast<std::size_t>(std::clamp(0.6 * std::sqrt(static_cast<double>(members.size())), 64.0, 256.0));
    Buffer<float> values(parts.size() == 1 ? 0 : members.size() * rows.dimension());
    if (parts.size() > 1)
      for (std::size_t i = 0; i < members.size(); ++i)
        std::copy_n(rows[members[i]], rows.dimension(), values.data() + i * rows.dimension());
    const Rows mine = parts.size() == 1 ? rows : Rows(values.data(), members.size(), rows.dimension());
    groups[g].partition =
        partition_rows(mine, cell_size, task.options.seed, task.threads(), task.kernels, computed, task.progress, task.team);
    for (const std::uint32_t place : groups[g].partition.order) order.push_back(members[place]);
  }
  return {OrderedRows(rows, std::move(order), task.threads()), std::move(groups)};
}

void prepare_searches(const BuildTask& task, const OrderedRows& ordered, std::vector<Group>& groups, std::uint64_t& computed) {
  for (Group& group : groups) {
    if (group.partition.order.empty()) {
      group.shares = team_shares(task.team, group.size());
      for (std::size_t& share : group.shares) share += group.first;
      continue;
    }
    const Rows rows = ordered.rows(group.first, group.last);
    group.packed = std::make_unique<PackedPoints>(rows, task.kernels, task.threads());
    group.search = std::make_unique<CellSearch>(rows, *group.packed, group.partition.cell_begins, task.kernels, task.threads());
    group.shares = team_shares(task.team, group.search->chunks().size());
    for (std::size_t& share : group.shares)
      share = group.first +
              (share == group.search->chunks().size() ? group.size() : group.partition.cell_begins[group.search->chunks()[share].first]);
    // Edges and a refresh want more of a search than the lists.
    group.joins = group.size() >= task.options.joined_from && !task.makes_edges && !task.options.refreshable;
    BuildTask searched = task;
    searched.options.neighbors = task.searched();
    group.measured = group.near = searched.scanned();
    calibrate(searched, ordered, group, computed);
  }
}

void list_all_pairs(const BuildTask& task, const OrderedRows& ordered, const Group& group, Candidates& result, std::uint64_t& computed) {
  const Rows mine = ordered.rows(group.first, group.last);
  const std::size_t size = group.size(), count = std::min(task.depth(), size) - 1;
  std::vector<std::uint32_t> ids(size * count), own(size);
  std::vector<float> distances(size * count);
  std::vector<const float*> queries(size);
  for (std::size_t i = 0; i < size; ++i) queries[i] = mine[i];
  std::iota(own.begin(), own.end(), 0U);
  computed += find_exact_lists(mine, {queries, own, count, ids, distances}, task.kernels, task.threads(), task.progress, "lists");
  EdgeLists pruned(task.makes_edges ? size : 0, ForwardEdges::kMost);
  parallel_for(size, 64, task.threads(), [&](std::size_t begin, std::size_t end, unsigned) {
    std::vector<Edge> edges;
    for (std::size_t i = begin; i < end; ++i) {
      const std::size_t place = group.first + i;
      const std::span<std::uint32_t> near = std::span(ids).subspan(i * count, count);
      const float* lengths = distances.data() + i * count;
      if (task.makes_edges) choose_edges(i, near, {lengths, count}, group.first, mine, task, pruned, edges, result.forward);
      for (std::uint32_t& other : near) other += static_cast<std::uint32_t>(group.first);
      const auto list = result.lists.ids(ordered.point(place));
      const auto squared = result.lists.distances(ordered.point(place));
      for (std::size_t j = 0; j < task.neighbors(); ++j) list[j] = ordered.point(near[j]);
      std::copy_n(lengths, task.neighbors(), squared.begin());
      order_ties(list, squared);
      result.keep(place, near);
    }
  });
}

void list_by_cells(const BuildTask& task, const OrderedRows& ordered, const Group& group, Candidates& result, std::uint64_t& computed) {
  const CellSearch& search = *group.search;
  const std::size_t depth = std::min(std::max(task.depth(), group.measured), group.size());
  std::vector<CellSearch::Scratch> scratches(resolve_threads(task.threads()));
  std::atomic<std::uint64_t> pruning{0};
  const TeamShare own = own_share(task.team, team_shares(task.team, search.chunks().size()));
  parallel_for(
      own.end - own.begin, 1, task.threads(),
      [&](std::size_t begin, std::size_t end, unsigned worker) {
        CellSearch::Scratch& scratch = scratches[worker];
        ListScratch w(task.kernels);
        for (std::size_t c = begin; c < end; ++c) {
          search.search(search.chunks()[own.begin + c], depth, group.near, group.reach, scratch);
          for (std::size_t i = 0; i < scratch.queries.size(); ++i) {
            const std::size_t place = group.first + scratch.queries[i];
            gather(task, scratch, i, depth, group.first, w);
            const std::size_t measured = std::min(group.measured - 1, w.candidates.size());
            result.write_list(place, std::span(w.candidates).first(measured), ordered, w);
            std::copy(w.sorted.begin(), w.sorted.end(), w.candidates.begin());  // now in true order, as far as they are measured
            result.keep(place, w.candidates);
            if (task.makes_edges) choose_forward(task, place, measured, group.first, *group.packed, w, result.forward);
          }
        }
        pruning += w.packed.computed;
      },
      task.progress, "lists");
  std::uint64_t distances = pruning;
  for (const CellSearch::Scratch& scratch : scratches) distances += scratch.computed;
  computed += team_sum(task.team, distances);
  if (task.team != nullptr) result.share(*task.team, group.shares);
}

void choose_edges_from_lists(const BuildTask& task, const OrderedRows& ordered, const Group& group, Candidates& result,
                             std::uint64_t& computed) {
  const Rows mine = ordered.rows(group.first, group.last);
  const TeamShare own = own_share(task.team, group.shares);
  EdgeLists pruned(group.packed == nullptr ? group.size() : 0, ForwardEdges::kMost);
  std::atomic<std::uint64_t> pruning{0};
  parallel_for(own.end - own.begin, 256, task.threads(), [&](std::size_t begin, std::size_t end, unsigned) {
    ListScratch w(task.kernels);
    std::vector<Edge> edges;
    for (std::size_t place = own.begin + begin; place < own.begin + end; ++place) {
      const auto ids = result.lists.ids(ordered.point(place));
      const auto squared = result.lists.distances(ordered.point(place));
      w.candidates.clear();
      for (const std::uint32_t id : ids) w.candidates.push_back(ordered.place(id));
      w.distances.assign(squared.begin(), squared.end());
      w.keys.resize(ids.size());
      if (group.packed != nullptr) {
        choose_forward(task, place, ids.size(), group.first, *group.packed, w, result.forward);
      } else {
        for (std::uint32_t& other : w.candidates) other -= static_cast<std::uint32_t>(group.first);
        choose_edges(place - group.first, w.candidates, w.distances, group.first, mine, task, pruned, edges, result.forward);
      }
    }
    pruning += w.packed.computed;
  });
  computed += team_sum(task.team, pruning);
  if (task.team != nullptr) result.forward.share(*task.team, group.shares);
}

bool widen(std::vector<Group>& groups) {
  bool wider = false;
  for (Group& group : groups) {
    if (group.search == nullptr || group.reach >= kMostReach) continue;
    group.reach += group.reach < 1.5F ? 0.1F : 0.5F;
    wider = true;
  }
  return wider;
}

bool measure_more(std::vector<Group>& groups) {
  bool more = false;
  for (Group& group : groups) {
    if (group.search == nullptr || 2 * group.measured > std::min(kMostMeasured, group.size())) continue;
    group.measured *= 2;
    more = true;
  }
  return more;
}

}  // namespace smartmine
