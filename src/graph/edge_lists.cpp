#include "graph/edge_lists.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "smartmine/core/parallel.h"
#include "smartmine/core/random.h"

namespace smartmine {

namespace {

constexpr std::uint64_t kPairStream = 0x7472;
// Fresh pairs of a trial, at least, and most of them unless all pairs before have arrived. The least certify 98 % when the true rate is
// 98.6 %.
constexpr std::size_t kLeastPairs = 3000;
constexpr std::size_t kMostPairs = 12'000;
constexpr double kDoubt = 0.05;  // the chance that a rate is certified that is not reached, over all trials of a build

// Trials get less and less of the doubt: a half, a sixth, a twelfth, ... which add up to one.
double deviations_of_trial(std::size_t trial) {
  const auto t = static_cast<double>(trial);
  return deviations_of_tail(kDoubt / (t * (t + 1)));
}

// How many fresh pairs would likely pass a trial, if `rate` is about right; 0: more than it is worth.
std::size_t pairs_to_pass(double rate, double target, double deviations, std::size_t most) {
  for (std::size_t pairs = kLeastPairs; pairs <= most; pairs += pairs / 4) {
    const auto n = static_cast<double>(pairs);
    // One deviation more than must be passed, for the luck of the draw.
    if (lower_bound_of_share(rate * n, n, deviations + 1) >= target) return pairs;
  }
  return 0;
}

// The better the graph, the fewer pairs change it, and the more may be tried against it as it stands: every batch starts threads.
std::size_t growing_batch(std::size_t batch, double rate) {
  const auto pairs = static_cast<double>(batch);
  return static_cast<std::size_t>(std::clamp(pairs / 4 / std::max(1 - rate, 0.01), pairs, 4 * pairs));
}

// Whether to mend whole targets. It takes as long as some batches, so it must have shown that it helps.
class WholeTargets {
 public:
  explicit WholeTargets(const TraverseOptions& options) : worth_(options.whole_targets), below_(1 - kFar * (1 - options.target)) {}

  bool next(double rate) {
    if (!worth_ || rate >= below_) return false;
    if (rounds_ == 0) failing_ = 1 - rate;
    if (rounds_++ < kTrial) return true;
    worth_ = 1 - rate < kHelps * failing_;
    rounds_ = 0;
    return worth_ && next(rate);
  }

 private:
  static constexpr double kFar = 1.3;    // times as many failures as are allowed: with fewer it is quicker to mend single walks
  static constexpr int kTrial = 8;       // rounds
  static constexpr double kHelps = 0.8;  // of the failures may be left after them

