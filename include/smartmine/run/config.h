#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "smartmine/run/setting.h"
#include "smartmine/run/system_traits.h"

namespace smartmine {

// The settings of a run, a struct for each thing they are about. A field that is std::optional and empty is left to the program: `resolved`
// puts in what suits the other settings. Names, help and ranges stand once, in the visit_settings of config_settings.h.

/// What is trained on, and how its images are changed on the way.
struct DataOptions {
  std::string dataset = "glyphs";
  std::string root;                   ///< Where it is; empty for glyphs.
  double validation_classes = 0;      ///< Training classes held out and measured on instead of the test half; as ValidationOptions has it.
  std::int64_t validation_block = 0;  ///< Which of them: drawn (0), or consecutive classes (1, 2, ...); as ValidationOptions has it.
  std::optional<double> reserved_images;  ///< Share of every training class that is not trained on; a tenth where it is the target, else 0.
  bool skip_bad_images = false;
  std::int64_t cache_mebibytes = 2048;  ///< Most memory for decoded images.
  std::string crop = "random";          ///< centre, random or resized.
  double min_area = 0.3;                ///< Of resized crops.
  double max_aspect = 4.0 / 3;
  std::string flip = "auto";    ///< on, off; auto: off for characters.
  bool turned_classes = false;  ///< As if every training class were four, turned by 0, 90, 180 and 270 degrees.
  double colour_jitter = 0;     ///< Brightness, contrast and saturation of training images each times a factor from 1 - this to 1 + this.
  void validate() const;
};

/// The network.
struct NetworkOptions {
  std::string backbone = "small";
  std::string weights;  ///< File; empty: random weights.
  std::int64_t embedding_dim = 64;
  std::optional<double> dropout;         ///< None; 0.2 if the training was chosen on held-out classes and is a long one.
  std::string new_layer_start = "auto";  ///< random, components or discriminants; auto: components where `weights` have none, else random.
  std::string batch_norm = "auto";       ///< Of ResNets and files, in training: frozen or batch; auto: frozen if pretrained.
  std::string pooling = "average";       ///< Of the last layer of googlenet and ResNets: average, max or both.
  std::string input_mean;                ///< Of ResNets and files: what is taken off values from 0 to 1, red first. Empty: ImageNet's.
  std::string input_deviation;           ///< What they are divided by then.
  std::optional<std::int64_t> input_size;  ///< Side of what the network sees; the backbone's own.
  std::optional<std::int64_t> image_size;  ///< Side that images are scaled to before cropping; 9/8 of input_size, for photos at least 256.
  std::optional<std::int64_t> evaluation_size;  ///< Side of the centre crop to measure and to mine on; input_size. Others: not for small.
  std::optional<std::int64_t> channels;         ///< 1: grey, 3: colour; grey for characters, else colour.
  /// Whether the trunk starts from trained weights: those of `weights`, or its own.
  bool pretrained() const;
  void validate() const;
};

/// What is sampled or mined, and the loss.
struct SystemOptions {
  std::string name = "auto";             ///< auto: the usual one, or the better of a few on held-out classes.
  std::int64_t batch_size = 32;          ///< Triplets per step; other systems take as many images (three times this).
  std::int64_t triplets_per_anchor = 2;  ///< Length of an epoch; other systems see as many images.
  std::int64_t images_per_class = 4;     ///< In batches made of classes.
  double margin = 0.2;                   ///< Of the triplet and the semi-hard loss.
  double global_weight = 1;
  double global_lambda = 0.8;
  double global_margin = 0.01;
  double lifted_margin = 1;
  double npairs_norm_weight = 0.002;
  double clustering_gamma = 1;
  double pairs_margin = 1;
  double multisimilarity_alpha = 2;
  double multisimilarity_beta = 50;
  double multisimilarity_base = 0.5;
  void validate() const;
  /// The name, or whose part it is where nothing is chosen.
  const std::string& usual_name() const;
};

/// How hard triplets are found.
struct MiningOptions {
  std::optional<std::int64_t> neighbors;      ///< Length of the lists; 200, or all other images if there are fewer.
  std::optional<double> kappa;                ///< Start; 2 of near classes, 4 with the controller, else 8.
  bool find_kappa = false;                    ///< Without a kappa the controller starts where it expects the target error.
  std::string kappa_fit = "log-odds";         ///< Of the controller: log-odds, or linear as in the paper.
  double kappa_factor = 0.8;                  ///< Of the schedule.
  double kappa_floor = 1;                     ///< Of the schedule, and the least of the controller.
  std::optional<double> target_error;         ///< Of the controller; 0.1 of near classes, else 0.6.
  std::string target = "constant";            ///< What the controller aims at: target_error, or the validation error of the moment.
  double mined_fraction = 1;                  ///< Share of triplets mined.
  bool nearer_positives = false;              ///< Where all of a class is nearer than the negative, take its farthest if that has a loss.
  double hub_limit = 0;                       ///< An image is the negative at most so many times the mean. 0: no limit.
  double duplicate_distance = 0;              ///< Negatives nearer (squared) than this are copies and never mined. 0: those at distance 0.
  std::int64_t memory_neighbors = 32;         ///< Nearest images of each of a batch that systems that remember compare it with.
  std::optional<std::int64_t> warmup_epochs;  ///< Random triplets before mining starts; 2 as in the paper, 1 from random weights.
  std::string index = "auto";                 ///< auto, exact or fanng.
  std::string graph_start = "auto";           ///< Of every epoch's graph: previous, partition, or random as in the paper; auto: previous.
  double success_rate = 0.98;                 ///< Of walks along the graph, where it is brought to one.
  bool longer_lists = false;                  ///< Search longer lists, exactly, for images whose list yields too few triplets.
  std::optional<std::int64_t> longest_list;   ///< Of these; 16 times `neighbors`.
  void validate() const;
};

/// How fast and how long is learnt.
struct ScheduleOptions {
  std::int64_t epochs = 8;
  std::string optimizer = "sgd";         ///< sgd or adamw.
  std::optional<double> learning_rate;   ///< Of the trunk; what suits the system and the optimiser, less with weights.
  std::optional<double> new_layer_rate;  ///< Times the trunk's, for the new layer; 10 if the trunk starts from weights, else 1.
  double momentum = 0.9;                 ///< Of sgd.
  double weight_decay = 5e-4;
  double weight_average = 0;  ///< Decay per step of a running average of the weights, which is measured and saved instead. 0: none.
  std::string rate_schedule = "steps";  ///< steps, or cosine: from the rate to 0 over the run, a little every step.
  double rate_factor = 0.5;             ///< Of steps: the rate is multiplied by this ...
  std::int64_t rate_every = 3;          ///< ... every so many epochs. 0: never.
  double rate_warmup_epochs = 0;        ///< The rate rises to the schedule's over so many epochs, by the same amount every step.
  void validate() const;
  /// The learning rate of a step when `done` epochs lie behind it, whole ones and a share of the one under way. Of resolved options.
  double rate(double done) const;
};

/// What the program finds out by itself, on training classes that it holds out.
struct ChoosingOptions {
  std::string choose = "auto";    ///< on, off; auto: on for a network or data of one's own, unless the learning rate is given.
  std::string budget;             ///< Time for everything, such as 90s, 10m or 2h; empty: as long as it takes.
  std::int64_t most_epochs = 60;  ///< That a budget may come to.
  void validate() const;
  /// 0: as long as it takes.
  double budget_seconds() const;
};

/// What is measured and written on the way.
struct OutputOptions {
  std::int64_t evaluate_every = 1;        ///< Epochs; the last is always evaluated.
  std::vector<std::int64_t> save_epochs;  ///< Epochs whose triplets and test embeddings are written; the last one's embeddings always are.
  bool keep_start = false;                ///< Keep the weights that the run starts from, as start.safetensors.
  void validate() const;
};

/// Where it is computed.
struct ComputeOptions {
  std::uint64_t seed = 1;
  std::int64_t threads = 0;                     ///< 0: all cores.
  std::optional<std::int64_t> network_threads;  ///< Of the network, for each shard; `threads`, or all cores by shards.
  std::optional<std::int64_t> shards;           ///< Parts of a batch whose gradients are taken apart and added; 1, or as many as ranks.
  std::string device = "auto";
  std::string precision = "auto";  ///< float32 or bfloat16; auto: bfloat16 on a GPU.
  void validate() const;
};

/// Everything that decides a run.
struct RunConfig {
  DataOptions data;
  NetworkOptions model;
  SystemOptions system;
  MiningOptions mining;
  ScheduleOptions schedule;
  ChoosingOptions choosing;
  OutputOptions output;
  ComputeOptions compute;

