#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "smartmine/core/error.h"
#include "smartmine/core/random.h"
#include "smartmine/data/dataset.h"

namespace smartmine {

DataSplits reserve_images(DataSplits splits, double share, std::uint64_t seed) {
  if (!(share >= 0 && share <= 0.5)) throw InvalidArgument(fmt::format("reserved_images is {}; it must be from 0 to 0.5", share));
  if (share == 0) return splits;
  constexpr std::size_t kLeast = 2;  // an anchor and its positive, on either side
  constexpr std::uint64_t kStream = 0x72657365727665;
  std::map<std::int64_t, std::vector<std::size_t>> of_class;
  for (std::size_t i = 0; i < splits.train.size(); ++i) of_class[splits.train.label(i)].push_back(i);
  std::vector<std::size_t> stay, go;
  std::size_t classes = 0;
  for (auto& [label, items] : of_class) {
    const auto wanted = std::max(kLeast, static_cast<std::size_t>(std::lround(share * static_cast<double>(items.size()))));
    const std::size_t count = items.size() >= wanted + kLeast ? wanted : 0;
    Random random(seed, kStream, static_cast<std::uint64_t>(label));
    shuffle_first(items, count, random);
    go.insert(go.end(), items.begin(), items.begin() + static_cast<std::ptrdiff_t>(count));
    stay.insert(stay.end(), items.begin() + static_cast<std::ptrdiff_t>(count), items.end());
    classes += count > 0;
  }
  if (classes < 2)
    throw InvalidArgument(
        fmt::format("reserved_images is {}; only {} training classes can spare two images and keep two; it must be 0", share, classes));
  std::sort(stay.begin(), stay.end());
  std::sort(go.begin(), go.end());
  splits.reserved = splits.train.select(go, "reserved");
  splits.train = splits.train.select(stay);
  return splits;
}

}  // namespace smartmine
