#include "train/guards.h"

#include <fmt/format.h>

#include "smartmine/mining/kappa_controller.h"
#include "smartmine/train/trainer.h"

namespace smartmine {
namespace {

constexpr double kStuckError = 0.995;         // nothing is learnt from an error of 1
constexpr std::int64_t kMostStuckEpochs = 5;  // in a row
constexpr std::int64_t kMostBackOffs = 3;
constexpr double kBackOff = 0.5;

}  // namespace

void back_off(TrainState& state, const std::string& why) {
  if (++state.times_backed_off > kMostBackOffs)
    throw TrainingStopped(
        fmt::format("stopped in epoch {}: {}, though the learning rate was halved {} times; the last checkpoint, of epoch {}, is kept. Try "
                    "a smaller --learning-rate",
                    state.epochs_done + 1, why, kMostBackOffs, state.epochs_done));
  state.rate_scale *= kBackOff;
}

std::optional<std::string> watch_error(TrainState& state, const SystemTraits& traits, const EpochRecord& record) {
  const bool stuck = traits.error_counts && record.training_error() >= kStuckError;
  state.stuck_epochs = stuck ? state.stuck_epochs + 1 : 0;
  if (state.stuck_epochs < kMostStuckEpochs) return std::nullopt;
  state.stuck_epochs = 0;
  ++state.times_backed_off;
  state.rate_scale *= kBackOff;
  return fmt::format("the training error has been stuck at {:.3f} for {} epochs; the learning rate was halved", record.training_error(),
                     kMostStuckEpochs);
}

void stop_if_hopeless(const TrainState& state, std::int64_t epoch, const std::string& why) {
  if (state.times_backed_off > kMostBackOffs)
    throw TrainingStopped(fmt::format("stopped after epoch {}: {}; the last checkpoint is kept", epoch, why));
}

// The controller can make triplets easier only by mining fewer: where random ones are too hard already, there is nothing for it to do.
std::optional<std::string> idle_mining(const SystemTraits& traits, const MiningOptions& options, const EpochRecord& record) {
  if (!traits.adaptive || !record.kappa || record.mined_share() > kHardlyMined * options.mined_fraction ||
      record.training_error() <= record.target_error.value_or(options.target_error.value_or(traits.target_error)))
    return std::nullopt;
  const double target = record.target_error.value_or(options.target_error.value_or(traits.target_error));
  if (traits.groups)
    return fmt::format(
        "batches of drawn classes are harder than the target: {:.2g} % of their classes are near ones, and the training error is {:.3f} "
        "instead of {:.3f}. Kappa stays until it has fallen that far; a higher --target-error would have more near classes before",
        100 * record.mined_share(), record.training_error(), target);
  return fmt::format(
      "random triplets are harder than the target: {:.2g} % are mined, and the training error is {:.3f} instead of {:.3f}. Kappa stays "
      "until it has fallen that far; a higher --target-error or a smaller --margin may have more mined before",
      100 * record.mined_share(), record.training_error(), target);
}

std::optional<std::string> kappa_at_floor(const SystemTraits& traits, const MiningOptions& options, const EpochRecord& record) {
  if (!traits.adaptive || !record.kappa || !record.target_error || *record.kappa > options.kappa_floor ||
      record.training_error() >= *record.target_error)
    return std::nullopt;
  return fmt::format(
      "kappa is at its floor, {:.3g}, and the training error, {:.3f}, is under the target, {:.3f}, all the same: {}", options.kappa_floor,
      record.training_error(), *record.target_error,
      traits.groups ? "batches of the nearest classes are the hardest there are" : "a smaller --kappa-floor would mine harder triplets");
}

}  // namespace smartmine
