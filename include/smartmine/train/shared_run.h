#pragma once

#include <functional>
#include <string>

#include "smartmine/run/run_directory.h"
#include "smartmine/train/ranks.h"

namespace smartmine {

/// The directory of a run that ranks work on together: `open` is called by rank 0 alone, the others follow what it returns. Without ranks
/// (null) simply opens it. If it throws, the other ranks say why.
RunDirectory open_shared(Ranks* ranks, const std::function<RunDirectory()>& open);

/// All settings that must be the same on all ranks, a line each.
std::string settings_of_all_ranks(const RunConfig& config);

}  // namespace smartmine
