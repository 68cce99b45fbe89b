#include "smartmine/train/config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "smartmine/core/error.h"
#include "smartmine/core/rows.h"
#include "smartmine/data/dataset.h"
#include "smartmine/data/load.h"
#include "smartmine/model/embedding_model.h"
#include "smartmine/train/system.h"

namespace smartmine {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kAdamRate = 1e-3;  // whatever the loss, for its scale cancels

void whole(const char* name, std::int64_t value, std::int64_t low, std::int64_t high) {
  if (value < low || value > high)
    throw InvalidArgument(fmt::format("{} is {}; it must be a whole number from {} to {}", name, value, low, high));
}

/// low <= value <= high, finite.
void from_to(const char* name, double value, double low, double high) {
  if (value >= low && value <= high && std::isfinite(value)) return;
  throw InvalidArgument(std::isinf(high) ? fmt::format("{} is {}; it must be at least {} and finite", name, value, low)
                                         : fmt::format("{} is {}; it must be from {} to {}", name, value, low, high));
}

void positive(const char* name, double value) {
  if (!(value > 0 && std::isfinite(value))) throw InvalidArgument(fmt::format("{} is {}; it must be above 0 and finite", name, value));
}

void one_of(const char* name, const std::string& value, const std::vector<std::string>& allowed) {
  if (std::find(allowed.begin(), allowed.end(), value) == allowed.end())
    throw InvalidArgument(fmt::format("{} is '{}'; it must be one of {}", name, value, fmt::join(allowed, ", ")));
}

bool of_characters(const std::string& dataset) { return dataset == "glyphs" || dataset == "omniglot"; }

}  // namespace

