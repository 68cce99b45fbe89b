#include "smartmine/report/compare.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <utility>

#include "report/run_files.h"
#include "report/strays.h"
#include "smartmine/core/error.h"
#include "smartmine/run/choice.h"
#include "smartmine/run/config.h"

namespace smartmine {
namespace {

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
  std::map<std::string, double> figures = {};  // as RunGroup::mining has them
};

std::optional<Mined> mined_of(const Json& line) {
  if (!line.contains("lists") || !line.contains("mining") || !line["lists"].contains("index")) return std::nullopt;
  const auto count = [&](const char* name) { return line["mining"].contains(name) ? line["mining"][name].get<double>() : 0.0; };
  if (count("triplets") == 0) return std::nullopt;
  Mined mined{.share = (count("mined") + count("mined_outside_positive") + count("mined_nearer_positive")) / count("triplets"),
              .index = line["lists"]["index"].get<std::string>()};
  // Where no search through the graph was good enough, all pairs were looked at in the end.
  if (line["lists"].contains("start"))
    mined.index += (mined.index == "fanng" ? ", " : " after fanng, ") + line["lists"]["start"].get<std::string>();
  const Json stages = line.value("stage_seconds", Json::object());
  for (const char* stage : {"lists", "longer_lists", "selection"})
    if (stages.contains(stage)) mined.figures[fmt::format("{}_seconds", stage)] = stages[stage].get<double>();
  for (const char* name : {"success_rate", "success_bound", "mean_degree"})
    if (line["lists"].contains(name)) mined.figures[name] = line["lists"][name].get<double>();
  for (const char* name : {"random_no_positive", "random_no_negative", "random_no_farther_positive", "random_by_share"})
    if (line["mining"].contains(name)) mined.figures[name] = count(name) / count("triplets");
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
  const bool unmeasured =
      choice->kept && choice->kept->share < 1 && !choice->kept->metrics && !run.log.empty() && run.log.back().contains("metrics");
  if (!choice->kept || choice->kept->epoch != done || unmeasured)
    notes.push_back(fmt::format("{0}: what to keep is not settled yet; smartmine train --resume {0} does it", run.path.string()));
  return choice->kept && still_kept(run.path, choice->kept->epoch, done) ? choice->kept->metrics : std::nullopt;
}

RunGroup group_of(const std::vector<const ReadRun*>& runs, std::vector<std::string>& notes) {
  const ReadRun& first = *runs.front();
  RunGroup group{.name = first.system, .dataset = first.dataset, .system = first.system, .evaluated_on = {}, .epochs = first.epochs};
  std::map<std::int64_t, std::map<std::string, std::vector<double>>> values;
  std::vector<double> seconds, mined;
  std::map<std::string, std::vector<double>> kept;  // metrics of the weights that runs keep, where these are not the last
  std::map<std::string, std::vector<double>> mining;
  std::set<std::string> indices;
  std::map<std::string, std::string> seeds;  // and a run of each
  for (const ReadRun* run : runs) {
    group.runs.push_back(run->path);
    double sum = 0, mined_sum = 0, mined_epochs = 0;
    std::map<std::string, std::vector<double>> of_run;  // over its epochs
    for (const Json& line : run->log) {
      sum += seconds_of(line);
      if (const auto of_epoch = mined_of(line)) {
        mined_sum += of_epoch->share;
        ++mined_epochs;
        values[line["epoch"].get<std::int64_t>()]["mined"].push_back(of_epoch->share);
        indices.insert(of_epoch->index);
        for (const auto& [name, value] : of_epoch->figures) of_run[name].push_back(value);
      }
      for (const auto& [name, value] : figures_of(line)) values[line["epoch"].get<std::int64_t>()][name].push_back(value);
      if (line.contains("evaluated_on")) group.evaluated_on = line["evaluated_on"].get<std::string>();
    }
    seconds.push_back(sum);
    if (const auto metrics = kept_metrics(*run, notes))
      visit_metrics(*metrics, [&](const char* name, double value) { kept[name].push_back(value); });
    if (mined_epochs > 0) mined.push_back(mined_sum / mined_epochs);
    for (const auto& [name, list] : of_run) mining[name].push_back(spread_of(list).mean);
    if (const auto [place, added] = seeds.emplace(run->seed, run->path.string()); !added)
      notes.push_back(fmt::format("{} and {} have the same settings and the same seed, {}: their spread says little", place->second,
                                  run->path.string(), run->seed));
    for (ShownTriplet& triplet : triplets_of(*run, notes)) group.triplets.push_back(std::move(triplet));
  }
  group.seconds = spread_of(seconds);
  group.mined = spread_of(mined);
  for (const auto& [name, list] : mining) group.mining[name] = spread_of(list);
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

}  // namespace smartmine
