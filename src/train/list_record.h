#pragma once

#include <string>
#include <vector>

#include "smartmine/graph/neighbors.h"
#include "smartmine/run/epoch_record.h"

namespace smartmine {

/// What an epoch's lists are recorded as: by "exact" search where a graph was built and all pairs were looked at in the end.
ListRecord list_record(const NeighborStats& stats, const std::string& graph_start);

/// What an operator should know of them, a sentence each. The success rate only where a graph was asked for by name.
std::vector<std::string> list_notes(const NeighborStats& stats, bool graph_asked_for);

}  // namespace smartmine
