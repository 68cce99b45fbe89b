#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "smartmine/train/ranks.h"

// Several processes of this program that do one piece of work.
namespace smartmine::app {

/// As given.
struct RankArguments {
  int ranks = 1;
  double timeout = RankWorld::kUsualTimeout;

  void add_to(CLI::App& command);
};

/// Where --ranks asks for several and nobody has started this process as one of them: starts them, on this host, and ends with their
/// status, by throwing Ended. Otherwise does nothing. Throws UsageError.
void start_ranks(const RankArguments& arguments);

/// Joins the others that the environment speaks of; null: this process is alone. From then on what it says begins with its number.
std::shared_ptr<Ranks> join_ranks(const RankArguments& arguments);

/// Runs `work` as one of the ranks: why it ends, if it fails, is told to the others.
void run_as_rank(const std::shared_ptr<Ranks>& ranks, const std::function<void()>& work);

}  // namespace smartmine::app
