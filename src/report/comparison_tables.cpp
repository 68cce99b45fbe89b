#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "report/paper_tables.h"
#include "run/log_file.h"
#include "smartmine/core/error.h"
#include "smartmine/report/compare.h"

// A comparison in markdown and in JSON.
namespace smartmine {
namespace {

struct Column {
  const char* name;  // in the log
  const char* heading;
};
constexpr std::array kMetrics = {Column{"recall@1", "recall@1"}, Column{"recall@2", "recall@2"}, Column{"recall@4", "recall@4"},
                                 Column{"recall@8", "recall@8"}, Column{"nmi", "NMI"},           Column{"map@r", "MAP@R"}};
struct Course {
  const char* name;
  const char* heading;
  double scale;
  int digits = 2;
};
constexpr std::array kCourses = {Course{"recall@1", "Recall@1 by epoch, %", 100},
                                 Course{"recall@8", "Recall@8 by epoch, %", 100},
                                 Course{"nmi", "NMI by epoch, %", 100},
                                 Course{"map@r", "MAP@R by epoch, %", 100},
                                 Course{"training_error", "Training error by epoch, %", 100},
                                 Course{"validation_error", "Validation error by epoch, %", 100},
                                 Course{"mined", "Mined triplets by epoch, %", 100},
                                 Course{"kappa", "Kappa by epoch", 1}};

constexpr std::array kMining = {Course{"lists_seconds", "lists, s", 1},
                                Course{"longer_lists_seconds", "longer lists, s", 1},
                                Course{"selection_seconds", "selection, s", 1, 3},
                                Course{"success_rate", "success rate %", 100},
                                Course{"success_bound", "its bound %", 100},
                                Course{"mean_degree", "degree", 1, 1},
                                Course{"random_no_farther_positive", "no farther positive %", 100, 1},
                                Course{"random_no_negative", "no negative beyond the bound %", 100, 1},
                                Course{"random_no_positive", "no positive in the list %", 100, 1},
                                Course{"random_by_share", "by the share asked for %", 100, 1}};

using Cells = std::vector<std::string>;

std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '|') result += '\\';
    result += c == '\n' ? ' ' : c;
  }
  return result;
}

// The first `left` columns are text, the others numbers.
std::string table(std::vector<Cells> rows, std::size_t left) {
  for (Cells& row : rows)
    for (std::string& cell : row) cell = escaped(cell);
  std::vector<std::size_t> widths(rows.front().size(), 3);
  for (const Cells& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width_of(row[i]));
  std::string text;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    for (std::size_t i = 0; i < widths.size(); ++i) {
      const std::string blanks(widths[i] - width_of(rows[r][i]), ' ');
      text += i < left ? fmt::format("| {}{} ", rows[r][i], blanks) : fmt::format("| {}{} ", blanks, rows[r][i]);
    }
    text += "|\n";
    if (r > 0) continue;
    for (std::size_t i = 0; i < widths.size(); ++i)
      text += i < left ? fmt::format("|{}", std::string(widths[i] + 2, '-')) : fmt::format("|{}:", std::string(widths[i] + 1, '-'));
    text += "|\n";
  }
  return text;
}

std::string mean_and_spread(const Spread& spread, double scale, int digits) {
  if (spread.count == 0) return "-";
  return spread.count == 1 ? fmt::format("{:.{}f}", scale * spread.mean, digits)
                           : fmt::format("{:.{}f} ± {:.{}f}", scale * spread.mean, digits, scale * spread.deviation, digits);
}

const Spread* find(const std::map<std::string, Spread>& figures, const char* name) {
  const auto found = figures.find(name);
  return found == figures.end() ? nullptr : &found->second;
}

const PaperRow* paper_row(const RunGroup& group, const std::string& paper) {
  if (paper.empty() || group.evaluated_on != "test") return nullptr;
  for (const PaperRow& row : paper_table(paper))
    if (row.system == group.system) return &row;
  return nullptr;
}

// In per cent, in the order of kMetrics, as many as the paper has.
std::array<double, 5> figures_of(const PaperRow& row) {
  return {row.recall_at_1, row.recall_at_2, row.recall_at_4, row.recall_at_8, row.nmi};
}

