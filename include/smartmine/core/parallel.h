#pragma once

#include <cstddef>
#include <functional>
#include <string_view>

#include "smartmine/core/progress.h"

namespace smartmine {

/// `requested`, or the number of cores this process may use when it is 0. Never 0.
unsigned resolve_threads(unsigned requested);

/// Work on [begin, end) by the `worker`-th of the threads (for scratch space; results must not depend on it).
using RangeWork = std::function<void(std::size_t begin, std::size_t end, unsigned worker)>;

/// Runs `work` over [0, count) in pieces of `grain`, handed out in order to `threads` threads (0: all cores).
/// The calling thread takes part and is the only one that reports progress, under the name `stage`.
/// The first exception of any piece is rethrown once all threads have stopped.
void parallel_for(std::size_t count, std::size_t grain, unsigned threads, const RangeWork& work, const Progress& progress = {},
                  std::string_view stage = {});

}  // namespace smartmine
