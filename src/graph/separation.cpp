#include "graph/separation.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "graph/packed_rows.h"
#include "smartmine/core/random.h"

namespace smartmine {

namespace {

constexpr std::size_t kSample = 1024;
constexpr std::size_t kMostGroups = kSample / 8;
constexpr float kGap = 100;  // between squared distances
constexpr std::uint64_t kStream = 0x5345;

struct TreeEdge {
  float squared;
  std::uint32_t a, b;
};

// The minimum spanning tree of the rows, by Prim's algorithm, its edges ascending.
std::vector<TreeEdge> spanning_tree(const Rows& rows, const kernels::Kernels& kernels) {
  const std::size_t size = rows.size();
  std::vector<std::uint32_t> ids(size);
  std::iota(ids.begin(), ids.end(), 0U);
  std::vector<float> nearest(size, std::numeric_limits<float>::infinity()), distances(size);
  std::vector<std::uint32_t> through(size, 0);
  std::vector<bool> inside(size, false);
  std::vector<TreeEdge> tree;
  std::uint32_t last = 0;
  inside[0] = true;
  while (tree.size() + 1 < size) {
    kernels.squared_distances(rows[last], rows.data(), ids.data(), size, rows.dimension(), distances.data());
    std::uint32_t best = 0;
    float least = std::numeric_limits<float>::infinity();
    for (std::uint32_t i = 0; i < size; ++i) {
      if (inside[i]) continue;
      if (distances[i] < nearest[i]) {
        nearest[i] = distances[i];
        through[i] = last;
      }
      if (nearest[i] < least || best == 0) {
        least = nearest[i];
        best = i;
      }
    }
    inside[best] = true;
    tree.push_back({nearest[best], through[best], best});
    last = best;
  }
  std::sort(tree.begin(), tree.end(),
            [](const TreeEdge& x, const TreeEdge& y) { return x.squared != y.squared ? x.squared < y.squared : x.b < y.b; });
  return tree;
}

std::uint32_t root_of(std::vector<std::uint32_t>& parents, std::uint32_t i) {
  while (parents[i] != i) i = parents[i] = parents[parents[i]];
  return i;
}

}  // namespace

std::vector<std::vector<std::uint32_t>> separate(const Rows& rows, std::size_t smallest, std::uint64_t seed, unsigned threads,
                                                 const kernels::Kernels& kernels, std::uint64_t& distance_computations,
                                                 const Progress& progress) {
  const std::size_t size = rows.size(), dimension = rows.dimension();
  std::vector<std::uint32_t> all(size);
  std::iota(all.begin(), all.end(), 0U);
  const std::size_t count = std::min(kSample, size);
  std::vector<float> values(count * dimension);
  Random random(seed, kStream);
  for (std::size_t s = 0; s < count; ++s) {  // one of every stretch of rows
    const std::size_t from = s * size / count, to = (s + 1) * size / count;
    std::copy_n(rows[from + random.below(to - from)], dimension, values.data() + s * dimension);
  }
  const Rows sample(values.data(), count, dimension);
  const std::vector<TreeEdge> tree = spanning_tree(sample, kernels);
  distance_computations += count * count;
  // The gap that leaves the fewest groups.
  std::size_t cut = tree.size();
  for (std::size_t i = tree.size(); i-- > 1;) {
    if (tree.size() - i + 1 > kMostGroups) break;
    if (tree[i].squared > kGap * tree[i - 1].squared) {
      cut = i;
      break;
    }
  }
  if (cut == tree.size()) return {std::move(all)};

  std::vector<std::uint32_t> parents(count);
  std::iota(parents.begin(), parents.end(), 0U);
  for (std::size_t i = 0; i < cut; ++i) parents[root_of(parents, tree[i].b)] = root_of(parents, tree[i].a);
  std::vector<std::uint32_t> nearest(size);
  assign_nearest(rows, all, PackedRows(sample, whole_frame(sample, threads), kernels, kernels.floats, threads), nearest, threads, progress,
                 "partition");
  distance_computations += size * count;
  std::vector<std::size_t> sizes(count, 0);
  for (const std::uint32_t s : nearest) ++sizes[root_of(parents, s)];
  // The small ones join, by the shortest edge that leads out of them.
  for (std::size_t i = cut; i < tree.size(); ++i) {
    const std::uint32_t a = root_of(parents, tree[i].a), b = root_of(parents, tree[i].b);
    if (sizes[a] >= smallest && sizes[b] >= smallest) continue;
    parents[b] = a;
    sizes[a] += sizes[b];
  }
  std::vector<std::uint32_t> number(count, 0xffffffffU);
  std::vector<std::vector<std::uint32_t>> groups;
  for (std::uint32_t i = 0; i < size; ++i) {
    const std::uint32_t root = root_of(parents, nearest[i]);
    if (number[root] == 0xffffffffU) {
      number[root] = static_cast<std::uint32_t>(groups.size());
      groups.emplace_back();
    }
    groups[number[root]].push_back(i);
  }
  return groups;
}

}  // namespace smartmine
