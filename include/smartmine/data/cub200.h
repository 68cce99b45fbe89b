#pragma once

#include <filesystem>

#include "smartmine/data/dataset.h"

namespace smartmine {

/// Reads CUB-200-2011 in its original layout: `root`, or CUB_200_2011 in it, holds images.txt, image_class_labels.txt, classes.txt and the
/// folder images. Labels are the numbers of classes.txt; the first half of them (1-100) trains, the second (101-200) tests. Boxes and the
/// data set's own train_test_split.txt are not used. Throws IoError naming file and line where the label files are damaged or disagree with
/// each other or with the folder: an image or label given twice, missing, unknown, or in the folder of another class.
DataSplits load_cub200(const std::filesystem::path& root);

}  // namespace smartmine
