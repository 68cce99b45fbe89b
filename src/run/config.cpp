#include "smartmine/run/config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <map>
#include <numbers>
#include <sstream>

#include "smartmine/core/error.h"
#include "smartmine/data/dataset.h"
#include "smartmine/run/backbone_traits.h"
#include "smartmine/run/config_settings.h"

namespace smartmine {
namespace {

constexpr double kAdamRate = 1e-3;        // whatever the loss, for its scale cancels
constexpr double kPretrainedAdam = 0.25;  // times that
constexpr double kReserved = 0.1;         // of every class, for the validation error
const std::string kUsualSystem = "triplet-fanng-global-adaptive";

const auto check = [](const Setting& setting, const auto& value) { check_value(setting, value); };

bool of_characters(const std::string& dataset) { return dataset == "glyphs" || dataset == "omniglot"; }

/// Sets what one section of a file holds; of a name that stands there twice, the last.
void set_entries(RunConfig& config, const TomlFile& file, std::string_view section) {
  std::map<std::string, const TomlEntry*> by_name;
  for (const TomlEntry& entry : file.entries)
    if (entry.section == section) by_name[entry.name] = &entry;
  visit_settings(config, [&](const Setting& setting, auto& field) {
    const auto found = by_name.find(std::string(setting.name));
    if (found != by_name.end()) parse_value(setting, found->second->value, field);
  });
}

bool is_setting(const std::string& name) {
  bool known = false;
  const RunConfig config;
  visit_settings(config, [&](const Setting& setting, const auto&) { known = known || setting.name == name; });
  return known;
}

std::string text_of(const RunConfig& config, const std::string& name) {
  std::string text;
  visit_settings(config, [&](const Setting& setting, const auto& value) {
    if (setting.name == name) text = to_toml(value);
  });
  return text;
}

}  // namespace

void DataOptions::validate() const {
  visit_data_settings(*this, check);
  visit_picture_settings(*this, check);
  if (dataset == "glyphs" && !root.empty())
    throw InvalidArgument(fmt::format("data-root is '{}'; glyphs are drawn, so it must not be given", root));
  if (dataset != "glyphs" && root.empty())
    throw InvalidArgument(fmt::format("data-root is not given; it must say where the images of {} are", dataset));
  ValidationOptions{.classes = validation_classes, .block = validation_block}.validate();
}

void NetworkOptions::validate() const {
  visit_model_settings(*this, check);
  const BackboneTraits* const traits = known_backbone(backbone);
  if (traits == nullptr)
    throw InvalidArgument(fmt::format("backbone is '{}'; it must be one of {}, or a TorchScript file, such as net.pt", backbone,
                                      fmt::join(backbone_names(), ", ")));
  if (batch_norm != "auto" && !traits->takes_mean)
    throw InvalidArgument(fmt::format("batch-norm is '{}'; with {} it must be left at auto", batch_norm, traits->name));
  if (pooling != "average" && !traits->pools)
    throw InvalidArgument(
        fmt::format("pooling is '{}'; {} does not pool its last layer, so it must be left at average", pooling, traits->name));
  if (!traits->takes_mean && !(input_mean.empty() && input_deviation.empty()))
    throw InvalidArgument(fmt::format("input-mean is '{}', input-deviation '{}'; {} has its own, so they must be empty", input_mean,
                                      input_deviation, traits->name));
  if (!input_mean.empty()) parse_mean("input-mean", input_mean);
  if (!input_deviation.empty()) parse_deviation("input-deviation", input_deviation);
  const auto in_range = [&](const char* name, const std::optional<std::int64_t>& size, std::int64_t low, std::int64_t high) {
    if (size && (*size < low || *size > high))
      throw InvalidArgument(fmt::format("{} is {}; for {} it must be a whole number from {} to {}", name, *size, traits->name, low, high));
  };
  in_range("input-size", input_size, traits->least_size, traits->most_size);
  in_range("evaluation-size", evaluation_size, traits->least_size, 1024);
  if (evaluation_size && !traits->any_size && evaluation_size != input_size)
    throw InvalidArgument(
        fmt::format("evaluation-size is {}; {} only takes images of its input-size, so it must be auto", *evaluation_size, backbone));
  if (channels && *channels == 2) throw InvalidArgument("channels is 2; it must be auto, 1 or 3");
}

bool NetworkOptions::pretrained() const { return !weights.empty() || is_backbone_file(backbone); }

void SystemOptions::validate() const {
  visit_system_settings(*this, check);
  visit_loss_settings(*this, check);
}

const std::string& SystemOptions::usual_name() const { return name == "auto" ? kUsualSystem : name; }

void MiningOptions::validate() const {
  visit_mining_settings(*this, check);
  if (kappa && *kappa < kappa_floor)
    throw InvalidArgument(fmt::format("kappa is {}; it must be auto or at least kappa-floor, {}", *kappa, kappa_floor));
  if (index == "exact" && graph_start != "auto")
    throw InvalidArgument(fmt::format("graph-start is '{}'; with index exact there is no graph, so it must be auto", graph_start));
  if (longest_list && !longer_lists)
    throw InvalidArgument(fmt::format("longest-list is {}; without longer-lists it must be auto", *longest_list));
  if (longest_list && neighbors && *longest_list < *neighbors)
    throw InvalidArgument(fmt::format("longest-list is {}; it must be auto or at least neighbors, {}", *longest_list, *neighbors));
  if (hub_limit != 0 && hub_limit < 1) throw InvalidArgument(fmt::format("hub-limit is {}; it must be 0 or from 1 to 1e6", hub_limit));
}

void ScheduleOptions::validate() const {
  visit_schedule_settings(*this, check);
  if (rate_warmup_epochs > static_cast<double>(epochs))
    throw InvalidArgument(fmt::format("rate-warmup-epochs is {}; it must be from 0 to epochs, {}", rate_warmup_epochs, epochs));
}

void ChoosingOptions::validate() const {
  visit_choosing_settings(*this, check);
  budget_seconds();
}

double ChoosingOptions::budget_seconds() const {
  if (budget.empty()) return 0;
  double amount = 0;
  const auto [end, error] = std::from_chars(budget.data(), budget.data() + budget.size(), amount);
  const std::string_view unit(end, static_cast<std::size_t>(budget.data() + budget.size() - end));
  const double seconds = unit == "s" || unit.empty() ? 1 : unit == "m" ? 60 : unit == "h" ? 3600 : 0;
  if (error != std::errc() || !(amount > 0 && std::isfinite(amount)) || seconds == 0)
    throw InvalidArgument(fmt::format("budget is '{}'; it must be a time above 0 such as 90s, 10m or 2h", budget));
  return amount * seconds;
}

void OutputOptions::validate() const { visit_output_settings(*this, check); }
void ComputeOptions::validate() const { visit_compute_settings(*this, check); }

void RunConfig::validate() const {
  data.validate();
  model.validate();
  system.validate();
  mining.validate();
  schedule.validate();
  choosing.validate();
  output.validate();
  compute.validate();
  const SystemTraits* traits = known_traits(system.name);
  if (mining.find_kappa && traits != nullptr && !traits->adaptive)
    throw InvalidArgument(fmt::format("find-kappa is true; {} has no controller to find one, so it must be false", system.name));
  if (mining.longer_lists && traits != nullptr && traits->groups)
    throw InvalidArgument(fmt::format("longer-lists is true; {} mines no triplets that they could help, so it must be false", system.name));
  if (data.turned_classes && traits != nullptr && traits->remembers)
    throw InvalidArgument(fmt::format("turned-classes is true; what {} remembers is not turned, so it must be false", system.name));
  if (mining.target == "validation" && traits != nullptr && !traits->adaptive)
    throw InvalidArgument(fmt::format("target is 'validation'; {} has no controller to aim, so it must be constant", system.name));
  if (mining.target == "validation" && data.reserved_images == 0.0)
    throw InvalidArgument("reserved-images is 0; with target validation it must be auto or above 0");
}

bool RunConfig::chooses() const {
  if (choosing.choose != "auto") return choosing.choose == "on";
  const bool own = data.dataset == "folder" || model.pretrained();
  return own && !schedule.learning_rate && data.validation_classes == 0 && schedule.epochs > 0;
}

bool RunConfig::chooses_system() const { return system.name == "auto" && chooses() && !model.pretrained(); }

RunConfig RunConfig::resolved() const {
  const SystemTraits* const traits = known_traits(system.usual_name());
  RunConfig full = resolved(traits == nullptr ? SystemTraits{} : *traits);
  if (!chooses_system()) return full;
  full.system.name = system.name;
  full.schedule.learning_rate = schedule.learning_rate;
  full.mining.kappa = mining.kappa;
  full.mining.target_error = mining.target_error;
  return full;
}

RunConfig RunConfig::resolved(const SystemTraits& traits) const {
  RunConfig full = *this;
  const bool small = model.backbone == "small", pretrained = model.pretrained();
  if (system.name == "auto") full.system.name = traits.name.empty() ? kUsualSystem : traits.name;
  full.choosing.choose = chooses() ? "on" : "off";
  if (full.model.batch_norm == "auto" && !small && model.backbone != "googlenet") full.model.batch_norm = pretrained ? "frozen" : "batch";
  if (!full.model.channels) full.model.channels = of_characters(data.dataset) && small ? 1 : 3;
  if (!full.schedule.learning_rate)
    full.schedule.learning_rate = schedule.optimizer == "adamw" ? kAdamRate * (pretrained ? kPretrainedAdam : 1)
                                                                : traits.learning_rate * (pretrained ? traits.pretrained_rate : 1);
  if (!full.schedule.new_layer_rate) full.schedule.new_layer_rate = pretrained ? 10 : 1;
  if (!full.mining.warmup_epochs) full.mining.warmup_epochs = pretrained ? 2 : 1;
  if (!full.data.reserved_images) full.data.reserved_images = mining.target == "validation" ? kReserved : 0;
  if (mining.index == "auto" && mining.graph_start != "auto") full.mining.index = "fanng";  // who names its start wants one
  if (small && !full.model.input_size) full.model.input_size = 32;
  if (small && !full.model.image_size) full.model.image_size = *full.model.input_size * 9 / 8;
  if (full.data.flip == "auto") full.data.flip = of_characters(data.dataset) ? "off" : "on";
  if (!full.mining.kappa && !mining.find_kappa)
    full.mining.kappa = std::max(traits.kappa.value_or(traits.adaptive ? 4 : 8), mining.kappa_floor);
  if (!full.mining.target_error) full.mining.target_error = traits.target_error;
  if (!full.compute.shards) full.compute.shards = 1;
  return full;
}

double ScheduleOptions::rate(double done) const {
  require(learning_rate.has_value(), "the rate of a schedule that is not resolved");
  const double warm = rate_warmup_epochs == 0 ? 1 : std::min(1.0, done / rate_warmup_epochs);
  if (rate_schedule == "cosine") return *learning_rate * warm * (1 + std::cos(std::numbers::pi * done / static_cast<double>(epochs))) / 2;
  const double changes = rate_every == 0 ? 0 : std::floor(done / static_cast<double>(rate_every));
  return *learning_rate * warm * std::pow(rate_factor, changes);
}

RunConfig best_config() {
  RunConfig config;
  config.model.embedding_dim = 512;
  config.model.image_size = 288;
  config.model.input_size = 256;
  config.model.evaluation_size = 288;
  config.model.new_layer_start = "components";
  config.model.pooling = "both";
  config.data.crop = "resized";
  config.data.min_area = 0.2;
  config.data.colour_jitter = 0.3;
  config.system.name = "class-batch";
  config.system.batch_size = 64;
  config.system.triplets_per_anchor = 1;
  config.schedule.optimizer = "adamw";
  config.schedule.new_layer_rate = 1;
  config.schedule.rate_schedule = "cosine";
  config.schedule.epochs = 8;
  config.schedule.rate_warmup_epochs = 1;
  config.schedule.weight_average = 0.99;
  return config;
}

std::string to_toml(const RunConfig& config) {
  std::string text;
  visit_settings(config, [&](const Setting& setting, const auto& value) {
    if constexpr (requires { value.empty(); })
      if (value.empty()) return;  // the default of these
    text += fmt::format("{} = {}\n", setting.name, to_toml(value));
  });
  return text;
}

void set_from_toml(RunConfig& config, std::string_view text) {
  const TomlFile file = parse_toml(text);
  if (!file.bad_lines.empty())
    throw InvalidArgument(fmt::format("line {} is neither a [section] nor a name = value", file.bad_lines.front()));
  for (const TomlEntry& entry : file.entries) {
    const bool of_system = entry.section.starts_with("train.");
    if (!entry.section.empty() && entry.section != "train" && !of_system)
      throw InvalidArgument(fmt::format("line {}: unknown section [{}]", entry.line, entry.section));
    if (!is_setting(entry.name)) throw InvalidArgument(fmt::format("line {}: unknown setting {}", entry.line, entry.name));
  }
  set_entries(config, file, "");
  set_entries(config, file, "train");
  set_entries(config, file, "train." + config.system.usual_name());
}

RunConfig read_config(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  try {
    if (!file) throw InvalidArgument("cannot be read");
    RunConfig config;
    set_from_toml(config, text.str());
    config.validate();
    return config;
  } catch (const InvalidArgument& error) {
    throw IoError(fmt::format("{}: {}", path.string(), error.what()));
  }
}

void set_given(RunConfig& config, std::span<const GivenSetting> given) {
  for (const GivenSetting& each : given)
    visit_settings(config, [&](const Setting& setting, auto& value) {
      if (setting.name == each.first) parse_value(setting, each.second, value);
    });
}

RunConfig resumed_config(const RunConfig& saved, std::span<const GivenSetting> given) {
  RunConfig config = saved, wanted = saved;
  set_given(wanted, given);
  const RunConfig full = wanted.resolved();
  std::vector<std::string> differences;
  for (const GivenSetting& each : given) {
    const std::string& name = each.first;
    const bool longer = name == "epochs" && wanted.schedule.epochs > saved.schedule.epochs;  // what is trained already stays as it is
    if (longer || changes_of(name) == Changes::kNothing) {
      set_given(config, std::span(&each, 1));
    } else if (const std::string has = text_of(saved, name), asked = text_of(full, name); has != asked) {
      differences.push_back(fmt::format("--{} is {}, the run has {}", name, asked, has));
    }
  }
  if (!differences.empty()) throw InvalidArgument(fmt::format("{}", fmt::join(differences, "; ")));
  return config;
}

Changes changes_of(std::string_view name) {
  Changes changes = Changes::kResult;
  const RunConfig config;
  visit_settings(config, [&](const Setting& setting, const auto&) {
    if (setting.name == name) changes = setting.changes;
  });
  return changes;
}

}  // namespace smartmine
