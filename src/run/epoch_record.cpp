#include "smartmine/run/epoch_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "run/log_file.h"
#include "smartmine/core/error.h"

namespace smartmine {
namespace {

template <class Stats, class Visit>
void visit_mining(Stats& s, const Visit& visit) {
  visit("triplets", s.triplets);
  visit("anchors", s.anchors);
  visit("anchors_skipped", s.anchors_skipped);
  visit("mined", s.mined);
  visit("mined_outside_positive", s.mined_outside_positive);
  visit("mined_nearer_positive", s.mined_nearer_positive);
  visit("random_no_positive", s.random_no_positive);
  visit("random_no_negative", s.random_no_negative);
  visit("random_no_farther_positive", s.random_no_farther_positive);
  visit("random_by_share", s.random_by_share);
  visit("mined_violating", s.mined_violating);
  visit("outside_violating", s.outside_violating);
  visit("duplicates_skipped", s.duplicates_skipped);
  visit("cap_skipped", s.cap_skipped);
  visit("negatives_forced", s.negatives_forced);
  visit("neighbors", s.neighbors);
  visit("lists_walked", s.lists_walked);
  visit("lists_without_positive", s.lists_without_positive);
  visit("lists_without_negative", s.lists_without_negative);
  visit("suggested_neighbors", s.suggested_neighbors);
  visit("extended_anchors", s.extended_anchors);
  visit("extended_neighbors", s.extended_neighbors);
  visit("seconds", s.seconds);
  visit("note", s.note);
}

template <class Lists, class Visit>
void visit_graph(Lists& lists, const Visit& visit) {
  visit("success_rate", lists.success_rate);
  visit("success_bound", lists.success_bound);
  visit("mean_degree", lists.mean_degree);
}

template <class Stats, class Visit>
void visit_grouping(Stats& s, const Visit& visit) {
  visit("batches", s.batches);
  visit("groups", s.groups);
  visit("near_groups", s.near_groups);
  visit("random_groups", s.random_groups);
  visit("repeated", s.repeated);
  visit("copies_skipped", s.copies_skipped);
  visit("copies_left_out", s.copies_left_out);
  visit("alone", s.alone);
  visit("only_copies", s.only_copies);
  visit("lists_without_negative", s.lists_without_negative);
  visit("classes_by_centre", s.classes_by_centre);
  visit("note", s.note);
  visit("seconds", s.seconds);
}

template <class Look, class Visit>
void visit_look(Look& look, const Visit& visit) {
  visit("looked_at", look.batches);
  visit("batch_error", look.error);
  visit("nearest_positive_distance", look.positive_distance);
  visit("nearest_negative_distance", look.negative_distance);
}

Json to_json(const BatchLook& look) {
  Json json;
  visit_look(look, [&](const char* name, const auto& value) { json[name] = value; });
  json["together"] = Json::array();
  for (const BatchLook::Together& each : look.together)
    json["together"].push_back({{"first", each.first}, {"second", each.second}, {"batches", each.batches}});
  return json;
}

BatchLook look_of(const Json& json) {
  BatchLook look;
  visit_look(look, [&](const char* name, auto& value) { json.at(name).get_to(value); });
  for (const Json& each : json.at("together"))
    look.together.push_back(
        {each.at("first").get<std::string>(), each.at("second").get<std::string>(), each.at("batches").get<std::size_t>()});
  return look;
}

// Medians and ends of the distances, for reports; they are not read back into quantiles.
void add_distances(Json& json, const char* name, const Quantiles& quantiles) {
  constexpr std::size_t kMedian = 3;
  if (quantiles.count == 0) return;
  json[fmt::format("{}_distance_min", name)] = quantiles.values.front();
  json[fmt::format("{}_distance_median", name)] = quantiles.values[kMedian];
  json[fmt::format("{}_distance_max", name)] = quantiles.values.back();
}

}  // namespace

std::size_t DistanceCounts::bin(double squared_distance) {
  if (!(squared_distance > 0)) return 0;
  return static_cast<std::size_t>(std::min(squared_distance / kMax * kBins, static_cast<double>(kBins - 1)));
}

double EpochRecord::seconds() const {
  double sum = 0;
  for (const auto& [stage, seconds] : stage_seconds) sum += seconds;
  return sum;
}

double EpochRecord::images_per_second() const {
  const auto steps_seconds = stage_seconds.find("steps");
  return steps_seconds == stage_seconds.end() || steps_seconds->second <= 0 ? 0 : static_cast<double>(images) / steps_seconds->second;
}

void StepLosses::add(std::size_t step, double loss) {
  if (step % every != 0) return;
  values.push_back(std::isfinite(loss) ? std::stod(fmt::format("{:.4g}", loss)) : std::numeric_limits<double>::quiet_NaN());
}

std::string to_json_line(const EpochRecord& record) {
  Json json;
  json["epoch"] = record.epoch;
  if (!record.device.empty()) json["device"] = record.device;
  const bool trained = record.steps > 0;
  const auto if_trained = [&](const auto& value) { return trained ? Json(value) : Json(); };
  json["training_error"] = if_trained(record.training_error());
  if (record.validation_error) json["validation_error"] = *record.validation_error;
  if (record.reserved_error) json["reserved_error"] = *record.reserved_error;
  json["kappa"] = record.kappa ? Json(*record.kappa) : Json();
  if (record.target_error) json["target_error"] = *record.target_error;
  if (!record.kappa_reason.empty()) json["kappa_reason"] = record.kappa_reason;
  json["loss"] = if_trained(record.loss());
  json["learning_rate"] = if_trained(record.learning_rate);
  json["spread"] = if_trained(record.spread);
  json["steps"] = record.steps;
  json["skipped_steps"] = record.skipped_steps;
  json["images"] = record.images;
  json["images_per_second"] = if_trained(record.images_per_second());
  json["active"] = record.active;
  json["terms"] = record.terms;
  json["loss_sum"] = record.loss_sum;
  if (record.step_losses) json["step_losses"] = {{"every", record.step_losses->every}, {"values", record.step_losses->values}};
  for (const auto& [part, sum] : record.loss_part_sums) {
    json["loss_parts"][part] = record.steps == record.skipped_steps ? 0 : sum / static_cast<double>(record.steps - record.skipped_steps);
    json["loss_part_sums"][part] = sum;
  }
  if (record.distances)
    json["distances"] = {{"positive", record.distances->positive}, {"negative", record.distances->negative}, {"max", DistanceCounts::kMax}};
  json["seconds"] = record.seconds();
  json["stage_seconds"] = Json(record.stage_seconds);
  if (record.lists) {
    json["lists"] = {
        {"index", record.lists->index}, {"recall", record.lists->recall}, {"distance_computations", record.lists->distance_computations}};
    visit_graph(*record.lists, [&](const char* name, const std::optional<double>& value) {
      if (value) json["lists"][name] = *value;
    });
    if (!record.lists->start.empty()) json["lists"]["start"] = record.lists->start;
  }
  if (record.mining) {
    Json mining;
    visit_mining(*record.mining, [&](const char* name, const auto& value) { mining[name] = value; });
    add_distances(mining, "positive", record.mining->positive_distances);
    add_distances(mining, "negative", record.mining->negative_distances);
    json["mining"] = std::move(mining);
  }
  if (record.grouping) visit_grouping(*record.grouping, [&](const char* name, const auto& value) { json["grouping"][name] = value; });
  if (record.look) json["grouping"].update(to_json(*record.look));
  if (record.metrics) {
    Json metrics;
    visit_metrics(*record.metrics, [&](const char* name, double value) { metrics[name] = value; });
    json["evaluated_on"] = record.metrics->split;
    json["metrics"] = std::move(metrics);
  }
  json["notes"] = record.notes;
  return json.dump();
}

EpochRecord parse_record(const std::string& line) try {
  return record_of(Json::parse(line));
} catch (const nlohmann::json::exception& error) {
  throw InvalidArgument(fmt::format("not a line of a run's log: {}", reason_of(error)));
}

EpochRecord record_of(const Json& json) try {
  EpochRecord record;
  const auto number = [&](const char* name) { return json.at(name).is_null() ? 0.0 : json.at(name).get<double>(); };
  json.at("epoch").get_to(record.epoch);
  if (json.contains("device")) json["device"].get_to(record.device);
  json.at("steps").get_to(record.steps);
  json.at("skipped_steps").get_to(record.skipped_steps);
  json.at("images").get_to(record.images);
  json.at("active").get_to(record.active);
  json.at("terms").get_to(record.terms);
  json.at("loss_sum").get_to(record.loss_sum);
  if (json.contains("validation_error")) record.validation_error = json["validation_error"].get<double>();
  if (json.contains("reserved_error")) record.reserved_error = json["reserved_error"].get<double>();
  if (json.contains("step_losses")) {
    record.step_losses.emplace();
    json["step_losses"].at("every").get_to(record.step_losses->every);
    if (record.step_losses->every == 0) throw InvalidArgument("not a line of a run's log: step_losses of every 0th step");
    for (const Json& value : json["step_losses"].at("values"))
      record.step_losses->values.push_back(value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>());
  }
  if (json.contains("loss_part_sums")) json["loss_part_sums"].get_to(record.loss_part_sums);
  if (json.contains("distances")) {
    record.distances.emplace();
    json["distances"].at("positive").get_to(record.distances->positive);
    json["distances"].at("negative").get_to(record.distances->negative);
    if (record.distances->positive.size() != DistanceCounts::kBins || record.distances->negative.size() != DistanceCounts::kBins)
      throw InvalidArgument(fmt::format("not a line of a run's log: distances are not in {} bins", DistanceCounts::kBins));
  }
  record.spread = number("spread");
  record.learning_rate = number("learning_rate");
  if (!json.at("kappa").is_null()) record.kappa = json.at("kappa").get<double>();
  if (json.contains("target_error")) record.target_error = json["target_error"].get<double>();
  if (json.contains("kappa_reason")) json["kappa_reason"].get_to(record.kappa_reason);
  for (const auto& [stage, seconds] : json.at("stage_seconds").items()) record.stage_seconds[stage] = seconds.get<double>();
  if (json.contains("lists")) {
    record.lists.emplace();
    json["lists"].at("index").get_to(record.lists->index);
    json["lists"].at("recall").get_to(record.lists->recall);
    json["lists"].at("distance_computations").get_to(record.lists->distance_computations);
    visit_graph(*record.lists, [&](const char* name, std::optional<double>& value) {
      if (json["lists"].contains(name)) value = json["lists"][name].get<double>();
    });
    if (json["lists"].contains("start")) json["lists"]["start"].get_to(record.lists->start);
  }
  if (json.contains("mining")) {
    record.mining.emplace();
    visit_mining(*record.mining, [&](const char* name, auto& value) {
      if (json["mining"].contains(name)) json["mining"][name].get_to(value);  // older logs lack some
    });
  }
  if (json.contains("grouping")) {
    record.grouping.emplace();
    visit_grouping(*record.grouping, [&](const char* name, auto& value) {
      if (json["grouping"].contains(name)) json["grouping"][name].get_to(value);  // older logs lack some
    });
    if (json["grouping"].contains("looked_at")) record.look = look_of(json["grouping"]);
  }
  if (json.contains("metrics")) {
    record.metrics.emplace();
    json.at("evaluated_on").get_to(record.metrics->split);
    visit_metrics(*record.metrics, [&](const char* name, double& value) { json["metrics"].at(name).get_to(value); });
  }
  json.at("notes").get_to(record.notes);
  return record;
} catch (const nlohmann::json::exception& error) {
  throw InvalidArgument(fmt::format("not a line of a run's log: {}", reason_of(error)));
}

}  // namespace smartmine
