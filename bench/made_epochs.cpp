#include "made_epochs.h"

#include <algorithm>
#include <cmath>

#include "measurement.h"
#include "smartmine/core/parallel.h"
#include "smartmine/core/random.h"

namespace smartmine::bench {
namespace {

constexpr std::size_t kRowsPerClass = 30;
constexpr std::size_t kGrain = 1024;
constexpr double kWidth = 0.6;  // of a class, against centres that are 1 apart
constexpr double kPull = 0.03;  // towards the centre, an epoch
constexpr double kShake = 0.02;

enum Stream : std::uint64_t { kCentres, kFirstEpoch };

void make_unit(float* row, std::size_t dimension) {
  double squared = 0;
  for (std::size_t j = 0; j < dimension; ++j) squared += static_cast<double>(row[j]) * static_cast<double>(row[j]);
  const double scale = squared > 0 ? 1.0 / std::sqrt(squared) : 0.0;
  for (std::size_t j = 0; j < dimension; ++j) row[j] = static_cast<float>(scale * static_cast<double>(row[j]));
}

}  // namespace

MadeEpochs::MadeEpochs(const MadeEpochsOptions& options) : labels(options.rows) {
  const std::size_t dimension = options.dimension;
  const std::size_t classes = std::max<std::size_t>(1, options.rows / kRowsPerClass);
  for (std::size_t epoch = 0; epoch < options.epochs; ++epoch) values.emplace_back(options.rows * dimension);

  do_in_child([&] {
    std::vector<double> spread(dimension);
    for (std::size_t j = 0; j < dimension; ++j) spread[j] = 1.0 / std::sqrt(1.0 + static_cast<double>(j));
    std::vector<float> centres(classes * dimension);
    parallel_for(classes, kGrain, options.threads, [&](std::size_t begin, std::size_t end, unsigned) {
      for (std::size_t c = begin; c < end; ++c) {
        Random random(options.seed, kCentres, c);
        for (std::size_t j = 0; j < dimension; ++j) centres[c * dimension + j] = static_cast<float>(random.normal() * spread[j]);
      }
    });
    parallel_for(options.rows, kGrain, options.threads, [&](std::size_t begin, std::size_t end, unsigned) {
      for (std::size_t i = begin; i < end; ++i) {
        const std::size_t label = i / kRowsPerClass % classes;
        labels[i] = static_cast<std::int64_t>(label);
        const float* centre = &centres[label * dimension];
        for (std::size_t epoch = 0; epoch < values.size(); ++epoch) {
          Random random(options.seed, kFirstEpoch + epoch, i);
          float* row = &values[epoch][i * dimension];
          const float* before = epoch == 0 ? nullptr : &values[epoch - 1][i * dimension];
          for (std::size_t j = 0; j < dimension; ++j) {
            const auto middle = static_cast<double>(centre[j]);
            const double noise = random.normal() * spread[j];
            const double value = before == nullptr ? middle + kWidth * noise
                                                   : static_cast<double>(before[j]) * (1 - kPull) + kPull * middle + kShake * noise;
            row[j] = static_cast<float>(value);
          }
          make_unit(row, dimension);
        }
      }
    });
  });
}

}  // namespace smartmine::bench
