#pragma once

#include "smartmine/data/dataset.h"
#include "smartmine/run/config.h"

namespace smartmine {

/// The data set of a run as its settings divide it. Throws what load_dataset, hold_out_classes and
/// reserve_images throw.
DataSplits load_run_data(const RunConfig& config);

/// The half that a run is measured on: held-out training classes if there are any, else the test classes.
const Dataset& evaluated_half(const DataSplits& splits);

}  // namespace smartmine
