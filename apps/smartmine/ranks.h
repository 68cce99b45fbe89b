#pragma once

#include <functional>
#include <memory>

#include "rank_arguments.h"
#include "smartmine/train/ranks.h"

// Several processes of this program that do one piece of work.
namespace smartmine::app {

/// Where --ranks asks for several and nobody has started this process as one of them: starts them, on this host, and ends with their
/// status, by throwing Ended. Otherwise does nothing. Throws UsageError.
void start_ranks(const RankArguments& arguments);

/// Joins the others that the environment speaks of; null: this process is alone. From then on what it says begins with its number.
std::shared_ptr<Ranks> join_ranks(const RankArguments& arguments);

/// Runs `work` as one of the ranks: why it ends, if it fails, is told to the others.
void run_as_rank(const std::shared_ptr<Ranks>& ranks, const std::function<void()>& work);

/// Both of these and the work, which is given its place among the others.
void share_work(const RankArguments& arguments, const std::function<void(const RankPlace& place)>& work);

}  // namespace smartmine::app
