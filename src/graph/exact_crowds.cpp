#include "graph/exact_crowds.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <span>
#include <utility>

#include "graph/ordered_rows.h"
#include "smartmine/core/buffer.h"
#include "smartmine/core/parallel.h"

namespace smartmine {

namespace {

constexpr std::uint32_t kNoRow = 0xffffffffU;

// Of the bits of a row: copies have the same.
std::uint64_t hash_of(const float* row, std::size_t dimension) {
  std::uint64_t hash = 0x9e3779b97f4a7c15U;
  for (std::size_t t = 0; t < dimension; ++t) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, row + t, sizeof(bits));
    hash = (hash ^ bits) * 0x2127599bf4325c37U;
    hash ^= hash >> 29;
  }
  return hash;
}

// The lists of `queries` among the rows `ids` alone, which ascend.
std::uint64_t list_among(const CrowdedSearch& search, const std::vector<std::uint32_t>& ids, std::span<const std::uint32_t> queries) {
  const std::size_t dimension = search.rows.dimension(), neighbors = search.lists.neighbors;
  Buffer<float> values(ids.size() * dimension);
  parallel_for(ids.size(), 1024, search.threads, [&](std::size_t begin, std::size_t end, unsigned) {
    for (std::size_t i = begin; i < end; ++i) std::copy_n(search.rows[ids[i]], dimension, values.data() + i * dimension);
  });
  std::vector<const float*> rows;
  std::vector<std::uint32_t> own, found(queries.size() * neighbors);
  std::vector<float> distances(found.size());
  for (const std::uint32_t query : queries) {
    rows.push_back(search.lists.queries[query]);
    if (search.lists.own.empty()) continue;
    const auto place = std::lower_bound(ids.begin(), ids.end(), search.lists.own[query]);
    const bool is_in = place != ids.end() && *place == search.lists.own[query];
    own.push_back(is_in ? static_cast<std::uint32_t>(place - ids.begin()) : kNoRow);
  }
  const ExactLists lists{rows, own, neighbors, found, distances, 0, search.lists.first};
  const std::uint64_t computed = find_exact_lists(Rows(values.data(), ids.size(), dimension), lists, search.kernels, search.threads,
                                                  search.progress, search.stage);
  for (std::size_t i = 0; i < queries.size(); ++i) {
    const std::size_t from = i * neighbors, to = queries[i] * neighbors;
    for (std::size_t j = 0; j < neighbors; ++j) search.lists.ids[to + j] = ids[found[from + j]];
    std::copy_n(distances.begin() + static_cast<std::ptrdiff_t>(from), neighbors, search.lists.distances.data() + to);
  }
  return computed;
}

// Fewer than half of the rows, those nearest to `centre`, but more than `neighbors`, that lie so close together and so far from the rest
// that the nearest of each are among them. Ascending; empty: there are none. `distances` are those of all rows from the centre, squared.
std::vector<std::uint32_t> ball_of(std::span<const float> distances, std::size_t neighbors) {
  // Two rows of a ball are at most two radii apart, and the rest is at least as far from one of them as from the centre, less a radius. The
  // tenth is for rounding.
  constexpr float kGap = 3.1F * 3.1F, kLost = 1e-36F;  // squares of tiny differences are lost
  std::vector<float> sorted(distances.begin(), distances.end());
  const std::size_t most = sorted.size() / 2;
  if (neighbors + 1 > most) return {};
  const auto end = sorted.begin() + static_cast<std::ptrdiff_t>(most + 1);
  std::nth_element(sorted.begin(), end - 1, sorted.end());
  std::sort(sorted.begin(), end);
  for (std::size_t size = most; size > neighbors; --size) {
    if (!(sorted[size] > kGap * sorted[size - 1] + kLost)) continue;
    std::vector<std::uint32_t> members;
    for (std::uint32_t id = 0; id < distances.size(); ++id)
      if (distances[id] < sorted[size]) members.push_back(id);
    return members;
  }
  return {};
}

