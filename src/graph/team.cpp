#include "smartmine/graph/team.h"

#include <numeric>

namespace smartmine {

std::vector<std::size_t> team_shares(const Team* team, std::size_t count) {
  const std::size_t size = team == nullptr ? 1 : team->size;
  std::vector<std::size_t> begins(size + 1);
  for (std::size_t i = 0; i <= size; ++i) begins[i] = count * i / size;
  return begins;
}

TeamShare own_share(const Team* team, std::span<const std::size_t> begins) {
  const std::size_t member = team == nullptr ? 0 : team->member;
  return {begins[member], begins[member + 1]};
}

std::uint64_t team_sum(const Team* team, std::uint64_t own) {
  if (team == nullptr) return own;
  const std::vector<std::uint64_t> all = team_concatenation(team, std::vector<std::uint64_t>{own});
  return std::accumulate(all.begin(), all.end(), std::uint64_t{0});
}

}  // namespace smartmine
