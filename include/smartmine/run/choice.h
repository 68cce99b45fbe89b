#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "smartmine/run/epoch_record.h"

namespace smartmine {

/// How well a network tells held-out classes apart; fractions of 1.
struct HeldOutScore {
  double recall_at_1 = 0;
  double map_at_r = 0;
  /// What trials are compared by: recall alone would turn on few queries.
  double value() const { return (recall_at_1 + map_at_r) / 2; }
};

/// Weights part of the way from the start to the end of a trial.
struct Interpolation {
  double share = 1;  ///< 0: the start.
  HeldOutScore score;
};

/// A short training on the classes that were not held out.
struct Trial {
  std::string name;         ///< Its folder below trials/ of the run.
  std::string system = {};  ///< Empty: an earlier run, which did not write it down.
  double learning_rate = 0;
  std::int64_t epochs = 0;            ///< Planned.
  std::int64_t done = 0;              ///< Fewer: it was given up.
  HeldOutScore score;                 ///< After the last of these.
  std::vector<Interpolation> shares;  ///< Of pretrained weights: of the way from the start that may be kept.
  double seconds = 0;
  std::string stopped;  ///< Why a guard gave it up; empty: none did.
};

/// The weights that a run keeps, once it has ended.
struct KeptWeights {
  std::int64_t epoch = 0;  ///< That the training ended with.
  double share = 1;        ///< Of the way there from the start.
  std::optional<RetrievalMetrics> metrics;
};

/// What was tried on held-out training classes, what was chosen, and why. Lies in a run as choice.json.
struct Choice {
  bool decided = false;
  bool careful = false;  ///< There was too little to hold out, or too little time: nothing was tried.
  std::int64_t held_out_classes = 0;
  std::int64_t held_out_images = 0;
  bool own_split = false;  ///< The classes held out are a validation split that the data brings along, and no training classes.
  HeldOutScore start;      ///< Of the weights that the run starts from.
  std::vector<Trial> trials;
  std::vector<Interpolation> interpolations;
  double tolerance = 0;  ///< Scores that differ by less are taken for equal.

  std::string trial;   ///< The name of the one that was best; empty: none.
  std::string system;  ///< To train with; empty: there was none to choose, or an earlier run did not write it down.
  double learning_rate = 0;
  std::int64_t epochs = 0;        ///< 0: no training beats the weights that the run starts from.
  std::int64_t asked_epochs = 0;  ///< What the settings said.
  double share = 1;               ///< Of the way from the start to the last weights that the kept ones lie.
  double dropout = 0;             ///< Of the training; 0: what the settings say.
  double seconds = 0;             ///< All of it took, by the clock.
  std::string reason;             ///< In plain words.
  std::optional<KeptWeights> kept;
};

std::string to_json(const Choice& choice);
/// The same without what is kept, on one line, as what "choice" is of an object.
std::string to_json_line(const Choice& choice);
/// Throws InvalidArgument saying what is wrong.
Choice parse_choice(const std::string& text);
/// The choice of a run; none: it has made none. Throws IoError for a damaged one.
std::optional<Choice> read_choice(const std::filesystem::path& run);
void write_choice(const std::filesystem::path& run, const Choice& choice);

/// Whether a run that has kept weights after `epoch` still has them, now that it has trained `done` epochs: of one that was made longer
/// the last weights are others, and those in kept.safetensors stay until new ones take their place.
bool still_kept(const std::filesystem::path& run, std::int64_t epoch, std::int64_t done);

inline constexpr std::int64_t kLeastQueries = 60;  ///< Held-out images; fewer tell nothing.

/// How many of so many classes to hold out, and which block of consecutive ones; 0: too few to tell anything.
struct HeldOut {
  std::int64_t classes = 0;
  std::int64_t block = 0;
};
HeldOut classes_to_hold_out(std::size_t classes);

/// By how much the lower one of the rates for pretrained weights is lower.
inline constexpr double kGentler = 2.5;

/// Whether any training could be told from the start at all: not where that is as good as perfect.
bool can_be_beaten(const Choice& choice);

/// Whether weights some share of the way to the end of a trial beat those it started from by more than the tolerance: no other rate need
/// be tried.
bool clearly_helps(const Trial& trial, const Choice& choice);

/// Of systems that were tried, the one to go on with: the first, unless another at its best is better by more than the
/// tolerance and not to the cost of recall, or alone beats the start. Of weights drawn at random.
std::string pick_system(const Choice& choice);

/// Picks from trials that have been made, of the system that is chosen where there is one. Pretrained weights: the highest rate that is as
/// good as the best, within the tolerance, and the share of the way that is kept; or no training at all. Trials are compared by what would
/// be kept of them. Where the start is good already and none clearly helps, at most half of the way. Where a short trial at the first rate
/// is best a quarter of the way, half of the way at the gentler rate. Weights drawn at random: the lowest such rate, above that of the
/// first trial only if it is better by three tolerances, or no training either. Sets trial, learning_rate, epochs (0 or `epochs`), share,
/// interpolations and reason.
void pick_trial(Choice& choice, std::int64_t epochs, bool pretrained);

/// The share to keep: of those that beat the start, by half the tolerance in value and not to the cost of recall, and are as good as the
/// best of them, within half the tolerance, the largest; 1 only if it is better than all others by as much. None: none beats it.
std::optional<double> pick_share(const std::vector<Interpolation>& shares, const HeldOutScore& start, double tolerance);

/// The share to keep of a training whose shares have been measured as those of trials are, by the same rules; 0: the start.
double share_to_keep(const std::vector<Interpolation>& shares, const Choice& choice);

/// Which classes were held out: "15 held-out classes", "15 validation classes".
std::string held_out_in_words(const Choice& choice);

/// Such as "epoch 8, 75 % of the way from the start".
std::string in_words(const KeptWeights& kept);

/// How far scores of so many queries may differ by chance.
double score_tolerance(std::int64_t queries);

}  // namespace smartmine
