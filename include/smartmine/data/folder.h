#pragma once

#include <filesystem>

#include "smartmine/data/dataset.h"

namespace smartmine {

/// Reads anyone's labelled images.
///
/// A folder of folders: one folder a class, named for it, with its images at any depth. A folder that holds one .csv file, or the path of
/// a .csv file: a table with a header that names the columns path and label, and split if there is one; others are passed over. Paths are
/// below the table's folder or absolute, splits are train, test or validation; fields may be quoted.
///
/// Without splits the classes are sorted by name (by value if all names are whole numbers), and the first half trains, the second tests; an
/// odd one trains. Labels are the names where all are whole numbers, else 0, 1, ... in that order. A class of one image is kept.
/// Throws IoError naming file and line for damaged tables, images given twice or missing, unknown splits, folders without images, and fewer
/// than four classes (two for training where splits are given).
DataSplits load_folder(const std::filesystem::path& root);

/// All images below a folder, without labels: every label is 0. For embedding images nobody sorted.
Dataset list_images(const std::filesystem::path& root);

}  // namespace smartmine
