#include "rank_arguments.h"

#include <cstdlib>
#include <string_view>

#include "option_checks.h"

namespace smartmine::app {

void RankArguments::add_to(CLI::App& command) {
  constexpr int kMostRanks = 256;  // that one host starts
  command.add_option("--ranks", ranks, "Processes to share the work, on this host; docs/scale.md has several hosts")
      ->check(whole_number(1, kMostRanks))
      ->type_name("N")
      ->capture_default_str();
  command.add_option("--rank-timeout", timeout, "Seconds that ranks wait for one that is silent before all end")
      ->check(number_from(1, 86400))
      ->type_name("X")
      ->capture_default_str();
}

bool RankArguments::several() const { return ranks > 1 || started(); }

bool RankArguments::started() {
  const char* const size = std::getenv("WORLD_SIZE");
  return (size != nullptr && std::string_view(size) != "1") || (size == nullptr && std::getenv("RANK") != nullptr);
}

}  // namespace smartmine::app
