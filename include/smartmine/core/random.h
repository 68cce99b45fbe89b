#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace smartmine {

/// Random numbers keyed by what they are for, never by which thread draws them.
/// Two objects with the same (seed, stream, index) give the same sequence on every machine.
class Random {
 public:
  explicit Random(std::uint64_t seed, std::uint64_t stream = 0, std::uint64_t index = 0)
      : state_(mix(mix(mix(seed) ^ (stream + 0x9e3779b97f4a7c15ULL)) ^ (index + 0xd1b54a32d192ed03ULL))) {}

  /// 64 fresh bits.
  std::uint64_t bits() { return mix(state_ += 0x9e3779b97f4a7c15ULL); }

  /// Uniform in [0, bound); bound must not be 0. Without bias.
  std::uint64_t below(std::uint64_t bound) {
    // The high half of bits * bound is uniform once the few low halves that would favour some values are thrown away.
    const std::uint64_t reject_below = (0 - bound) % bound;
    while (true) {
      const Wide product = static_cast<Wide>(bits()) * bound;
      if (static_cast<std::uint64_t>(product) >= reject_below) return static_cast<std::uint64_t>(product >> 64);
    }
  }

  /// Uniform in [0, 1) with 53 bits.
  double uniform() { return static_cast<double>(bits() >> 11) * 0x1.0p-53; }

  /// Normal with mean 0 and variance 1.
  double normal();

 private:
  // Not ISO C++, so pedantic compilers want to be told, and __extension__ goes with typedef only.
  __extension__ typedef unsigned __int128 Wide;  // NOLINT(modernize-use-using)

  static std::uint64_t mix(std::uint64_t z) {  // the finaliser of splitmix64
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }

  std::uint64_t state_;
};

/// Brings the values into a random order.
template <class T>
void shuffle(std::vector<T>& values, Random& random) {
  for (std::size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[random.below(i)]);
}

/// Brings a random choice of the values, without repetition and in random order, to the first `count` places; at most all of them.
template <class T>
void shuffle_first(std::vector<T>& values, std::size_t count, Random& random) {
  for (std::size_t i = 0; i < count; ++i) std::swap(values[i], values[i + random.below(values.size() - i)]);
}

}  // namespace smartmine
