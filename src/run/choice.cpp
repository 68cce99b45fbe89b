#include "smartmine/run/choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "run/log_file.h"
#include "smartmine/core/error.h"
#include "smartmine/core/output_file.h"

namespace smartmine {
namespace {

using Json = nlohmann::ordered_json;
constexpr const char* kFile = "choice.json";
constexpr std::size_t kLeastClasses = 8;  // fewer leave too little on either side

Json json_of(const HeldOutScore& score) { return {{"recall@1", score.recall_at_1}, {"map@r", score.map_at_r}}; }

HeldOutScore score_of(const Json& json) { return {json.at("recall@1").get<double>(), json.at("map@r").get<double>()}; }

Json with_score(Json json, const HeldOutScore& score) {
  json.update(json_of(score));
  return json;
}

Json json_of(const std::vector<Interpolation>& shares) {
  Json json = Json::array();
  for (const Interpolation& each : shares) json.push_back(with_score({{"share", each.share}}, each.score));
  return json;
}

std::vector<Interpolation> shares_of(const Json& json) {
  std::vector<Interpolation> shares;
  for (const Json& each : json) shares.push_back({each.at("share"), score_of(each)});
  return shares;
}

}  // namespace

namespace {

Json json_of(const Choice& choice) {
  Json trials = Json::array();
  for (const Trial& trial : choice.trials)
    trials.push_back(with_score({{"name", trial.name},
                                 {"settings", {{"system", trial.system}, {"learning-rate", trial.learning_rate}}},
                                 {"epochs", trial.done},
                                 {"epochs_planned", trial.epochs},
                                 {"seconds", trial.seconds},
                                 {"stopped", trial.stopped},
                                 {"shares", json_of(trial.shares)}},
                                trial.score));
  Json json{{"summary", choice.reason},
            {"decided", choice.decided},
            {"careful", choice.careful},
            {"held_out_classes", choice.held_out_classes},
            {"held_out_images", choice.held_out_images},
            {"own_split", choice.own_split},
            {"start", json_of(choice.start)},
            {"tolerance", choice.tolerance},
            {"trials", std::move(trials)},
            {"interpolations", json_of(choice.interpolations)},
            {"chosen",
             {{"trial", choice.trial},
              {"system", choice.system},
              {"learning-rate", choice.learning_rate},
              {"epochs", choice.epochs},
              {"share", choice.share},
              {"dropout", choice.dropout}}},
            {"asked_epochs", choice.asked_epochs},
            {"seconds", choice.seconds}};
  if (choice.kept) {
    Json metrics = Json::object();
    if (choice.kept->metrics) visit_metrics(*choice.kept->metrics, [&](const char* name, double value) { metrics[name] = value; });
    json["kept"] = {{"epoch", choice.kept->epoch},
                    {"share", choice.kept->share},
                    {"reason", in_words(*choice.kept)},
                    {"evaluated_on", choice.kept->metrics ? choice.kept->metrics->split : ""},
                    {"metrics", std::move(metrics)}};
  }
  return json;
}

}  // namespace

std::string to_json(const Choice& choice) { return json_of(choice).dump(2) + "\n"; }
std::string to_json_line(const Choice& choice) {
  Json json = json_of(choice);
  json.erase("kept");
  return Json{{"choice", std::move(json)}}.dump();
}

Choice parse_choice(const std::string& text) try {
  const Json json = Json::parse(text);
  Choice choice;
  json.at("summary").get_to(choice.reason);
  json.at("decided").get_to(choice.decided);
  json.at("careful").get_to(choice.careful);
  json.at("held_out_classes").get_to(choice.held_out_classes);
  json.at("held_out_images").get_to(choice.held_out_images);
  choice.own_split = json.value("own_split", false);  // earlier runs did not write it down
  // Earlier runs call it untrained, which pretrained weights are not.
  choice.start = score_of(json.at(json.contains("untrained") ? "untrained" : "start"));
  json.at("tolerance").get_to(choice.tolerance);
  for (const Json& trial : json.at("trials"))
    choice.trials.push_back({.name = trial.at("name"),
                             .system = trial.at("settings").value("system", ""),
                             .learning_rate = trial.at("settings").at("learning-rate"),
                             .epochs = trial.at("epochs_planned"),
                             .done = trial.at("epochs"),
                             .score = score_of(trial),
                             .shares = shares_of(trial.value("shares", Json::array())),
                             .seconds = trial.at("seconds"),
                             .stopped = trial.value("stopped", "")});
  choice.interpolations = shares_of(json.at("interpolations"));
  choice.trial = json.at("chosen").value("trial", "");
  choice.system = json.at("chosen").value("system", "");
  json.at("chosen").at("learning-rate").get_to(choice.learning_rate);
  json.at("chosen").at("epochs").get_to(choice.epochs);
  json.at("chosen").at("share").get_to(choice.share);
  choice.dropout = json.at("chosen").value("dropout", 0.0);
  choice.asked_epochs = json.value("asked_epochs", std::int64_t{0});  // earlier runs did not write it down
  json.at("seconds").get_to(choice.seconds);
  if (json.contains("kept")) {
    const Json& kept = json.at("kept");
    choice.kept = {.epoch = kept.at("epoch"), .share = kept.at("share"), .metrics = {}};
    if (const Json& metrics = kept.at("metrics"); !metrics.empty()) {
      choice.kept->metrics.emplace().split = kept.at("evaluated_on").get<std::string>();
      visit_metrics(*choice.kept->metrics, [&](const char* name, double& value) { metrics.at(name).get_to(value); });
    }
  }
  return choice;
} catch (const nlohmann::json::exception& error) {
  throw InvalidArgument(fmt::format("not the choice of a run: {}", reason_of(error)));
}

std::optional<Choice> read_choice(const std::filesystem::path& run) {
  const std::filesystem::path path = run / kFile;
  std::error_code none;
  if (!std::filesystem::exists(path, none)) return std::nullopt;
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  try {
    if (!file) throw InvalidArgument("cannot be read");
    return parse_choice(text.str());
  } catch (const InvalidArgument& error) {
    throw IoError(fmt::format("{}: {}", path.string(), error.what()));
  }
}

void write_choice(const std::filesystem::path& run, const Choice& choice) {
  const std::string text = to_json(choice);
  OutputFile file(run / kFile);
  file.write(text.data(), text.size());
  file.commit();
}

bool still_kept(const std::filesystem::path& run, std::int64_t epoch, std::int64_t done) {
  std::error_code none;
  return epoch == done || std::filesystem::exists(run / "kept.safetensors", none);
}

HeldOut classes_to_hold_out(std::size_t classes) {
  constexpr std::int64_t kEnough = 10, kMost = 50;  // fewer confuse nothing; more tell nothing new
  if (classes < kLeastClasses) return {};
  const auto all = static_cast<std::int64_t>(classes);
  const std::int64_t held = std::clamp(all / 4, std::min(kEnough, all / 2), kMost);
  // Consecutive ones: neighbours in the order of the classes are often relatives, and must not stand on both sides.
  return {.classes = held, .block = all / held};
}

double score_tolerance(std::int64_t queries) {
  constexpr double kLeast = 0.003, kOfSpread = 0.25;
  return std::max(kLeast, kOfSpread / std::sqrt(static_cast<double>(std::max<std::int64_t>(1, queries))));
}

namespace {

// More than chance alone would bring: the best of several is looked at.
double value_to_beat(const HeldOutScore& start, double tolerance) { return start.value() + tolerance / 2; }

bool beats(const HeldOutScore& score, const HeldOutScore& start, double tolerance) {
  return score.value() > value_to_beat(start, tolerance) && score.recall_at_1 >= start.recall_at_1;
}

}  // namespace

bool can_be_beaten(const Choice& choice) { return value_to_beat(choice.start, choice.tolerance) < 1; }

std::optional<double> pick_share(const std::vector<Interpolation>& shares, const HeldOutScore& start, double tolerance) {
  double best = 0;
  for (const Interpolation& each : shares)
    if (each.share < 1 && beats(each.score, start, tolerance)) best = std::max(best, each.score.value());
  // A training goes farther than its trial: the whole way must be the clearly better one.
  std::optional<double> picked;
  for (const Interpolation& each : shares) {
    const double least = each.share < 1 ? best - tolerance / 2 : best + tolerance / 2;
    if (beats(each.score, start, tolerance) && each.score.value() >= least) picked = std::max(picked.value_or(0), each.share);
  }
  return picked;
}

std::string held_out_in_words(const Choice& choice) {
  return fmt::format("{} {} classes", choice.held_out_classes, choice.own_split ? "validation" : "held-out");
}

std::string in_words(const KeptWeights& kept) {
  if (kept.epoch == 0 || kept.share == 0) return "those that the run starts from";
  return kept.share < 1 ? fmt::format("epoch {}, {:.0f} % of the way from the start", kept.epoch, 100 * kept.share)
                        : fmt::format("epoch {}", kept.epoch);
}

namespace {

constexpr double kGoodStart = 0.93;  // recall@1 from which a trial has little to show
constexpr double kHalfWay = 0.5;
constexpr double kFlattery = 3;  // tolerances by which a higher rate than the usual one must be better; docs/tuning.md

/// What would be kept of a trial: as a score, and the share of the way. None: nothing.
std::optional<Interpolation> kept_of(const Trial& trial, const Choice& choice, bool pretrained) {
  if (trial.done < trial.epochs) return std::nullopt;
  if (!pretrained) return beats(trial.score, choice.start, choice.tolerance) ? std::optional(Interpolation{1, trial.score}) : std::nullopt;
  const auto helps = [&](const Trial& each) { return clearly_helps(each, choice); };
  const bool luck = choice.start.recall_at_1 >= kGoodStart && std::none_of(choice.trials.begin(), choice.trials.end(), helps);
  std::vector<Interpolation> shares;
  for (const Interpolation& each : trial.shares)
    if (!luck || each.share <= kHalfWay) shares.push_back(each);
  const auto picked = pick_share(shares, choice.start, choice.tolerance);
  for (const Interpolation& each : shares)
    if (each.share == picked) return each;
  return std::nullopt;
}

/// Why there is nothing to keep of any trial.
std::string reason_for_the_start(const Choice& choice) {
  if (!can_be_beaten(choice))
    return fmt::format("the weights it starts from have a recall@1 of {:.1f} % on {}, which leaves nothing to gain, so these are kept",
                       100 * choice.start.recall_at_1, held_out_in_words(choice));
  const auto stopped = [](const Trial& trial) { return !trial.stopped.empty(); };
  if (!choice.trials.empty() && std::all_of(choice.trials.begin(), choice.trials.end(), stopped))
    return fmt::format("no trial could be finished, so the weights it starts from are kept; the first was given up: {}",
                       choice.trials.front().stopped);
  return fmt::format("no training beats the weights it starts from on {}, so these are kept", held_out_in_words(choice));
}

}  // namespace

double share_to_keep(const std::vector<Interpolation>& shares, const Choice& choice) {
  Choice with = choice;
  with.trials.push_back({.name = {}, .score = {}, .shares = shares, .stopped = {}});
  const auto kept = kept_of(with.trials.back(), with, true);
  return kept ? kept->share : 0;
}

bool clearly_helps(const Trial& trial, const Choice& choice) {
  if (trial.done < trial.epochs) return false;
  return std::any_of(trial.shares.begin(), trial.shares.end(), [&](const Interpolation& each) {
    return each.score.recall_at_1 >= choice.start.recall_at_1 && each.score.value() > choice.start.value() + choice.tolerance;
  });
}

std::string pick_system(const Choice& choice) {
  std::vector<std::string> systems;
  for (const Trial& trial : choice.trials)
    if (std::find(systems.begin(), systems.end(), trial.system) == systems.end()) systems.push_back(trial.system);
  std::string picked = choice.system;
  std::optional<HeldOutScore> so_far;
  for (const std::string& system : systems) {
    std::optional<HeldOutScore> best;
    for (const Trial& trial : choice.trials)
      if (const auto kept = kept_of(trial, choice, false); kept && trial.system == system && (!best || kept->score.value() > best->value()))
        best = kept->score;
    const bool first = system == systems.front();
    const bool better = best && so_far && best->value() > so_far->value() + choice.tolerance && best->recall_at_1 >= so_far->recall_at_1;
    if (!first && !better && (so_far || !best)) continue;
    picked = system;
    so_far = best;
  }
  return picked;
}

namespace {

/// How the systems compared, where several were tried alike: by the best trial of each.
std::string systems_in_words(const Choice& choice) {
  const Trial *chosen = nullptr, *other = nullptr;
  for (const Trial& trial : choice.trials) {
    if (trial.done < trial.epochs || trial.epochs != choice.trials.front().epochs) continue;
    const Trial*& best = trial.system == choice.system ? chosen : other;
    if (best == nullptr || trial.score.value() > best->score.value()) best = &trial;
  }
  if (chosen == nullptr || other == nullptr) return {};
  const bool usual = choice.trials.front().system == choice.system;
  const Trial &tried = usual ? *other : *chosen, &first = usual ? *chosen : *other;
  if (!usual && tried.score.recall_at_1 < first.score.recall_at_1)
    return fmt::format("; {} alone beats the start, {} does not", tried.system, first.system);
  return fmt::format("; {} at {:g} was {} than {} at {:g}: a recall@1 of {:.1f} instead of {:.1f} % after {}", tried.system,
                     tried.learning_rate, usual ? "not clearly better" : "better", first.system, first.learning_rate,
                     100 * tried.score.recall_at_1, 100 * first.score.recall_at_1,
                     tried.done == 1 ? "an epoch" : fmt::format("{} epochs", tried.done));
}

/// Whether nothing that was measured speaks against half of the way at this rate.
bool may_go_half_way(const Choice& choice, double rate) {
  constexpr double kSame = 1e-9;
  return std::none_of(choice.trials.begin(), choice.trials.end(), [&](const Trial& trial) {
    if (trial.done < trial.epochs || std::abs(trial.learning_rate / rate - 1) > kSame) return false;
    return std::any_of(trial.shares.begin(), trial.shares.end(), [&](const Interpolation& each) {
      return each.share == kHalfWay && !beats(each.score, choice.start, choice.tolerance);
    });
  });
}

}  // namespace

void pick_trial(Choice& choice, std::int64_t epochs, bool pretrained) {
  struct Candidate {
    const Trial* trial;
    Interpolation kept;
  };
  std::vector<Candidate> candidates;
  for (const Trial& trial : choice.trials) {
    if (!choice.system.empty() && trial.system != choice.system) continue;
    if (const auto kept = kept_of(trial, choice, pretrained)) candidates.push_back({&trial, *kept});
  }
  if (candidates.empty()) {
    choice.epochs = 0;
    choice.reason = reason_for_the_start(choice);
    return;
  }
  const Candidate best = *std::max_element(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
    return a.kept.score.value() < b.kept.score.value();
  });
  // Of equals the slowest, for a trial is shorter than the training it stands for. From pretrained weights the fastest: it learns most,
  // and what it forgets comes back with the way back to the start.
  Candidate chosen = best;
  for (const Candidate& each : candidates)
    if ((each.trial->learning_rate > chosen.trial->learning_rate) == pretrained &&
        each.kept.score.value() >= best.kept.score.value() - choice.tolerance)
      chosen = each;
  // A short trial flatters rates above the usual one, which was tried first.
  double flattered = 0;
  if (const double usual = choice.trials.front().learning_rate; !pretrained && chosen.trial->learning_rate > usual) {
    const Candidate* slower = nullptr;
    for (const Candidate& each : candidates)
      if (each.trial->learning_rate <= usual && (slower == nullptr || each.kept.score.value() > slower->kept.score.value())) slower = &each;
    if (slower != nullptr && chosen.kept.score.value() <= slower->kept.score.value() + kFlattery * choice.tolerance) {
      flattered = chosen.trial->learning_rate;
      chosen = *slower;
    }
  }
  choice.trial = chosen.trial->name;
  choice.learning_rate = chosen.trial->learning_rate;
  choice.epochs = epochs;
  choice.interpolations = chosen.trial->shares;
  choice.share = chosen.kept.share;
  choice.reason = fmt::format("on {} a learning rate of {:g} took MAP@R from {:.1f} to {:.1f} % and recall@1 from {:.1f} to {:.1f} %",
                              held_out_in_words(choice), choice.learning_rate, 100 * choice.start.map_at_r,
                              100 * chosen.kept.score.map_at_r, 100 * choice.start.recall_at_1, 100 * chosen.kept.score.recall_at_1);
  if (choice.share < 1) choice.reason += fmt::format(" with weights {:.0f} % of the way", 100 * choice.share);
  // As far, and better on classes never seen (docs/tuning.md): so high a rate spoils what it does not come back from.
  const bool usual_rate = choice.learning_rate == choice.trials.front().learning_rate, short_trial = chosen.trial->epochs < epochs;
  if (pretrained && short_trial && usual_rate && choice.share < kHalfWay && may_go_half_way(choice, choice.learning_rate / kGentler)) {
    choice.learning_rate /= kGentler;
    choice.share = kHalfWay;
    choice.reason += fmt::format(", and {:.0f} % of the way at {:g} goes as far more gently", 100 * choice.share, choice.learning_rate);
  }
  if (flattered > 0)
    choice.reason +=
        fmt::format("; {:g} scored higher, by too little for a rate above the usual one, which so short a trial flatters", flattered);
  choice.reason += systems_in_words(choice);
}

}  // namespace smartmine
