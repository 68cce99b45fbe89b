#include "train/rank_meeting.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/version.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <thread>
#include <utility>
#include <vector>

#include "train/rank_address.h"

namespace smartmine {
namespace {

constexpr Milliseconds kNoLife{10'000};    // without a sign of life: then nobody is left who would hear why all end
constexpr const char* kRounds = "rounds";  // in a store that lasts: below it stands which round is the last

/// The round that rank 0 has opened last in a store that lasts; empty: none yet.
std::string last_round(const RankBoard& rounds) { return rounds.has("last") ? rounds.get("last") : ""; }

}  // namespace

std::string numbers(const std::set<int>& ranks) {
  return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", fmt::join(ranks, ", "));
}

void RankMeeting::has_heard(int rank) const {
  try {
    board.set(fmt::format("heard/{}", rank), "");
  } catch (const std::exception&) {
    // Then nobody waits for that.
  }
}

void RankMeeting::let_others_hear() {
  if (!hosts_store() || std::exchange(has_waited, true)) return;
  const auto begin = Clock::now();
  auto last_life = begin;
  std::string alive;
  const auto waits_for = [&](int r) {
    if (board.has(fmt::format("heard/{}", r))) return false;
    const auto now = Clock::now();
    if (const std::string signs = board.signs_of_life(); signs != std::exchange(alive, signs)) last_life = now;
    // One that has not come may yet come, but is not waited for long.
    return now - begin < (board.has(fmt::format("seen/{}", r)) ? timeout() : kStoreAnswers) && now - last_life < kNoLife;
  };
  try {
    for (int r = 0; r < world.size; ++r)
      while (waits_for(r)) std::this_thread::sleep_for(kLook);
  } catch (const std::exception&) {
    // The store is this process's own; without it there is nothing to wait for.
  }
}

void RankMeeting::end(const std::string& why) {
  failed = true;
  board.set_patience(kStoreAnswers);
  const std::string first = board.fail(why);
  if (!twice) has_heard(world.rank);  // else the other one of that number is yet to
  if (!connected) let_others_hear();
  throw RankFailure(first);
}

// All ranks that wait for one that is silent get here at about the same time, and say so; who does not is the one.
std::set<int> RankMeeting::silent_ranks() const {
  std::set<int> silent;
  for (int r = 0; r < world.size; ++r) silent.insert(r);
  const auto end = Clock::now() + std::clamp(timeout() / 4, Milliseconds(1000), Milliseconds(10'000));
  try {
    board.set(fmt::format("waits/{}", world.rank), "");
    while (!silent.empty() && Clock::now() < end) {
      for (auto r = silent.begin(); r != silent.end();) r = board.has(fmt::format("waits/{}", *r)) ? silent.erase(r) : std::next(r);
      std::this_thread::sleep_for(kLook);
    }
  } catch (const std::exception&) {
    return world.store_elsewhere ? std::set<int>{} : std::set<int>{0};  // who has the store is cut off, or this rank is
  }
  return silent;
}

void RankMeeting::greet(Clock::time_point end_of_wait) {
  const std::string key = fmt::format("seen/{}", world.rank), text = fmt::format("rank {}", world.rank);
  board.set_patience(std::max(kStoreAnswers, std::chrono::duration_cast<Milliseconds>(end_of_wait - Clock::now())));
  try {
    board.set(key, text);
    if (board.get(key) == text) return;
  } catch (const std::exception&) {
    // As another answer.
  }
  failed = true;
  throw RankFailure(fmt::format("what listens at {}, port {}, has not answered as {} does within {:g} s: it is another program, or hangs",
                                world.address, world.port, world.store_elsewhere ? "a store for ranks" : "rank 0", world.timeout_seconds));
}

std::string RankMeeting::came_twice() const {
  return fmt::format("rank {} has come twice; every rank must be started once, and no other run may use port {}", world.rank, world.port);
}

/// In a store that lasts rank 0 opens a round, and the others enter the last one. It may be left over from ranks that are dead by now. So
/// one in which this rank has been, or that has failed, is passed over, and `meet` looks again while it waits.
void RankMeeting::find_round(const RankBoard& rounds, Clock::time_point end_of_wait) {
  const std::string came = fmt::format("came/{}", world.rank);
  if (world.rank == 0) {
    round = fmt::to_string(rounds.add("count"));
    board = rounds.of("round/" + round);
    board.add(came);
    board.set("size", fmt::to_string(world.size));
    rounds.set("last", round);
    return;
  }
  std::optional<std::string> before;  // why all ended in a round that was passed over
  std::optional<RankBoard> doubted;       // was this rank there in an attempt before, or is there another one of this number?
  while (true) {
    if (const std::string last = last_round(rounds); !last.empty() && last != round) {
      round = last;
      const RankBoard there = rounds.of("round/" + last);
      doubted.reset();
      before = there.failure();
      if (const std::string size = there.get("size"); !before && size != fmt::to_string(world.size))
        before = fmt::format("there were {} ranks, and now {}", size, world.size);
      if (!before && there.add(came) == 1) {
        board = there;
        return;
      }
      if (!before) {
        there.set("twice", came_twice());
        doubted = there;
      }
    }
    // Rank 0 answers while it waits for others. If it is dead, or all have met, this is another attempt.
    if (doubted && doubted->failure() == came_twice()) throw RankFailure(came_twice());
    if (Clock::now() > end_of_wait)
      throw RankFailure(fmt::format("rank 0 has not come{} within {:g} s{}{}", round.empty() ? "" : " again", world.timeout_seconds,
                                    before ? "; all ended before: " : "", before.value_or("")));
    std::this_thread::sleep_for(kLook);
  }
}

void RankMeeting::enter_round(Clock::time_point end_of_wait) {
  try {
    find_round(board.of(kRounds), end_of_wait);
  } catch (const StoreIsSilent&) {  // nothing is written down, for that would be no attempt's
    throw RankFailure("the store that ranks meet in does not answer");
  } catch (const RankFailure&) {
    throw;
  } catch (const std::exception&) {
    throw RankFailure("the store that ranks meet in is gone");
  }
}

/// In a store that lasts: whether all are here, as rank 0 says, which is alive then. Without that, what is here may be left over from an
/// attempt before. None: rank 0 has come to another round.
std::optional<bool> RankMeeting::round_is_met(bool all_said_hello) {
  if (world.rank > 0) {
    if (board.has("met")) return true;
    return last_round(board.of(kRounds)) == round ? std::optional(false) : std::nullopt;
  }
  if (board.has("twice")) end(board.get("twice"));
  if (last_round(board.of(kRounds)) != round) end(came_twice());
  if (all_said_hello) board.set("met", "");
  return all_said_hello;
}

void RankMeeting::meet(Clock::time_point end_of_wait) {
  if (world.store_lasts)
    enter_round(end_of_wait);
  else
    twice = board.add(fmt::format("came/{}", world.rank)) > 1;
  if (twice) end(came_twice());
  board.set(fmt::format("way/{}", world.rank), way_to(world.address, world.port).target);
  board.set(fmt::format("hello/{}", world.rank),
            fmt::format("smartmine {} ({}), LibTorch {}, {} ranks\n{}", SMARTMINE_VERSION, source_digest(), TORCH_VERSION, world.size,
                        host_name()));
  std::set<int> missing;
  for (int r = 0; r < world.size; ++r) missing.insert(r);
  while (true) {
    for (auto r = missing.begin(); r != missing.end();) r = board.has(fmt::format("hello/{}", *r)) ? missing.erase(r) : std::next(r);
    if (auto why = board.failure()) end(*why);
    const std::optional<bool> met = world.store_lasts ? round_is_met(missing.empty()) : missing.empty();
    if (!met) return meet(end_of_wait);
    if (*met) return;
    if (Clock::now() > end_of_wait) {
      if (missing.empty()) missing.insert(0);  // its hello is left over
      end(fmt::format("{} {} not come within {:g} s; {} were expected", numbers(missing), missing.size() == 1 ? "has" : "have",
                      world.timeout_seconds, world.size));
    }
    std::this_thread::sleep_for(kLook);
  }
}

void RankMeeting::compare_hellos() {
  std::string first_version, own_host;
  std::vector<std::string> hosts;
  for (int r = 0; r < world.size; ++r) {
    const std::string hello = board.get(fmt::format("hello/{}", r));
    const std::string version = hello.substr(0, hello.find('\n'));
    hosts.push_back(hello.substr(hello.find('\n') + 1));
    if (r == 0) first_version = version;
    if (version != first_version) end(fmt::format("rank {} is of '{}' where rank 0 is of '{}'", r, version, first_version));
  }
  const auto own = hosts.begin() + world.rank;
  local_size = static_cast<int>(std::count(hosts.begin(), hosts.end(), *own));
  local_rank = world.local_rank.value_or(static_cast<int>(std::count(hosts.begin(), own, *own)));
}

std::string RankMeeting::address_for_others() {
  std::string own = way_to(world.address, world.port).own;
  if (!is_loopback(own)) return own;
  // The store is on this host, whose own name stands for 127.0.1.1 in its /etc/hosts if that is Debian's. Others know where it is.
  std::set<std::string> known;
  for (int r = 0; r < world.size; ++r)
    if (const std::string key = fmt::format("way/{}", r); board.has(key)) known.insert(board.get(key));
  std::erase_if(known, [](const std::string& address) { return address.empty() || is_loopback(address); });
  if (known.empty()) return own;  // the others are on this host as well
  for (const std::string& address : known)
    if (is_of_this_host(address)) return address;
  end(fmt::format(
      "rank {} reaches MASTER_ADDR at {}, others at {}, which is no address of this host; GLOO_SOCKET_IFNAME must name its network "
      "interface that leads to the others",
      world.rank, own, fmt::join(known, ", ")));
}

}  // namespace smartmine
