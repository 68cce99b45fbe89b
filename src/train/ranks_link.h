#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "smartmine/train/ranks.h"

namespace smartmine {

/// The connections of a rank. Whatever goes wrong is a RankFailure that names a rank.
class Ranks::Link {
 public:
  /// Joins.
  explicit Link(const RankWorld& world);
  ~Link();
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  int local_size() const;
  int local_rank() const;
  /// This rank does something: the others need not worry.
  void note_work() noexcept;
  void send(const void* data, std::size_t bytes, int to);
  void receive(void* data, std::size_t bytes, int from);
  /// What each rank has for all the others, and a byte beside it.
  struct Piece {
    std::byte* data = nullptr;
    std::size_t bytes = 0;
    std::byte* note = nullptr;
  };
  /// Of each rank one, in their order: gives one's own and gets the others'.
  void exchange(std::span<const Piece> pieces);
  /// Tells the others why this rank ends, unless one has told why all do; who has the store then waits until they have heard it.
  void fail(const std::string& why) noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace smartmine
