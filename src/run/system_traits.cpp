#include "smartmine/run/system_traits.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "smartmine/core/error.h"

namespace smartmine {
namespace {

constexpr double kGroupsKappa = 2;  // half of a batch's classes near each other; docs/tuning.md

}  // namespace

std::span<const SystemTraits> system_traits() {
  static const std::vector<SystemTraits> table = {
      {.name = "semihard", .description = "classes in a batch, semi-hard triplets among them"},
      // Its gradients are large, and the new layer, which learns ten times as fast, comes apart.
      {.name = "lifted", .description = "classes in a batch, lifted structure loss", .learning_rate = 0.01, .pretrained_rate = 0.002},
      // Gradients grow with the embeddings, which are long where features are.
      {.name = "npairs",
       .description = "a pair from each of many classes, N-pairs loss",
       .unit_norm = false,
       .learning_rate = 0.01,
       .pretrained_rate = 0.001},
      {.name = "clustering", .description = "classes in a batch, facility-location loss", .learning_rate = 0.01},
      {.name = "triplet-global", .description = "random triplets, triplet and global loss", .error_counts = true},
      {.name = "triplet-fanng",
       .description = "smart mining by a schedule, triplet loss",
       .needs = Needs::kLists,
       .mines = true,
       .error_counts = true},
      {.name = "triplet-fanng-global",
       .description = "smart mining by a schedule, triplet and global loss",
       .needs = Needs::kLists,
       .mines = true,
       .error_counts = true},
      {.name = "triplet-fanng-global-adaptive",
       .description = "smart mining that holds the training error, triplet and global loss",
       .needs = Needs::kLists,
       .mines = true,
       .adaptive = true,
       .error_counts = true},
      {.name = "hard-pairs",
       .description = "the hardest tenth of randomly drawn pairs, hinge on pairs",
       .needs = Needs::kEmbeddings,
       .learning_rate = 0.01},
      {.name = "smart-batch",
       .description =
           "smart mining that holds the training error; its triplets make a batch, the multi-similarity loss sees all pairs of it",
       .needs = Needs::kLists,
       .mines = true,
       .adaptive = true,
       .error_counts = true},
      {.name = "class-batch", .description = "classes drawn for a batch, the multi-similarity loss sees all pairs of it"},
      {.name = "neighbor-batch",
       .description = "classes that lie near each other in a batch, the multi-similarity loss sees all pairs of it",
       .needs = Needs::kLists,
       .mines = true,
       .groups = true,
       .kappa = kGroupsKappa},
      {.name = "neighbor-semihard",
       .description = "classes that lie near each other in a batch, semi-hard triplets among them",
       .needs = Needs::kLists,
       .mines = true,
       .groups = true,
       .kappa = kGroupsKappa},
      {.name = "neighbor-batch-adaptive",
       .description =
           "as neighbor-batch, with as many near classes as hold the training error: how often the nearest of a batch is of another class",
       .needs = Needs::kLists,
       .mines = true,
       .adaptive = true,
       .groups = true,
       .kappa = kGroupsKappa,
       .target_error = 0.1},
      {.name = "memory-batch",
       .description = "as neighbor-batch, and a batch is compared with the nearest images of the whole set too, as they were last seen",
       .needs = Needs::kLists,
       .mines = true,
       .groups = true,
       .remembers = true,
       .kappa = kGroupsKappa},
  };
  return table;
}

const SystemTraits* known_traits(std::string_view name) {
  const auto all = system_traits();
  const auto found = std::find_if(all.begin(), all.end(), [&](const SystemTraits& each) { return each.name == name; });
  return found == all.end() ? nullptr : &*found;
}

const SystemTraits& find_traits(std::string_view name) {
  if (const SystemTraits* traits = known_traits(name)) return *traits;
  throw InvalidArgument(fmt::format("system is '{}'; it must be one of {}", name, fmt::join(system_names(), ", ")));
}

std::vector<std::string> system_names() {
  std::vector<std::string> names;
  for (const SystemTraits& traits : system_traits()) names.push_back(traits.name);
  return names;
}

}  // namespace smartmine