void TrainConfig::validate() const {
  constexpr std::int64_t kMany = 1'000'000;
  one_of("dataset", dataset, dataset_names());
  if (dataset == "glyphs" && !data_root.empty())
    throw InvalidArgument(fmt::format("data_root is '{}'; glyphs are drawn, so it must be empty", data_root));
  if (dataset != "glyphs" && data_root.empty()) throw InvalidArgument(fmt::format("data_root is empty; it must say where {} is", dataset));
  ValidationOptions{.classes = validation_classes, .block = validation_block}.validate();
  whole("cache_mebibytes", cache_mebibytes, 0, kMany);
  const BackboneTraits* const traits = known_backbone(backbone);
  if (traits == nullptr)
    throw InvalidArgument(fmt::format("backbone is '{}'; it must be one of {}, or a TorchScript file, such as net.pt", backbone,
                                      fmt::join(backbone_names(), ", ")));
  whole("embedding_dim", embedding_dim, 1, static_cast<std::int64_t>(kMaxDimension));
  if (!(dropout >= 0 && dropout < 1)) throw InvalidArgument(fmt::format("dropout is {}; it must be at least 0 and less than 1", dropout));
  one_of("new_layer_start", new_layer_start, {"auto", "random", "components", "discriminants"});
  one_of("pooling", pooling, {"average", "max", "both"});
  one_of("batch_norm", batch_norm, {"auto", "frozen", "batch"});
  if (batch_norm != "auto" && !traits->takes_mean)
    throw InvalidArgument(fmt::format("batch_norm is '{}'; with {} it must be left at auto", batch_norm, traits->name));
  if (pooling != "average" && !traits->pools)
    throw InvalidArgument(
        fmt::format("pooling is '{}'; {} does not pool its last layer, so it must be left at average", pooling, traits->name));
  if (input_size != 0) whole("input_size", input_size, traits->least_size, traits->most_size);
  if (!traits->takes_mean && !(input_mean.empty() && input_deviation.empty()))
    throw InvalidArgument(fmt::format("input_mean is '{}', input_deviation '{}'; {} has its own, so they must be empty", input_mean,
                                      input_deviation, traits->name));
  for (const auto& [name, text] : {std::pair{"input_mean", &input_mean}, {"input_deviation", &input_deviation}})
    if (!text->empty()) parse_channels(name, *text);
  if (image_size != 0) whole("image_size", image_size, 16, 1024);
  if (evaluation_size != 0) whole("evaluation_size", evaluation_size, traits->least_size, 1024);
  if (evaluation_size != 0 && !traits->any_size && evaluation_size != input_size)
    throw InvalidArgument(
        fmt::format("evaluation_size is {}; {} only takes images of its input_size, so it must be 0", evaluation_size, backbone));
  if (channels != 0 && channels != 1 && channels != 3) throw InvalidArgument(fmt::format("channels is {}; it must be 0, 1 or 3", channels));
  find_system(system);
  whole("epochs", epochs, 1, kMany);
  whole("batch_size", batch_size, 1, 65536);
  whole("triplets_per_anchor", triplets_per_anchor, 1, 65536);
  whole("images_per_class", images_per_class, 2, 65536);
  one_of("optimizer", optimizer, {"sgd", "adamw"});
  from_to("learning_rate", learning_rate, 0, kInfinity);
  from_to("new_layer_rate", new_layer_rate, 0, kInfinity);
  if (!(momentum >= 0 && momentum < 1))
    throw InvalidArgument(fmt::format("momentum is {}; it must be at least 0 and less than 1", momentum));
  from_to("weight_decay", weight_decay, 0, kInfinity);
  if (!(weight_average >= 0 && weight_average < 1))
    throw InvalidArgument(fmt::format("weight_average is {}; it must be at least 0 and less than 1", weight_average));
  one_of("rate_schedule", rate_schedule, {"steps", "cosine"});
  if (!(rate_factor > 0 && rate_factor <= 1))
    throw InvalidArgument(fmt::format("rate_factor is {}; it must be above 0 and at most 1", rate_factor));
  whole("rate_every", rate_every, 0, kMany);
  from_to("rate_warmup_epochs", rate_warmup_epochs, 0, static_cast<double>(epochs));
  whole("neighbors", neighbors, 0, static_cast<std::int64_t>(kMaxRows));
  one_of("kappa_fit", kappa_fit, {"log-odds", "linear"});
  if (!(kappa_factor > 0 && kappa_factor <= 1))
    throw InvalidArgument(fmt::format("kappa_factor is {}; it must be above 0 and at most 1", kappa_factor));
  positive("kappa_floor", kappa_floor);
  if (kappa == -1 && !find_system(system).adaptive)
    throw InvalidArgument(
        fmt::format("kappa is -1; {} has no controller to find one, so it must be 0 or at least kappa_floor, {}", system, kappa_floor));
  if (kappa != 0 && kappa != -1 && !(kappa >= kappa_floor && kappa < kInfinity))
    throw InvalidArgument(fmt::format("kappa is {}; it must be 0, -1 or at least kappa_floor, {}", kappa, kappa_floor));
  if (!(target_error > 0 && target_error < 1))
    throw InvalidArgument(fmt::format("target_error is {}; it must be between 0 and 1", target_error));
  from_to("mined_fraction", mined_fraction, 0, 1);
  if (hub_limit != 0 && !(hub_limit >= 1 && hub_limit <= 1e6))
    throw InvalidArgument(fmt::format("hub_limit is {}; it must be 0 or from 1 to 1e6", hub_limit));
  from_to("duplicate_distance", duplicate_distance, 0, 4);
  whole("warmup_epochs", warmup_epochs, -1, kMany);
  one_of("index", index, {"auto", "exact", "fanng"});
  positive("margin", margin);
  for (const auto& [name, value] : {std::pair{"global_weight", global_weight},
                                    {"global_lambda", global_lambda},
                                    {"global_margin", global_margin},
                                    {"npairs_norm_weight", npairs_norm_weight},
                                    {"clustering_gamma", clustering_gamma}})
    from_to(name, value, 0, kInfinity);
  positive("lifted_margin", lifted_margin);
  positive("pairs_margin", pairs_margin);
  positive("multisimilarity_alpha", multisimilarity_alpha);
  positive("multisimilarity_beta", multisimilarity_beta);
  from_to("multisimilarity_base", multisimilarity_base, -1, 1);
  one_of("crop", crop, {"centre", "random", "resized"});
  if (!(min_area > 0 && min_area <= 1)) throw InvalidArgument(fmt::format("min_area is {}; it must be above 0 and at most 1", min_area));
  from_to("max_aspect", max_aspect, 1, 10);
  one_of("flip", flip, {"auto", "on", "off"});
  from_to("colour_jitter", colour_jitter, 0, 1);
  whole("evaluate_every", evaluate_every, 1, kMany);
  for (const std::int64_t epoch : save_epochs) whole("save_epochs", epoch, 0, kMany);
  whole("threads", threads, 0, 1024);
  one_of("device", device, {"auto", "cpu", "cuda"});
  one_of("precision", precision, {"auto", "float32", "bfloat16"});
}

