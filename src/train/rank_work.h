#pragma once

#include <filesystem>

#include "smartmine/train/ranks.h"
#include "train/epoch.h"

// What ranks do together at the seams of a run. All of these are calls of all ranks.
namespace smartmine {

/// The settings for one of the ranks: those of a host share its cores. Without ranks as they are.
RunConfig with_share_of_cores(RunConfig config, const Ranks* ranks);
/// The threads of all ranks of the host, for what one of them does while the others wait.
unsigned threads_of_host(const Epoch& epoch);

/// Throws RankFailure if a rank has another kind of device, other instructions for lists, or another file of weights or of the backbone:
/// its bits would be others.
void expect_same_means(Ranks& ranks, const torch::Device& device, const NetworkOptions& model);
/// Throws RankFailure if a rank has other images or labels, naming the first.
void expect_same_images(Ranks& ranks, const Dataset& images);
/// The same if an image's file is of another size: copies of one name may differ. All files are there.
void expect_same_sizes(Ranks& ranks, const Dataset& images);
/// Each rank's share of the images to be looked at; what one finds wrong is wrong for all.
CheckShare share_of_checks(Ranks& ranks, std::size_t images);
/// Throws RankFailure if a rank has planned other steps, or has another kappa.
void expect_same_plan(Ranks& ranks, const Epoch& epoch, const EpochPlan& plan, const KappaPolicy* kappa);
/// Throws RankFailure if a rank has other weights.
void expect_same_weights(Ranks& ranks, const Epoch& epoch);

/// Gives all ranks the weights and all that lasts of rank 0, which took it from `checkpoint`; empty: there was none.
void share_state(Ranks& ranks, const std::filesystem::path& checkpoint, const Network& network, const LabelIndex& labels, Persistent& kept);
/// Rank 0's record, with its times and measurements.
EpochRecord shared_record(Ranks& ranks, const EpochRecord& record);

/// Lists of all rows, each rank its share of them.
NeighborResult find_shared_lists(Ranks& ranks, NeighborIndex& index, const Rows& rows, const NeighborCall& call, const Progress& progress);

}  // namespace smartmine
