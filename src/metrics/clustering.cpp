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
#include "graph/packed_rows.h"
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
constexpr double kBatchedStart = 1e10;                  // products in an iteration from which on centres are added many at a time
constexpr std::size_t kBatch = 128;                     // centres added together at most
constexpr std::size_t kRefusals = 64;                   // draws in a row that may be refused before the batch is closed
constexpr std::size_t kSteps = 1000;                    // of progress, of a restart
constexpr const char* kStage = "clustering";

// One run of k-means: a start and Lloyd's iterations.
class Run {
 public:
  Run(const Rows& rows, const Frame& frame, const KMeansOptions& options, std::size_t restart, const Progress& progress)
      : rows_(rows),
        frame_(frame),
        options_(options),
        restart_(restart),
        progress_(progress),
        dimension_(rows.dimension()),
        nearest_(rows.size(), 0),
        squared_(rows.size()) {
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

  // How far a restart is nobody knows before its last iteration: a third is its start, and each iteration takes a part of the rest.
  void tell() const {
    constexpr double kStartShare = 0.34;
    constexpr double kRestAfterAnIteration = 0.85;
    const double begun = kStartShare * static_cast<double>(clusters_) / static_cast<double>(options_.clusters);
    const double rest = (1 - begun) * std::pow(kRestAfterAnIteration, static_cast<double>(stats_.iterations));
    const double share = stats_.inertia.empty() ? begun : 1 - rest;
    report(progress_, kStage, restart_ * kSteps + static_cast<std::size_t>(share * kSteps), options_.restarts * kSteps);
  }

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
    const double products = static_cast<double>(rows_.size()) * static_cast<double>(dimension_) * static_cast<double>(options_.clusters);
    if (products >= kBatchedStart) return start_in_batches(random);
    while (clusters_ < options_.clusters) {
      if (clusters_ % kBlock == 0) tell();
      const double total = inertia();
      if (!(total > 0)) break;  // every row is a centre: there are fewer distinct rows than centres asked for
      add_centre(draw(random.uniform() * total));
    }
  }