  bool worth_;
  double below_;
  int rounds_ = 0;
  double failing_ = 0;
};

struct Walk {
  std::uint32_t stopped, target;
  float squared;  // what is left between the two; 0: it has arrived, on the target or on a copy of it
};

// Adds the edges that these walks lacked, those of one vertex in the order of the walks.
std::uint64_t add_missing(std::span<const Walk> walks, EdgeLists& edges, const Rows& rows, unsigned threads,
                          const kernels::Kernels& kernels) {
  constexpr std::size_t kParts = 64;      // of the vertices
  constexpr std::size_t kWorthIt = 1024;  // walks: with fewer it takes longer to start threads
  const auto add = [&](const Walk& walk) { return edges.add(walk.stopped, {walk.squared, walk.target}, rows, kernels) ? 1U : 0U; };
  std::uint64_t added = 0;
  if (walks.size() < kWorthIt) {
    for (const Walk& walk : walks) added += add(walk);
    return added;
  }
  const auto part_of = [&](const Walk& walk) { return walk.stopped * kParts / edges.vertices(); };
  std::array<std::size_t, kParts + 1> begins{};
  for (const Walk& walk : walks) ++begins[part_of(walk) + 1];
  for (std::size_t part = 0; part < kParts; ++part) begins[part + 1] += begins[part];
  std::vector<Walk> sorted(walks.size());
  auto next = begins;
  for (const Walk& walk : walks) sorted[next[part_of(walk)]++] = walk;
  std::array<std::uint64_t, kParts> of_part{};
  parallel_for(kParts, 1, threads, [&](std::size_t part, std::size_t, unsigned) {
    for (std::size_t i = begins[part]; i < begins[part + 1]; ++i) of_part[part] += add(sorted[i]);
  });
  for (const std::uint64_t some : of_part) added += some;
  return added;
}

// What a round of walks came to.
struct Round {
  std::vector<Walk> failed;  // in the order of the pairs
  std::size_t arrived = 0;
  std::uint64_t computed = 0;
};

// Walks between random pairs. Nothing depends on the threads.
Round walk_random_pairs(std::uint64_t number, std::size_t pairs, const EdgeLists& edges, const Rows& rows, const TraverseOptions& options,
                        const kernels::Kernels& kernels) {
  constexpr std::size_t kPiece = 64;
  const std::size_t vertices = edges.vertices();
  std::vector<Round> pieces((pairs + kPiece - 1) / kPiece);
  parallel_for(pairs, kPiece, options.threads, [&](std::size_t begin, std::size_t end, unsigned) {
    Round& piece = pieces[begin / kPiece];
    for (std::size_t i = begin; i < end; ++i) {
      Random random(options.seed, kPairStream + (number << 16), i);
      const auto start = static_cast<std::uint32_t>(random.below(vertices));
      auto goal = static_cast<std::uint32_t>(random.below(vertices - 1));
      goal += goal >= start;
      const std::uint32_t stopped = downhill(edges, rows, start, rows[goal], kernels, piece.computed);
      const float squared = stopped == goal ? 0 : kernels.squared_distance(rows[stopped], rows[goal], rows.dimension());
      piece.arrived += squared > 0 ? 0 : 1;
      if (squared > 0) piece.failed.push_back({stopped, goal, squared});
    }
  });
  Round all;
  for (const Round& piece : pieces) {
    all.failed.insert(all.failed.end(), piece.failed.begin(), piece.failed.end());
    all.arrived += piece.arrived;
    all.computed += piece.computed;
  }
  return all;
}

}  // namespace

bool EdgeLists::add(std::size_t vertex, Edge edge, const Rows& rows, const kernels::Kernels& kernels) {
  Edge* mine = edges_.data() + vertex * max_degree_;
  std::size_t count = counts_[vertex];
  std::size_t place = 0;
  for (; place < count && mine[place] < edge; ++place) {
    if (mine[place].end == edge.end) return false;
    if (mine[place].squared < edge.squared &&
        kernels.squared_distance(rows[mine[place].end], rows[edge.end], rows.dimension()) < edge.squared)
      return false;
  }
  std::size_t left = place;  // edges that stay behind the new one
  for (std::size_t i = place; i < count; ++i) {
    if (mine[i].end == edge.end) return false;
    const bool occluded =
        edge.squared < mine[i].squared && kernels.squared_distance(rows[edge.end], rows[mine[i].end], rows.dimension()) < mine[i].squared;
    if (!occluded) mine[left++] = mine[i];
  }
  count = left;
  if (place == max_degree_) return false;
  if (count == max_degree_) --count;  // the longest makes room
  std::copy_backward(mine + place, mine + count, mine + count + 1);
  mine[place] = edge;
  counts_[vertex] = static_cast<std::uint16_t>(count + 1);
  return true;
}

std::uint32_t downhill(const EdgeLists& edges, const Rows& rows, std::uint32_t start, const float* target, const kernels::Kernels& kernels,
                       std::uint64_t& computed) {
  constexpr std::size_t kMostEdges = 1024;
  std::uint32_t ends[kMostEdges];
  float squared[kMostEdges];
  std::uint32_t here = start;
  float distance = kernels.squared_distance(rows[here], target, rows.dimension());
  ++computed;
  while (true) {
    const auto mine = edges.of(here);
    for (std::size_t i = 0; i < mine.size(); ++i) ends[i] = mine[i].end;
    kernels.squared_distances(target, rows.data(), ends, mine.size(), rows.dimension(), squared);
    std::uint32_t best = here;
    float nearest = distance;
    for (std::size_t i = 0; i < mine.size(); ++i) {  // without a branch: nobody could foretell it
      best = squared[i] < nearest ? ends[i] : best;
      nearest = squared[i] < nearest ? squared[i] : nearest;
    }
    computed += mine.size();
    if (best == here) return here;
    here = best;
    distance = nearest;
  }
}

double deviations_of_tail(double tail) {
  double low = 0, high = 40;
  while (high - low > 1e-9) {
    const double middle = (low + high) / 2;
    (std::erfc(middle / std::sqrt(2.0)) / 2 > tail ? low : high) = middle;
  }
  return high;
}

double lower_bound_of_share(double hits, double tries, double deviations) {
  if (!(tries > 0)) return 0;
  const double share = hits / tries, z = deviations;
  const double middle = share + z * z / (2 * tries);
  const double spread = z * std::sqrt(share * (1 - share) / tries + z * z / (4 * tries * tries));
  return std::max(0.0, (middle - spread) / (1 + z * z / tries));
}

std::uint64_t add_all_towards(std::span<const std::uint32_t> targets, EdgeLists& edges, const Rows& rows, unsigned threads,
                              const kernels::Kernels& kernels) {
  constexpr std::size_t kTogether = 16;  // distances to so many fill a cache line
  constexpr std::size_t kPiece = 256;
  struct Lacking {
    std::uint32_t vertex;
    Edge edge;
  };
  const std::size_t vertices = edges.vertices();
  std::vector<std::array<float, kTogether>> squared(vertices);
  std::vector<std::vector<Lacking>> lacking((vertices + kPiece - 1) / kPiece);
  std::uint64_t added = 0;
  for (std::size_t first = 0; first < targets.size(); first += kTogether) {
    const auto some = targets.subspan(first, std::min(kTogether, targets.size() - first));
    parallel_for(vertices, kPiece, threads, [&](std::size_t begin, std::size_t end, unsigned) {
      for (std::size_t v = begin; v < end; ++v)
        kernels.squared_distances(rows[v], rows.data(), some.data(), some.size(), rows.dimension(), squared[v].data());
    });
    parallel_for(vertices, kPiece, threads, [&](std::size_t begin, std::size_t end, unsigned) {
      std::vector<Lacking>& found = lacking[begin / kPiece];
      found.clear();
      for (std::size_t v = begin; v < end; ++v) {
        std::array<float, kTogether> least = squared[v];
        for (const Edge& edge : edges.of(v))
          for (std::size_t t = 0; t < kTogether; ++t) least[t] = std::min(least[t], squared[edge.end][t]);
        for (std::size_t t = 0; t < some.size(); ++t)
          if (squared[v][t] > 0 && !(least[t] < squared[v][t])) found.push_back({static_cast<std::uint32_t>(v), {squared[v][t], some[t]}});
      }
    });
    for (const auto& piece : lacking)
      for (const Lacking& each : piece) added += edges.add(each.vertex, each.edge, rows, kernels);
  }
  return added;
}

TraverseResult traverse_add(EdgeLists& edges, const Rows& rows, const TraverseOptions& options, const kernels::Kernels& kernels,
                            const Progress& progress) {
  TraverseResult result;
  const std::size_t vertices = edges.vertices();
  std::size_t tried = 0;
  std::size_t size = kLeastPairs;
  std::size_t trial = 1;  // the graph as it came is put to the first
  bool on_trial = true, last = false;
  WholeTargets whole(options);
  std::vector<std::uint32_t> targets;
  for (std::uint64_t round = 0; vertices > 1; ++round) {
    const Round walked = walk_random_pairs(round, size, edges, rows, options, kernels);
    const std::size_t arrived = walked.arrived;
    result.computed += walked.computed;
    tried += size;
    const double deviations = deviations_of_trial(trial);
    const auto hits = static_cast<double>(arrived), pairs = static_cast<double>(size);
    result.rate = hits / pairs;
    result.bound = lower_bound_of_share(hits, pairs, deviations);
    result.pairs = size;
    report(progress, "traverse-add", static_cast<std::size_t>(std::min(result.bound / options.target, 1.0) * 1000), 1000);
    result.reached = on_trial && result.bound >= options.target;
    if (result.reached || last || result.rate < options.hopeless_below) return result;
    if (tried >= options.most_pairs) {
      if (on_trial) return result;
      // Given up: what is said of the graph is measured on more pairs than a batch has, as one more trial.
      last = on_trial = true;
      ++trial;
      size = kMostPairs;
      continue;
    }
    const std::size_t most = arrived == size ? options.most_pairs : kMostPairs;
    const std::size_t enough = pairs_to_pass(result.rate, options.target, deviations_of_trial(trial + 1), most);
    on_trial = enough > 0;
    if (on_trial) {
      ++trial;
      size = enough;
      continue;
    }
    if (whole.next(result.rate)) {
      constexpr std::size_t kTargets = 64;
      targets.clear();
      for (std::size_t i = 0; i < walked.failed.size() && targets.size() < kTargets; ++i) targets.push_back(walked.failed[i].target);
      result.computed += targets.size() * vertices;
      result.added += add_all_towards(targets, edges, rows, options.threads, kernels);
    }
    result.added += add_missing(walked.failed, edges, rows, options.threads, kernels);
    size = options.growing ? growing_batch(options.batch, result.rate) : options.batch;
  }
  result.rate = result.bound = 1;
  result.reached = true;
  return result;
}

}  // namespace smartmine
