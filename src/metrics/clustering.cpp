#include "smartmine/metrics/clustering.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <limits>
#include <mutex>
#include <numeric>

#include "graph/kernels/kernels.h"
#include "metrics/classes.h"
#include "smartmine/core/buffer.h"
#include "smartmine/core/error.h"
#include "smartmine/core/parallel.h"
#include "smartmine/core/random.h"

namespace smartmine {
namespace {

constexpr std::uint64_t kStartStream = 0x6b6d65616e73;  // what the randomness of k-means++ is keyed by
constexpr std::size_t kPiece = 1024;                    // rows whose distances are summed together, whatever the number of threads
constexpr std::size_t kBlock = 64;                      // rows compared with all centres together
constexpr double kLargeStep = 2e8;                      // products in an iteration that keep several threads busy
constexpr const char* kStage = "clustering";

// One run of k-means: a start and Lloyd's iterations.
class Run {
 public:
  Run(const Rows& rows, const KMeansOptions& options, std::size_t restart, const Progress& progress)
      : rows_(rows),
        options_(options),
        restart_(restart),
        progress_(progress),
        dimension_(rows.dimension()),
        nearest_(rows.size(), 0),
        squared_(rows.size()),
        mean_(dimension_, 0.0F) {
    start();
    stats_.inertia.push_back(inertia());
    while (stats_.iterations < options_.max_iterations && !stats_.converged) {
      tell();
      move_centres();
      assign();
      ++stats_.iterations;
      stats_.inertia.push_back(inertia());
      const double before = stats_.inertia[stats_.inertia.size() - 2];
      stats_.converged = stats_.inertia.back() >= before * (1.0 - options_.tolerance);
    }
  }

  double last_inertia() const { return stats_.inertia.back(); }
  std::uint64_t distances() const { return distances_; }

  KMeansResult result() && {
    KMeansResult result;
    result.assignments.assign(nearest_.begin(), nearest_.end());
    result.centres = std::move(centres_);
    result.clusters = clusters_;
    result.inertia = last_inertia();
    result.stats = std::move(stats_);
    return result;
  }

 private:
  const float* centre(std::size_t c) const { return centres_.data() + c * dimension_; }
  void tell() const { report(progress_, kStage, restart_, options_.restarts); }

  double inertia() const { return std::accumulate(piece_sums_.begin(), piece_sums_.end(), 0.0); }

  void sum_piece(std::size_t begin, std::size_t end) {
    double sum = 0;
    for (std::size_t i = begin; i < end; ++i) sum += static_cast<double>(squared_[i]);
    piece_sums_[begin / kPiece] = sum;
  }

  // k-means++: each further centre is a row drawn with a chance in proportion to its squared distance to the nearest so far.
  void start() {
    Random random(options_.seed, kStartStream, restart_);
    piece_sums_.assign((rows_.size() + kPiece - 1) / kPiece, 0.0);
    centres_.reserve(options_.clusters * dimension_);
    add_centre(random.below(rows_.size()));
    while (clusters_ < options_.clusters) {
      if (clusters_ % kBlock == 0) tell();
      const double total = inertia();
      if (!(total > 0)) break;  // every row is a centre: there are fewer distinct rows than centres asked for
      add_centre(draw(random.uniform() * total));
    }
  }

  // The row at which the running sum of squared distances passes `target`.
  std::size_t draw(double target) const {
    std::size_t piece = 0, chosen = 0;
    while (piece + 1 < piece_sums_.size() && target >= piece_sums_[piece]) target -= piece_sums_[piece++];
    // Rounding may lead past the last row with a distance: then it is that one.
    while (piece > 0 && !(piece_sums_[piece] > 0)) --piece;
    const std::size_t end = std::min(rows_.size(), (piece + 1) * kPiece);
    for (std::size_t i = piece * kPiece; i < end; ++i) {
      if (!(squared_[i] > 0)) continue;
      chosen = i;
      target -= static_cast<double>(squared_[i]);
      if (target < 0) break;
    }
    return chosen;
  }