  // The same distribution at a fraction of the cost: all rows meet many new centres at once, while they are in the cache. Until then their
  // distances are too large, so a row drawn by them is taken only with a chance of its true distance over that.
  void start_in_batches(Random& random) {
    while (clusters_ < options_.clusters) {
      const double total = inertia();
      if (!(total > 0)) break;
      const std::size_t first = clusters_;
      std::size_t refused = 0;
      while (clusters_ < options_.clusters && clusters_ - first < kBatch && refused < kRefusals) {
        const std::size_t row = draw(random.uniform() * total);
        float squared = squared_[row];
        for (std::size_t c = first; c < clusters_; ++c)
          squared = std::min(squared, kernels_.squared_distance(rows_[row], centre(c), dimension_));
        distances_ += clusters_ - first;
        if (!(random.uniform() * static_cast<double>(squared_[row]) < static_cast<double>(squared))) {
          ++refused;
          continue;
        }
        refused = 0;
        centres_.insert(centres_.end(), rows_[row], rows_[row] + dimension_);
        ++clusters_;
      }
      std::vector<std::uint32_t> added(clusters_ - first);
      std::iota(added.begin(), added.end(), static_cast<std::uint32_t>(first));
      compare(all_rows(), added);
      sum_pieces();
      tell();
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
    moved_.assign(clusters_, 0);
    parallel_for(clusters_, 1, options_.threads, [&](std::size_t c, std::size_t, unsigned) {
      const std::size_t first = c == 0 ? 0 : ends[c - 1], count = ends[c] - first;
      if (count == 0) return;  // only if every row lies on its centre
      std::vector<double> sums(dimension_, 0.0);
      for (std::size_t m = first; m < ends[c]; ++m) {
        const float* row = rows_[members[m]];
        for (std::size_t t = 0; t < dimension_; ++t) sums[t] += static_cast<double>(row[t]);
      }
      float* out = centres_.data() + c * dimension_;
      for (std::size_t t = 0; t < dimension_; ++t) {
        const auto mean = static_cast<float>(sums[t] / static_cast<double>(count));
        if (mean != out[t]) moved_[c] = 1;
        out[t] = mean;
      }
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

  // Centres as a scan wants them.
  struct Packed {
    std::span<const std::uint32_t> ids;
    const kernels::PanelKernels* panels = nullptr;
    Frame frame;
    float error = 0;    // largest distance between a centre and its packed form,
    float longest = 0;  // and largest length, both in the packing's units
    Buffer<std::uint8_t> bytes;

    std::size_t count() const { return (ids.size() + kernels::kPanelWidth - 1) / kernels::kPanelWidth; }
  };

  // Bytes are measured from where rows fit them all, floats from the middle of the centres, where rounding is least.
  void pack(std::span<const std::uint32_t> ids, const kernels::PanelKernels& panels, Packed& packed) const {
    packed.ids = ids;
    packed.panels = &panels;
    packed.frame = frame_;
    if (&panels == &kernels_.floats) {
      std::vector<double> sums(dimension_, 0.0);
      for (const std::uint32_t c : ids)
        for (std::size_t t = 0; t < dimension_; ++t) sums[t] += static_cast<double>(centre(c)[t]);
      for (std::size_t t = 0; t < dimension_; ++t) packed.frame.centre[t] = static_cast<float>(sums[t] / static_cast<double>(ids.size()));
      packed.frame.scale = 1;
    }
    packed.longest = packed.error = 0;
    for (const std::uint32_t c : ids)
      packed.longest = std::max(packed.longest, kernels_.squared_distance(centre(c), packed.frame.centre.data(), dimension_));
    packed.longest = packed.frame.scale * std::sqrt(packed.longest);
    const std::size_t panel_bytes = panels.panel_bytes(dimension_);
    if (packed.bytes.size() < packed.count() * panel_bytes) packed.bytes = Buffer<std::uint8_t>(packed.count() * panel_bytes);
    for (std::size_t panel = 0; panel < packed.count(); ++panel) {
      const std::size_t first = panel * kernels::kPanelWidth;
      packed.error = std::max(
          packed.error, panels.pack_panel(packed.frame.packing(), centres_.data(), ids.data() + first,
                                          std::min(kernels::kPanelWidth, ids.size() - first), packed.bytes.data() + panel * panel_bytes));
    }
  }

  std::vector<std::uint32_t> all_rows() const {
    std::vector<std::uint32_t> all(rows_.size());
    std::iota(all.begin(), all.end(), 0U);
    return all;
  }

  void sum_pieces() {
    for (std::size_t begin = 0; begin < rows_.size(); begin += kPiece) sum_piece(begin, std::min(rows_.size(), begin + kPiece));
  }

  // Every row goes to its nearest centre. A centre that stayed where it was cannot become the nearest of a row whose own centre is no
  // farther than before: such rows meet only the centres that moved.
  void assign() {
    std::vector<std::uint32_t> moved;
    for (std::uint32_t c = 0; c < clusters_; ++c)
      if (moved_[c] != 0) moved.push_back(c);
    std::vector<std::uint8_t> farther(rows_.size(), 0);
    parallel_for(rows_.size(), kPiece, options_.threads, [&](std::size_t begin, std::size_t end, unsigned) {
      for (std::size_t i = begin; i < end; ++i) {
        if (moved_[nearest_[i]] == 0) continue;
        const float squared = kernels_.squared_distance(rows_[i], centre(nearest_[i]), dimension_);
        farther[i] = squared > squared_[i] ? 1 : 0;
        squared_[i] = squared;
      }
    });
    distances_ += rows_.size();
    std::vector<std::uint32_t> some, all;  // rows that meet the centres that moved, and those that meet all of them
    const bool most = 2 * moved.size() > clusters_;
    for (std::uint32_t i = 0; i < rows_.size(); ++i) (most || farther[i] != 0 ? all : some).push_back(i);
    if (!all.empty()) {
      std::vector<std::uint32_t> ids(clusters_);
      std::iota(ids.begin(), ids.end(), 0U);
      compare(all, ids);
    }
    if (!some.empty() && !moved.empty()) compare(some, moved);
    sum_pieces();
  }

  // Rows go to whichever of these centres is nearer than their own. Their own sets the bar for a scan, which few centres pass; those are
  // measured in full. A scan of bytes is several times faster; rows around which bytes do not tell enough centres apart have one of floats.
  void compare(std::span<const std::uint32_t> rows, std::span<const std::uint32_t> centres) {
    // Rows so close together or so far apart that the scale is not for floats have no bytes.
    const bool bytes = frame_.scale > 1e-15F && frame_.scale < 1e15F;
    const kernels::PanelKernels& best = bytes ? panel_kernels(kernels_, dimension_) : kernels_.floats;
    std::vector<std::uint32_t> crowded = compare(rows, centres, best);
    if (!crowded.empty()) compare(crowded, centres, kernels_.floats);
  }

  // Returns the rows that bytes could not tell about; floats tell about all.
  std::vector<std::uint32_t> compare(std::span<const std::uint32_t> rows, std::span<const std::uint32_t> centres,
                                     const kernels::PanelKernels& panels) {
    constexpr std::size_t kGrain = kPiece / kBlock;
    pack(centres, panels, packed_);
    std::vector<std::vector<std::uint32_t>> crowded((rows.size() + kBlock - 1) / kBlock);
    std::atomic<std::uint64_t> measured{0};
    parallel_for(crowded.size(), kGrain, options_.threads, [&](std::size_t begin, std::size_t end, unsigned) {
      std::uint64_t distances = 0;
      for (std::size_t block = begin; block < end; ++block)
        distances += compare_block(rows.subspan(block * kBlock, std::min(kBlock, rows.size() - block * kBlock)), packed_, crowded[block]);
      measured += distances;
    });
    distances_ += measured + static_cast<std::uint64_t>(rows.size()) * centres.size();
    std::vector<std::uint32_t> rest;
    for (const std::vector<std::uint32_t>& some : crowded) rest.insert(rest.end(), some.begin(), some.end());
    return rest;
  }

  std::uint64_t compare_block(std::span<const std::uint32_t> rows, const Packed& packed, std::vector<std::uint32_t>& crowded) {
    constexpr std::size_t kCapacity = 4 * kernels::kReservoirSlack;
    const kernels::PanelKernels& panels = *packed.panels;
    const float scale = packed.frame.scale;
    const std::size_t query_bytes = panels.query_bytes(dimension_);
    Buffer<std::uint8_t> queries(kBlock * query_bytes);
    Buffer<float> scores(kBlock * kCapacity);
    Buffer<std::uint32_t> slots(kBlock * kCapacity);
    kernels::Reservoir reservoirs[kBlock];
    const float rounding = static_cast<float>(dimension_ + 8) * std::numeric_limits<float>::epsilon();
    for (std::size_t place = 0; place < rows.size(); ++place) {
      kernels::Reservoir& r = reservoirs[place];
      r = {};
      r.scores = scores.data() + place * kCapacity;
      r.slots = slots.data() + place * kCapacity;
      const float lost = panels.pack_query(packed.frame.packing(), rows_[rows[place]], queries.data() + place * query_bytes, &r);
      // What packing may add to a distance, and what rounding may add to a squared one: a sum of d products errs by at most d * eps of the
      // sum of their sizes, generously, for the score and for the distance it is held against.
      const float error = 1.0001F * (lost + packed.error), reach = std::sqrt(std::abs(r.norm)) + packed.longest;
      r.slack = 2 * error;
      r.slack_squared = 8 * rounding * reach * reach + panels.score_rounding;
      const float bar = scale * std::sqrt(squared_[rows[place]]) * (1 + rounding) + error;
      r.threshold = 0.5F * (r.norm - (bar * bar + r.slack_squared));
    }
    panels.scan({queries.data(), rows.size(), packed.bytes.data(), packed.count(), 0, dimension_, reservoirs, 1, kCapacity});
    std::uint64_t distances = 0;
    for (std::size_t place = 0; place < rows.size(); ++place) {
      const kernels::Reservoir& r = reservoirs[place];
      const std::uint32_t i = rows[place];
      const std::uint32_t before = nearest_[i];
      const auto consider = [&](std::uint32_t c) {
        if (c == before) return;
        ++distances;
        const float squared = kernels_.squared_distance(rows_[i], centre(c), dimension_);
        if (squared > squared_[i] || (squared == squared_[i] && c > nearest_[i])) return;
        squared_[i] = squared;
        nearest_[i] = c;
      };
      if (r.overflowed && &panels != &kernels_.floats)  // more centres than fit lie closer together than bytes tell
        crowded.push_back(i);
      else if (r.overflowed)  // or than rounding tells
        for (const std::uint32_t c : packed.ids) consider(c);
      else
        for (std::uint32_t entry = 0; entry < r.count; ++entry) consider(packed.ids[r.slots[entry]]);
    }
    return distances;
  }

  const Rows& rows_;
  const Frame& frame_;
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
  std::vector<std::uint8_t> moved_;     // of each centre: whether it is elsewhere than before
  Packed packed_;
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
  const Frame frame = whole_frame(rows, options.threads);
  parallel_for(options.restarts, 1, side_by_side ? options.threads : 1, [&](std::size_t restart, std::size_t, unsigned worker) {
    Run run(rows, frame, run_options, restart, worker == 0 ? progress : silent);  // the calling thread alone reports
    const std::lock_guard<std::mutex> lock(mutex);
    inertia[restart] = run.last_inertia();
    distances += run.distances();
    const bool better = best.assignments.empty() || inertia[restart] < best.inertia ||
                        (inertia[restart] == best.inertia && restart < best.stats.kept_restart);
    if (!better) return;
    best = std::move(run).result();
    best.stats.kept_restart = restart;
  });
  report(progress, kStage, options.restarts * kSteps, options.restarts * kSteps);
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
