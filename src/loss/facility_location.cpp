#include "loss/facility_location.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "smartmine/loss/clustering_loss.h"

namespace smartmine {
namespace {

double entropy_part(double count, double total) { return count > 0 ? -count / total * std::log(count / total) : 0; }

/// NMI of blocks 0, 1, ... given the joint counts.
double information(std::span<const std::size_t> joint, std::size_t rows, std::size_t columns, std::size_t points) {
  const auto total = static_cast<double>(points);
  std::vector<double> row_sums(rows), column_sums(columns);
  double joint_entropy = 0;
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t c = 0; c < columns; ++c) {
      const auto count = static_cast<double>(joint[r * columns + c]);
      row_sums[r] += count;
      column_sums[c] += count;
      joint_entropy += entropy_part(count, total);
    }
  double row_entropy = 0, column_entropy = 0;
  for (const double sum : row_sums) row_entropy += entropy_part(sum, total);
  for (const double sum : column_sums) column_entropy += entropy_part(sum, total);
  constexpr double kNothing = 1e-12;
  if (row_entropy < kNothing && column_entropy < kNothing) return 1;
  if (row_entropy < kNothing || column_entropy < kNothing) return 0;
  return std::clamp((row_entropy + column_entropy - joint_entropy) / std::sqrt(row_entropy * column_entropy), 0.0, 1.0);
}

class Search {
 public:
  explicit Search(const FacilityProblem& problem) : problem_(problem), size_(problem.classes.size()) {}

  double distance(std::size_t a, std::size_t b) const { return problem_.distances[a * size_ + b]; }

  /// Everybody to the nearest medoid. `places` are places in `medoids`.
  double assign(const std::vector<std::size_t>& medoids, std::vector<std::size_t>& places) const {
    places.assign(size_, 0);
    double cost = 0;
    for (std::size_t i = 0; i < size_; ++i) {
      for (std::size_t m = 1; m < medoids.size(); ++m)
        if (distance(i, medoids[m]) < distance(i, medoids[places[i]])) places[i] = m;
      cost += distance(i, medoids[places[i]]);
    }
    return -cost + problem_.gamma * (1 - nmi(places, medoids.size()));
  }

  double nmi(const std::vector<std::size_t>& places, std::size_t blocks) const {
    std::vector<std::size_t> joint(blocks * problem_.class_count);
    for (std::size_t i = 0; i < size_; ++i) ++joint[places[i] * problem_.class_count + static_cast<std::size_t>(problem_.classes[i])];
    return information(joint, blocks, problem_.class_count, size_);
  }

  Facilities greedy() const {
    Facilities chosen;
    std::vector<std::size_t> places(size_), trial;
    std::vector<bool> taken(size_);
    for (std::size_t step = 0; step < problem_.class_count; ++step) {
      double best = -std::numeric_limits<double>::infinity();
      std::size_t winner = size_;
      for (std::size_t candidate = 0; candidate < size_; ++candidate) {
        if (taken[candidate]) continue;
        // Only points that the candidate is nearest to change.
        trial = places;
        double cost = 0;
        for (std::size_t i = 0; i < size_; ++i) {
          const bool moves = step == 0 || distance(i, candidate) < distance(i, chosen.medoids[places[i]]);
          if (moves) trial[i] = step;
          cost += distance(i, moves ? candidate : chosen.medoids[places[i]]);
        }
        const double score = -cost + problem_.gamma * (1 - nmi(trial, step + 1));
        if (score > best) {
          best = score;
          winner = candidate;
        }
      }
      if (winner == size_) break;  // cannot be: there are at least as many points as classes
      for (std::size_t i = 0; i < size_; ++i)
        if (step == 0 || distance(i, winner) < distance(i, chosen.medoids[places[i]])) places[i] = step;
      chosen.medoids.push_back(winner);
      taken[winner] = true;
      chosen.score = best;
    }
    return chosen;
  }

  void swap(Facilities& chosen, int rounds) const {
    std::vector<std::size_t> places, trial;
    chosen.score = assign(chosen.medoids, places);
    for (int round = 0; round < rounds; ++round) {
      bool improved = false;
      for (std::size_t m = 0; m < chosen.medoids.size(); ++m) {
        std::vector<std::size_t> members;
        for (std::size_t i = 0; i < size_; ++i)
          if (places[i] == m && std::find(chosen.medoids.begin(), chosen.medoids.end(), i) == chosen.medoids.end()) members.push_back(i);
        std::vector<std::size_t> medoids = chosen.medoids;
        for (const std::size_t member : members) {
          medoids[m] = member;
          const double score = assign(medoids, trial);
          if (score > chosen.score) {
            chosen.score = score;
            chosen.medoids = medoids;
            improved = true;
          }
        }
        if (improved) assign(chosen.medoids, places);
      }
      if (!improved) break;
    }
    chosen.medoid_of.resize(size_);
    for (std::size_t i = 0; i < size_; ++i) chosen.medoid_of[i] = chosen.medoids[places[i]];
  }

 private:
  const FacilityProblem& problem_;
  std::size_t size_;
};

std::vector<std::size_t> blocks_of(std::span<const std::int64_t> labels, std::size_t& count) {
  std::map<std::int64_t, std::size_t> blocks;
  std::vector<std::size_t> out;
  for (const std::int64_t label : labels) out.push_back(blocks.emplace(label, blocks.size()).first->second);
  count = blocks.size();
  return out;
}

}  // namespace

Facilities best_facilities(const FacilityProblem& problem, int swap_rounds) {
  const Search search(problem);
  Facilities chosen = search.greedy();
  search.swap(chosen, swap_rounds);
  return chosen;
}

std::vector<std::size_t> class_medoids(const FacilityProblem& problem) {
  const std::size_t size = problem.classes.size();
  std::vector<std::size_t> best(problem.class_count, size);
  std::vector<double> best_cost(problem.class_count, std::numeric_limits<double>::infinity());
  for (std::size_t j = 0; j < size; ++j) {
    double cost = 0;
    for (std::size_t i = 0; i < size; ++i)
      if (problem.classes[i] == problem.classes[j]) cost += problem.distances[i * size + j];
    const auto own = static_cast<std::size_t>(problem.classes[j]);
    if (cost < best_cost[own]) {
      best_cost[own] = cost;
      best[own] = j;
    }
  }
  std::vector<std::size_t> medoid_of(size);
  for (std::size_t i = 0; i < size; ++i) medoid_of[i] = best[static_cast<std::size_t>(problem.classes[i])];
  return medoid_of;
}

double geometric_nmi(std::span<const std::int64_t> first, std::span<const std::int64_t> second) {
  std::size_t rows = 0, columns = 0;
  const std::vector<std::size_t> a = blocks_of(first, rows);
  const std::vector<std::size_t> b = blocks_of(second, columns);
  std::vector<std::size_t> joint(rows * columns);
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) ++joint[a[i] * columns + b[i]];
  return information(joint, rows, columns, a.size());
}

}  // namespace smartmine
