#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace smartmine {

/// Everything that decides a training run. A value of 0 or "auto" stands for a default that depends on other settings; `resolved` puts it
/// in.
struct TrainConfig {
  std::string dataset = "glyphs";
  std::string data_root;
  double validation_classes = 0;      ///< Training classes held out and measured on instead of the test half; as ValidationOptions has it.
  std::int64_t validation_block = 0;  ///< Which of them: drawn (0), or consecutive classes (1, 2, ...); as ValidationOptions has it.
  bool skip_bad_images = false;
  std::int64_t cache_mebibytes = 2048;  ///< Most memory for decoded images.

  std::string backbone = "small";
  std::string weights;  ///< File; empty: random weights.
  std::int64_t embedding_dim = 64;
  double dropout = 0;
  std::string new_layer_start = "auto";  ///< random, components or discriminants; auto: components where `weights` have none, else random.
  std::string batch_norm = "auto";       ///< Of ResNets and files, in training: frozen or batch; auto: frozen if pretrained.
  std::string pooling = "average";       ///< Of the last layer of googlenet and ResNets: average, max or both.
  std::int64_t input_size = 0;           ///< Side of what the network sees. 0: the backbone's own.
  std::string input_mean;                ///< Of ResNets and files: what is taken off values from 0 to 1, red first. Empty: ImageNet's.
  std::string input_deviation;           ///< What they are divided by then.
  std::int64_t image_size = 0;           ///< Side that images are scaled to before cropping. 0: 9/8 of input_size, for photos at least 256.
  std::int64_t evaluation_size = 0;      ///< Side of the centre crop to measure and to mine on. 0: input_size. Others: not for small.
  std::int64_t channels = 0;             ///< 1: grey, 3: colour. 0: grey for characters, else colour.

  std::string system = "triplet-fanng-global-adaptive";
  std::int64_t epochs = 8;
  std::int64_t batch_size = 32;          ///< Triplets a step; other systems take as many images (three times this).
  std::int64_t triplets_per_anchor = 2;  ///< Length of an epoch; other systems see as many images.
  std::int64_t images_per_class = 4;     ///< In batches made of classes.
  std::string optimizer = "sgd";         ///< sgd or adamw.
  double learning_rate = 0;              ///< Of the trunk. 0: what suits the system and the optimiser, less with `weights`.
  double new_layer_rate = 0;             ///< Times the trunk's, for the new layer. 0: 10 if the trunk starts from `weights`, else 1.
  double momentum = 0.9;                 ///< Of sgd.
  double weight_decay = 5e-4;
  double weight_average = 0;            ///< Decay a step of a running average of the weights, which is measured and saved instead. 0: none.
  std::string rate_schedule = "steps";  ///< steps, or cosine: from the rate to 0 over the run, a little every step.
  double rate_factor = 0.5;             ///< Of steps: the rate is multiplied by this ...
  std::int64_t rate_every = 3;          ///< ... every so many epochs. 0: never.
  double rate_warmup_epochs = 0;        ///< The rate rises to the schedule's over so many epochs, by the same amount every step.

  std::int64_t neighbors = 0;  ///< Length of the lists. 0: 200, or all other images if there are fewer.
  double kappa = 0;            ///< Start. 0: 4 with the controller, 8 by schedule. -1: where the controller expects the target error.
  std::string kappa_fit = "log-odds";  ///< Of the controller: log-odds, or linear as in the paper.
  double kappa_factor = 0.8;           ///< Of the schedule.
  double kappa_floor = 1;              ///< Of the schedule, and the least of the controller.
  double target_error = 0.6;           ///< Of the controller.
  double mined_fraction = 1;           ///< Share of triplets mined.
  double hub_limit = 0;                ///< An image is the negative at most so many times the mean. 0: no limit.
  double duplicate_distance = 0;       ///< Negatives nearer (squared) than this are copies and never mined. 0: those at distance 0.
  std::int64_t warmup_epochs = -1;     ///< Random triplets before mining starts. -1: 2 as in the paper, 1 if the trunk starts untrained.
  std::string index = "auto";          ///< auto, exact or fanng.

  double margin = 0.2;  ///< Of the triplet and the semi-hard loss.
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

  std::string crop = "random";  ///< centre, random or resized.
  double min_area = 0.3;        ///< Of resized crops.
  double max_aspect = 4.0 / 3;
  std::string flip = "auto";  ///< on, off; auto: off for characters.
  double colour_jitter = 0;   ///< Brightness, contrast and saturation of training images each times a factor from 1 - this to 1 + this.

  std::int64_t evaluate_every = 1;        ///< Epochs; the last is always evaluated.
  std::vector<std::int64_t> save_epochs;  ///< Epochs whose triplets and test embeddings are written; the last one's embeddings always are.
  std::uint64_t seed = 1;
  std::int64_t threads = 0;  ///< 0: all cores.
  std::string device = "auto";
  std::string precision = "auto";  ///< float32 or bfloat16; auto: bfloat16 on a GPU.

