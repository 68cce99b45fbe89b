#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <vector>

#include "smartmine/run/config.h"
#include "smartmine/run/run_directory.h"

// The settings of a run as options of the program.
namespace smartmine::app {

/// An option for every setting.
void add_settings(CLI::App& command, RunConfig& config);

/// The settings that were given, on the command line or in a file of them, with paths made absolute: a run's settings must mean the same
/// from any folder.
std::vector<GivenSetting> given_settings(const CLI::App& command);

/// The weights of a run's last good checkpoint. Throws IoError if there is none yet.
std::filesystem::path model_of(const RunDirectory& run);

}  // namespace smartmine::app
