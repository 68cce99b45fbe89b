#include "train/loaded_data.h"

#include <fmt/format.h>

#include "smartmine/core/error.h"
#include "smartmine/run/run_data.h"
#include "train/network_threads.h"
#include "train/rank_work.h"

namespace smartmine {
namespace {

/// Throws RankFailure if the bits of a rank would be others.
void expect_same_computing(const Network& network, const RunConfig& config) {
  if (network.ranks == nullptr) return;
  expect_same_means(*network.ranks, network.device, config.model);
  if (network.device.is_cpu())
    network.ranks->expect_same("means of computing", fmt::format("{} threads for the network; --network-threads sets that\n",
                                                                 network_threads(config.compute)));
}

void check_all(ImageStore& store, const Dataset& half, Ranks* ranks, const Progress& progress) {
  if (ranks == nullptr) return store.check_all(progress);
  expect_same_images(*ranks, half);
  const CheckShare share = share_of_checks(*ranks, half.size());
  store.check_all(progress, &share);
  expect_same_sizes(*ranks, store.dataset());
}

LoadedImages load_half(const Dataset& half, const RunConfig& config, const Network& network, const Progress& progress) {
  LoadedImages loaded{std::make_unique<ImageStore>(half, network.store_options(config)), std::nullopt};
  check_all(*loaded.store, half, network.ranks, progress);
  return loaded;
}

std::vector<std::string> notes_on(const LoadedData& data) {
  std::vector<std::string> notes;
  for (const LoadedImages* half : {&data.training, data.evaluation ? &*data.evaluation : nullptr}) {
    if (half == nullptr || half->store->bad_images().empty()) continue;
    notes.push_back(fmt::format("{} bad images of the {} half were skipped, the first: {}", half->store->bad_images().size(),
                                half->dataset().split(), half->store->bad_images().front().reason));
  }
  if (const std::size_t alone = data.training.dataset().single_image_classes(); alone > 0)
    notes.push_back(fmt::format("{} training classes have a single image, which is never an anchor", alone));
  if (!data.evaluation)
    notes.push_back(
        fmt::format("there is nothing to measure on: the {} half needs two classes, one of them of two images", data.facts.evaluated_on));
  return notes;
}

}  // namespace

void check_images(const Dataset& half, const RunConfig& config, Ranks* ranks, const Progress& progress) {
  constexpr std::size_t kSide = 32;  // all of a file is read however small the picture, and JPEGs are read faster
  ImageStore store(half, {.width = kSide,
                          .height = kSide,
                          .cache_bytes = 0,
                          .threads = static_cast<unsigned>(config.compute.threads),
                          .skip_bad_images = config.data.skip_bad_images});
  check_all(store, half, ranks, progress);
}

LoadedData load_data(const RunConfig& config, const SystemTraits& traits, const Network& network, const Progress& progress) {
  expect_same_computing(network, config);
  const DataSplits splits = load_run_data(config);
  const Dataset& held_out = evaluated_half(config, splits);
  LoadedImages training = load_half(splits.train, config, network, progress);
  std::optional<LoadedImages> evaluation;
  if (can_be_measured(held_out)) evaluation.emplace(load_half(held_out, config, network, progress));
  std::optional<LoadedImages> reserved;
  if (splits.reserved) reserved.emplace(load_half(*splits.reserved, config, network, progress));
  LabelIndex labels(training.dataset().labels());
  const TrainingData facts{.training_images = training.dataset().size(),
                           .training_classes = training.dataset().classes().size(),
                           .evaluation_images = evaluation ? evaluation->dataset().size() : 0,
                           .evaluation_classes = evaluation ? evaluation->dataset().classes().size() : 0,
                           .evaluated_on = held_out.split(),
                           .device = network.device.is_cuda() ? "cuda" : "cpu"};
  LoadedData data{std::move(training), std::move(evaluation), std::move(reserved), std::move(labels), facts, {}};
  data.notes = notes_on(data);
  if (traits.mines && config.mining.neighbors && *config.mining.neighbors >= static_cast<std::int64_t>(data.labels.size()))
    throw InvalidArgument(fmt::format("neighbors is {}; with {} training images it must be at most {}", *config.mining.neighbors,
                                      data.labels.size(), data.labels.size() - 1));
  data.labels.anchors();  // throws if nobody has a positive: better now than later
  data.training.images.emplace(*data.training.store, network.device);
  if (data.evaluation) data.evaluation->images.emplace(*data.evaluation->store, network.device);
  if (data.reserved) data.reserved->images.emplace(*data.reserved->store, network.device);
  return data;
}

}  // namespace smartmine
