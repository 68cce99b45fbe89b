// What making batches of near classes costs: lists of made-up points, classes of every size. bench_batches [POINTS] [THREADS]
#include <fmt/format.h>

#include <ctime>
#include <string>
#include <vector>

#include "smartmine/core/random.h"
#include "smartmine/mining/batch_builder.h"

namespace {

/// Lists of which six in ten entries are of the point's class and the others of one of fifty classes beside it.
smartmine::NeighborLists made_lists(std::size_t points, std::size_t each, std::size_t neighbors) {
  smartmine::NeighborLists lists(points, neighbors);
  const std::size_t classes = points / each;
  constexpr double kOwn = 0.6;
  constexpr std::size_t kNear = 50;
  for (std::size_t i = 0; i < points; ++i) {
    smartmine::Random random(1, 0, i);
    for (std::size_t j = 0; j < neighbors; ++j) {
      const std::size_t other = random.uniform() < kOwn ? 0 : 1 + random.below(std::min(kNear, classes - 1));
      lists.ids(i)[j] = static_cast<std::uint32_t>((i / each + other) % classes * each + random.below(each));
      lists.distances(i)[j] = 0.1F + 0.001F * static_cast<float>(j);
    }
  }
  return lists;
}

double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

}  // namespace

int main(int count, char** arguments) {
  const std::size_t points = count > 1 ? std::stoul(arguments[1]) : 1'000'000;
  const auto threads = static_cast<unsigned>(count > 2 ? std::stoul(arguments[2]) : 2);
  // An epoch shows every image once in training and once for the lists; 5,000 per second is GoogLeNet on an H200, 2,850 the small network
  // on two cores.
  constexpr double kImagesPerSecond = 5000;
  const double epoch = 2 * static_cast<double>(points) / kImagesPerSecond;
  fmt::print("{} points, lists of 100, one round, {} threads; an epoch at {} images/s takes {:.0f} s\n", points, threads, kImagesPerSecond,
             epoch);
  fmt::print(
      "| classes | images of a class in a batch | batches | near | seconds | CPU seconds | share of the epoch "
      "|\n|---|---|---|---|---|---|---|\n");
  for (const std::size_t each : {std::size_t{10}, std::size_t{1000}, points / 10}) {
    std::vector<std::int64_t> labels(points);
    for (std::size_t i = 0; i < points; ++i) labels[i] = static_cast<std::int64_t>(i / each);
    const smartmine::LabelIndex index(labels);
    const smartmine::NeighborLists lists = made_lists(points, each, 100);
    for (const std::size_t images : {std::size_t{4}, std::size_t{8}}) {
      const double begin = cpu_seconds();
      const auto made = smartmine::build_batches(lists, index, {.classes = 24, .images_per_class = images, .threads = threads});
      const double cpu = cpu_seconds() - begin;
      fmt::print("| {} | {} | {} | {:.1f} % | {:.2f} | {:.2f} | {:.2f} % |\n", points / each, images, made.stats.batches,
                 100 * made.stats.near_share(), made.stats.seconds, cpu, 100 * cpu / epoch);
    }
  }
}
