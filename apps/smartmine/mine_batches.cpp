#include "mine_batches.h"

#include <fmt/format.h>

#include <span>

#include "console.h"
#include "option_checks.h"
#include "smartmine/core/npy.h"

namespace smartmine::app {
namespace {

constexpr std::size_t kMostOfABatch = 65536;

std::string row(const char* name, const std::string& value) { return fmt::format("  {:<22} {}\n", name, value); }

}  // namespace

void BatchArguments::add_to(CLI::App& command) {
  command.add_flag("--batches", asked, "Writes batches of classes that lie near each other, not triplets: a row of ids each");
  own_.push_back(command.add_option("--classes", options.classes, "With --batches: classes of a batch; at most those there are")
                     ->check(whole_number(2, kMostOfABatch))
                     ->type_name("C")
                     ->capture_default_str());
  own_.push_back(command.add_option("--images-per-class", options.images_per_class, "With --batches: rows of a class in a batch")
                     ->check(whole_number(2, kMostOfABatch))
                     ->type_name("I")
                     ->capture_default_str());
  own_.push_back(
      command.add_option("--near-share", options.near_share, "With --batches: share of a batch's classes that the lists choose, 0 to 1")
          ->check(share())
          ->type_name("X")
          ->capture_default_str());
  own_.push_back(command.add_option("--rounds", options.rounds, "With --batches: how often every row comes round")
                     ->check(whole_number(1, kMostOfABatch))
                     ->type_name("R")
                     ->capture_default_str());
}

void read_given(BatchArguments& arguments, const CLI::App& command) {
  for (const char* name : {"--kappa", "--triplets-per-anchor", "--mined-fraction", "--margin", "--nearer-positives", "--keep-duplicates",
                           "--min-negative-rank", "--max-negative-uses", "--hub-limit", "--longer-lists", "--longest-list"})
    arguments.of_triplets_.push_back(command.get_option(name));
}

void BatchArguments::check() const {
  for (const CLI::Option* option : asked ? of_triplets_ : own_)
    if (option->count() > 0)
      throw UsageError(asked ? fmt::format("{} is for triplets, and --batches writes none", option->get_name())
                             : fmt::format("{} is for --batches, which was not given", option->get_name()));
}

void write(OutputFile& file, const ClassBatches& made) {
  const std::vector<std::int64_t> values(made.items.begin(), made.items.end());
  write_npy(file, std::span<const std::int64_t>(values), {made.batches(), made.batch_items});
}

void add_to(nlohmann::ordered_json& json, const BatchRun& run) {
  const BatchStats& stats = run.made.stats;
  json["list_stage_seconds"] = json["stage_seconds"];
  json["stage_seconds"] = {{"lists", json["seconds"]}, {"selection", run.selection_seconds}, {"survey", run.survey.seconds}};
  json["seconds"] = json["seconds"].get<double>() + run.selection_seconds + run.survey.seconds;
  json["classes"] = run.classes;
  json["batches"] = stats.batches;
  json["batch_size"] = run.made.batch_items;
  json["groups"] = stats.groups;
  json["near_groups"] = stats.near_groups;
  json["random_groups"] = stats.random_groups;
  json["near_share"] = stats.near_share();
  json["repeated"] = stats.repeated;
  json["copies_skipped"] = stats.copies_skipped;
  json["copies_left_out"] = stats.copies_left_out;
  json["alone"] = stats.alone;
  json["only_copies"] = stats.only_copies;
  json["lists_without_negative"] = stats.lists_without_negative;
  json["classes_by_centre"] = stats.classes_by_centre;
  const auto if_measured = [&](double value) { return run.survey.points > 0 ? nlohmann::ordered_json(value) : nullptr; };
  json["batch_error"] = if_measured(run.survey.error);
  json["nearest_positive_distance"] = if_measured(run.survey.positive_distance);
  json["nearest_negative_distance"] = if_measured(run.survey.negative_distance);
  json["looked_at"] = run.survey.batches;
  json["together"] = nlohmann::ordered_json::array();
  for (const BatchRun::Together& each : run.together)
    json["together"].push_back({{"first", each.first}, {"second", each.second}, {"batches", each.batches}});
}

std::string to_table(const BatchRun& run) {
  const BatchStats& stats = run.made.stats;
  std::string table = row("classes", std::to_string(run.classes));
  if (stats.alone > 0) table += row("", fmt::format("{} points are alone in theirs and left out", stats.alone));
  if (stats.only_copies > 0)
    table += row("", fmt::format("{} points have none but their copies in theirs and are left out", stats.only_copies));
  table += row("batches", fmt::format("{} of {}", stats.batches, run.made.batch_items));
  table += row("groups of a class",
               fmt::format("{}, {:.1f} % of those behind the first chosen by the lists", stats.groups, 100.0 * stats.near_share()));
  table += row("come once more", fmt::format("{} points, to fill groups and batches", stats.repeated));
  if (stats.copies_left_out + stats.copies_skipped > 0)
    table += row("copies",
                 fmt::format("{} left out of a round, {} under two labels without a say", stats.copies_left_out, stats.copies_skipped));
  table += row("selection seconds", fmt::format("{:.3f}", run.selection_seconds));
  if (run.survey.points > 0) {
    table += row("nearest of the batch", fmt::format("of another class for {:.1f} % of points ({} batches looked at)",
                                                     100.0 * run.survey.error, run.survey.batches));
    table += row("squared distances", fmt::format("{:.3g} to the nearest of the class, {:.3g} to the nearest other",
                                                  run.survey.positive_distance, run.survey.negative_distance));
  }
  for (std::size_t i = 0; i < run.together.size(); ++i)
    table += row(i == 0 ? "often together" : "", fmt::format("labels {} and {}, in {} of {} batches", run.together[i].first,
                                                             run.together[i].second, run.together[i].batches, run.survey.batches));
  return table;
}

}  // namespace smartmine::app