std::string results_table(const Comparison& comparison, const std::string& paper) {
  const bool with_paper = !paper.empty();
  Cells heading = {"system"};
  if (with_paper) heading.emplace_back("");
  heading.insert(heading.end(), {"runs", "epochs"});
  for (const Column& column : kMetrics) heading.push_back(fmt::format("{} %", column.heading));
  const bool any_mined =
      std::any_of(comparison.groups.begin(), comparison.groups.end(), [](const RunGroup& group) { return group.mined.count > 0; });
  if (any_mined) heading.insert(heading.end(), {"mined %", "index"});
  heading.emplace_back("seconds in epochs");
  std::vector<Cells> rows = {heading};
  for (const RunGroup& group : comparison.groups) {
    const PaperRow* published = paper_row(group, paper);
    Cells ours = {published != nullptr ? "" : group.name};
    if (with_paper) ours.emplace_back("ours");
    ours.insert(ours.end(), {std::to_string(group.runs.size()), std::to_string(group.epochs)});
    Cells theirs = {group.name, "paper", "", ""}, difference = {"", "difference", "", ""};
    for (std::size_t i = 0; i < kMetrics.size(); ++i) {
      const Spread* own = find(group.metrics, kMetrics[i].name);
      ours.push_back(own == nullptr ? "-" : mean_and_spread(*own, 100, 2));
      if (published == nullptr) continue;
      if (i >= figures_of(*published).size()) {
        theirs.emplace_back("");
        difference.emplace_back("");
        continue;
      }
      theirs.push_back(fmt::format("{:.2f}", figures_of(*published)[i]));
      difference.push_back(own == nullptr ? "-" : fmt::format("{:+.2f}", 100 * own->mean - figures_of(*published)[i]));
    }
    if (any_mined) ours.insert(ours.end(), {mean_and_spread(group.mined, 100, 1), group.index.empty() ? "-" : group.index});
    ours.push_back(mean_and_spread(group.seconds, 1, 1));
    theirs.resize(ours.size());
    difference.resize(ours.size());
    if (published != nullptr) rows.push_back(theirs);
    rows.push_back(ours);
    if (published != nullptr) rows.push_back(difference);
  }
  return table(std::move(rows), with_paper ? 2 : 1);
}

/// What mining took and what became of the triplets it did not mine. Empty: nothing was mined.
std::string mining_table(const Comparison& comparison) {
  std::vector<Course> columns;
  for (const Course& figure : kMining)
    if (std::any_of(comparison.groups.begin(), comparison.groups.end(),
                    [&](const RunGroup& group) { return group.mining.contains(figure.name); }))
      columns.push_back(figure);
  if (columns.empty()) return "";
  std::vector<Cells> rows = {{"system", "index"}};
  for (const Course& column : columns) rows[0].emplace_back(column.heading);
  for (const RunGroup& group : comparison.groups) {
    if (group.mining.empty()) continue;
    Cells row = {group.name, group.index};
    for (const Course& column : columns) {
      const Spread* figure = find(group.mining, column.name);
      row.push_back(figure == nullptr ? "-" : mean_and_spread(*figure, column.scale, column.digits));
    }
    rows.push_back(std::move(row));
  }
  return fmt::format("\nMining, over the epochs that mine: seconds of one, the graph, and why triplets are random:\n\n{}",
                     table(std::move(rows), 2));
}

std::string course_table(const Comparison& comparison, const Course& course) {
  // Of groups of one system, columns are called by what sets them apart.
  const std::string system = comparison.groups.front().system + ", ";
  const bool same = std::all_of(comparison.groups.begin(), comparison.groups.end(),
                                [&](const RunGroup& group) { return group.name.starts_with(system); });
  std::set<std::int64_t> epochs;
  Cells heading = {"epoch"};
  for (const RunGroup& group : comparison.groups) {
    heading.push_back(same ? group.name.substr(system.size()) : group.name);
    for (const auto& [epoch, figures] : group.by_epoch)
      if (figures.contains(course.name)) epochs.insert(epoch);
  }
  if (epochs.empty()) return "";
  std::vector<Cells> rows = {heading};
  for (const std::int64_t epoch : epochs) {
    Cells row = {std::to_string(epoch)};
    for (const RunGroup& group : comparison.groups) {
      const auto line = group.by_epoch.find(epoch);
      const Spread* figure = line == group.by_epoch.end() ? nullptr : find(line->second, course.name);
      row.push_back(figure == nullptr ? "-" : fmt::format("{:.2f}", course.scale * figure->mean));
    }
    rows.push_back(std::move(row));
  }
  return fmt::format("\n{}, mean over runs:\n\n{}", course.heading, table(std::move(rows), 0));
}

