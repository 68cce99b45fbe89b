#include "smartmine/report/tsne.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <limits>
#include <numeric>

#include "report/tsne_parts.h"
#include "smartmine/core/error.h"
#include "smartmine/core/parallel.h"
#include "smartmine/core/random.h"
#include "smartmine/graph/neighbor_index.h"

namespace smartmine {
namespace {

constexpr unsigned kCodeBits = 16;        // of each coordinate: the tree is at most so deep
constexpr std::uint32_t kLeafPoints = 6;  // or fewer: looked at one by one
constexpr double kStartWidth = 1e-4;      // standard deviation of the start
constexpr double kHair = 1e-2;            // of that, to break ties between equal rows

void check(bool holds, const char* name, double value, const char* range) {
  if (!holds) throw InvalidArgument(fmt::format("{} is {}; it must be {}", name, value, range));
}

double usable_perplexity(std::size_t points, double wanted) { return std::min(wanted, std::max(1.0, static_cast<double>(points - 1) / 3)); }

// The bits of a coordinate, spread to every other place.
std::uint32_t spread_bits(std::uint32_t value) {
  value = (value | (value << 8)) & 0x00ff00ffU;
  value = (value | (value << 4)) & 0x0f0f0f0fU;
  value = (value | (value << 2)) & 0x33333333U;
  return (value | (value << 1)) & 0x55555555U;
}

// Coordinates of the rows along their two directions of largest variance, by power iteration; any good directions do, so it need not
// converge. In a fixed order, on one thread: it takes as long as a few of the steps that follow.
std::vector<Place> principal_plane(const Rows& rows, std::uint64_t seed) {
  constexpr int kRounds = 20;
  const std::size_t count = rows.size();
  const std::size_t dimension = rows.dimension();
  std::vector<double> mean(dimension);
  for (std::size_t i = 0; i < count; ++i)
    for (std::size_t d = 0; d < dimension; ++d) mean[d] += static_cast<double>(rows[i][d]) / static_cast<double>(count);
  std::array<std::vector<double>, 2> axes;
  Random random(seed, 0x70636131);
  for (auto& axis : axes) {
    axis.resize(dimension);
    for (double& value : axis) value = random.normal();
  }
  std::vector<Place> places(count);
  for (int round = 0; round <= kRounds; ++round) {
    for (std::size_t i = 0; i < count; ++i) {
      places[i] = {};
      for (std::size_t d = 0; d < dimension; ++d) {
        const double value = rows[i][d] - mean[d];
        places[i].x += value * axes[0][d];
        places[i].y += value * axes[1][d];
      }
    }
    if (round == kRounds) break;
    for (auto& axis : axes) std::fill(axis.begin(), axis.end(), 0.0);
    for (std::size_t i = 0; i < count; ++i) {
      for (std::size_t d = 0; d < dimension; ++d) {
        const double value = rows[i][d] - mean[d];
        axes[0][d] += value * places[i].x;
        axes[1][d] += value * places[i].y;
      }
    }
    const auto normalize = [](std::vector<double>& axis) {
      const double length = std::sqrt(std::inner_product(axis.begin(), axis.end(), axis.begin(), 0.0));
      for (double& value : axis) value = length > 0 ? value / length : 0;
    };
    normalize(axes[0]);
    const double along = std::inner_product(axes[0].begin(), axes[0].end(), axes[1].begin(), 0.0);
    for (std::size_t d = 0; d < dimension; ++d) axes[1][d] -= along * axes[0][d];
    normalize(axes[1]);
  }
  return places;
}

std::vector<Place> start_places(const Rows& rows, std::uint64_t seed) {
  std::vector<Place> places = principal_plane(rows, seed);
  double sum = 0;
  for (const Place& place : places) sum += place.x * place.x;
  const double deviation = std::sqrt(sum / static_cast<double>(places.size()));
  const double scale = deviation > 0 ? kStartWidth / deviation : 0;
  for (std::size_t i = 0; i < places.size(); ++i) {
    Random random(seed, 0x74736e65, i);
    places[i] = {places[i].x * scale + kStartWidth * kHair * random.normal(), places[i].y * scale + kStartWidth * kHair * random.normal()};
  }
  return places;
}

void centre(std::vector<Place>& places) {
  Place mean;
  for (const Place& place : places) mean = {mean.x + place.x, mean.y + place.y};
  const auto count = static_cast<double>(places.size());
  for (Place& place : places) place = {place.x - mean.x / count, place.y - mean.y / count};
}

double squared(const Place& a, const Place& b) {
  const double x = a.x - b.x;
  const double y = a.y - b.y;
  return x * x + y * y;
}

double divergence(const Affinities& p, std::span<const Place> places, double normalizer) {
  double sum = 0;
  for (std::size_t i = 0; i < places.size(); ++i)
    for (std::size_t e = p.offsets[i]; e < p.offsets[i + 1]; ++e)
      if (p.values[e] > 0) sum += p.values[e] * std::log(p.values[e] * (1 + squared(places[i], places[p.ids[e]])) * normalizer);
  return sum;
}

}  // namespace

void TsneOptions::validate() const {
  check(perplexity >= 1 && perplexity <= 1000, "perplexity", perplexity, "from 1 to 1000");
  check(iterations <= 100000, "iterations", static_cast<double>(iterations), "from 0 to 100000");
  check(exaggeration >= 1 && exaggeration <= 100, "exaggeration", exaggeration, "from 1 to 100");
  check(theta >= 0 && theta <= 0.7, "theta", theta, "from 0 to 0.7");
  check(learning_rate >= 0 && std::isfinite(learning_rate), "learning_rate", learning_rate, "at least 0 and finite");
}

std::size_t tsne_neighbors(std::size_t points, const TsneOptions& options) {
  options.validate();
  if (points < 2) return 0;
  return std::min(points - 1, static_cast<std::size_t>(std::ceil(3 * usable_perplexity(points, options.perplexity))));
}

double neighbor_shares(std::span<const float> distances, double perplexity, std::span<double> shares) {
  constexpr int kRounds = 100;
  constexpr double kTolerance = 1e-7;
  const double nearest = distances.front();  // subtracted, so that the largest share never underflows
  const double wanted = std::log(perplexity);
  const double reach = distances.back() - nearest;
  double beta = reach > 0 ? 1 / reach : 1;
  double low = 0;
  double high = std::numeric_limits<double>::infinity();
  // Where too many are at the least distance no beta does, and the shares end as near to it as they can be.
  for (int round = 0; round < kRounds; ++round) {
    double sum = 0;
    double weighted = 0;
    for (std::size_t k = 0; k < distances.size(); ++k) {
      const double way = distances[k] - nearest;
      shares[k] = std::exp(-beta * way);
      sum += shares[k];
      weighted += shares[k] * way;
    }
    const double entropy = std::log(sum) + beta * weighted / sum;
    for (double& share : shares) share /= sum;
    if (std::abs(entropy - wanted) < kTolerance) break;
    (entropy > wanted ? low : high) = beta;
    beta = std::isinf(high) ? beta * 2 : (low + high) / 2;
  }
  return beta;
}

Affinities affinities(const NeighborLists& lists, std::size_t neighbors, double perplexity, unsigned threads) {
  const std::size_t count = lists.size();
  std::vector<double> shares(count * neighbors);
  parallel_for(count, 64, threads, [&](std::size_t begin, std::size_t end, unsigned) {
    for (std::size_t i = begin; i < end; ++i)
      neighbor_shares(lists.distances(i).first(neighbors), perplexity, std::span(shares).subspan(i * neighbors, neighbors));
  });
  // Every share goes to both ends; where both name each other the two are added.
  std::vector<std::size_t> starts(count + 1);
  for (std::size_t i = 0; i < count; ++i)
    for (const std::uint32_t j : lists.ids(i).first(neighbors)) {
      ++starts[i + 1];
      ++starts[j + 1];
    }
  std::partial_sum(starts.begin(), starts.end(), starts.begin());
  struct Entry {
    std::uint32_t id;
    double value;
  };
  std::vector<Entry> entries(starts.back());
  std::vector<std::size_t> filled(starts.begin(), starts.end() - 1);
  for (std::size_t i = 0; i < count; ++i)
    for (std::size_t k = 0; k < neighbors; ++k) {
      const std::uint32_t j = lists.ids(i)[k];
      entries[filled[i]++] = {j, shares[i * neighbors + k]};
      entries[filled[j]++] = {static_cast<std::uint32_t>(i), shares[i * neighbors + k]};
    }
  Affinities result;
  result.offsets.reserve(count + 1);
  result.offsets.push_back(0);
  result.ids.reserve(entries.size());
  result.values.reserve(entries.size());
  for (std::size_t i = 0; i < count; ++i) {
    const auto own = std::span(entries).subspan(starts[i], starts[i + 1] - starts[i]);
    std::stable_sort(own.begin(), own.end(), [](const Entry& a, const Entry& b) { return a.id < b.id; });
    for (const Entry& entry : own) {
      const double value = entry.value / (2 * static_cast<double>(count));
      if (result.ids.size() > result.offsets.back() && result.ids.back() == entry.id) {
        result.values.back() += value;
      } else {
        result.ids.push_back(entry.id);
        result.values.push_back(value);
      }
    }
    result.offsets.push_back(result.ids.size());
  }
  return result;
}

void QuadTree::build(std::span<const Place> places) {
  places_ = places;
  Place low = places.front();
  Place high = places.front();
  for (const Place& place : places) {
    low = {std::min(low.x, place.x), std::min(low.y, place.y)};
    high = {std::max(high.x, place.x), std::max(high.y, place.y)};
  }
  side_ = std::max({high.x - low.x, high.y - low.y, std::numeric_limits<double>::min()});
  constexpr double kSteps = 1U << kCodeBits;
  const auto step = [&](double value) { return static_cast<std::uint32_t>(std::min(kSteps - 1, value / side_ * kSteps)); };
  keyed_.resize(places.size());
  for (std::size_t i = 0; i < places.size(); ++i) {
    const std::uint32_t code = spread_bits(step(places[i].x - low.x)) | (spread_bits(step(places[i].y - low.y)) << 1);
    keyed_[i] = (std::uint64_t{code} << 32) | i;
  }
  std::sort(keyed_.begin(), keyed_.end());
  order_.resize(places.size());
  ordered_.resize(places.size());
  for (std::size_t i = 0; i < places.size(); ++i) {
    order_[i] = static_cast<std::uint32_t>(keyed_[i]);
    ordered_[i] = places[order_[i]];
  }
  cells_.clear();
  add_cell(0, static_cast<std::uint32_t>(places.size()), 0);
}

// Cells in the order of a walk that looks at children before siblings; where a cell is skipped, its `next` is what follows.
void QuadTree::add_cell(std::uint32_t begin, std::uint32_t end, unsigned level) {
  const std::size_t number = cells_.size();
  cells_.emplace_back();
  Cell cell;
  cell.begin = begin;
  cell.end = end;
  cell.count = end - begin;
  const double width = side_ / static_cast<double>(std::uint64_t{1} << level);
  cell.width2 = width * width;
  for (std::uint32_t i = begin; i < end; ++i) cell.centre = {cell.centre.x + ordered_[i].x, cell.centre.y + ordered_[i].y};
  cell.centre = {cell.centre.x / cell.count, cell.centre.y / cell.count};
  cell.leaf = end - begin <= kLeafPoints || level == kCodeBits;
  if (!cell.leaf) {
    const unsigned shift = 32 + 2 * (kCodeBits - 1 - level);
    for (std::uint32_t first = begin; first < end;) {
      const std::uint64_t quarter = keyed_[first] >> shift;
      std::uint32_t last = first;
      while (last < end && keyed_[last] >> shift == quarter) ++last;
      add_cell(first, last, level + 1);
      first = last;
    }
  }
  cell.next = static_cast<std::uint32_t>(cells_.size());
  cells_[number] = cell;
}

QuadTree::Repulsion QuadTree::repulsion(std::uint32_t point, double theta) const {
  const Place own = places_[point];
  const double theta2 = theta * theta;
  Repulsion result;
  const auto add = [&](double x, double y, double distance, double count) {
    const double weight = 1 / (1 + distance);
    result.weight += count * weight;
    const double push = count * weight * weight;
    result.push.x += push * x;
    result.push.y += push * y;
  };
  const auto cells = static_cast<std::uint32_t>(cells_.size());
  for (std::uint32_t number = 0; number < cells;) {
    const Cell& cell = cells_[number];
    const double x = own.x - cell.centre.x;
    const double y = own.y - cell.centre.y;
    const double distance = x * x + y * y;
    // Never the cell the point is in: nothing in it is farther than its diagonal, and theta is under the root of a half.
    if (cell.width2 < theta2 * distance) {
      add(x, y, distance, cell.count);
    } else if (cell.leaf) {
      for (std::uint32_t i = cell.begin; i < cell.end; ++i) {
        if (order_[i] == point) continue;
        const double dx = own.x - ordered_[i].x;
        const double dy = own.y - ordered_[i].y;
        add(dx, dy, dx * dx + dy * dy, 1);
      }
    } else {
      ++number;
      continue;
    }
    number = cell.next;
  }
  return result;
}

void gradient(const Affinities& p, std::span<const Place> places, double exaggeration, double theta, unsigned threads, QuadTree& tree,
              Gradient& result) {
  constexpr std::size_t kGrain = 256;
  tree.build(places);
  const std::size_t count = places.size();
  std::vector<double> weights(count);
  std::vector<Place> pushes(count);
  result.slopes.resize(count);
  parallel_for(count, kGrain, threads, [&](std::size_t begin, std::size_t end, unsigned) {
    for (std::size_t n = begin; n < end; ++n) {
      const std::uint32_t i = tree.order()[n];
      const QuadTree::Repulsion repulsion = tree.repulsion(i, theta);
      weights[i] = repulsion.weight;
      pushes[i] = repulsion.push;
      Place pull;
      for (std::size_t e = p.offsets[i]; e < p.offsets[i + 1]; ++e) {
        const double x = places[i].x - places[p.ids[e]].x;
        const double y = places[i].y - places[p.ids[e]].y;
        const double force = p.values[e] / (1 + x * x + y * y);
        pull.x += force * x;
        pull.y += force * y;
      }
      result.slopes[i] = pull;
    }
  });
  result.normalizer = std::accumulate(weights.begin(), weights.end(), 0.0);  // in the order of the points, whoever computed them
  for (std::size_t i = 0; i < count; ++i)
    result.slopes[i] = {4 * (exaggeration * result.slopes[i].x - pushes[i].x / result.normalizer),
                        4 * (exaggeration * result.slopes[i].y - pushes[i].y / result.normalizer)};
}

TsneResult tsne(const Rows& rows, const NeighborLists& lists, const TsneOptions& options, const Progress& progress) {
  options.validate();
  const auto begin = std::chrono::steady_clock::now();
  TsneResult result;
  const std::size_t count = rows.size();
  if (count == 1) {
    result.x = result.y = {0.0};
    return result;
  }
  const std::size_t neighbors = tsne_neighbors(count, options);
  if (lists.size() != count || lists.neighbors() < neighbors)
    throw InvalidArgument(fmt::format("lists are of {} points and {} neighbours; they must be of {} points and at least {} neighbours",
                                      lists.size(), lists.neighbors(), count, neighbors));
  result.stats.neighbors = neighbors;
  result.stats.perplexity = usable_perplexity(count, options.perplexity);
  const Affinities p = affinities(lists, neighbors, result.stats.perplexity, options.threads);
  std::vector<Place> places = start_places(rows, options.seed);
  centre(places);

  // Gradient descent with momentum and a gain for each coordinate, as in the paper.
  constexpr double kLeastGain = 0.01;
  const double rate = options.learning_rate > 0 ? options.learning_rate
                                                : std::max(std::min(50.0, static_cast<double>(count)), static_cast<double>(count) / 48);
  std::vector<Place> gains(count, {1, 1});
  std::vector<Place> speeds(count);
  QuadTree tree;
  Gradient slope;
  for (std::size_t step = 0; step < options.iterations; ++step) {
    const bool early = step < options.early;
    gradient(p, places, early ? options.exaggeration : 1, options.theta, options.threads, tree, slope);
    const double momentum = early ? 0.5 : 0.8;
    const auto move = [&](double& place, double& speed, double& gain, double by) {
      gain = std::max(kLeastGain, (by > 0) == (speed > 0) ? gain * 0.8 : gain + 0.2);
      speed = momentum * speed - rate * gain * by;
      place += speed;
    };
    for (std::size_t i = 0; i < count; ++i) {
      move(places[i].x, speeds[i].x, gains[i].x, slope.slopes[i].x);
      move(places[i].y, speeds[i].y, gains[i].y, slope.slopes[i].y);
    }
    centre(places);
    report(progress, "map", step + 1, options.iterations);
  }
  gradient(p, places, 1, options.theta, options.threads, tree, slope);
  result.stats.divergence = divergence(p, places, slope.normalizer);
  result.x.reserve(count);
  result.y.reserve(count);
  for (const Place& place : places) {
    result.x.push_back(place.x);
    result.y.push_back(place.y);
  }
  result.stats.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return result;
}

TsneResult tsne(const Rows& rows, const TsneOptions& options, const Progress& progress) {
  const std::size_t neighbors = tsne_neighbors(rows.size(), options);
  if (neighbors == 0) return tsne(rows, NeighborLists(), options, progress);
  NeighborIndex index({.neighbors = neighbors, .seed = options.seed, .threads = options.threads});
  return tsne(rows, index.neighbors(rows, progress).lists, options, progress);
}

}  // namespace smartmine
