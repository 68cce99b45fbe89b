#pragma once

#include <optional>
#include <string>

#include "train/epoch.h"

namespace smartmine {

/// Trains on what is left of an epoch's plan, one step per batch, and adds to its record. Returns what went wrong, if something did: a loss
/// that is not finite many times in a row, or embeddings that have collapsed. Throws Cancelled between two steps.
std::optional<std::string> take_steps(const Epoch& epoch, Optimizer& optimizer, double rate_scale, EpochUnderWay& now);

/// What is wrong with embeddings of this spread, the mean squared distance to their mean; nothing: they are fine.
std::optional<std::string> trouble_with_spread(double spread);

}  // namespace smartmine