  void add_centre(std::size_t row) {
    const auto added = static_cast<std::uint32_t>(clusters_++);
    centres_.insert(centres_.end(), rows_[row], rows_[row] + dimension_);
    // A centre twice as far from a row's own centre as the row is cannot be nearer.
    std::vector<float> gaps(added);
    for (std::uint32_t c = 0; c < added; ++c) gaps[c] = kernels_.squared_distance(centre(added), centre(c), dimension_);
    std::atomic<std::uint64_t> distances{0};
    parallel_for(rows_.size(), kPiece, options_.threads, [&](std::size_t begin, std::size_t end, unsigned) {
      std::uint64_t computed = 0;
      for (std::size_t i = begin; i < end; ++i) {
        if (added > 0 && gaps[nearest_[i]] >= 4 * squared_[i]) continue;
        const float squared = kernels_.squared_distance(rows_[i], centre(added), dimension_);
        ++computed;
        if (added > 0 && squared >= squared_[i]) continue;
        squared_[i] = squared;
        nearest_[i] = added;
      }
      sum_piece(begin, end);
      distances += computed;
    });
    distances_ += added + distances;
  }

  // Every centre becomes the mean of its rows, summed in the order of their ids whatever the number of threads.
  void move_centres() {
    std::vector<std::size_t> ends(clusters_ + 1, 0);  // of each cluster's members, once filled
    for (const std::uint32_t c : nearest_) ++ends[c + 1];
    fill_empty_clusters(ends);
    std::partial_sum(ends.begin(), ends.end(), ends.begin());
    std::vector<std::uint32_t> members(rows_.size());
    for (std::size_t i = 0; i < rows_.size(); ++i) members[ends[nearest_[i]]++] = static_cast<std::uint32_t>(i);
    parallel_for(clusters_, 1, options_.threads, [&](std::size_t c, std::size_t, unsigned) {
      const std::size_t first = c == 0 ? 0 : ends[c - 1], count = ends[c] - first;
      if (count == 0) return;  // only if every row lies on its centre
      std::vector<double> sums(dimension_, 0.0);
      for (std::size_t m = first; m < ends[c]; ++m) {
        const float* row = rows_[members[m]];
        for (std::size_t t = 0; t < dimension_; ++t) sums[t] += static_cast<double>(row[t]);
      }
      float* out = centres_.data() + c * dimension_;
      for (std::size_t t = 0; t < dimension_; ++t) out[t] = static_cast<float>(sums[t] / static_cast<double>(count));
    });
  }

  // Centres without rows get the rows farthest from their own centres, ties to the lower id, but not the only row of another centre.
  // `counts[c + 1]` is the number of rows of centre c.
  void fill_empty_clusters(std::vector<std::size_t>& counts) {
    std::vector<std::uint32_t> empty;
    for (std::uint32_t c = 0; c < clusters_; ++c)
      if (counts[c + 1] == 0) empty.push_back(c);
    if (empty.empty()) return;
    std::vector<std::uint32_t> farthest(rows_.size());
    std::iota(farthest.begin(), farthest.end(), 0U);
    std::stable_sort(farthest.begin(), farthest.end(), [&](std::uint32_t a, std::uint32_t b) { return squared_[a] > squared_[b]; });
    auto next = farthest.begin();
    for (const std::uint32_t c : empty) {
      while (next != farthest.end() && squared_[*next] > 0 && counts[nearest_[*next] + 1] == 1) ++next;
      if (next == farthest.end() || !(squared_[*next] > 0)) return;
      --counts[nearest_[*next] + 1];
      nearest_[*next] = c;
      counts[c + 1] = 1;
      ++stats_.emptied_clusters;
      ++next;
    }
  }

  void pack_centres() {
    // Measured from the middle of the centres, where rounding is least.
    std::vector<double> sums(dimension_, 0.0);
    for (std::size_t c = 0; c < clusters_; ++c)
      for (std::size_t t = 0; t < dimension_; ++t) sums[t] += static_cast<double>(centre(c)[t]);
    for (std::size_t t = 0; t < dimension_; ++t) mean_[t] = static_cast<float>(sums[t] / static_cast<double>(clusters_));
    longest_centre_ = 0;
    for (std::size_t c = 0; c < clusters_; ++c)
      longest_centre_ = std::max(longest_centre_, kernels_.squared_distance(centre(c), mean_.data(), dimension_));
    const std::size_t panel_bytes = kernels_.floats.panel_bytes(dimension_);
    if (panels_.empty()) panels_ = Buffer<std::uint8_t>(panel_count() * panel_bytes);
    for (std::size_t panel = 0; panel < panel_count(); ++panel) {
      std::uint32_t ids[kernels::kPanelWidth];
      const std::size_t first = panel * kernels::kPanelWidth;
      const std::size_t count = std::min(kernels::kPanelWidth, clusters_ - first);
      std::iota(ids, ids + count, static_cast<std::uint32_t>(first));
      kernels_.floats.pack_panel(packing(), centres_.data(), ids, count, panels_.data() + panel * panel_bytes);
    }
  }
  std::size_t panel_count() const { return (clusters_ + kernels::kPanelWidth - 1) / kernels::kPanelWidth; }
  kernels::Packing packing() const { return {mean_.data(), 1.0F, dimension_}; }

