#include "truth.h"

#include <algorithm>

#include "measurement.h"
#include "smartmine/core/error.h"
#include "smartmine/graph/exact_knn.h"

namespace smartmine::bench {

Truth::Truth(const Rows& rows, std::size_t neighbors, unsigned threads)
    : size_(rows.size()), neighbors_(neighbors), samples_(std::min<std::size_t>(rows.size(), 1000)), ids_(samples_ * neighbors) {
  do_in_child([&] {
    std::vector<float> queries;
    for (std::size_t sample = 0; sample < samples_; ++sample)
      queries.insert(queries.end(), rows[row(sample)], rows[row(sample)] + rows.dimension());
    const NeighborResult found =
        ExactKnn({.neighbors = neighbors_ + 1, .threads = threads}).search(rows, Rows(queries.data(), samples_, rows.dimension()));
    for (std::size_t sample = 0; sample < samples_; ++sample) {
      std::uint32_t* out = &ids_[sample * neighbors_];
      std::uint32_t* const end = out + neighbors_;
      std::uint32_t* to = out;
      for (const std::uint32_t id : found.lists.ids(sample))
        if (id != row(sample) && to != end) *to++ = id;
      std::sort(out, end);
    }
  });
}

double Truth::recall(const std::function<std::vector<std::int64_t>(std::size_t)>& list_of) const {
  std::size_t hits = 0;
  for (std::size_t sample = 0; sample < samples_; ++sample) {
    std::vector<std::int64_t> list = list_of(row(sample));
    require(list.size() <= neighbors_, "a list to be judged is longer than the true one");
    std::sort(list.begin(), list.end());
    list.erase(std::unique(list.begin(), list.end()), list.end());
    const auto truth = ids_.span().subspan(sample * neighbors_, neighbors_);
    for (const std::int64_t id : list) hits += std::binary_search(truth.begin(), truth.end(), id);
  }
  return static_cast<double>(hits) / static_cast<double>(samples_ * neighbors_);
}

}  // namespace smartmine::bench
