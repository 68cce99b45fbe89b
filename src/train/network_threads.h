#pragma once

#include <cstdint>

#include "smartmine/run/config.h"

namespace smartmine {

/// Torch's threads. Its sums depend on them, so they follow from the settings alone and not from who takes part: as many shards as there
/// are share the cores between them.
std::int64_t network_threads(const ComputeOptions& compute);

}  // namespace smartmine
