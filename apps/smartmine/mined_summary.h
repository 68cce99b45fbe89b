#pragma once

#include <span>
#include <string>

#include "smartmine/run/epoch_record.h"

namespace smartmine::app {

/// What the epochs of a run were mined from, for the end of its output: how many triplets and by which index. Empty: none were mined.
std::string mined_summary(std::span<const EpochRecord> log);

}  // namespace smartmine::app
