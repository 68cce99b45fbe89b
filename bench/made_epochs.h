#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "shared_array.h"
#include "smartmine/core/rows.h"

namespace smartmine::bench {

/// What to make.
struct MadeEpochsOptions {
  std::size_t rows = 100000;
  std::size_t dimension = 64;
  std::size_t epochs = 3;
  std::uint64_t seed = 7;
  unsigned threads = 0;
};

/// Unit rows in classes of thirty, as a network in training leaves them: later dimensions vary less, and from epoch to
/// epoch each row moves a little, towards the centre of its class and at random.
struct MadeEpochs {
  std::vector<SharedArray<float>> values;  ///< One an epoch.
  SharedArray<std::int64_t> labels;

  explicit MadeEpochs(const MadeEpochsOptions& options);
};

}  // namespace smartmine::bench
