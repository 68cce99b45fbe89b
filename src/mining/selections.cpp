#include "smartmine/mining/selections.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <tuple>

#include "mining/draw.h"
#include "smartmine/core/buffer.h"
#include "smartmine/core/error.h"
#include "smartmine/core/parallel.h"

namespace smartmine {
namespace {

constexpr std::size_t kGrain = 4096;
constexpr std::size_t kLanes = 32;       // points whose distances to an anchor are summed side by side
constexpr std::size_t kAnchorTile = 64;  // anchors that share a block of points while it is in cache

struct Farthest {
  float distance = -1;
  std::uint32_t id = 0;
};
struct Nearest {
  float distance = std::numeric_limits<float>::infinity();
  std::uint32_t id = 0;
};

}  // namespace

void RandomMinerOptions::validate() const {
  constexpr std::size_t kMost = std::size_t{1} << 40;  // a minus sign that wrapped around is far above
  if (count > kMost) throw InvalidArgument(fmt::format("count is {}; it must be at most {}", count, kMost));
}

MinedTriplets RandomMiner::select(const LabelIndex& labels) const {
  const auto start = std::chrono::steady_clock::now();
  const std::vector<std::uint32_t> anchors = labels.anchors();
  const std::size_t count = options_.count == 0 ? anchors.size() : options_.count;
  MinedTriplets result;
  result.triplets.resize(count);
  result.origins.assign(count, TripletOrigin::kRandomByShare);
  parallel_for(count, kGrain, options_.threads, [&](std::size_t begin, std::size_t end, unsigned) {
    std::size_t round = begin / anchors.size();
    KeyedPermutation order(anchors.size(), options_.seed, Draw::kRandomAnchor, round);
    for (std::size_t i = begin; i < end; ++i) {
      if (i / anchors.size() != round) {
        round = i / anchors.size();
        order = KeyedPermutation(anchors.size(), options_.seed, Draw::kRandomAnchor, round);
      }
      const std::uint32_t anchor = anchors[order(i % anchors.size())];
      Random random = random_for(options_.seed, Draw::kRandomTriplet, i);
      const std::uint32_t positive = draw_positive(labels, anchor, random);
      result.triplets[i] = {anchor, positive, draw_negative(labels, labels.class_of(anchor), random)};
    }
  });
  MiningStats& stats = result.stats;
  stats.triplets = count;
  stats.random_by_share = count;
  stats.anchors = std::min(count, anchors.size());
  stats.anchors_skipped = labels.single_member_classes();
  if (stats.anchors_skipped > 0)
    stats.note = fmt::format("{} points are alone in their class and never serve as anchors", stats.anchors_skipped);
  stats.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

std::vector<Triplet> hardest_triplets(const Rows& rows, const LabelIndex& labels, unsigned threads, const Progress& progress) {
  labels.require_size(rows.size(), "embeddings");
  check_rows(rows, threads);
  const std::vector<std::uint32_t> anchors = labels.anchors();
  const std::size_t dimension = rows.dimension();

  // Blocks of kLanes points, value by value, so that their sums run side by side and still in order.
  const std::size_t blocks = (rows.size() + kLanes - 1) / kLanes;
  Buffer<float> packed(blocks * kLanes * dimension);
  parallel_for(blocks, 64, threads, [&](std::size_t begin, std::size_t end, unsigned) {
    for (std::size_t block = begin; block < end; ++block)
      for (std::size_t d = 0; d < dimension; ++d)
        for (std::size_t lane = 0; lane < kLanes; ++lane) {
          const std::size_t point = block * kLanes + lane;
          packed[(block * dimension + d) * kLanes + lane] = point < rows.size() ? rows[point][d] : 0.0F;
        }
  });

  std::vector<Triplet> result(anchors.size());
  parallel_for(
      anchors.size(), kAnchorTile, threads,
      [&](std::size_t begin, std::size_t end, unsigned) {
        Farthest positives[kAnchorTile];
        Nearest negatives[kAnchorTile];
        for (std::size_t block = 0; block < blocks; ++block) {
          const float* points = packed.data() + block * dimension * kLanes;
          const std::size_t first = block * kLanes;
          const std::size_t count = std::min(kLanes, rows.size() - first);
          for (std::size_t i = begin; i < end; ++i) {
            const std::uint32_t anchor = anchors[i];
            float sums[kLanes] = {};
            for (std::size_t d = 0; d < dimension; ++d) {
              const float value = rows[anchor][d];
              for (std::size_t lane = 0; lane < kLanes; ++lane) {
                const float difference = value - points[d * kLanes + lane];
                sums[lane] += difference * difference;
              }
            }
            Farthest& positive = positives[i - begin];
            Nearest& negative = negatives[i - begin];
            for (std::size_t lane = 0; lane < count; ++lane) {
              const auto point = static_cast<std::uint32_t>(first + lane);
              if (labels.class_of(point) != labels.class_of(anchor)) {
                if (sums[lane] < negative.distance) negative = {sums[lane], point};
              } else if (point != anchor && sums[lane] > positive.distance) {
                positive = {sums[lane], point};
              }
            }
          }
        }
        for (std::size_t i = begin; i < end; ++i) result[i] = {anchors[i], positives[i - begin].id, negatives[i - begin].id};
      },
      progress, "hardest");
  return result;
}

std::vector<Triplet> semihard_triplets(const Rows& batch, const LabelIndex& labels) {
  labels.require_size(batch.size(), "embeddings");
  check_rows(batch, 1);
  std::vector<Triplet> result;
  std::vector<std::pair<float, std::uint32_t>> negatives;
  for (const std::uint32_t anchor : labels.anchors()) {
    const std::uint32_t own = labels.class_of(anchor);
    negatives.clear();
    for (std::uint32_t point = 0; point < batch.size(); ++point)
      if (labels.class_of(point) != own) negatives.emplace_back(squared_distance(batch[anchor], batch[point], batch.dimension()), point);
    std::sort(negatives.begin(), negatives.end());
    const float largest = negatives.back().first;
    const auto farthest =
        std::partition_point(negatives.begin(), negatives.end(), [&](const auto& entry) { return entry.first < largest; });
    for (const std::uint32_t positive : labels.members(own)) {
      if (positive == anchor) continue;
      const float distance = squared_distance(batch[anchor], batch[positive], batch.dimension());
      const auto farther =
          std::partition_point(negatives.begin(), negatives.end(), [&](const auto& entry) { return entry.first <= distance; });
      result.push_back({anchor, positive, farther != negatives.end() ? farther->second : farthest->second});
    }
  }
  return result;
}

void HardPairsOptions::validate() const {
  if (sampled < 1) throw InvalidArgument(fmt::format("sampled is {}; it must be at least 1", sampled));
  if (kept < 1 || kept > sampled) throw InvalidArgument(fmt::format("kept is {}; it must be from 1 to sampled, {}", kept, sampled));
}

std::vector<Pair> sample_positive_pairs(const Rows& rows, const LabelIndex& labels, const HardPairsOptions& options) {
  options.validate();
  labels.require_size(rows.size(), "embeddings");
  const std::vector<std::uint32_t> anchors = labels.anchors();
  std::vector<Pair> result(options.sampled);
  parallel_for(result.size(), kGrain, options.threads, [&](std::size_t begin, std::size_t end, unsigned) {
    for (std::size_t i = begin; i < end; ++i) {
      Random random = random_for(options.seed, Draw::kPositivePair, i);
      const std::uint32_t first = anchors[random.below(anchors.size())];
      const std::uint32_t second = draw_positive(labels, first, random);
      result[i] = {first, second, squared_distance(rows[first], rows[second], rows.dimension())};
    }
  });
  return result;
}

std::vector<Pair> sample_negative_pairs(const Rows& rows, const LabelIndex& labels, const HardPairsOptions& options) {
  options.validate();
  labels.require_size(rows.size(), "embeddings");
  std::vector<Pair> result(options.sampled);
  parallel_for(result.size(), kGrain, options.threads, [&](std::size_t begin, std::size_t end, unsigned) {
    for (std::size_t i = begin; i < end; ++i) {
      Random random = random_for(options.seed, Draw::kNegativePair, i);
      const auto first = static_cast<std::uint32_t>(random.below(rows.size()));
      const std::uint32_t second = draw_negative(labels, labels.class_of(first), random);
      result[i] = {first, second, squared_distance(rows[first], rows[second], rows.dimension())};
    }
  });
  return result;
}

HardPairs hard_pairs(const Rows& rows, const LabelIndex& labels, const HardPairsOptions& options) {
  check_rows(rows, options.threads);
  HardPairs result{sample_positive_pairs(rows, labels, options), sample_negative_pairs(rows, labels, options)};
  const auto keep = [&](std::vector<Pair>& pairs, float sign) {
    const auto harder = [&](const Pair& a, const Pair& b) {
      return std::tuple(sign * a.distance, a.first, a.second) < std::tuple(sign * b.distance, b.first, b.second);
    };
    std::partial_sort(pairs.begin(), pairs.begin() + static_cast<std::ptrdiff_t>(options.kept), pairs.end(), harder);
    pairs.resize(options.kept);
    pairs.shrink_to_fit();
  };
  keep(result.positives, -1.0F);
  keep(result.negatives, 1.0F);
  return result;
}

double violating_share(std::span<const Triplet> triplets, const Rows& rows, double margin) {
  std::size_t violating = 0;
  for (const Triplet& triplet : triplets) {
    const auto distance = [&](std::uint32_t other) {
      return std::sqrt(static_cast<double>(squared_distance(rows[triplet.anchor], rows[other], rows.dimension())));
    };
    violating += distance(triplet.negative) < distance(triplet.positive) + margin ? 1 : 0;
  }
  return triplets.empty() ? 0 : static_cast<double>(violating) / static_cast<double>(triplets.size());
}

}  // namespace smartmine