  /// Throws InvalidArgument naming the setting, its value and what is allowed. A system that is not among those of the library is taken for
  /// one from outside.
  void validate() const;
  /// Whether something is chosen on held-out classes before the training.
  bool chooses() const;
  /// Whether the system is: not given, and the weights are drawn at random.
  bool chooses_system() const;
  /// With all that was left to the program put in. `traits` are those of the system; without, they are found by its name. A system that is
  /// yet to be chosen is left open then, and so is what hangs on it.
  RunConfig resolved() const;
  RunConfig resolved(const SystemTraits& traits) const;
};

/// The best embedding we know how to train from pretrained weights: 512 dimensions, all pairs of a batch in the loss. For a backbone that
/// takes images of any size; docs/tuning.md says where the settings come from.
RunConfig best_config();

/// All settings as TOML, a line each, by their names on the command line.
std::string to_toml(const RunConfig& config);
/// Sets what a TOML text holds: names at its top or in a section [train]; a section [train.NAME] counts if NAME is the system, and goes
/// before the rest. Throws InvalidArgument naming the line that cannot be read, the name that is unknown or the value that is not allowed.
void set_from_toml(RunConfig& config, std::string_view text);
/// Reads and validates a file such as a run's config.toml or a recipe. Throws IoError naming it and what is wrong.
RunConfig read_config(const std::filesystem::path& path);

/// A setting that somebody gave: its name and the value as text.
using GivenSetting = std::pair<std::string, std::string>;
/// Sets what was given. Throws InvalidArgument naming a value that is not allowed.
void set_given(RunConfig& config, std::span<const GivenSetting> given);
/// The settings to go on with: those of the run, with given ones where they change nothing that is computed. Throws InvalidArgument naming
/// the given ones that would.
RunConfig resumed_config(const RunConfig& saved, std::span<const GivenSetting> given);

/// How a setting of this name changes a run; kResult for names that are unknown.
Changes changes_of(std::string_view name);

}  // namespace smartmine
