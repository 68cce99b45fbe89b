#include "train/loaded_data.h"

#include <fmt/format.h>

#include "smartmine/core/error.h"
#include "smartmine/run/run_data.h"
#include "train/rank_work.h"

namespace smartmine {
namespace {

LoadedImages load_half(const Dataset& half, const RunConfig& config, const Network& network, const Progress& progress) {
  LoadedImages loaded{std::make_unique<ImageStore>(half, network.store_options(config)), std::nullopt};
  if (network.ranks == nullptr) {
    loaded.store->check_all(progress);
  } else {
    expect_same_images(*network.ranks, half);
    const CheckShare share = share_of_checks(*network.ranks, half.size());
    loaded.store->check_all(progress, &share);
    expect_same_sizes(*network.ranks, loaded.dataset());
  }
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

LoadedData load_data(const RunConfig& config, const SystemTraits& traits, const Network& network, const Progress& progress) {
  if (network.ranks != nullptr) expect_same_means(*network.ranks, network.device, config.model);
  const DataSplits splits = load_run_data(config);
  const Dataset& held_out = evaluated_half(splits);
  LoadedImages training = load_half(splits.train, config, network, progress);
  std::optional<LoadedImages> evaluation;
  if (held_out.classes().size() > 1 && held_out.single_image_classes() < held_out.classes().size())
    evaluation.emplace(load_half(held_out, config, network, progress));
  std::optional<LoadedImages> reserved;
  if (splits.reserved) reserved.emplace(load_half(*splits.reserved, config, network, progress));
  LabelIndex labels(training.dataset().labels());
  const TrainingData facts{.training_images = training.dataset().size(),
                           .training_classes = training.dataset().classes().size(),
                           .evaluation_images = evaluation ? evaluation->dataset().size() : 0,
                           .evaluation_classes = evaluation ? evaluation->dataset().classes().size() : 0,
                           .evaluated_on = splits.validation ? "validation" : "test",
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
