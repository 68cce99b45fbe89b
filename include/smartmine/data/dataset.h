#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "smartmine/data/image.h"

namespace smartmine {

/// One labelled image of a data set.
struct DatasetItem {
  std::string id;             ///< What people call it; for a file, its path below the data set's root.
  std::int64_t label = 0;     ///< The class's number in the data set's own files, where these number classes.
  std::uint64_t drawing = 0;  ///< Which one to draw, for images that are drawn.
};

/// A class: the number that labels carry and the name people know.
struct DatasetClass {
  std::int64_t label = 0;
  std::string name;
};

/// What a data set is made of.
struct DatasetContents {
  std::string name;            ///< Such as "cub200".
  std::string split;           ///< Such as "train".
  std::string notes;           ///< The protocol and what was met on the way, a sentence or more.
  std::filesystem::path root;  ///< Items' ids are paths below it, unless they are drawn.
  std::vector<DatasetItem> items;
  std::vector<DatasetClass> classes;                 ///< Those without an item are dropped.
  std::function<Image(std::uint64_t drawing)> draw;  ///< Draws an image; empty: images are files. Must be safe to call concurrently.
};

/// Labelled images, decoded or drawn when asked for. Immutable; copies share everything; concurrent use is safe.
class Dataset {
 public:
  Dataset() : Dataset(DatasetContents{}) {}

  /// Throws InvalidArgument for more than kMaxRows items, a label without a class or a class given twice.
  explicit Dataset(DatasetContents contents);

  const std::string& name() const { return contents_->name; }
  const std::string& split() const { return contents_->split; }
  const std::string& notes() const { return contents_->notes; }

  std::size_t size() const { return contents_->items.size(); }
  bool empty() const { return size() == 0; }
  std::int64_t label(std::size_t item) const { return labels()[item]; }
  std::span<const std::int64_t> labels() const { return *labels_; }
  const std::string& id(std::size_t item) const { return contents_->items[item].id; }
  /// Where the file is; empty for a drawn image.
  std::filesystem::path path(std::size_t item) const;
  /// Decodes or draws one image. Throws IoError for a bad file.
  Image image(std::size_t item, const DecodeOptions& options = {}) const;

  /// The classes that have items, ascending by label.
  std::span<const DatasetClass> classes() const { return contents_->classes; }
  const std::string& class_name(std::int64_t label) const;
  /// Classes with one image; it stays, but can be no anchor and no query's match.
  std::size_t single_image_classes() const { return single_image_classes_; }

  /// Some of the items, in the order given, under the name of another split.
  Dataset select(std::span<const std::size_t> items, const std::string& split) const;
  Dataset select(std::span<const std::size_t> items) const { return select(items, split()); }

 private:
  std::shared_ptr<const DatasetContents> contents_;
  std::shared_ptr<const std::vector<std::int64_t>> labels_;
  std::size_t single_image_classes_ = 0;
};

/// A data set as a protocol divides it.
struct DataSplits {
  Dataset train;
  Dataset test;
  std::optional<Dataset> validation;
  std::optional<Dataset> reserved = {};  ///< Images of training classes that are not trained on; see reserve_images.
};

/// How much of the training half to hold out for choosing settings.
struct ValidationOptions {
  double classes = 0;      ///< 0: none; under 1: this share of the training classes; otherwise this many of them.
  std::int64_t block = 0;  ///< 0: drawn by the seed; 1, 2, ...: the first so many classes in the order of their labels, the next ones, ...
  std::uint64_t seed = 1;  ///< Of those drawn.
  void validate() const;   ///< Throws InvalidArgument naming the field, its value and the allowed range.
};

/// Moves whole classes from training to validation; the test half is left alone. Throws InvalidArgument if fewer than two classes would be
/// on either side, or there is a validation split already.
DataSplits hold_out_classes(DataSplits splits, const ValidationOptions& options);

/// Moves this share of the images of every training class, drawn by the seed, from training to `reserved`: at least two of a class, and
/// none of one that would keep fewer than two. Throws InvalidArgument if the share is not from 0 to 0.5, or if fewer than two classes can
/// spare any.
DataSplits reserve_images(DataSplits splits, double share, std::uint64_t seed);

}  // namespace smartmine