// The lists of those queries that are rows of a ball. Leaves the others in `queries`.
std::uint64_t list_by_balls(const CrowdedSearch& search, std::vector<std::uint32_t>& queries) {
  constexpr std::size_t kTries = 8, kServed = 4;  // so many balls may serve fewer than so many queries each
  if (search.lists.own.empty()) return 0;
  const Rows& rows = search.rows;
  const std::vector<std::uint32_t> all = own_order(rows.size());
  std::vector<float> distances(rows.size());
  std::vector<std::uint32_t> alone;  // queries that have been tried in vain
  std::uint64_t computed = 0;
  std::size_t served = 0;
  for (std::size_t tried = 0; !queries.empty() && kServed * tried <= served + kServed * kTries; ++tried) {
    parallel_for(rows.size(), 4096, search.threads, [&](std::size_t begin, std::size_t end, unsigned) {
      search.kernels.squared_distances(search.lists.queries[queries[0]], rows.data(), all.data() + begin, end - begin, rows.dimension(),
                                       distances.data() + begin);
    });
    computed += rows.size();
    const std::vector<std::uint32_t> members = ball_of(distances, search.lists.neighbors + 1);
    std::vector<std::uint32_t> inside, outside;
    for (const std::uint32_t query : queries) {
      const bool is_in = std::binary_search(members.begin(), members.end(), search.lists.own[query]);
      (is_in ? inside : outside).push_back(query);
    }
    if (inside.empty()) {
      alone.push_back(queries[0]);
      queries.erase(queries.begin());
      continue;
    }
    computed += list_among(search, members, inside);
    served += inside.size();
    queries = std::move(outside);
  }
  queries.insert(queries.end(), alone.begin(), alone.end());
  return computed;
}

}  // namespace

std::vector<std::uint32_t> spare_copies(const Rows& rows, std::size_t neighbors, unsigned threads) {
  std::vector<std::pair<std::uint64_t, std::uint32_t>> hashes(rows.size());
  parallel_for(rows.size(), 4096, threads, [&](std::size_t begin, std::size_t end, unsigned) {
    for (std::size_t i = begin; i < end; ++i) hashes[i] = {hash_of(rows[i], rows.dimension()), static_cast<std::uint32_t>(i)};
  });
  std::sort(hashes.begin(), hashes.end());
  std::vector<std::uint32_t> spare;
  for (std::size_t from = 0, to = 0; from < hashes.size(); from = to) {
    std::size_t copies = 0;
    for (to = from; to < hashes.size() && hashes[to].first == hashes[from].first; ++to) {
      // Another row with the same hash stays, which does no harm.
      const float *first = rows[hashes[from].second], *row = rows[hashes[to].second];
      if (std::memcmp(first, row, rows.dimension() * sizeof(float)) != 0) continue;
      // A query may itself be one of the copies before this.
      if (copies++ > neighbors) spare.push_back(hashes[to].second);
    }
  }
  std::sort(spare.begin(), spare.end());
  return spare;
}

std::uint64_t list_crowded(const CrowdedSearch& search, std::vector<std::uint32_t>& queries) {
  constexpr std::size_t kFew = 64;         // queries that are not worth it
  constexpr std::size_t kSpareShare = 32;  // nor is one row in so many to leave out
  if (queries.size() < kFew) return 0;
  const std::vector<std::uint32_t> spare = spare_copies(search.rows, search.lists.neighbors, search.threads);
  if (kSpareShare * spare.size() < search.rows.size()) return list_by_balls(search, queries);
  const std::vector<std::uint32_t> all = own_order(search.rows.size());
  std::vector<std::uint32_t> kept;
  std::set_difference(all.begin(), all.end(), spare.begin(), spare.end(), std::back_inserter(kept));
  const std::uint64_t computed = list_among(search, kept, queries);
  queries.clear();
  return computed;
}

}  // namespace smartmine
