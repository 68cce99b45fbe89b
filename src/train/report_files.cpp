#include "train/report_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <system_error>
#include <unordered_map>
#include <utility>

#include "smartmine/core/error.h"
#include "smartmine/core/output_file.h"
#include "smartmine/core/random.h"
#include "smartmine/data/data_uri.h"
#include "smartmine/data/image.h"

namespace smartmine {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kSide = 96;  // pixels, at most
constexpr int kQuality = 80;
constexpr std::size_t kImages = 20'000;  // of the evaluated split, at most; of a larger one, every so many
constexpr std::size_t kAnchors = 24;  // for a report to choose from: what later epochs will mine nobody knows yet
constexpr std::size_t kTriplets = 4;  // of an anchor, at most
constexpr std::size_t kEpochs = 4;
enum Purpose : std::uint64_t { kAnchorChoice = 0x7265706f, kRandomChoice };

/// The middle of an image as a small JPEG; never enlarged. Empty for one that cannot be read (any more).
std::vector<std::byte> small_jpeg(const Dataset& dataset, std::size_t item) {
  try {
    const Image image = dataset.image(item, {.enough_width = kSide, .enough_height = kSide});
    const std::size_t side = std::min({kSide, image.width, image.height});
    return encode_jpeg(resize_to_cover(image, side, side), kQuality);
  } catch (const IoError&) {
    return {};
  }
}

void write_text(OutputFile& file, const Json& json) {
  const std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);  // names of files may be no text at all
  file.write(text.data(), text.size());
}

void write_images(const std::filesystem::path& folder, const Dataset& dataset, const std::atomic<bool>& stop) {
  OutputFile jpegs(folder / "evaluation.jpegs");
  const std::size_t every = (dataset.size() + kImages - 1) / kImages;
  Json names = Json::array();
  Json offsets = Json::array({0});
  std::size_t offset = 0;
  for (std::size_t item = 0; item < dataset.size(); ++item) {
    if (stop) return;
    if (item % every == 0) {
      const auto file = small_jpeg(dataset, item);
      jpegs.write(file.data(), file.size());
      offset += file.size();
    }
    names.push_back(dataset.id(item));
    offsets.push_back(offset);
  }
  Json classes = Json::array();
  for (const DatasetClass& each : dataset.classes()) classes.push_back({{"label", each.label}, {"name", each.name}});
  const auto labels = dataset.labels();
  OutputFile json(folder / "evaluation.json");
  write_text(json, {{"split", dataset.split()},
                    {"names", std::move(names)},
                    {"labels", std::vector<std::int64_t>(labels.begin(), labels.end())},
                    {"classes", std::move(classes)},
                    {"image_offsets", std::move(offsets)}});
  commit_all({jpegs, json});
}

void write_triplets(const std::filesystem::path& folder, const ShownTriplets& shown, const Dataset& dataset,
                    const std::vector<std::vector<double>>& distances) {
  std::vector<Json> pictures;
  for (const std::uint32_t item : shown.items) {
    const auto file = small_jpeg(dataset, item);
    pictures.push_back({{"name", dataset.id(item)},
                        {"class", dataset.class_name(dataset.label(item))},
                        {"image", file.empty() ? Json() : Json(jpeg_data_uri(file))}});
  }
  Json anchors = Json::array();
  for (std::size_t a = 0; a < shown.anchors.size(); ++a) {
    const auto& anchor = shown.anchors[a];
    std::size_t next = 0;
    const auto list = [&](const std::vector<ShownTriplets::One>& triplets) {
      Json json = Json::array();
      for (const auto& one : triplets) {
        Json positive = pictures[one.positive];
        Json negative = pictures[one.negative];
        positive["distance"] = distances[a][next++];
        negative["distance"] = distances[a][next++];
        json.push_back({{"positive", std::move(positive)}, {"negative", std::move(negative)}, {"kind", one.mined ? "mined" : "random"}});
      }
      return json;
    };
    Json json = pictures[anchor.item];
    json["mined"] = list(anchor.trained);
    json["random"] = list(anchor.random);
    anchors.push_back(std::move(json));
  }
  OutputFile file(folder / fmt::format("triplets-{:04}.json", shown.epoch));
  write_text(file, {{"epoch", shown.epoch}, {"kappa", shown.kappa ? Json(*shown.kappa) : Json()}, {"anchors", std::move(anchors)}});
  file.commit();
}

