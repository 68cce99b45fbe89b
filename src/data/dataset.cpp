#include "smartmine/data/dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "smartmine/core/error.h"
#include "smartmine/core/random.h"
#include "smartmine/core/rows.h"

namespace smartmine {

Dataset::Dataset(DatasetContents contents) {
  if (contents.items.size() > kMaxRows)
    throw InvalidArgument(fmt::format("{}: {} images; at most {} are possible", contents.name, contents.items.size(), kMaxRows));
  std::unordered_map<std::int64_t, std::size_t> counts;
  for (const DatasetClass& each : contents.classes)
    if (!counts.emplace(each.label, 0).second) throw InvalidArgument(fmt::format("{}: class {} is given twice", contents.name, each.label));
  std::vector<std::int64_t> labels;
  labels.reserve(contents.items.size());
  for (const DatasetItem& item : contents.items) {
    const auto found = counts.find(item.label);
    if (found == counts.end())
      throw InvalidArgument(fmt::format("{}: {} has label {}, which is no class", contents.name, item.id, item.label));
    ++found->second;
    labels.push_back(item.label);
  }
  std::erase_if(contents.classes, [&](const DatasetClass& each) { return counts.at(each.label) == 0; });
  std::sort(contents.classes.begin(), contents.classes.end(), [](const auto& a, const auto& b) { return a.label < b.label; });
  for (const DatasetClass& each : contents.classes)
    if (counts.at(each.label) == 1) ++single_image_classes_;
  labels_ = std::make_shared<const std::vector<std::int64_t>>(std::move(labels));
  contents_ = std::make_shared<const DatasetContents>(std::move(contents));
}

std::filesystem::path Dataset::path(std::size_t item) const {
  return contents_->draw ? std::filesystem::path() : contents_->root / id(item);
}

Image Dataset::image(std::size_t item, const DecodeOptions& options) const {
  require(item < size(), "an image beyond the end of a data set");
  return contents_->draw ? contents_->draw(contents_->items[item].drawing) : decode_image(path(item), options);
}

const std::string& Dataset::class_name(std::int64_t label) const {
  const auto& classes = contents_->classes;
  const auto found =
      std::lower_bound(classes.begin(), classes.end(), label, [](const auto& each, auto wanted) { return each.label < wanted; });
  if (found == classes.end() || found->label != label) throw InvalidArgument(fmt::format("{}: {} is no label of a class", name(), label));
  return found->name;
}

Dataset Dataset::select(std::span<const std::size_t> items, const std::string& split) const {
  DatasetContents part;
  part.name = name();
  part.split = split;
  part.notes = notes();
  part.root = contents_->root;
  part.classes = contents_->classes;
  part.draw = contents_->draw;
  part.items.reserve(items.size());
  for (const std::size_t item : items) {
    require(item < size(), "an image beyond the end of a data set");
    part.items.push_back(contents_->items[item]);
  }
  return Dataset(std::move(part));
}

void ValidationOptions::validate() const {
  if (!(classes >= 0) || !std::isfinite(classes))
    throw InvalidArgument(fmt::format("validation_classes is {}; it must be 0 (none), a share under 1 or a number of classes", classes));
  if (classes >= 1 && classes != std::floor(classes))
    throw InvalidArgument(fmt::format("validation_classes is {}; from 1 on it must be a whole number of classes", classes));
  if (block < 0) throw InvalidArgument(fmt::format("validation_block is {}; it must be 0 (drawn) or from 1 on", block));
  if (block > 0 && classes == 0) throw InvalidArgument(fmt::format("validation_block is {}, but validation_classes is 0", block));
}

DataSplits hold_out_classes(DataSplits splits, const ValidationOptions& options) {
  options.validate();
  if (options.classes == 0) return splits;
  if (splits.validation)
    throw InvalidArgument(
        fmt::format("validation_classes is {}; {} has a validation split already, so it must be 0", options.classes, splits.train.name()));
  const auto all = splits.train.classes();
  const auto total = static_cast<double>(all.size());
  const double wanted = options.classes < 1 ? std::round(options.classes * total) : options.classes;
  if (wanted < 2 || wanted > total - 2)
    throw InvalidArgument(
        fmt::format("validation_classes is {}, that is {} of {} training classes; at least 2 must be held out and 2 must be left",
                    options.classes, wanted, all.size()));
  std::vector<std::int64_t> labels;
  for (const DatasetClass& each : all) labels.push_back(each.label);
  const auto count = static_cast<std::size_t>(wanted);
  const auto blocks = static_cast<std::int64_t>(labels.size() / count);
  if (options.block > blocks)
    throw InvalidArgument(
        fmt::format("validation_block is {}; {} training classes have {} blocks of {}", options.block, labels.size(), blocks, count));
  constexpr std::uint64_t kStream = 0x76616c6964;
  Random random(options.seed, kStream);
  std::unordered_set<std::int64_t> held_out;
  if (options.block > 0) {
    std::sort(labels.begin(), labels.end());
    const auto begin = labels.begin() + (options.block - 1) * static_cast<std::int64_t>(count);
    held_out.insert(begin, begin + static_cast<std::int64_t>(count));
  } else {
    shuffle_first(labels, count, random);
    held_out.insert(labels.begin(), labels.begin() + static_cast<std::ptrdiff_t>(count));
  }
  std::vector<std::size_t> stay;
  std::vector<std::size_t> go;
  for (std::size_t i = 0; i < splits.train.size(); ++i) (held_out.contains(splits.train.label(i)) ? go : stay).push_back(i);
  splits.validation = splits.train.select(go, "validation");
  splits.train = splits.train.select(stay);
  return splits;
}

}  // namespace smartmine
