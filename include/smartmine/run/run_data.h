#pragma once

#include "smartmine/data/dataset.h"
#include "smartmine/run/config.h"

namespace smartmine {

/// The data set of a run as its settings divide it. Throws what load_dataset, hold_out_classes and
/// reserve_images throw.
DataSplits load_run_data(const RunConfig& config);

/// Whether images can be searched for others of their class.
bool can_be_measured(const Dataset& half);
/// Whether a validation split of the data's own is large enough to choose on. If not, `validation_classes` take its place.
bool can_choose_on(const Dataset& split);

/// Whether the data has a validation split to choose on. It is as good as classes held out, and better: the training leaves it alone too.
bool has_own_split(const RunConfig& config, const DataSplits& splits);

/// The half that a run is measured on: held-out training classes if there are any, else the test classes. A run that chooses goes by a
/// validation split of the data's own; what comes of it is measured on the test classes, if these can be measured.
const Dataset& evaluated_half(const RunConfig& config, const DataSplits& splits);

}  // namespace smartmine
