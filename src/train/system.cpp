#include "smartmine/train/system.h"

#include <fmt/format.h>

#include <algorithm>

#include "smartmine/core/error.h"
#include "smartmine/core/random.h"
#include "train/systems.h"

namespace smartmine {

const System& find_system(std::string_view name) {
  static const std::vector<System> table = {
      {find_traits("semihard"), classes_plan, semihard},
      {find_traits("lifted"), classes_plan, lifted},
      {find_traits("npairs"), pairs_of_classes_plan, npairs},
      {find_traits("clustering"), classes_plan, clustering},
      {find_traits("triplet-global"), random_plan, triplets_and_global},
      {find_traits("triplet-fanng"), smart_plan, triplets},
      {find_traits("triplet-fanng-global"), smart_plan, triplets_and_global},
      {find_traits("triplet-fanng-global-adaptive"), smart_plan, triplets_and_global},
      {find_traits("hard-pairs"), hard_pairs_plan, mined_pairs},
      {find_traits("smart-batch"), smart_plan, triplets_all_pairs},
      {find_traits("class-batch"), classes_plan, all_pairs},
      {find_traits("neighbor-batch"), neighbor_plan, all_pairs},
      {find_traits("neighbor-semihard"), neighbor_plan, semihard},
      {find_traits("neighbor-batch-adaptive"), neighbor_plan, all_pairs},
      {find_traits("memory-batch"), neighbor_plan, all_pairs},
  };
  const auto found = std::find_if(table.begin(), table.end(), [&](const System& each) { return each.traits.name == name; });
  if (found != table.end()) return *found;
  find_traits(name);  // says which there are
  throw InternalError(fmt::format("system {} has traits but no plan", name));
}

std::span<const std::uint32_t> EpochPlan::batch(std::size_t number) const {
  const std::size_t begin = number * batch_items;
  return std::span(items).subspan(begin, std::min(batch_items, items.size() - begin));
}

std::uint64_t epoch_seed(std::uint64_t seed, std::uint64_t purpose, std::int64_t epoch) {
  return Random(seed, purpose, static_cast<std::uint64_t>(epoch)).bits();
}

}  // namespace smartmine
