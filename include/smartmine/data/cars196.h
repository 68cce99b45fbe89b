#pragma once

#include <filesystem>

#include "smartmine/data/dataset.h"

namespace smartmine {

/// Reads Cars196 (Stanford Cars). `root` holds one of, looked for in this order:
///  - cars_annos.csv: columns path (below root) and label, and class_name if there is one;
///  - cars_annos.mat and the images it names (car_ims/000001.jpg ...);
///  - cars_train_annos.mat and cars_test_annos_withlabels.mat, in root or in devkit, with cars_meta.mat if it is there, and the images in
///    cars_train and cars_test.
/// Images that are not there are errors, unless missing.txt in root names them, a path per line.
/// Labels are the class numbers of those files; the first half (1-98) trains, the second (99-196) tests, whatever the data set's own train
/// and test parts are. Boxes are not used. Throws IoError naming the file and the place for annotations that are damaged, name a missing
/// image or an image twice.
DataSplits load_cars196(const std::filesystem::path& root);

}  // namespace smartmine
