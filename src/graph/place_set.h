#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace smartmine {

/// Some places, each once, in the order they came. A bit a place tells which: quick to ask, and quick to clear.
class PlaceSet {
 public:
  explicit PlaceSet(std::size_t places) : words_((places + 63) / 64, 0) {}

  /// Empties it; at most `most` will be added.
  void clear(std::size_t most) {
    for (std::size_t i = 0; i < size_; ++i) words_[members_[i] / 64] = 0;
    size_ = 0;
    if (members_.size() < most + 1) members_.resize(most + 1);
  }
  bool has(std::uint32_t place) const { return (words_[place / 64] >> (place % 64) & 1) != 0; }
  /// Adds a place that may be there already. Without a branch: nobody could foretell it.
  void add(std::uint32_t place) {
    std::uint64_t& word = words_[place / 64];
    members_[size_] = place;
    size_ += (word >> (place % 64) & 1) ^ 1;
    word |= std::uint64_t{1} << (place % 64);
  }
  std::span<const std::uint32_t> members() const { return {members_.data(), size_}; }

 private:
  std::vector<std::uint64_t> words_;
  std::vector<std::uint32_t> members_;
  std::size_t size_ = 0;
};

}  // namespace smartmine
