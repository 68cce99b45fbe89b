#include "smartmine/train/system.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "smartmine/core/error.h"
#include "smartmine/core/random.h"

namespace smartmine {

std::span<const System> systems() {
  static const std::vector<System> table = {
      semihard_system(),
      lifted_system(),
      npairs_system(),
      clustering_system(),
      triplet_global_system(),
      triplet_fanng_system(),
      triplet_fanng_global_system(),
      triplet_fanng_global_adaptive_system(),
      hard_pairs_system(),
      smart_batch_system(),
  };
  return table;
}

const System& find_system(std::string_view name) {
  for (const System& system : systems())
    if (system.name == name) return system;
  throw InvalidArgument(fmt::format("system is '{}'; it must be one of {}", name, fmt::join(system_names(), ", ")));
}

std::vector<std::string> system_names() {
  std::vector<std::string> names;
  for (const System& system : systems()) names.emplace_back(system.name);
  return names;
}

std::span<const std::uint32_t> EpochPlan::batch(std::size_t number) const {
  const std::size_t begin = number * batch_items;
  return std::span(items).subspan(begin, std::min(batch_items, items.size() - begin));
}

std::uint64_t epoch_seed(std::uint64_t seed, std::uint64_t purpose, std::int64_t epoch) {
  return Random(seed, purpose, static_cast<std::uint64_t>(epoch)).bits();
}

}  // namespace smartmine
