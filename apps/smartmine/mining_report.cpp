#include "mining_report.h"

#include <fmt/format.h>

#include <string_view>

namespace smartmine::app {
namespace {

constexpr const char* kLevelNames[] = {"min", "p5", "p25", "median", "p75", "p95", "max"};
static_assert(std::size(kLevelNames) == Quantiles::kLevels.size());

void add_quantiles(nlohmann::ordered_json& json, const std::string& name, const Quantiles& quantiles) {
  json[name + "_count"] = quantiles.count;
  for (std::size_t i = 0; i < std::size(kLevelNames); ++i) {
    nlohmann::ordered_json& value = json[name + "_" + kLevelNames[i]];
    if (quantiles.count > 0) value = quantiles.values[i];  // else null: there is none
  }
}

std::string quantile_row(std::string_view name, const Quantiles& quantiles) {
  // With all columns it just fits a terminal of 80.
  std::string row = fmt::format("  {:<18}", name);
  for (const float value : quantiles.values) row += quantiles.count > 0 ? fmt::format(" {:>6.3g}", value) : fmt::format(" {:>6}", "-");
  return row + fmt::format(" {:>9}\n", quantiles.count);
}

std::string row(std::string_view name, const std::string& value) { return fmt::format("  {:<22} {}\n", name, value); }

}  // namespace

nlohmann::ordered_json lists_json(const MiningRun& run) {
  nlohmann::ordered_json json = to_json(run.neighbors);
  if (run.neighbors.stats.index == "none")
    for (const char* name : {"recall", "recall_target", "recall_reached"}) json[name] = nullptr;  // of no lists
  if (!run.given_lists()) return json;
  for (const char* name : {"recall", "recall_target", "recall_reached"}) json[name] = nullptr;  // nobody measured, or knows
  if (run.neighbors.dimension == 0)
    for (const char* name : {"dimension", "unit_norm"}) json[name] = nullptr;
  return json;
}

std::string lists_table(const MiningRun& run) {
  if (run.neighbors.stats.index == "none") return row("points", std::to_string(run.neighbors.lists.size()));
  if (!run.given_lists()) return to_table(run.neighbors);
  return row("points", std::to_string(run.neighbors.lists.size())) +
         row("neighbours of each", fmt::format("{}, read from files", run.neighbors.lists.neighbors()));
}

nlohmann::ordered_json to_json(const MiningRun& run) {
  const MiningStats& stats = run.mined.stats;
  nlohmann::ordered_json json = lists_json(run);
  json["list_stage_seconds"] = json["stage_seconds"];
  json["stage_seconds"] = {
      {"lists", run.neighbors.stats.seconds}, {"selection", run.selection_seconds}, {"longer_lists", run.longer_lists_seconds}};
  if (run.kappa_search_seconds > 0) json["stage_seconds"]["kappa_search"] = run.kappa_search_seconds;
  json["seconds"] = run.neighbors.stats.seconds + run.selection_seconds + run.longer_lists_seconds + run.kappa_search_seconds;
  json["note"] = run.note;

  json["classes"] = run.classes;
  json["single_member_classes"] = stats.anchors_skipped;
  json["kappa"] = run.kappa;
  json["triplets"] = stats.triplets;
  json["anchors"] = stats.anchors;
  json["anchors_skipped"] = stats.anchors_skipped;
  json["mined"] = stats.mined;
  json["mined_outside_positive"] = stats.mined_outside_positive;
  json["mined_nearer_positive"] = stats.mined_nearer_positive;
  json["random_no_positive"] = stats.random_no_positive;
  json["random_no_negative"] = stats.random_no_negative;
  json["random_no_farther_positive"] = stats.random_no_farther_positive;
  json["random_by_share"] = stats.random_by_share;
  json["mined_violating"] = stats.mined_violating;
  json["outside_violating"] = stats.outside_violating;
  json["positive_distances_unknown"] = stats.positive_distances_unknown;
  add_quantiles(json, "positive_distance", stats.positive_distances);
  add_quantiles(json, "negative_distance", stats.negative_distances);
  json["duplicates_skipped"] = stats.duplicates_skipped;
  json["rank_skipped"] = stats.rank_skipped;
  json["cap_skipped"] = stats.cap_skipped;
  json["negatives_forced"] = stats.negatives_forced;
  json["lists_walked"] = stats.lists_walked;
  json["lists_without_positive"] = stats.lists_without_positive;
  json["lists_without_negative"] = stats.lists_without_negative;
  json["suggested_neighbors"] = stats.suggested_neighbors;
  json["extended_anchors"] = stats.extended_anchors;
  json["extended_neighbors"] = stats.extended_neighbors;
  return json;
}

std::string to_table(const MiningRun& run) {
  const MiningStats& stats = run.mined.stats;
  const auto counted = [&](std::size_t count) {
    return fmt::format("{:>9} {:>6.2f} %", count,
                       stats.triplets == 0 ? 0.0 : 100.0 * static_cast<double>(count) / static_cast<double>(stats.triplets));
  };
  std::string table = lists_table(run) + "\n";
  table += row("anchors", stats.anchors_skipped == 0
                              ? std::to_string(stats.anchors)
                              : fmt::format("{}; {} points are alone in their class", stats.anchors, stats.anchors_skipped));
  table += row("classes", std::to_string(run.classes));
  table += row("kappa", fmt::format("{}", run.kappa));
  table += row("selection seconds", fmt::format("{:.3f}", run.selection_seconds));
  if (stats.extended_anchors > 0)
    table += row("longer lists", fmt::format("up to {} for {} anchors, {:.3f} seconds", stats.extended_neighbors, stats.extended_anchors,
                                             run.longer_lists_seconds));
  table += row("triplets", counted(stats.triplets));
  table += row("mined", fmt::format("{}  in the list; violates the margin", counted(stats.mined)));
  table += row("", fmt::format("{}  from outside the list{}", counted(stats.mined_outside_positive),
                               stats.positive_distances_unknown > 0 || stats.mined_outside_positive == 0
                                   ? ""
                                   : fmt::format("; {} violate it", stats.outside_violating)));
  table += row("", fmt::format("{}  nearer than the negative, as asked", counted(stats.mined_nearer_positive)));
  table += row("random", fmt::format("{}  the list holds no positive", counted(stats.random_no_positive)));
  table += row("", fmt::format("{}  no negative beyond the bound", counted(stats.random_no_negative)));
  table += row("", fmt::format("{}  the list holds the whole class", counted(stats.random_no_farther_positive)));
  table += row("", fmt::format("{}  by the share asked for", counted(stats.random_by_share)));
  table += fmt::format("\n  {:<18} {:>6} {:>6} {:>6} {:>6} {:>6} {:>6} {:>6} {:>9}\n", "squared distance", "min", "5 %", "25 %", "median",
                       "75 %", "95 %", "max", "triplets");
  table += quantile_row("anchor to positive", stats.positive_distances);
  table += quantile_row("anchor to negative", stats.negative_distances);
  return table + "\n";
}

}  // namespace smartmine::app
