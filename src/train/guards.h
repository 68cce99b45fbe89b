#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "smartmine/run/checkpoint.h"
#include "smartmine/run/config.h"
#include "smartmine/run/epoch_record.h"
#include "smartmine/run/system_traits.h"

// Guards over a training: what they count is in the TrainState.
namespace smartmine {

/// After an epoch was undone: it is tried again with half the rate, a few times. Throws TrainingStopped once that is used up.
void back_off(TrainState& state, const std::string& why);

/// After an epoch: where the error has been 1 for long, the rate is halved. Returns the note on it, if there is one.
std::optional<std::string> watch_error(TrainState& state, const SystemTraits& traits, const EpochRecord& record);

/// After `watch_error`: throws TrainingStopped if the rate was halved too often, for the reason that its note gave.
void stop_if_hopeless(const TrainState& state, std::int64_t epoch, const std::string& why);

/// After a mined epoch: a note where random triplets are harder than the target, so that the controller has nothing to do.
std::optional<std::string> idle_mining(const SystemTraits& traits, const MiningOptions& options, const EpochRecord& record);

/// After a mined epoch: a note where kappa is at its floor and the error under the target all the same, so that nothing is held.
std::optional<std::string> kappa_at_floor(const SystemTraits& traits, const MiningOptions& options, const EpochRecord& record);

}  // namespace smartmine