  // Every row goes to its nearest centre. Its centre so far sets the bar for a scan of all centres, which few pass; those are measured in
  // full.
  void assign() {
    pack_centres();
    std::atomic<std::uint64_t> measured{0};
    parallel_for(rows_.size(), kPiece, options_.threads, [&](std::size_t begin, std::size_t end, unsigned) {
      std::uint64_t distances = 0;
      for (std::size_t first = begin; first < end; first += kBlock) distances += assign_block(first, std::min(end, first + kBlock));
      sum_piece(begin, end);
      measured += distances;
    });
    distances_ += measured + static_cast<std::uint64_t>(rows_.size()) * clusters_;
  }

  std::uint64_t assign_block(std::size_t begin, std::size_t end) {
    constexpr std::size_t kCapacity = 4 * kernels::kReservoirSlack;
    const std::size_t query_bytes = kernels_.floats.query_bytes(dimension_);
    Buffer<std::uint8_t> queries(kBlock * query_bytes);
    Buffer<float> scores(kBlock * kCapacity);
    Buffer<std::uint32_t> slots(kBlock * kCapacity);
    kernels::Reservoir reservoirs[kBlock];
    const float rounding = static_cast<float>(dimension_ + 8) * std::numeric_limits<float>::epsilon();
    for (std::size_t i = begin; i < end; ++i) {
      const std::size_t place = i - begin;
      kernels::Reservoir& r = reservoirs[place];
      r = {};
      r.scores = scores.data() + place * kCapacity;
      r.slots = slots.data() + place * kCapacity;
      kernels_.floats.pack_query(packing(), rows_[i], queries.data() + place * query_bytes, &r);
      squared_[i] = kernels_.squared_distance(rows_[i], centre(nearest_[i]), dimension_);
      // A sum of d products errs by at most d * eps of the sum of their sizes: generously, for the score and for the distance it is held
      // against.
      const float slack = 4 * rounding * (r.norm + longest_centre_);
      r.slack_squared = 2 * slack;
      r.threshold = 0.5F * (r.norm - squared_[i]) - slack;
    }
    kernels_.floats.scan({queries.data(), end - begin, panels_.data(), panel_count(), 0, dimension_, reservoirs, 1, kCapacity});
    std::uint64_t distances = end - begin;
    for (std::size_t i = begin; i < end; ++i) {
      const kernels::Reservoir& r = reservoirs[i - begin];
      const std::uint32_t before = nearest_[i];
      const auto consider = [&](std::uint32_t c) {
        if (c == before) return;
        ++distances;
        const float squared = kernels_.squared_distance(rows_[i], centre(c), dimension_);
        if (squared > squared_[i] || (squared == squared_[i] && c > nearest_[i])) return;
        squared_[i] = squared;
        nearest_[i] = c;
      };
      if (r.overflowed)  // more centres than fit lie closer together than rounding tells
        for (std::uint32_t c = 0; c < clusters_; ++c) consider(c);
      else
        for (std::uint32_t entry = 0; entry < r.count; ++entry) consider(r.slots[entry]);
    }
    return distances;
  }