std::string triplets_table(const RunGroup& group) {
  std::vector<Cells> rows = {{"anchor", "positive", "negative", "its class", "kind", "epoch", "kappa", "d² positive", "d² negative"}};
  std::string text, run;
  const auto end_run = [&] {
    if (rows.size() > 1) text += fmt::format("\nTriplets of fixed anchors in {}:\n\n{}", run, table(rows, 5));
    rows.resize(1);
  };
  for (const ShownTriplet& one : group.triplets) {
    if (one.run != run) end_run();
    run = one.run;
    rows.push_back({one.anchor, one.positive, one.negative, one.negative_class, one.mined ? "mined" : "random", std::to_string(one.epoch),
                    one.kappa ? fmt::format("{:.2f}", *one.kappa) : "-", fmt::format("{:.3f}", one.positive_distance),
                    fmt::format("{:.3f}", one.negative_distance)});
  }
  end_run();
  return text;
}

Json to_json(const Spread& spread) {
  return {{"mean", spread.mean}, {"deviation", spread.count > 1 ? Json(spread.deviation) : Json()}, {"runs", spread.count}};
}

}  // namespace

void ComparisonOptions::validate() const {
  if (!paper.empty() && paper_table(paper).empty())
    throw InvalidArgument(fmt::format("paper is '{}'; it must be cub200 or cars196", paper));
}

std::string comparison_tables(const Comparison& comparison, const ComparisonOptions& options) {
  options.validate();
  std::string text = results_table(comparison, options.paper) + mining_table(comparison);
  if (options.by_epoch)
    for (const Course& course : kCourses) text += course_table(comparison, course);
  if (options.triplets)
    for (const RunGroup& group : comparison.groups) text += triplets_table(group);
  return text;
}

std::string comparison_json(const Comparison& comparison, const ComparisonOptions& options) {
  options.validate();
  Json groups = Json::array();
  for (const RunGroup& group : comparison.groups) {
    Json json{{"name", group.name}, {"dataset", group.dataset}, {"system", group.system}, {"evaluated_on", group.evaluated_on}};
    if (group.evaluated_on.empty()) json["evaluated_on"] = nullptr;
    json["epochs"] = group.epochs;
    json["runs"] = Json::array();
    for (const auto& run : group.runs) json["runs"].push_back(run.string());
    for (const auto& [name, spread] : group.metrics) json[name] = to_json(spread);
    json["seconds"] = to_json(group.seconds);
    if (group.mined.count > 0) json["mined"] = to_json(group.mined);
    if (group.mined.count > 0) json["index"] = group.index;
    for (const auto& [name, spread] : group.mining) json["mining"][name] = to_json(spread);
    if (const PaperRow* published = paper_row(group, options.paper)) {
      for (std::size_t i = 0; i < figures_of(*published).size(); ++i) {
        json["paper"][kMetrics[i].name] = figures_of(*published)[i] / 100;
        if (const Spread* own = find(group.metrics, kMetrics[i].name))
          json["difference"][kMetrics[i].name] = own->mean - figures_of(*published)[i] / 100;
      }
    }
    if (options.by_epoch) {
      json["by_epoch"] = Json::array();
      for (const auto& [epoch, figures] : group.by_epoch) {
        Json line{{"epoch", epoch}};
        for (const auto& [name, spread] : figures) line[name] = spread.mean;
        json["by_epoch"].push_back(std::move(line));
      }
    }
    if (options.triplets) {
      json["triplets"] = Json::array();
      for (const ShownTriplet& one : group.triplets)
        json["triplets"].push_back({{"run", one.run},
                                    {"epoch", one.epoch},
                                    {"kappa", one.kappa ? Json(*one.kappa) : Json()},
                                    {"anchor", one.anchor},
                                    {"anchor_class", one.anchor_class},
                                    {"positive", one.positive},
                                    {"positive_distance", one.positive_distance},
                                    {"negative", one.negative},
                                    {"negative_class", one.negative_class},
                                    {"negative_distance", one.negative_distance},
                                    {"kind", one.mined ? "mined" : "random"}});
    }
    groups.push_back(std::move(json));
  }
  const Json json{{"groups", std::move(groups)}, {"notes", comparison.notes}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace smartmine
