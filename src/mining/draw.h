#pragma once

#include <cstddef>
#include <cstdint>

#include "smartmine/core/random.h"
#include "smartmine/core/rows.h"
#include "smartmine/mining/labels.h"

namespace smartmine {

/// What randomness in mining is for: the `stream` of a Random.
enum class Draw : std::uint64_t {
  kShare = 0x6d696e6501,
  kAnchorOrder,
  kOutsidePositive,
  kRandomTriplet,
  kRandomAnchor,
  kPositivePair,
  kNegativePair,
};

/// The random numbers of one triplet or pair.
inline Random random_for(std::uint64_t seed, Draw draw, std::uint64_t index) {
  return Random(seed, static_cast<std::uint64_t>(draw), index);
}

/// A uniform member of the anchor's class other than the anchor, which must not be alone in it.
inline std::uint32_t draw_positive(const LabelIndex& labels, std::uint32_t anchor, Random& random) {
  const auto members = labels.members(labels.class_of(anchor));
  const std::size_t place = random.below(members.size() - 1);
  // Members ascend, so those before the anchor keep their place and those behind it move up by one.
  return members[place] < anchor ? members[place] : members[place + 1];
}

/// A uniform point of any other class.
inline std::uint32_t draw_negative(const LabelIndex& labels, std::uint32_t label_class, Random& random) {
  const std::size_t place = random.below(labels.size() - labels.class_size(label_class));
  return labels.by_class()[place < labels.class_offset(label_class) ? place : place + labels.class_size(label_class)];
}

/// A random order of 0 .. size-1 that can be asked place by place, in no memory: a keyed Feistel network on the next
/// even power of two, walked until it falls inside.
class KeyedPermutation {
 public:
  KeyedPermutation(std::uint64_t size, std::uint64_t seed, Draw draw, std::uint64_t index = 0) : size_(size) {
    while ((std::uint64_t{1} << (2 * half_bits_)) < size) ++half_bits_;
    Random random = random_for(seed, draw, index);
    for (std::uint64_t& key : keys_) key = random.bits();
  }

  std::uint64_t operator()(std::uint64_t place) const {
    const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
    do {
      std::uint64_t left = place >> half_bits_;
      std::uint64_t right = place & mask;
      for (const std::uint64_t key : keys_) {
        std::uint64_t mixed = (right ^ key) * 0xbf58476d1ce4e5b9ULL;
        mixed = (mixed ^ (mixed >> 29)) * 0x94d049bb133111ebULL;
        const std::uint64_t next = left ^ ((mixed >> 32) & mask);
        left = right;
        right = next;
      }
      place = (left << half_bits_) | right;
    } while (place >= size_);
    return place;
  }

 private:
  std::uint64_t size_;
  unsigned half_bits_ = 1;
  std::uint64_t keys_[4];
};

}  // namespace smartmine
