#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace smartmine {

/// Several processes that make the same call on the same rows and share its work: each finds some of the lists, and all get all of them,
/// the same as one process alone would find.
struct Team {
  std::size_t member = 0;
  std::size_t size = 1;
  /// Every member has filled its own rows of `all`, from begins[member] to begins[member + 1], and gets the others'. A call of all members,
  /// in the same order. May throw.
  std::function<void(void* all, std::size_t row_bytes, std::span<const std::size_t> begins)> gather;
};

/// Where the shares of `count` things begin, and behind the last. Without a team (null) there is one.
std::vector<std::size_t> team_shares(const Team* team, std::size_t count);
/// The share of this member.
struct TeamShare {
  std::size_t begin = 0;
  std::size_t end = 0;
};
TeamShare own_share(const Team* team, std::span<const std::size_t> begins);
/// The sum over all members.
std::uint64_t team_sum(const Team* team, std::uint64_t own);
/// What all members have, one after the other.
template <class Value>
std::vector<Value> team_concatenation(const Team* team, std::vector<Value> own) {
  if (team == nullptr) return own;
  std::vector<std::uint64_t> counts(team->size);
  counts[team->member] = own.size();
  std::vector<std::size_t> begins(team->size + 1);
  for (std::size_t i = 0; i <= team->size; ++i) begins[i] = i;
  team->gather(counts.data(), sizeof(std::uint64_t), begins);
  begins[0] = 0;
  for (std::size_t i = 0; i < team->size; ++i) begins[i + 1] = begins[i] + counts[i];
  std::vector<Value> all(begins.back());
  std::copy(own.begin(), own.end(), all.begin() + static_cast<std::ptrdiff_t>(begins[team->member]));
  own = {};
  team->gather(all.data(), sizeof(Value), begins);
  return all;
}

}  // namespace smartmine
