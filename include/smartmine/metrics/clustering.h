#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "smartmine/core/progress.h"
#include "smartmine/core/rows.h"

namespace smartmine {

/// Options for k-means.
struct KMeansOptions {
  std::size_t clusters = 2;          ///< Centres to place (k), from 1 to the number of rows.
  std::size_t restarts = 5;          ///< Independent runs, of which the one of lowest inertia is kept; 1 to 1000.
  std::size_t max_iterations = 100;  ///< Of one run; at least 1.
  double tolerance = 1e-5;           ///< A run ends once an iteration lowers its inertia by less than this share; 0 to below 1.
  std::uint64_t seed = 1;            ///< Randomness is keyed by (seed, restart), never by thread.
  unsigned threads = 0;              ///< 0: all cores. Never changes the result.
  void validate() const;             ///< Throws InvalidArgument naming the field, its value and the allowed range.
};

/// What k-means cost and what it reached.
struct KMeansStats {
  std::vector<double> inertia;          ///< Of the kept run: after the k-means++ start, then after each iteration. Never rises.
  std::vector<double> restart_inertia;  ///< The last inertia of every run.
  std::size_t kept_restart = 0;         ///< The run kept, counted from 0.
  std::size_t iterations = 0;           ///< Of the kept run.
  bool converged = false;               ///< Whether the kept run ended by the tolerance rather than by `max_iterations`.
  std::size_t emptied_clusters = 0;     ///< Times a centre of the kept run lost all rows and was moved to the row farthest from its own.
  std::uint64_t distance_computations = 0;  ///< In all runs.
  double seconds = 0;
};

/// Rows grouped around centres.
struct KMeansResult {
  std::vector<std::int64_t> assignments;  ///< Centre of each row, from 0; the nearest, ties to the lower centre.
  std::vector<float> centres;             ///< Centre after centre, each of the rows' dimension.
  std::size_t clusters = 0;               ///< Centres there are: fewer than asked for only if there are fewer distinct rows.
  double inertia = 0;                     ///< Sum of squared distances of rows to their centres.
  KMeansStats stats;
};

/// Lloyd's k-means from k-means++ starts. Throws InvalidArgument for bad options, more clusters than rows, or values that are not finite.
KMeansResult k_means(const Rows& rows, const KMeansOptions& options, const Progress& progress = {});

/// Mutual information of two groupings over a mean of their entropies; 1: the same groups, 0: nothing in common.
struct NormalizedMutualInformation {
  double arithmetic = 0;  ///< I / ((H1 + H2) / 2), scikit-learn's default.
  double geometric = 0;   ///< I / sqrt(H1 * H2), that of many papers.
};

/// Compares two groupings of the same points; values only name the groups. Two groupings without any division have nothing to disagree
/// about and count as 1, as in scikit-learn; if only one has none, the result is 0. Throws InvalidArgument for different or no lengths.
NormalizedMutualInformation normalized_mutual_information(std::span<const std::int64_t> first, std::span<const std::int64_t> second);

}  // namespace smartmine
