#include "smartmine/run/run_data.h"

#include <utility>

#include "smartmine/data/load.h"

namespace smartmine {

DataSplits load_run_data(const RunConfig& config) {
  DataSplits splits = load_dataset(config.data.dataset, config.data.root);
  if (config.data.validation_classes > 0)
    splits = hold_out_classes(
        std::move(splits), {.classes = config.data.validation_classes, .block = config.data.validation_block, .seed = config.compute.seed});
  if (config.data.reserved_images.value_or(0) > 0)
    splits = reserve_images(std::move(splits), *config.data.reserved_images, config.compute.seed);
  return splits;
}

const Dataset& evaluated_half(const DataSplits& splits) { return splits.validation ? *splits.validation : splits.test; }

}  // namespace smartmine
