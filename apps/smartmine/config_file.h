#pragma once

#include <CLI/CLI.hpp>

namespace smartmine::app {

/// Adds `--config FILE.toml`, which sets any option of the subcommand that runs; the command line has the last word.
/// Options stand at the top of the file or in a section named after the subcommand; sections of other subcommands are
/// passed over, so one file can serve several. An unknown name is an error.
void add_config_option(CLI::App& program);

}  // namespace smartmine::app
