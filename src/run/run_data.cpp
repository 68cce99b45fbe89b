#include "smartmine/run/run_data.h"

#include <utility>

#include "smartmine/data/load.h"
#include "smartmine/run/choice.h"

namespace smartmine {

DataSplits load_run_data(const RunConfig& config) {
  DataSplits splits = load_dataset(config.data.dataset, config.data.root);
  if (config.data.validation_classes > 0) {
    if (splits.validation && !can_choose_on(*splits.validation)) splits.validation.reset();
    splits = hold_out_classes(
        std::move(splits), {.classes = config.data.validation_classes, .block = config.data.validation_block, .seed = config.compute.seed});
  }
  if (config.data.reserved_images.value_or(0) > 0)
    splits = reserve_images(std::move(splits), *config.data.reserved_images, config.compute.seed);
  return splits;
}

bool can_be_measured(const Dataset& half) { return half.classes().size() > 1 && half.single_image_classes() < half.classes().size(); }

bool can_choose_on(const Dataset& split) {
  constexpr std::size_t kLeastClasses = 4;  // as many as are held out where there are few
  return split.classes().size() >= kLeastClasses && static_cast<std::int64_t>(split.size()) >= kLeastQueries && can_be_measured(split);
}

bool has_own_split(const RunConfig& config, const DataSplits& splits) {
  return splits.validation && config.data.validation_classes == 0 && can_choose_on(*splits.validation);
}

const Dataset& evaluated_half(const RunConfig& config, const DataSplits& splits) {
  if (!splits.validation) return splits.test;
  const bool chooses_by_it = config.data.validation_classes == 0 && config.resolved().choosing.choose == "on";
  return chooses_by_it && can_be_measured(splits.test) ? splits.test : *splits.validation;
}

}  // namespace smartmine