  /// Throws InvalidArgument naming the field, its value and the allowed range.
  void validate() const;
  /// Whether the trunk starts from trained weights: those of `weights`, or its own.
  bool pretrained() const;
  /// With the defaults that depend on other settings put in.
  TrainConfig resolved() const;
  /// The learning rate that the schedule has for a step when `done` epochs lie behind it, whole ones and a share of the one under way. Of a
  /// resolved configuration.
  double scheduled_rate(double done) const;
};

/// A setting as people meet it: `--name` on the command line, `name = ...` in a TOML file.
struct Setting {
  std::string_view name;
  std::string_view help;
  bool free = false;  ///< May be another when a run is resumed: it does not change what is computed, or only its last bits.
};

/// Calls `visit(setting, field)` for every field of a TrainConfig (const or not): the one list of what there is.
template <class Config, class Visit>
void visit_settings(Config& c, const Visit& visit) {
  visit(Setting{"dataset", "glyphs (drawn by the program), omniglot, cub200, cars196 or folder"}, c.dataset);
  visit(Setting{"data-root", "Where the data set is; not for glyphs", true}, c.data_root);
  visit(Setting{"validation-classes", "Training classes to hold out and measure on instead of the test half: a share under 1, or a number"},
        c.validation_classes);
  visit(Setting{"validation-block",
                "Which to hold out; 0: drawn by --seed, 1, 2, ...: the first so many in the order of the classes, the next, ..."},
        c.validation_block);
  visit(Setting{"skip-bad-images", "Go on without images that cannot be read, and count them"}, c.skip_bad_images);
  visit(Setting{"cache-mebibytes", "Most memory for decoded images", true}, c.cache_mebibytes);
  visit(Setting{"backbone", "small, googlenet, resnet18, resnet50, or a TorchScript file that makes a vector of an image: net.pt"},
        c.backbone);
  visit(Setting{"weights", "Weights to start from: .safetensors, a state dict saved by PyTorch, or a .caffemodel"}, c.weights);
  visit(Setting{"embedding-dim", "Dimension of the embedding"}, c.embedding_dim);
  visit(Setting{"dropout", "Share of features dropped before the new layer"}, c.dropout);
  visit(Setting{"new-layer-start",
                "random, or from features of the training images: components (where they vary most) or discriminants (where classes "
                "differ); auto: components with --weights, else random"},
        c.new_layer_start);
  visit(
      Setting{
          "batch-norm",
          "Of ResNets and files, in training: frozen (their stored averages) or batch (those of each batch); auto: frozen if pretrained"},
      c.batch_norm);
  visit(Setting{"pooling", "Of the last layer of googlenet and ResNets: average, max or both (their sum)"}, c.pooling);
  visit(Setting{"input-size", "Side of the images the network sees; 0: the backbone's own"}, c.input_size);
  visit(Setting{"input-mean", "Of ResNets and files: taken off values from 0 to 1; red, green, blue; default: ImageNet's"}, c.input_mean);
  visit(Setting{"input-deviation", "Of ResNets and files: what values are divided by then; default: ImageNet's"}, c.input_deviation);
  visit(
      Setting{"image-size",
              "Side images are scaled to before they are cropped; 0: 9/8 of what the network sees, of googlenet and ResNets at least 256"},
      c.image_size);
  visit(Setting{"evaluation-size", "Side of the centre crop to measure and to mine on, not of small; 0: as in training"},
        c.evaluation_size);
  visit(Setting{"channels", "1: grey, 3: colour; 0: grey for characters, else colour"}, c.channels);
  visit(Setting{"system", "What is sampled or mined, and the loss: a row of the paper's tables"}, c.system);
  visit(Setting{"epochs", "Epochs to train"}, c.epochs);
  visit(Setting{"batch-size", "Triplets a step; other systems take as many images"}, c.batch_size);
  visit(Setting{"triplets-per-anchor", "Triplets of each image in an epoch; other systems see as many images"}, c.triplets_per_anchor);
  visit(Setting{"images-per-class", "Images of a class in batches made of classes"}, c.images_per_class);
  visit(Setting{"optimizer", "sgd or adamw"}, c.optimizer);
  visit(Setting{"learning-rate", "Of the trunk; 0: what suits the system and the optimizer, less with --weights"}, c.learning_rate);
  visit(Setting{"new-layer-rate", "Learning rate of the new layer, times the trunk's; 0: 10 with --weights, else 1"}, c.new_layer_rate);
  visit(Setting{"momentum", "Of sgd"}, c.momentum);
  visit(Setting{"weight-decay", "Pull of all weights towards 0"}, c.weight_decay);
  visit(Setting{"weight-average", "Decay a step, such as 0.999, of a running average of the weights that is measured and saved; 0: none"},
        c.weight_average);
  visit(Setting{"rate-schedule", "steps (see the next two) or cosine: to 0 over the run"}, c.rate_schedule);
  visit(Setting{"rate-factor", "The learning rate is multiplied by this every --rate-every epochs"}, c.rate_factor);
  visit(Setting{"rate-every", "Epochs between changes of the learning rate; 0: none"}, c.rate_every);
  visit(Setting{"rate-warmup-epochs", "Epochs over which the learning rate rises from 0; 0: none"}, c.rate_warmup_epochs);
  visit(Setting{"neighbors", "Length of the neighbour lists; 0: 200 or all there are"}, c.neighbors);
  visit(Setting{"kappa", "First kappa; 0: 4 with the controller, 8 by schedule; -1: where the controller expects --target-error"}, c.kappa);
  visit(Setting{"kappa-fit", "How the controller reads past errors: log-odds, or linear as in the paper"}, c.kappa_fit);
  visit(Setting{"kappa-factor", "Without the controller, every epoch multiplies kappa by this"}, c.kappa_factor);
  visit(Setting{"kappa-floor", "Least kappa"}, c.kappa_floor);
  visit(Setting{"target-error", "Training error that the controller holds"}, c.target_error);
  visit(Setting{"mined-fraction", "Share of triplets that are mined; the others are random"}, c.mined_fraction);
  visit(Setting{"hub-limit", "An image is the negative of at most so many times the mean number of triplets; 0: no limit"}, c.hub_limit);
  visit(Setting{"duplicate-distance",
                "Negatives nearer (squared) than this are copies under another label and never mined; 0: at distance 0"},
        c.duplicate_distance);
  visit(Setting{"warmup-epochs", "Epochs of random triplets before mining starts; -1: 2 with --weights, else 1"}, c.warmup_epochs);
  visit(Setting{"index", "auto, exact or fanng: how neighbours are found"}, c.index);
  visit(Setting{"margin", "Of the triplet and the semi-hard loss"}, c.margin);
  visit(Setting{"global-weight", "Weight of the global loss beside the triplet loss"}, c.global_weight);
  visit(Setting{"global-lambda", "Of the global loss: weight of the means against the variances"}, c.global_lambda);
  visit(Setting{"global-margin", "Of the global loss: margin between the means"}, c.global_margin);
  visit(Setting{"lifted-margin", "Of the lifted structure loss"}, c.lifted_margin);
  visit(Setting{"npairs-norm-weight", "Of the N-pairs loss: weight of the embeddings' squared length"}, c.npairs_norm_weight);
  visit(Setting{"clustering-gamma", "Of the clustering loss: weight of the margin"}, c.clustering_gamma);
  visit(Setting{"pairs-margin", "Of the loss of hard-pairs"}, c.pairs_margin);
  visit(Setting{"multisimilarity-alpha", "Of the multi-similarity loss: how steep it is for positives"}, c.multisimilarity_alpha);
  visit(Setting{"multisimilarity-beta", "Of the multi-similarity loss: how steep it is for negatives"}, c.multisimilarity_beta);
  visit(Setting{"multisimilarity-base", "Of the multi-similarity loss: the similarity about which both turn"}, c.multisimilarity_base);
  visit(Setting{"crop", "centre, random or resized: what is cut out of training images"}, c.crop);
  visit(Setting{"min-area", "Least share of the image in a resized crop"}, c.min_area);
  visit(Setting{"max-aspect", "Most width to height, or height to width, of a resized crop"}, c.max_aspect);
  visit(Setting{"flip", "on, off or auto: mirror every other training image; auto: unless they are characters"}, c.flip);
  visit(Setting{"colour-jitter", "Brightness, contrast and saturation of training images change by up to this share; 0: not"},
        c.colour_jitter);
  visit(Setting{"evaluate-every", "Epochs between evaluations; the last is always evaluated"}, c.evaluate_every);
  visit(Setting{"save-epochs", "Epochs whose triplets and test embeddings are written, such as 4,8,12"}, c.save_epochs);
  visit(Setting{"seed", "Same seed, same run"}, c.seed);
  visit(Setting{"threads", "Threads to use; 0: all cores", true}, c.threads);
  visit(Setting{"device", "auto, cpu or cuda", true}, c.device);
  visit(Setting{"precision", "auto, float32 or bfloat16; auto: bfloat16 on a GPU"}, c.precision);
}

/// A field's value as TOML has it.
std::string to_toml(const std::string& value);
std::string to_toml(std::int64_t value);
std::string to_toml(std::uint64_t value);
std::string to_toml(double value);
std::string to_toml(bool value);
std::string to_toml(const std::vector<std::int64_t>& value);

/// All settings, a line each.
std::string to_toml(const TrainConfig& config);

}  // namespace smartmine