  const Rows& rows_;
  const KMeansOptions& options_;
  const std::size_t restart_;
  const Progress& progress_;
  const std::size_t dimension_;
  const kernels::Kernels& kernels_ = kernels::active();
  std::size_t clusters_ = 0;
  std::vector<float> centres_;
  std::vector<std::uint32_t> nearest_;  // centre of each row,
  std::vector<float> squared_;          // and its squared distance
  std::vector<double> piece_sums_;      // of these distances
  std::vector<float> mean_;
  float longest_centre_ = 0;  // squared, about the mean
  Buffer<std::uint8_t> panels_;
  std::uint64_t distances_ = 0;
  KMeansStats stats_;
};

double entropy(std::span<const std::uint32_t> sizes, double total) {
  double sum = 0;
  for (const std::uint32_t size : sizes) sum -= size / total * std::log(size / total);
  return sum;
}

}  // namespace

void KMeansOptions::validate() const {
  if (clusters < 1) throw InvalidArgument("clusters is 0; it must be at least 1");
  if (restarts < 1 || restarts > 1000) throw InvalidArgument(fmt::format("restarts is {}; it must be from 1 to 1000", restarts));
  if (max_iterations < 1) throw InvalidArgument("max_iterations is 0; it must be at least 1");
  if (!(tolerance >= 0 && tolerance < 1)) throw InvalidArgument(fmt::format("tolerance is {}; it must be from 0 to below 1", tolerance));
}

KMeansResult k_means(const Rows& rows, const KMeansOptions& options, const Progress& progress) {
  const auto begin = std::chrono::steady_clock::now();
  options.validate();
  if (options.clusters > rows.size())
    throw InvalidArgument(fmt::format("clusters is {}; with {} rows it must be from 1 to {}", options.clusters, rows.size(), rows.size()));
  check_rows(rows, options.threads);
  // Threads share a large run; small ones, whose steps are over sooner than threads are started, go side by side. Both give the same
  // result.
  const double step = static_cast<double>(rows.size()) * static_cast<double>(rows.dimension()) * static_cast<double>(options.clusters);
  const bool side_by_side = step < kLargeStep;
  KMeansOptions run_options = options;
  if (side_by_side) run_options.threads = 1;
  KMeansResult best;
  std::vector<double> inertia(options.restarts);
  std::uint64_t distances = 0;
  std::mutex mutex;
  const Progress silent;
  parallel_for(options.restarts, 1, side_by_side ? options.threads : 1, [&](std::size_t restart, std::size_t, unsigned worker) {
    Run run(rows, run_options, restart, worker == 0 ? progress : silent);  // the calling thread alone reports
    const std::lock_guard<std::mutex> lock(mutex);
    inertia[restart] = run.last_inertia();
    distances += run.distances();
    const bool better = best.assignments.empty() || inertia[restart] < best.inertia ||
                        (inertia[restart] == best.inertia && restart < best.stats.kept_restart);
    if (!better) return;
    best = std::move(run).result();
    best.stats.kept_restart = restart;
  });
  report(progress, kStage, options.restarts, options.restarts);
  best.stats.restart_inertia = std::move(inertia);
  best.stats.distance_computations = distances;
  best.stats.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return best;
}

NormalizedMutualInformation normalized_mutual_information(std::span<const std::int64_t> first, std::span<const std::int64_t> second) {
  if (first.size() != second.size())
    throw InvalidArgument(fmt::format("groupings of {} and of {} points; they must be of the same points", first.size(), second.size()));
  if (first.empty()) throw InvalidArgument("groupings are empty; there is nothing to compare");
  if (first.size() > kMaxRows) throw InvalidArgument(fmt::format("there are {} points; at most {} are supported", first.size(), kMaxRows));
  const Classes a(first), b(second);
  if (a.sizes.size() == 1 && b.sizes.size() == 1) return {1, 1};
  if (a.sizes.size() == 1 || b.sizes.size() == 1) return {0, 0};

  // Sorted pairs stand for the table of counts, which would be classes x clusters large.
  std::vector<std::uint64_t> pairs(first.size());
  for (std::size_t i = 0; i < pairs.size(); ++i) pairs[i] = std::uint64_t{a.of[i]} << 32 | b.of[i];
  std::sort(pairs.begin(), pairs.end());
  const auto total = static_cast<double>(first.size());
  double information = 0;
  for (auto from = pairs.begin(); from != pairs.end();) {
    const auto to = std::upper_bound(from, pairs.end(), *from);
    const auto both = static_cast<double>(to - from);
    const double size_a = a.sizes[*from >> 32], size_b = b.sizes[static_cast<std::uint32_t>(*from)];
    information += both / total * std::log(both * total / (size_a * size_b));
    from = to;
  }
  const double entropy_a = entropy(a.sizes, total), entropy_b = entropy(b.sizes, total);
  // Rounding may lead a little outside.
  return {std::clamp(information / (0.5 * (entropy_a + entropy_b)), 0.0, 1.0),
          std::clamp(information / std::sqrt(entropy_a * entropy_b), 0.0, 1.0)};
}

}  // namespace smartmine
