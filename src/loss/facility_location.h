#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace smartmine {

/// Distances within a batch, [N, N] row after row, and the classes 0, 1, ... of its points.
struct FacilityProblem {
  std::span<const double> distances;
  std::span<const std::int64_t> classes;
  std::size_t class_count = 0;
  double gamma = 1;
};

/// Medoids, and for every point its nearest one (equal distances: the one chosen first).
struct Facilities {
  std::vector<std::size_t> medoids;
  std::vector<std::size_t> medoid_of;  ///< Row of the medoid.
  double score = 0;                    ///< F(X, S) + gamma * (1 - NMI).
};

/// As many medoids as there are classes, sought greedily and then by swaps within clusters. Ties go to the lower row.
Facilities best_facilities(const FacilityProblem& problem, int swap_rounds);

/// The best medoid of every class, and its points.
std::vector<std::size_t> class_medoids(const FacilityProblem& problem);

}  // namespace smartmine
