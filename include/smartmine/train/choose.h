#pragma once

#include <functional>
#include <memory>
#include <string>

#include "smartmine/core/progress.h"
#include "smartmine/run/choice.h"
#include "smartmine/run/config.h"
#include "smartmine/run/epoch_record.h"
#include "smartmine/run/run_directory.h"
#include "smartmine/train/ranks.h"

namespace smartmine {

/// What a choice tells while it is made.
struct ChoiceEvents {
  std::function<void(const Choice& choice)> on_begin;                           ///< What is held out is known.
  std::function<void(const Trial& trial, const EpochRecord& record)> on_epoch;  ///< Of a trial; epoch 0 is the start.
};

/// Throws InvalidArgument for settings that leave nothing to choose, or nothing to choose by.
void check_choosing(const RunConfig& config);

/// Finds out on training classes that it holds out how fast to learn, and whether training helps at all; where config.chooses_system(), by
/// which of two systems too. Tries a few rates for some of the epochs, and looks how much of the way from the start to the end is needed.
/// If none of them helps, one trial is as long as the training. Every trial is a run in trials/ of `run`, so that whatever ends it, the
/// next call goes on; once decided, choice.json has it and nothing is tried again. The test half is read once, so that a bad image is found
/// now, and not measured. With too few classes to hold out, or too little time, it is careful instead. Throws Cancelled and what a Trainer
/// throws. With `ranks` all of them call it, and all get the same; a budget is then an InvalidArgument, for their clocks differ.
Choice choose_settings(const RunConfig& config, RunDirectory& run, const ChoiceEvents& events = {}, const Progress& progress = {},
                       const std::shared_ptr<Ranks>& ranks = nullptr);

/// The settings to train with after a choice.
RunConfig chosen_config(const RunConfig& config, const Choice& choice);

/// After the training: writes the weights that the choice keeps, where these are not simply the last ones, and measures them. With a
/// validation split of the data's own, what share of the way they lie is measured on it first. Returns their record, under the number of
/// the last epoch.
EpochRecord keep_chosen(const RunConfig& config, RunDirectory& run, const Choice& choice, const Progress& progress = {});
/// The same after a training that had to be stopped: keeps the weights that the run starts from, if it has them.
void keep_start(const RunConfig& config, RunDirectory& run, const Choice& choice, const Progress& progress = {});

}  // namespace smartmine
