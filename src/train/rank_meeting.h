#pragma once

#include <optional>
#include <set>
#include <string>
#include <utility>

#include "smartmine/train/ranks.h"
#include "train/rank_board.h"
#include "train/rank_wait.h"

namespace smartmine {

/// What this program was built from, as "sources 0123456789ab". Made by the build.
const char* source_digest();

/// "rank 1", "ranks 0, 2".
std::string numbers(const std::set<int>& ranks);

/// How the ranks of one attempt find each other on their board, who is there and where, and how they part: all before and beside their
/// connections.
struct RankMeeting {
  RankMeeting(const RankWorld& w, RankBoard b) : world(w), board(std::move(b)) {}

  RankWorld world;
  RankBoard board;
  std::string round;  // of a store that lasts: the one this rank is in
  int local_size = 1;
  int local_rank = 0;
  bool failed = false;
  bool twice = false;       // another process is this rank as well
  bool connected = false;   // with all; see `end`
  bool has_waited = false;  // until the others have heard why all end

  bool hosts_store() const { return world.rank == 0 && !world.store_elsewhere; }
  Milliseconds timeout() const { return milliseconds(world.timeout_seconds); }

  /// Makes sure that what listens there is a store.
  void greet(Clock::time_point end_of_wait);
  /// Waits until all ranks have said hello.
  void meet(Clock::time_point end_of_wait);
  void compare_hellos();
  /// Where the others can reach this rank; empty: LibTorch is to find out.
  std::string address_for_others();

  /// Notes that a rank knows why all end, or has left, or will never know.
  void has_heard(int rank) const;
  /// Who has the store keeps it open until the others have read why all end, which some look for only after a long piece of work. Those
  /// that are dead or stand still will not: once nobody shows that it works they are not waited for long.
  void let_others_hear();
  /// Ends the work of this rank; all others hear why. Once all are connected they are waited for only after this rank had time to say it.
  [[noreturn]] void end(const std::string& why);
  std::set<int> silent_ranks() const;

 private:
  void enter_round(Clock::time_point end_of_wait);
  void find_round(const RankBoard& rounds, Clock::time_point end_of_wait);
  std::optional<bool> round_is_met(bool all_said_hello);
  std::string came_twice() const;
};

}  // namespace smartmine
