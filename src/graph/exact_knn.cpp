#include "smartmine/graph/exact_knn.h"

#include <fmt/format.h>

#include <numeric>
#include <vector>

#include "graph/exact_lists.h"
#include "graph/stopwatch.h"
#include "smartmine/core/error.h"

namespace smartmine {

namespace {

NeighborResult run(const Rows& rows, std::span<const float* const> queries, std::span<const std::uint32_t> own,
                   const ExactKnnOptions& options, const Progress& progress, const Team* team = nullptr, const ListMaker& maker = {}) {
  Stopwatch watch;
  NeighborResult result{make_lists(maker, queries.size(), options.neighbors), {}};
  result.stats.unit_norm = check_rows(rows, options.threads).unit_norm;
  watch.lap(result.stats, "check");
  const kernels::Kernels& kernels = kernels::active();
  const std::vector<std::size_t> begins = team_shares(team, queries.size());
  const auto [begin, end] = own_share(team, begins);
  const std::size_t count = options.neighbors;
  const auto some = [&, begin = begin, end = end](auto all) { return all.subspan(begin * count, (end - begin) * count); };
  const ExactLists lists{queries.subspan(begin, end - begin),
                         own.empty() ? own : own.subspan(begin, end - begin),
                         count,
                         some(result.lists.all_ids()),
                         some(result.lists.all_distances()),
                         queries.size(),
                         begin == 0};
  result.stats.distance_computations = team_sum(team, find_exact_lists(rows, lists, kernels, options.threads, progress, "exact search"));
  if (team != nullptr) {
    team->gather(result.lists.all_ids().data(), count * sizeof(std::uint32_t), begins);
    team->gather(result.lists.all_distances().data(), count * sizeof(float), begins);
  }
  watch.lap(result.stats, "search");
  result.stats.index = "exact";
  result.stats.kernel = kernels.name;
  watch.finish(result.stats);
  return result;
}

}  // namespace

NeighborResult ExactKnn::neighbors(const Rows& rows, const Progress& progress, const Team* team, const ListMaker& lists) const {
  if (options_.neighbors < 1 || options_.neighbors >= rows.size())
    throw InvalidArgument(fmt::format("neighbors is {}; with {} rows it must be from 1 to {}", options_.neighbors, rows.size(),
                                      rows.size() == 1 ? "... there is no other row to list" : fmt::to_string(rows.size() - 1)));
  std::vector<const float*> queries(rows.size());
  std::vector<std::uint32_t> own(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) queries[i] = rows[i];
  std::iota(own.begin(), own.end(), 0U);
  return run(rows, queries, own, options_, progress, team, lists);
}

NeighborResult ExactKnn::search(const Rows& rows, const Rows& queries, const Progress& progress) const {
  if (options_.neighbors < 1 || options_.neighbors > rows.size())
    throw InvalidArgument(
        fmt::format("neighbors is {}; with {} rows it must be from 1 to {}", options_.neighbors, rows.size(), rows.size()));
  if (queries.dimension() != rows.dimension())
    throw InvalidArgument(fmt::format("queries have dimension {}, the rows {}; they must agree", queries.dimension(), rows.dimension()));
  check_rows(queries, options_.threads);
  std::vector<const float*> pointers(queries.size());
  for (std::size_t i = 0; i < queries.size(); ++i) pointers[i] = queries[i];
  return run(rows, pointers, {}, options_, progress);
}

}  // namespace smartmine
