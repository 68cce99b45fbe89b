#pragma once

#include "smartmine/data/load.h"
#include "smartmine/run/config.h"

// The one list of settings: their names, what is said of them, what they may be.
namespace smartmine {

inline constexpr double kMostWhole = 1'000'000;

template <class Options, class Visit>
void visit_data_settings(Options& o, const Visit& visit) {
  visit(Setting{"dataset", "glyphs (drawn by the program), omniglot, cub200, cars196 or folder", Range::one_of(dataset_names())},
        o.dataset);
  visit(Setting{"data-root", "Where the data set is; not for glyphs", Range::any(), Changes::kNothing}, o.root);
  visit(Setting{"validation-classes", "Training classes to hold out and measure on instead of the test half: a share under 1, or a number",
                Range::from(0)},
        o.validation_classes);
  visit(Setting{"validation-block",
                "Which to hold out; 0: drawn by --seed, 1, 2, ...: the first so many in the order of the classes, the next, ...",
                Range::from(0, kMostWhole)},
        o.validation_block);
  visit(Setting{"reserved-images",
                "Share of every training class that is not trained on, for its error; auto: 0.1 with --target validation, else 0",
                Range::from(0, 0.5)},
        o.reserved_images);
  visit(Setting{"skip-bad-images", "Go on without images that cannot be read, and count them"}, o.skip_bad_images);
  visit(Setting{"cache-mebibytes", "Most memory for decoded images", Range::from(0, kMostWhole), Changes::kNothing}, o.cache_mebibytes);
}

template <class Options, class Visit>
void visit_picture_settings(Options& o, const Visit& visit) {
  visit(Setting{"crop", "centre, random or resized: what is cut out of training images", Range::one_of({"centre", "random", "resized"})},
        o.crop);
  visit(Setting{"min-area", "Least share of the image in a resized crop", Range::above(0, 1)}, o.min_area);
  visit(Setting{"max-aspect", "Most width to height, or height to width, of a resized crop", Range::from(1, 10)}, o.max_aspect);
  visit(Setting{"flip", "on, off or auto: mirror every other training image; auto: unless they are characters",
                Range::one_of({"auto", "on", "off"})},
        o.flip);
  visit(Setting{"turned-classes", "Training classes turned by 90, 180 and 270 degrees are classes of their own"}, o.turned_classes);
  visit(Setting{"colour-jitter", "Brightness, contrast and saturation of training images change by up to this share; 0: not",
                Range::from(0, 1)},
        o.colour_jitter);
}

template <class Options, class Visit>
void visit_model_settings(Options& o, const Visit& visit) {
  visit(Setting{"backbone", "small, googlenet, resnet18, resnet50, or a TorchScript file that makes a vector of an image: net.pt"},
        o.backbone);
  visit(Setting{"weights", "Weights to start from: .safetensors, a state dict saved by PyTorch, or a .caffemodel"}, o.weights);
  visit(Setting{"embedding-dim", "Dimension of the embedding", Range::from(1, 65536)}, o.embedding_dim);
  visit(Setting{"dropout", "Share of features dropped before the new layer; auto: 0, or 0.2 in a long training that was chosen",
                Range::below(0, 1)},
        o.dropout);
  visit(Setting{"new-layer-start",
                "random, or from features of the training images: components (where they vary most) or discriminants (where classes "
                "differ); auto: components with --weights, else random",
                Range::one_of({"auto", "random", "components", "discriminants"})},
        o.new_layer_start);
  visit(Setting{"batch-norm", "Of ResNets and files in training: frozen (as pretrained) or batch (learnt anew); auto: frozen if pretrained",
                Range::one_of({"auto", "frozen", "batch"})},
        o.batch_norm);
  visit(Setting{"pooling", "Of the last layer of googlenet and ResNets: average, max or both (their sum)",
                Range::one_of({"average", "max", "both"})},
        o.pooling);
  visit(Setting{"input-mean", "Of ResNets and files: taken off values from 0 to 1; red, green, blue; default: ImageNet's"}, o.input_mean);
  visit(Setting{"input-deviation", "Of ResNets and files: what values are divided by then; default: ImageNet's"}, o.input_deviation);
  visit(Setting{"input-size", "Side of the images the network sees; auto: the backbone's own", Range::from(8, 1024)}, o.input_size);
  visit(Setting{"image-size",
                "Side images are scaled to before they are cropped; auto: 9/8 of what the network sees, for photos at least 256",
                Range::from(16, 1024)},
        o.image_size);
  visit(Setting{"evaluation-size", "Side of the centre crop to measure and to mine on, not of small; auto: as in training",
                Range::from(16, 1024)},
        o.evaluation_size);
  visit(Setting{"channels", "1: grey, 3: colour; auto: grey for characters, else colour", Range::from(1, 3)}, o.channels);
}

template <class Options, class Visit>
void visit_system_settings(Options& o, const Visit& visit) {
  visit(Setting{"system", "What is sampled or mined, and the loss: a row of the paper's tables; auto: the adaptive one, or chosen"},
        o.name);
  visit(Setting{"batch-size", "Triplets per step; other systems take as many images", Range::from(1, 65536)}, o.batch_size);
  visit(Setting{"triplets-per-anchor", "Triplets of each image per epoch; other systems see as many images", Range::from(1, 65536)},
        o.triplets_per_anchor);
  visit(Setting{"images-per-class", "Images of a class in batches made of classes", Range::from(2, 65536)}, o.images_per_class);
}

template <class Options, class Visit>
void visit_loss_settings(Options& o, const Visit& visit) {
  visit(Setting{"margin", "Of the triplet and the semi-hard loss", Range::above(0)}, o.margin);
  visit(Setting{"global-weight", "Weight of the global loss beside the triplet loss", Range::from(0)}, o.global_weight);
  visit(Setting{"global-lambda", "Of the global loss: weight of the means against the variances", Range::from(0)}, o.global_lambda);
  visit(Setting{"global-margin", "Of the global loss: margin between the means", Range::from(0)}, o.global_margin);
  visit(Setting{"lifted-margin", "Of the lifted structure loss", Range::above(0)}, o.lifted_margin);
  visit(Setting{"npairs-norm-weight", "Of the N-pairs loss: weight of the embeddings' squared length", Range::from(0)},
        o.npairs_norm_weight);
  visit(Setting{"clustering-gamma", "Of the clustering loss: weight of the margin", Range::from(0)}, o.clustering_gamma);
  visit(Setting{"pairs-margin", "Of the loss of hard-pairs", Range::above(0)}, o.pairs_margin);
  visit(Setting{"multisimilarity-alpha", "Of the multi-similarity loss: how steep it is for positives", Range::above(0)},
        o.multisimilarity_alpha);
  visit(Setting{"multisimilarity-beta", "Of the multi-similarity loss: how steep it is for negatives", Range::above(0)},
        o.multisimilarity_beta);
  visit(Setting{"multisimilarity-base", "Of the multi-similarity loss: the similarity about which both turn", Range::from(-1, 1)},
        o.multisimilarity_base);
}

template <class Options, class Visit>
void visit_schedule_settings(Options& o, const Visit& visit) {
  visit(Setting{"epochs", "Epochs to train; 0: measure the weights it starts from", Range::from(0, kMostWhole)}, o.epochs);
  visit(Setting{"optimizer", "sgd or adamw", Range::one_of({"sgd", "adamw"})}, o.optimizer);
  visit(Setting{"learning-rate", "Of the trunk; auto: what suits the system and the optimizer, less with --weights", Range::above(0)},
        o.learning_rate);
  visit(Setting{"new-layer-rate", "Learning rate of the new layer, times the trunk's; auto: 10 with --weights, else 1", Range::above(0)},
        o.new_layer_rate);
  visit(Setting{"momentum", "Of sgd", Range::below(0, 1)}, o.momentum);
  visit(Setting{"weight-decay", "Pull of all weights towards 0", Range::from(0)}, o.weight_decay);
  visit(Setting{"weight-average", "Decay per step, such as 0.999, of a running average of the weights that is measured and saved; 0: none",
                Range::below(0, 1)},
        o.weight_average);
  visit(Setting{"rate-schedule", "steps (see the next two) or cosine: to 0 over the run", Range::one_of({"steps", "cosine"})},
        o.rate_schedule);
  visit(Setting{"rate-factor", "The learning rate is multiplied by this every --rate-every epochs", Range::above(0, 1)}, o.rate_factor);
  visit(Setting{"rate-every", "Epochs between changes of the learning rate; 0: none", Range::from(0, kMostWhole)}, o.rate_every);
  visit(Setting{"rate-warmup-epochs", "Epochs over which the learning rate rises from 0; 0: none", Range::from(0, kMostWhole)},
        o.rate_warmup_epochs);
}

template <class Options, class Visit>
void visit_choosing_settings(Options& o, const Visit& visit) {
  visit(Setting{"choose",
                "on: find out on held-out training classes how fast to learn, by which system, and which weights to keep; off: keep the "
                "last epoch; "
                "auto: on for --weights or --dataset folder, unless --learning-rate or --validation-classes is given",
                Range::one_of({"auto", "on", "off"})},
        o.choose);
  visit(Setting{"budget", "Time for choosing and training together, such as 90s, 10m or 2h; sets --epochs"}, o.budget);
  visit(Setting{"most-epochs", "Epochs that --budget may come to at most; --epochs says it too", Range::from(1, kMostWhole)},
        o.most_epochs);
}

template <class Options, class Visit>
void visit_mining_settings(Options& o, const Visit& visit) {
  visit(Setting{"neighbors", "Length of the neighbour lists; auto: 200 or all there are", Range::from(1, 4294967294)}, o.neighbors);
  visit(Setting{"kappa", "First kappa; auto: 2 for batches of near classes, 4 with the controller, 8 by schedule", Range::above(0)},
        o.kappa);
  visit(Setting{"find-kappa", "Unless --kappa is given, the controller starts with the one at which it expects --target-error"},
        o.find_kappa);
  visit(Setting{"kappa-fit", "How the controller reads past errors: log-odds, or linear as in the paper",
                Range::one_of({"log-odds", "linear"})},
        o.kappa_fit);
  visit(Setting{"kappa-factor", "Without the controller, every epoch multiplies kappa by this", Range::above(0, 1)}, o.kappa_factor);
  visit(Setting{"kappa-floor", "Least kappa", Range::above(0)}, o.kappa_floor);
  visit(Setting{"target-error", "Training error that the controller aims at; auto: 0.1 for batches of near classes, else 0.6",
                Range::between(0, 1)},
        o.target_error);
  visit(Setting{"target", "What the controller aims at: constant (--target-error), or validation: the error on --reserved-images",
                Range::one_of({"constant", "validation"})},
        o.target);
  visit(Setting{"mined-fraction", "Share of triplets that are mined, the others random; in batches, of classes, divided by kappa",
                Range::from(0, 1)},
        o.mined_fraction);
  visit(
      Setting{"nearer-positives", "Take the farthest of the class where all of it is nearer than the negative, if it violates the margin"},
      o.nearer_positives);
  visit(Setting{"hub-limit", "An image is the negative of at most so many times the mean number of triplets; 0: no limit",
                Range::from(0, kMostWhole)},
        o.hub_limit);
  visit(Setting{"duplicate-distance",
                "Nearer (squared) than this are copies: never mined as negatives, and in batches one a round comes; 0: at distance 0",
                Range::from(0, 4)},
        o.duplicate_distance);
  visit(Setting{"memory-neighbors", "Of memory-batch: nearest images of other classes, of each of a batch, to compare with",
                Range::from(1, kMostWhole)},
        o.memory_neighbors);
  visit(Setting{"warmup-epochs", "Epochs of random triplets, or drawn classes, before mining starts; auto: 2 with --weights, else 1",
                Range::from(0, kMostWhole)},
        o.warmup_epochs);
  visit(Setting{"index", "auto, exact or fanng: how neighbours are found", Range::one_of({"auto", "exact", "fanng"})}, o.index);
  visit(Setting{"graph-start", "What each epoch's graph is built from: previous, partition, or random as in the paper; auto: previous",
                Range::one_of({"auto", "previous", "partition", "random"})},
        o.graph_start);
  visit(Setting{"success-rate", "Share of random pairs whose walk through the graph is to reach its target", Range::between(0, 1)},
        o.success_rate);
  visit(Setting{"longer-lists", "Search longer lists, exactly, for images whose list yields too few triplets"}, o.longer_lists);
  visit(Setting{"longest-list", "Where --longer-lists ends; auto: 16 times the length of the others", Range::from(1, 4294967294)},
        o.longest_list);
}

template <class Options, class Visit>
void visit_output_settings(Options& o, const Visit& visit) {
  visit(Setting{"evaluate-every", "Epochs between evaluations; the last is always evaluated", Range::from(1, kMostWhole), Changes::kOutput},
        o.evaluate_every);
  visit(Setting{"save-epochs", "Epochs whose triplets and test embeddings are written, such as 4,8,12", Range::from(0, kMostWhole),
                Changes::kOutput},
        o.save_epochs);
  visit(Setting{"keep-start", "Keep the weights that the run starts from, as start.safetensors", Range::any(), Changes::kOutput},
        o.keep_start);
}

template <class Options, class Visit>
void visit_compute_settings(Options& o, const Visit& visit) {
  visit(Setting{"seed", "Same seed, same run", Range::from(0), Changes::kRepetition}, o.seed);
  visit(Setting{"threads", "Threads to use; 0: all cores", Range::from(0, 1024), Changes::kNothing}, o.threads);
  visit(Setting{"shards",
                "Parts of fixed shape that a batch is cut into, for ranks or threads to share; auto: as many as ranks, or two on a CPU for "
                "the small network",
                Range::from(1, 4096)},
        o.shards);
  visit(Setting{"network-threads", "Threads that pass a shard through the network; auto: half of all for the small network, else --threads",
                Range::from(1, 1024)},
        o.network_threads);
  visit(Setting{"device", "auto, cpu or cuda", Range::one_of({"auto", "cpu", "cuda"}), Changes::kNothing}, o.device);
  visit(Setting{"precision", "auto, float32 or bfloat16; auto: bfloat16 on a GPU", Range::one_of({"auto", "float32", "bfloat16"})},
        o.precision);
}

/// Calls `visit(setting, field)` for every setting of a RunConfig (const or not), in the order in which they are written and shown.
template <class Config, class Visit>
void visit_settings(Config& config, const Visit& visit) {
  visit_data_settings(config.data, visit);
  visit_model_settings(config.model, visit);
  visit_system_settings(config.system, visit);
  visit_schedule_settings(config.schedule, visit);
  visit_choosing_settings(config.choosing, visit);
  visit_mining_settings(config.mining, visit);
  visit_loss_settings(config.system, visit);
  visit_picture_settings(config.data, visit);
  visit_output_settings(config.output, visit);
  visit_compute_settings(config.compute, visit);
}

}  // namespace smartmine
