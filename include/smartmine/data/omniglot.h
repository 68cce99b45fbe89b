#pragma once

#include <filesystem>

#include "smartmine/data/dataset.h"

namespace smartmine {

/// Reads Omniglot in its original layout: `root` (or python, omniglot, omniglot/python or omniglot-py below it) holds images_background,
/// which trains, and images_evaluation, which tests, both with folders alphabet/character. A character is a class, called
/// alphabet/character; labels are 0, 1, ... in the order of those names, the background ones first. Throws IoError for a missing folder or
/// a character without images.
DataSplits load_omniglot(const std::filesystem::path& root);

}  // namespace smartmine