bool TrainConfig::pretrained() const { return !weights.empty() || is_backbone_file(backbone); }

TrainConfig TrainConfig::resolved() const {
  TrainConfig full = *this;
  if (full.channels == 0) full.channels = of_characters(dataset) && backbone == "small" ? 1 : 3;
  if (full.batch_norm == "auto" && backbone != "small" && backbone != "googlenet") full.batch_norm = pretrained() ? "frozen" : "batch";
  if (full.learning_rate == 0)
    full.learning_rate = optimizer == "adamw"
                             ? kAdamRate * (pretrained() ? 0.1 : 1)
                             : find_system(system).learning_rate * (pretrained() ? find_system(system).pretrained_rate : 1);
  if (full.new_layer_rate == 0) full.new_layer_rate = pretrained() ? 10 : 1;
  if (full.warmup_epochs == -1) full.warmup_epochs = pretrained() ? 2 : 1;
  if (full.backbone == "small" && full.input_size == 0) full.input_size = 32;
  if (full.backbone == "small" && full.image_size == 0) full.image_size = full.input_size * 9 / 8;
  if (full.flip == "auto") full.flip = of_characters(dataset) ? "off" : "on";
  if (full.kappa == 0) full.kappa = std::max(find_system(system).adaptive ? 4.0 : 8.0, kappa_floor);
  return full;
}

double TrainConfig::scheduled_rate(double done) const {
  const double warm = rate_warmup_epochs == 0 ? 1 : std::min(1.0, done / rate_warmup_epochs);
  if (rate_schedule == "cosine") return learning_rate * warm * (1 + std::cos(std::numbers::pi * done / static_cast<double>(epochs))) / 2;
  const double changes = rate_every == 0 ? 0 : std::floor(done / static_cast<double>(rate_every));
  return learning_rate * warm * std::pow(rate_factor, changes);
}

std::string to_toml(const std::string& value) {
  return value.find('"') == std::string::npos ? fmt::format("\"{}\"", value) : fmt::format("'{}'", value);
}
std::string to_toml(std::int64_t value) { return fmt::format("{}", value); }
std::string to_toml(std::uint64_t value) { return fmt::format("{}", value); }
std::string to_toml(double value) { return fmt::format("{}", value); }
std::string to_toml(bool value) { return value ? "true" : "false"; }
std::string to_toml(const std::vector<std::int64_t>& value) { return fmt::format("[{}]", fmt::join(value, ", ")); }

std::string to_toml(const TrainConfig& config) {
  std::string text;
  visit_settings(config, [&](const Setting& setting, const auto& value) {
    if constexpr (requires { value.empty(); })
      if (value.empty()) return;  // the default of these, and CLI11 would not read it back
    text += fmt::format("{} = {}\n", setting.name, to_toml(value));
  });
  return text;
}

}  // namespace smartmine
