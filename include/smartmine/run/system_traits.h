#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace smartmine {

/// What a system needs to know to choose the images of an epoch.
enum class Needs {
  kLabels,      ///< Which images are of a class.
  kEmbeddings,  ///< And where all of them lie.
  kLists,       ///< And the nearest others of each.
};

/// What there is to know of a system without running it. A row of the paper's tables, or one beyond them.
struct SystemTraits {
  std::string name;
  std::string description;
  Needs needs = Needs::kLabels;  ///< Of epochs that are mined; until then random ones are enough.
  bool mines = false;            ///< Whether there is a kappa, and random triplets for --warmup-epochs.
  bool adaptive = false;         ///< Whether a controller sets it.
  bool groups = false;           ///< Whether it puts near classes into one batch, so that kappa and lists choose classes and no triplets.
  bool remembers = false;        ///< Whether its loss also sees the epoch's embeddings of images near those of the batch.
  bool unit_norm = true;         ///< Whether the loss gets embeddings of length 1.
  bool error_counts = false;     ///< Whether the training error is a share of triplets, so that an error of 1 says that nothing is learnt.
  std::optional<double> kappa = {};  ///< First one, unless somebody sets another; none: 4 with a controller, else 8.
  double target_error = 0.6;         ///< Likewise, of the controller.
  double learning_rate = 0.1;        ///< That suits the loss and a network of random weights, unless somebody sets another.
  double pretrained_rate = 0.1;      ///< Times that, for a network that starts from trained weights.
};

/// Of all systems that come with the library, in the order of the paper's tables.
std::span<const SystemTraits> system_traits();
/// By name; null: there is none.
const SystemTraits* known_traits(std::string_view name);
/// By name. Throws InvalidArgument naming those there are.
const SystemTraits& find_traits(std::string_view name);
std::vector<std::string> system_names();

}  // namespace smartmine
