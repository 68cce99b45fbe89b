#include "smartmine/report/compare.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <utility>

#include "report/paper_tables.h"
#include "report/run_files.h"
#include "report/strays.h"
#include "smartmine/core/error.h"
#include "smartmine/run/choice.h"
#include "smartmine/run/config.h"

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
};
constexpr std::array kCourses = {Course{"recall@1", "Recall@1 by epoch, %", 100},
                                 Course{"recall@8", "Recall@8 by epoch, %", 100},
                                 Course{"nmi", "NMI by epoch, %", 100},
                                 Course{"map@r", "MAP@R by epoch, %", 100},
                                 Course{"training_error", "Training error by epoch, %", 100},
                                 Course{"validation_error", "Validation error by epoch, %", 100},
                                 Course{"mined", "Mined triplets by epoch, %", 100},
                                 Course{"kappa", "Kappa by epoch", 1}};

using Settings = std::map<std::string, std::string>;

struct ReadRun {
  std::filesystem::path path;
  std::string dataset, system, seed;
  std::int64_t epochs = 0;
  Settings settings;  // those that count
  std::string root;   // of data set folder: which folder
  std::vector<Json> log;
};

std::string as_text(const Json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

Settings settings_that_count(const Json& all) {
  Settings kept;
  for (const auto& [name, value] : all.items()) {
    if (changes_of(name) != Changes::kResult) continue;  // or they are what runs of a group are to differ in
    // The same weights lie elsewhere on another machine.
    kept[name] = name == "weights" ? std::filesystem::path(as_text(value)).filename().string() : as_text(value);
  }
  return kept;
}

// Folders in two places are two data sets, all others are the same wherever they lie. Text alone: the folder may be on another machine.
std::string root_of(const Json& settings) {
  if (!settings.contains("dataset") || settings["dataset"] != "folder" || !settings.contains("data-root")) return "";
  const std::string text = as_text(settings["data-root"]);
  if (text.empty()) return "";
  const std::filesystem::path path = std::filesystem::absolute(text).lexically_normal();
  return path.has_filename() || !path.has_relative_path() ? path.string() : path.parent_path().string();  // a/b/ is a/b
}

// None: it is not finished, and a note says so.
std::optional<ReadRun> read_finished(const std::filesystem::path& path, std::vector<std::string>& notes) {
  Problems problems;
  const Json settings = read_settings(path, problems);
  std::vector<Json> log = read_log(path, problems);
  for (const std::string& problem : problems) notes.push_back(problem);
  const auto text = [&](const char* name) { return settings.contains(name) ? as_text(settings[name]) : std::string("unknown"); };
  if (!settings.contains("epochs") || !settings["epochs"].is_number_integer()) {
    notes.push_back(fmt::format("{}: config.toml does not say how many epochs there are to be; left out", path.string()));
    return std::nullopt;
  }
  const auto planned = settings["epochs"].get<std::int64_t>();
  const std::int64_t done = log.empty() ? 0 : log.back()["epoch"].get<std::int64_t>();
  if (done < planned) {
    notes.push_back(fmt::format("{}: not finished: {} of {} epochs; left out", path.string(), done, planned));
    return std::nullopt;
  }
  ReadRun run{path, text("dataset"), text("system"), text("seed"), planned, settings_that_count(settings), root_of(settings), {}};
  run.log = std::move(log);
  return run;
}

std::vector<ShownTriplet> triplets_of(const ReadRun& run, std::vector<std::string>& notes) {
  std::vector<ShownTriplet> shown;
  const Json json = read_triplets(run.path, run.epochs, notes);
  if (json.is_null()) return shown;
  for (const Json& anchor : json["anchors"])
    for (const Json& epoch : anchor["epochs"])
      for (const Json& triplet : epoch["mined"]) {
        const Json &positive = triplet["positive"], &negative = triplet["negative"];
        shown.push_back({.run = run.path.string(),
                         .epoch = epoch["epoch"],
                         .kappa = epoch["kappa"].is_null() ? std::nullopt : std::optional(epoch["kappa"].get<double>()),
                         .anchor = anchor["name"],
                         .positive = positive["name"],
                         .negative = negative["name"],
                         .anchor_class = anchor["class"],
                         .negative_class = negative["class"],
                         .positive_distance = positive["distance"],
                         .negative_distance = negative["distance"],
                         .mined = triplet["kind"] == "mined"});
      }
  return shown;
}

// Figures of an epoch's line, by name.
std::map<std::string, double> figures_of(const Json& line) {
  std::map<std::string, double> figures;
  if (line.contains("metrics"))
    for (const auto& [name, value] : line["metrics"].items()) figures[name] = value.get<double>();
  for (const char* name : {"training_error", "validation_error", "kappa"})
    if (line.contains(name) && line[name].is_number()) figures[name] = line[name].get<double>();
  return figures;
}

/// What an epoch was mined from; none: it did not mine.
struct Mined {
  double share = 0;
  std::string index;
};

std::optional<Mined> mined_of(const Json& line) {
  if (!line.contains("lists") || !line.contains("mining") || !line["lists"].contains("index")) return std::nullopt;
  const auto count = [&](const char* name) { return line["mining"].contains(name) ? line["mining"][name].get<double>() : 0.0; };
  if (count("triplets") == 0) return std::nullopt;
  Mined mined{.share = (count("mined") + count("mined_outside_positive") + count("mined_nearer_positive")) / count("triplets"),
              .index = line["lists"]["index"].get<std::string>()};
  if (line["lists"].contains("start")) mined.index += ", " + line["lists"]["start"].get<std::string>();
  return mined;
}

double seconds_of(const Json& line) {
  if (line.contains("seconds") && line["seconds"].is_number()) return line["seconds"].get<double>();
  double sum = 0;
  if (line.contains("stage_seconds"))
    for (const Json& stage : line["stage_seconds"]) sum += stage.get<double>();
  return sum;
}

/// The metrics of the weights that a run keeps, if these are not simply its last; a note where it was stopped before it kept any.
std::optional<RetrievalMetrics> kept_metrics(const ReadRun& run, std::vector<std::string>& notes) {
  const auto choice = read_choice(run.path);
  if (!choice || !choice->decided) return std::nullopt;
  const std::int64_t done = run.log.empty() ? 0 : run.log.back()["epoch"].get<std::int64_t>();
  if (!choice->kept || choice->kept->epoch != done)
    notes.push_back(fmt::format("{0}: what to keep is not settled yet; smartmine train --resume {0} does it", run.path.string()));
  return choice->kept && still_kept(run.path, choice->kept->epoch, done) ? choice->kept->metrics : std::nullopt;
}

RunGroup group_of(const std::vector<const ReadRun*>& runs, std::vector<std::string>& notes) {
  const ReadRun& first = *runs.front();
  RunGroup group{.name = first.system, .dataset = first.dataset, .system = first.system, .evaluated_on = {}, .epochs = first.epochs};
  std::map<std::int64_t, std::map<std::string, std::vector<double>>> values;
  std::vector<double> seconds, mined;
  std::map<std::string, std::vector<double>> kept;  // metrics of the weights that runs keep, where these are not the last
  std::set<std::string> indices;
  std::map<std::string, std::string> seeds;  // and a run of each
  for (const ReadRun* run : runs) {
    group.runs.push_back(run->path);
    double sum = 0, mined_sum = 0, mined_epochs = 0;
    for (const Json& line : run->log) {
      sum += seconds_of(line);
      if (const auto of_epoch = mined_of(line)) {
        mined_sum += of_epoch->share;
        ++mined_epochs;
        values[line["epoch"].get<std::int64_t>()]["mined"].push_back(of_epoch->share);
        indices.insert(of_epoch->index);
      }
      for (const auto& [name, value] : figures_of(line)) values[line["epoch"].get<std::int64_t>()][name].push_back(value);
      if (line.contains("evaluated_on")) group.evaluated_on = line["evaluated_on"].get<std::string>();
    }
    seconds.push_back(sum);
    if (const auto metrics = kept_metrics(*run, notes))
      visit_metrics(*metrics, [&](const char* name, double value) { kept[name].push_back(value); });
    if (mined_epochs > 0) mined.push_back(mined_sum / mined_epochs);
    if (const auto [place, added] = seeds.emplace(run->seed, run->path.string()); !added)
      notes.push_back(fmt::format("{} and {} have the same settings and the same seed, {}: their spread says little", place->second,
                                  run->path.string(), run->seed));
    for (ShownTriplet& triplet : triplets_of(*run, notes)) group.triplets.push_back(std::move(triplet));
  }
  group.seconds = spread_of(seconds);
  group.mined = spread_of(mined);
  group.index = fmt::format("{}", fmt::join(indices, "; "));
  for (const auto& [epoch, by_name] : values)
    for (const auto& [name, list] : by_name) group.by_epoch[epoch][name] = spread_of(list);
  if (const auto last = group.by_epoch.find(group.epochs); last != group.by_epoch.end()) {
    group.metrics = last->second;
    for (const char* name : {"training_error", "validation_error", "mined", "kappa"}) group.metrics.erase(name);
    for (const auto& [name, list] : kept)
      if (list.size() == runs.size()) group.metrics[name] = spread_of(list);
  }
  return group;
}

/// What sets a group apart from the others of its system, such as ", kappa 4".
std::string apart(const Settings& own, const std::vector<const Settings*>& others) {
  std::set<std::string> names;
  for (const Settings* other : others)
    for (const auto& [name, value] : *other)
      if (const auto found = own.find(name); found == own.end() || found->second != value) names.insert(name);
  for (const Settings* other : others)
    for (const auto& [name, value] : own)
      if (!other->contains(name)) names.insert(name);
  std::string text;
  for (const std::string& name : names) {
    const auto found = own.find(name);
    text += fmt::format(", {} {}", name, found == own.end() ? "unset" : found->second);
  }
  return text;
}

/// The last components of a path, so many, such as "birds/images"; the path if it has fewer.
std::string end_of(const std::filesystem::path& path, std::size_t components) {
  std::filesystem::path rest = path, end;
  for (std::size_t i = 0; i < components; ++i, rest = rest.parent_path()) {
    if (!rest.has_relative_path()) return path.string();
    end = end.empty() ? rest.filename() : rest.filename() / end;
  }
  return end.string();
}

/// What runs are called that were trained on this folder beside others: as much of its end as tells it apart.
std::string name_of_root(const std::string& root, const std::set<std::string>& roots) {
  for (std::size_t components = 1;; ++components) {
    const std::string name = end_of(root, components);
    const auto same = std::count_if(roots.begin(), roots.end(), [&](const std::string& r) { return end_of(r, components) == name; });
    if (same < 2 || name == root) return name;
  }
}

// ---- Tables.

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

Spread spread_of(std::span<const double> values) {
  Spread spread{.count = values.size()};
  if (values.empty()) return spread;
  const auto count = static_cast<double>(values.size());
  for (const double value : values) spread.mean += value / count;
  if (values.size() == 1) return spread;
  double squares = 0;
  for (const double value : values) squares += (value - spread.mean) * (value - spread.mean);
  spread.deviation = std::sqrt(squares / (count - 1));
  return spread;
}

void ComparisonOptions::validate() const {
  if (!paper.empty() && paper_table(paper).empty())
    throw InvalidArgument(fmt::format("paper is '{}'; it must be cub200 or cars196", paper));
}

Comparison compare_runs(std::span<const std::filesystem::path> runs) {
  require_distinct(runs);
  Comparison comparison;
  std::vector<ReadRun> finished;
  for (const std::filesystem::path& path : without_strays(runs, comparison.notes))
    if (auto run = read_finished(path, comparison.notes)) finished.push_back(std::move(*run));
  if (finished.empty()) {
    const std::string& why = comparison.notes.back();
    throw IoError(runs.size() == 1 ? why : fmt::format("none of the {} runs is finished; the last: {}", runs.size(), why));
  }
  std::vector<std::vector<const ReadRun*>> groups;
  for (const ReadRun& run : finished) {
    const auto same = std::find_if(groups.begin(), groups.end(), [&](const auto& group) {
      return group.front()->settings == run.settings && group.front()->root == run.root;
    });
    if (same == groups.end())
      groups.push_back({&run});
    else
      same->push_back(&run);
  }
  const bool one_dataset = std::all_of(finished.begin(), finished.end(), [&](const ReadRun& r) {
    return r.dataset == finished[0].dataset && r.root == finished[0].root;
  });
  std::set<std::string> roots;
  for (const ReadRun& run : finished)
    if (!run.root.empty()) roots.insert(run.root);
  for (const auto& members : groups) {
    RunGroup group = group_of(members, comparison.notes);
    const std::string& root = members.front()->root;
    const std::string dataset = roots.size() > 1 && !root.empty() ? group.dataset + " " + name_of_root(root, roots) : group.dataset;
    std::vector<const Settings*> others;
    for (const auto& other : groups)
      if (&other != &members && other.front()->system == group.system && other.front()->dataset == group.dataset &&
          other.front()->root == root)
        others.push_back(&other.front()->settings);
    group.name = (one_dataset ? "" : dataset + ": ") + group.system + apart(members.front()->settings, others);
    comparison.groups.push_back(std::move(group));
  }
  return comparison;
}

std::string comparison_tables(const Comparison& comparison, const ComparisonOptions& options) {
  options.validate();
  std::string text = results_table(comparison, options.paper);
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
