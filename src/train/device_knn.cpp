#include "train/device_knn.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>
#include <vector>

#include "smartmine/core/error.h"

namespace smartmine {
namespace {

/// Products in full float32 while this lives: TF32 would mix up near neighbours.
class FullPrecision {
 public:
  FullPrecision() : before_(at::globalContext().allowTF32CuBLAS()) { at::globalContext().setAllowTF32CuBLAS(false); }
  ~FullPrecision() { at::globalContext().setAllowTF32CuBLAS(before_); }
  FullPrecision(const FullPrecision&) = delete;
  FullPrecision& operator=(const FullPrecision&) = delete;

 private:
  bool before_;
};

/// Rows whose lists are found at once.
std::int64_t rows_at_once(const torch::Tensor& embeddings, std::size_t neighbors) {
  constexpr std::int64_t kScores = std::int64_t{1} << 27;       // most values of a chunk's scores
  constexpr std::int64_t kDifferences = std::int64_t{1} << 28;  // and of its differences
  const std::int64_t size = embeddings.size(0), k = static_cast<std::int64_t>(neighbors);
  return std::max<std::int64_t>(1, std::min({size, kScores / size, kDifferences / ((k + k / 8 + 8) * embeddings.size(1))}));
}

/// The lists of `points` (int64, on the device), a chunk of them against all rows at a time.
NeighborResult lists_of(const torch::Tensor& embeddings, const torch::Tensor& points, std::size_t neighbors, std::int64_t chunk,
                        const Progress& progress) {
  const torch::NoGradGuard no_grad;
  const FullPrecision full_precision;
  const auto begin = std::chrono::steady_clock::now();
  const std::int64_t size = embeddings.size(0), dimension = embeddings.size(1), wanted_lists = points.size(0);
  const auto k = static_cast<std::int64_t>(neighbors);
  if (k < 1 || k >= size) throw InvalidArgument("neighbors must be from 1 to the number of rows minus 1");
  const std::int64_t wanted = std::min(size - 1, k + k / 8 + 8);  // products blur: some more than asked for are measured
  const torch::Tensor squares = embeddings.pow(2).sum(1);
  NeighborResult result;
  result.lists = NeighborLists(static_cast<std::size_t>(wanted_lists), neighbors);
  for (std::int64_t first = 0; first < wanted_lists; first += chunk) {
    const std::int64_t rows = std::min(chunk, wanted_lists - first);
    const torch::Tensor own = points.narrow(0, first, rows), queries = embeddings.index_select(0, own);
    torch::Tensor scores = torch::addmm(squares.unsqueeze(0), queries, embeddings.t(), 1, -2);  // the query's own square shifts all alike
    scores.scatter_(1, own.unsqueeze(1), std::numeric_limits<float>::infinity());               // itself
    torch::Tensor ids = std::get<0>(std::get<1>(scores.topk(wanted, 1, /*largest=*/false, /*sorted=*/false)).sort(1));
    const torch::Tensor found = embeddings.index_select(0, ids.reshape({-1})).view({rows, wanted, dimension});
    const torch::Tensor distances = (found - queries.unsqueeze(1)).pow(2).sum(2);
    const auto sorted = distances.sort(/*stable=*/true, 1, /*descending=*/false);  // ids ascend, so equal distances go by id
    const torch::Tensor sorted_ids = ids.gather(1, std::get<1>(sorted)).narrow(1, 0, k).to(torch::kInt32).cpu().contiguous();
    const torch::Tensor sorted_distances = std::get<0>(sorted).narrow(1, 0, k).cpu().contiguous();
    const auto at = static_cast<std::size_t>(first * k);
    std::copy_n(sorted_ids.data_ptr<std::int32_t>(), rows * k, result.lists.all_ids().begin() + static_cast<std::ptrdiff_t>(at));
    std::copy_n(sorted_distances.data_ptr<float>(), rows * k, result.lists.all_distances().begin() + static_cast<std::ptrdiff_t>(at));
    report(progress, "lists", static_cast<std::size_t>(first + rows), static_cast<std::size_t>(wanted_lists));
  }
  result.stats.index = embeddings.is_cpu() ? "exact" : "exact-cuda";
  result.stats.distance_computations = static_cast<std::uint64_t>(wanted_lists) * static_cast<std::uint64_t>(size);
  result.stats.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return result;
}

}  // namespace

NeighborResult device_neighbors(const torch::Tensor& embeddings, RowRange wanted, std::size_t neighbors, const Progress& progress,
                                std::size_t chunk) {
  // Whole chunks of those that all rows have, for a product may be rounded otherwise beside other rows.
  const auto size = static_cast<std::size_t>(embeddings.size(0));
  if (chunk == 0) chunk = static_cast<std::size_t>(rows_at_once(embeddings, neighbors));
  const std::size_t begin = wanted.first / chunk * chunk;
  const std::size_t end = std::min(size, (wanted.first + wanted.count + chunk - 1) / chunk * chunk);
  const torch::Tensor points =
      torch::arange(static_cast<std::int64_t>(begin), static_cast<std::int64_t>(end), embeddings.options().dtype(torch::kInt64));
  NeighborResult found = lists_of(embeddings, points, neighbors, static_cast<std::int64_t>(chunk), progress);
  if (end - begin == wanted.count) return found;
  NeighborLists some(wanted.count, neighbors);
  for (std::size_t i = 0; i < wanted.count; ++i) {
    std::ranges::copy(std::as_const(found.lists).ids(wanted.first - begin + i), some.ids(i).begin());
    std::ranges::copy(std::as_const(found.lists).distances(wanted.first - begin + i), some.distances(i).begin());
  }
  found.lists = std::move(some);
  return found;
}

NeighborResult device_lists_of_some(const torch::Tensor& embeddings, std::span<const std::uint32_t> points, std::size_t neighbors,
                                    const Progress& progress) {
  const std::vector<std::int64_t> wide(points.begin(), points.end());
  return lists_of(embeddings, torch::tensor(wide, torch::kInt64).to(embeddings.device()), neighbors, rows_at_once(embeddings, neighbors),
                  progress);
}

}  // namespace smartmine
