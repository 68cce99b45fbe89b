#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "smartmine/graph/neighbors.h"

// The steps of a t-SNE, apart for the tests to hold against the definition.
namespace smartmine {

struct Place {
  double x = 0;
  double y = 0;
};

/// A sparse symmetric matrix of affinities that sum to 1: those of point i are entries offsets[i] to offsets[i + 1], by ascending id.
struct Affinities {
  std::vector<std::size_t> offsets;
  std::vector<std::uint32_t> ids;
  std::vector<double> values;
};

/// Shares p of the neighbours at these ascending squared distances, p ~ exp(-beta d2), with beta such that their perplexity (the
/// exponential of their entropy) is `perplexity`, or as near to it as the distances allow. Returns beta.
double neighbor_shares(std::span<const float> distances, double perplexity, std::span<double> shares);

/// (p(j|i) + p(i|j)) / 2N from the first `neighbors` of each list.
Affinities affinities(const NeighborLists& lists, std::size_t neighbors, double perplexity, unsigned threads);

/// A quadtree over places, rebuilt for every step.
class QuadTree {
 public:
  /// The tree depends on the places only. `places` must outlive it.
  void build(std::span<const Place> places);

  /// For the place of one point: the sum over all others of w, and of w^2 times the way from the other to it, w = 1 / (1 + d2).
  struct Repulsion {
    double weight = 0;
    Place push;
  };
  Repulsion repulsion(std::uint32_t point, double theta) const;
  /// All points, those of a cell together: going through them in this order stays in few places of memory.
  std::span<const std::uint32_t> order() const { return order_; }

 private:
  struct Cell {
    Place centre;       // of mass
    double width2 = 0;  // squared
    double count = 0;
    std::uint32_t begin = 0;  // in order_
    std::uint32_t end = 0;
    std::uint32_t next = 0;  // the cell to go on with when this one is done; its first child follows it
    bool leaf = false;
  };
  void add_cell(std::uint32_t begin, std::uint32_t end, unsigned level);

  std::span<const Place> places_;
  double side_ = 0;
  std::vector<std::uint64_t> keyed_;  // Morton code in the high half, point in the low one
  std::vector<std::uint32_t> order_;
  std::vector<Place> ordered_;  // places in that order
  std::vector<Cell> cells_;
};

/// The gradient of the divergence at `places`, with affinities times `exaggeration`. Also what the divergence needs.
struct Gradient {
  std::vector<Place> slopes;
  double normalizer = 0;  // the sum of w over all ordered pairs
};
void gradient(const Affinities& affinities, std::span<const Place> places, double exaggeration, double theta, unsigned threads,
              QuadTree& tree, Gradient& result);

}  // namespace smartmine
