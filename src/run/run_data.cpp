#include "smartmine/run/run_data.h"

#include "smartmine/data/load.h"

namespace smartmine {

DataSplits load_run_data(const RunConfig& config) {
  DataSplits splits = load_dataset(config.data.dataset, config.data.root);
  if (config.data.validation_classes > 0)
    splits = hold_out_classes(
        std::move(splits), {.classes = config.data.validation_classes, .block = config.data.validation_block, .seed = config.compute.seed});
  return splits;
}

const Dataset& evaluated_half(const DataSplits& splits) { return splits.validation ? *splits.validation : splits.test; }

}  // namespace smartmine
