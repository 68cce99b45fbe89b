#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "smartmine/data/dataset.h"
#include "smartmine/train/config.h"
#include "smartmine/train/run_directory.h"

// The settings of a run as options of the program and as its config.toml.
namespace smartmine::app {

/// An option for every setting.
void add_settings(CLI::App& command, TrainConfig& config);

/// The settings a run was started with. Throws IoError naming the file for one that is damaged.
TrainConfig read_config(const RunDirectory& run);

/// The settings to resume a run with: its own, with those given that may change. Throws UsageError naming all that were given and differ.
TrainConfig resume_config(const RunDirectory& run, const CLI::App& command, const TrainConfig& given);

/// The data a run was trained and measured on.
DataSplits load_run_data(const TrainConfig& config);

/// The weights of a run's last good checkpoint. Throws IoError if there is none yet.
std::filesystem::path model_of(const RunDirectory& run);

}  // namespace smartmine::app
