#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "smartmine/core/progress.h"
#include "smartmine/data/image_store.h"
#include "smartmine/mining/labels.h"
#include "smartmine/run/config.h"
#include "smartmine/train/trainer.h"
#include "train/network.h"

namespace smartmine {

/// One half of a data set where the network can reach it.
struct LoadedImages {
  std::unique_ptr<ImageStore> store;
  std::optional<DeviceImages> images;
  const Dataset& dataset() const { return store->dataset(); }
};

/// What a run is trained and measured on.
struct LoadedData {
  LoadedImages training;
  std::optional<LoadedImages> evaluation;  ///< None: there is nothing to measure on.
  std::optional<LoadedImages> reserved;    ///< Images of training classes that are not trained on; none unless asked for.
  LabelIndex labels;                       ///< Of the training images.
  TrainingData facts;
  std::vector<std::string> notes;  ///< What the person who started the run should know, a sentence each.
};

/// Reads all images of a half once and keeps none. Throws IoError for bad ones as `load_data` does. With ranks each reads its share.
void check_images(const Dataset& half, const RunConfig& config, Ranks* ranks, const Progress& progress);

/// Loads and checks all images. Throws IoError for bad ones unless they are to be skipped, InvalidArgument for data that cannot be trained
/// on.
LoadedData load_data(const RunConfig& config, const SystemTraits& traits, const Network& network, const Progress& progress);

}  // namespace smartmine