std::vector<std::uint32_t> choose_anchors(const LabelIndex& labels, std::uint64_t seed) {
  std::vector<std::uint32_t> all = labels.anchors();
  Random random(seed, kAnchorChoice);
  shuffle(all, random);
  std::set<std::uint32_t> classes;
  std::stable_partition(all.begin(), all.end(), [&](std::uint32_t item) { return classes.insert(labels.class_of(item)).second; });
  all.resize(std::min(kAnchors, all.size()));
  return all;
}

}  // namespace

bool is_report_epoch(const RunConfig& config, std::int64_t epoch) {
  const auto& saved = config.output.save_epochs;
  if (!saved.empty()) return std::find(saved.begin(), saved.end(), epoch) != saved.end();
  const std::int64_t first = std::min(config.mining.warmup_epochs.value_or(0) + 1, config.schedule.epochs);
  for (std::size_t i = 0; i < kEpochs; ++i) {
    const double place = static_cast<double>(i) / static_cast<double>(kEpochs - 1);
    if (epoch == first + std::lround(place * static_cast<double>(config.schedule.epochs - first))) return true;
  }
  return false;
}

ShownTriplets choose_triplets(const EpochPlan& plan, const LabelIndex& labels, std::uint64_t seed, std::int64_t epoch) {
  ShownTriplets shown;
  shown.epoch = epoch;
  std::unordered_map<std::uint32_t, std::uint32_t> numbers;
  const auto number_of = [&](std::uint32_t item) {
    const auto [place, added] = numbers.emplace(item, static_cast<std::uint32_t>(shown.items.size()));
    if (added) shown.items.push_back(item);
    return place->second;
  };
  for (const std::uint32_t item : choose_anchors(labels, seed)) {
    ShownTriplets::Anchor anchor{.item = number_of(item), .trained = {}, .random = {}};
    for (std::size_t i = 0; i < plan.triplets.size() && anchor.trained.size() < kTriplets; ++i) {
      if (plan.triplets[i].anchor != item) continue;
      anchor.trained.push_back({.positive = number_of(plan.triplets[i].positive),
                                .negative = number_of(plan.triplets[i].negative),
                                .mined = is_mined(plan.origins[i])});
    }
    Random random(epoch_seed(seed, kRandomChoice, epoch), item);
    const std::uint32_t own = labels.class_of(item);
    const auto members = labels.members(own);
    for (std::size_t i = 0; i < std::max<std::size_t>(1, anchor.trained.size()); ++i) {
      std::uint32_t positive = item;
      while (positive == item) positive = members[random.below(members.size())];
      auto negative = static_cast<std::uint32_t>(random.below(labels.size()));
      while (labels.class_of(negative) == own) negative = static_cast<std::uint32_t>(random.below(labels.size()));
      anchor.random.push_back({.positive = number_of(positive), .negative = number_of(negative)});
    }
    shown.anchors.push_back(std::move(anchor));
  }
  return shown;
}

ReportFiles::~ReportFiles() {
  stop_ = true;
  for (std::future<void>* job : {&images_, &triplets_})
    if (job->valid()) job->wait();
}

void ReportFiles::save_images(const Dataset& dataset) {
  std::error_code none;
  if (std::filesystem::exists(folder_ / "evaluation.json", none)) return;
  make_folders(folder_);
  images_ = std::async(std::launch::async, [this, dataset] { write_images(folder_, dataset, stop_); });
}

void ReportFiles::save_triplets(const ShownTriplets& shown, const Rows& rows, const Dataset& dataset) {
  finish_triplets();  // of an epoch that was undone
  make_folders(folder_);
  std::vector<std::vector<double>> distances;
  for (const auto& anchor : shown.anchors) {
    auto& own = distances.emplace_back();
    for (const auto* list : {&anchor.trained, &anchor.random})
      for (const auto& one : *list)
        for (const std::uint32_t other : {one.positive, one.negative})
          own.push_back(std::round(1e4 * squared_distance<double>(rows[anchor.item], rows[other], rows.dimension())) / 1e4);
  }
  triplets_ = std::async(std::launch::async,
                         [this, shown, dataset, distances = std::move(distances)] { write_triplets(folder_, shown, dataset, distances); });
}

void ReportFiles::finish_triplets() {
  if (triplets_.valid()) triplets_.get();
}

void ReportFiles::finish() {
  finish_triplets();
  if (images_.valid()) images_.get();
}

}  // namespace smartmine
