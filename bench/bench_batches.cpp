// Batches of near classes: whom they bring together where labels are wrong, and what making them costs, of made-up lists and classes of
// every size. bench_batches [POINTS] [THREADS]; 0 points: no costs.
#include <fmt/format.h>

#include <cmath>
#include <ctime>
#include <set>
#include <string>
#include <vector>

#include "smartmine/core/random.h"
#include "smartmine/graph/exact_knn.h"
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

/// 100 classes of 60 in ten families, unit vectors. A batch of ten classes may be a family.
void print_families(double wrong, unsigned threads) {
  constexpr std::size_t kClasses = 100, kEach = 60, kFamilies = 10, kDimension = 64, kImages = 4;
  smartmine::Random random(1);
  std::vector<double> families(kFamilies * kDimension), centres;
  for (double& value : families) value = random.normal();
  for (std::size_t c = 0; c < kClasses; ++c)
    for (std::size_t t = 0; t < kDimension; ++t) centres.push_back(families[c % kFamilies * kDimension + t] + 0.6 * random.normal());
  std::vector<float> values(kClasses * kEach * kDimension);
  std::vector<std::int64_t> labels, truth;
  for (std::size_t i = 0; i < kClasses * kEach; ++i) {
    double length = 0;
    for (std::size_t t = 0; t < kDimension; ++t) {
      const double value = centres[i / kEach * kDimension + t] + 0.5 * random.normal();
      values[i * kDimension + t] = static_cast<float>(value);
      length += value * value;
    }
    for (std::size_t t = 0; t < kDimension; ++t) values[i * kDimension + t] /= static_cast<float>(std::sqrt(length));
    truth.push_back(static_cast<std::int64_t>(i / kEach));
    labels.push_back(random.uniform() < wrong ? static_cast<std::int64_t>(random.below(kClasses)) : truth.back());
  }
  const smartmine::Rows rows(values.data(), labels.size(), kDimension);
  const auto lists = smartmine::ExactKnn({.neighbors = 100, .threads = threads}).neighbors(rows).lists;
  fmt::print("| {} % |", 100 * wrong);
  for (const double near : {1.0, 0.0}) {
    const auto made =
        smartmine::build_batches(lists, smartmine::LabelIndex(labels),
                                 {.classes = kFamilies, .images_per_class = kImages, .near_share = near, .rounds = 4, .threads = threads});
    double pairs = 0, alike = 0, strangers = 0, at_home = 0;
    for (std::size_t b = 0; b < made.batches(); ++b) {
      const auto batch = made.batch(b);
      std::set<std::int64_t> classes;
      for (const std::uint32_t item : batch) classes.insert(labels[item]);
      for (const auto first : classes)
        for (const auto second : classes) {
          pairs += first < second ? 1 : 0;
          alike += first < second && first % kFamilies == second % kFamilies ? 1 : 0;
        }
      for (const std::uint32_t item : batch) {
        strangers += labels[item] != truth[item] ? 1 : 0;
        at_home += labels[item] != truth[item] && classes.contains(truth[item]) ? 1 : 0;
      }
    }
    fmt::print(" {:.0f} % | {} |", 100 * alike / pairs, strangers == 0 ? "" : fmt::format("{:.0f} %", 100 * at_home / strangers));
  }
  fmt::print("\n");
}

double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

/// Classes of ten, each a tight heap, with lists of eight that hold nothing but their own class: it is all left to the centres.
void print_short_lists(std::size_t points, unsigned threads, double epoch) {
  constexpr std::size_t kEach = 10, kDimension = 64, kNeighbors = 8;
  const std::size_t classes = points / kEach;
  std::vector<float> values(classes * kEach * kDimension);
  std::vector<std::int64_t> labels(classes * kEach);
  smartmine::NeighborLists lists(labels.size(), kNeighbors);
  for (std::size_t c = 0; c < classes; ++c) {
    smartmine::Random random(1, 1, c);
    float* const first = values.data() + c * kEach * kDimension;
    for (std::size_t t = 0; t < kDimension; ++t) first[t] = static_cast<float>(random.normal());
    for (std::size_t i = 0; i < kEach; ++i) {
      const std::size_t point = c * kEach + i;
      labels[point] = static_cast<std::int64_t>(c);
      for (std::size_t t = 0; t < kDimension; ++t) first[i * kDimension + t] = first[t] + 0.05F * static_cast<float>(random.normal());
      for (std::size_t j = 0; j < kNeighbors; ++j) {
        lists.ids(point)[j] = static_cast<std::uint32_t>(c * kEach + (i + 1 + j) % kEach);
        lists.distances(point)[j] = 0.1F + 0.001F * static_cast<float>(j);
      }
    }
  }
  const smartmine::Rows rows(values.data(), labels.size(), kDimension);
  const smartmine::LabelIndex index(labels);
  const double begin = cpu_seconds();
  const auto made = smartmine::build_batches(lists, index, {.classes = 24, .images_per_class = 4, .threads = threads}, &rows);
  const double cpu = cpu_seconds() - begin;
  fmt::print("{} classes of {}, lists of {} with none of another class: {:.2f} s, {:.2f} CPU seconds, {:.2f} % of the epoch\n", classes,
             kEach, kNeighbors, made.stats.seconds, cpu, 100 * cpu / epoch);
}

}  // namespace

int main(int count, char** arguments) {
  const std::size_t points = count > 1 ? std::stoul(arguments[1]) : 1'000'000;
  const auto threads = static_cast<unsigned>(count > 2 ? std::stoul(arguments[2]) : 2);
  fmt::print(
      "100 classes of 60 in ten families; batches of 10 classes\n| wrong labels | pairs of classes of one family | wrong labels beside "
      "their "
      "true class | drawn: pairs | wrong labels |\n|---|---|---|---|---|\n");
  for (const double wrong : {0.0, 0.02, 0.05, 0.1}) print_families(wrong, threads);
  if (points == 0) return 0;
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
  print_short_lists(points, threads, epoch);
}
