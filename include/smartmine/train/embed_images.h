#pragma once

#include <filesystem>
#include <vector>

#include "smartmine/core/progress.h"
#include "smartmine/core/vector_files.h"
#include "smartmine/data/dataset.h"
#include "smartmine/data/image_store.h"
#include "smartmine/run/config.h"

namespace smartmine {

/// Embeddings of a data set's images, a row each.
struct EmbeddedImages {
  Embeddings embeddings;
  Dataset dataset;                   ///< Of the rows: the one given, less what was bad and skipped.
  std::vector<BadImage> bad_images;  ///< Those skipped.
};

/// Embeds images with a trained network: `config` is that of its run, `weights` the model of a checkpoint. Throws IoError for bad images
/// unless config.data.skip_bad_images, and for weights of another network.
EmbeddedImages embed_images(const RunConfig& config, const std::filesystem::path& weights, const Dataset& dataset,
                            const Progress& progress = {});

}  // namespace smartmine
