#include "train/ranks_link.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#ifdef SMARTMINE_RANKS
#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>
#include <torch/types.h>
#include <torch/version.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstring>
#include <functional>
#include <future>
#include <mutex>
#include <optional>
#include <set>
#include <stop_token>
#include <thread>
#include <utility>
// LibTorch's own headers are not free of what we warn about.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wall"
#pragma GCC diagnostic ignored "-Wextra"
#pragma GCC diagnostic ignored "-Wpedantic"
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wunused-parameter"
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#pragma GCC diagnostic pop
#endif

namespace smartmine {

#ifndef SMARTMINE_RANKS

namespace {
[[noreturn]] void refuse() {
  throw RankFailure(
      "this program was built without ranks: it takes a LibTorch with Gloo and the headers of Gloo (Debian's libgloo-dev) to build them");
}
}  // namespace

bool Ranks::available() { return false; }
struct Ranks::Link::State {};
Ranks::Link::Link(const RankWorld& /*world*/) { refuse(); }
Ranks::Link::~Link() = default;
int Ranks::Link::local_size() const { return 1; }
int Ranks::Link::local_rank() const { return 0; }
void Ranks::Link::note_work() noexcept {}
void Ranks::Link::send(const void* /*data*/, std::size_t /*bytes*/, int /*to*/) { refuse(); }
void Ranks::Link::receive(void* /*data*/, std::size_t /*bytes*/, int /*from*/) { refuse(); }
void Ranks::Link::exchange(std::span<const Piece> /*pieces*/) { refuse(); }
void Ranks::Link::fail(const std::string& /*why*/) noexcept {}
class RankStore::Server {};
RankStore::RankStore(double /*timeout_seconds*/) { refuse(); }
RankStore::~RankStore() = default;
std::uint16_t RankStore::port() const { return 0; }
void RankStore::fail(const std::string& /*why*/) noexcept {}

#else

namespace {

using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::milliseconds;

constexpr Milliseconds kLook{20};            // between two looks into the store
constexpr Milliseconds kStoreAnswers{2000};  // a store that takes longer, once all have met, is not there
constexpr Milliseconds kStillSilent{200};    // and is not waited for as long again until it answers
constexpr Milliseconds kNoLife{10'000};      // without a sign of life: then nobody is left who would hear why all end
constexpr Milliseconds kListen{500};         // between two looks of a rank that waits for another, or works
constexpr Milliseconds kLongestLook{5000};   // what a look may take at most: a process that stood still has not waited
constexpr Milliseconds kForEver = std::chrono::hours(24 * 365);
constexpr const char* kPrefix = "smartmine/";  // of our keys in a store that others may use
constexpr const char* kFailure = "failure";    // the key under which the first reason to end stands
constexpr const char* kAlive = "alive";        // how often ranks that work have said so
constexpr const char* kOnly = "0";             // what ranks write below in a store that serves no others, before or after
constexpr const char* kRounds = "rounds";      // in one that lasts: below it stands which round is the last

Milliseconds milliseconds(double seconds) { return Milliseconds(static_cast<std::int64_t>(1000 * seconds)); }

/// Runs `work` in a thread of its own and waits no longer than `limit`, nor once `in_vain`, which is asked now and then: calls into a store
/// may wait for ever if its host is cut off. Throws what it throws; nothing: time is up, and the thread is left to itself.
template <class Work>
auto within(Milliseconds limit, Work work, const std::function<bool()>& in_vain = {}) -> std::optional<decltype(work())> {
  using Result = decltype(work());
  auto task = std::make_shared<std::packaged_task<Result()> >(std::move(work));
  std::future<Result> result = task->get_future();
  std::thread([task] { (*task)(); }).detach();
  const auto end = Clock::now() + limit;
  const Milliseconds look = in_vain ? std::min(kListen, limit) : limit;
  while (result.wait_for(look) != std::future_status::ready)
    if (!in_vain || Clock::now() >= end || in_vain()) return std::nullopt;
  return result.get();
}

std::vector<std::uint8_t> bytes_of(const std::string& text) { return {text.begin(), text.end()}; }

/// The first line of what LibTorch says; the rest is where in its code.
std::string first_line(const std::string& text) {
  std::string line = text.substr(0, text.find('\n'));
  if (const std::size_t trace = line.find(" Exception raised from"); trace != std::string::npos) line.resize(trace);
  return line;
}

bool is_about_time(const std::string& error) {
  return error.find("imed out") != std::string::npos || error.find("imeout") != std::string::npos;
}

class StoreIsSilent : public RankFailure {
 public:
  using RankFailure::RankFailure;
};

/// What the ranks of one attempt tell each other beside their work. Every call ends soon, whatever became of the store.
class Board {
 public:
  Board(c10::intrusive_ptr<c10d::Store> store, const std::string& attempt)
      : whole_(store), store_(c10::make_intrusive<c10d::PrefixStore>(kPrefix + attempt, std::move(store))) {}

  /// That of another attempt in the same store.
  Board of(const std::string& attempt) const {
    Board other(whole_, attempt);
    other.patience_ = patience_;
    return other;
  }
  const c10::intrusive_ptr<c10d::Store>& store() const { return store_; }
  /// How long calls wait from now on.
  void set_patience(Milliseconds patience) { patience_ = patience; }

  std::int64_t add(const std::string& key) const {
    return ask([store = store_, key] { return store->add(key, 1); });
  }
  void set(const std::string& key, const std::string& text) const {
    ask([store = store_, key, text] { return store->set(key, bytes_of(text)), true; });
  }
  std::string get(const std::string& key) const {
    return ask([store = store_, key] {
      const std::vector<std::uint8_t> value = store->get(key);
      return std::string(value.begin(), value.end());
    });
  }
  bool has(const std::string& key) const {
    return ask([store = store_, key] { return store->check({key}); });
  }

  /// The first reason to end that was written down; nothing: there is none, or nobody to ask.
  std::optional<std::string> failure() const noexcept {
    try {
      if (has(kFailure)) return get(kFailure);
    } catch (const std::exception&) {
      // Then there is nobody to ask.
    }
    return std::nullopt;
  }
  /// This rank works.
  void note_life() const noexcept {
    try {
      add(kAlive);
    } catch (const std::exception&) {
      // As above.
    }
  }
  /// Another text whenever a rank has said that it works. The same if there is nobody to ask.
  std::string signs_of_life() const noexcept {
    try {
      if (has(kAlive)) return get(kAlive);
    } catch (const std::exception&) {
      // As above.
    }
    return {};
  }
  /// Whether there is nobody to ask: the connection has closed.
  bool is_gone() const noexcept {
    try {
      has(kFailure);
      return false;
    } catch (const StoreIsSilent&) {
      return false;
    } catch (const std::exception&) {
      return true;
    }
  }
  /// Writes down a reason, unless there is one. Returns the one that counts.
  std::string fail(const std::string& why) const noexcept {
    try {
      if (add("failures") == 1) {
        set(kFailure, why);
        return why;
      }
      const auto end = Clock::now() + kStoreAnswers;
      while (Clock::now() < end) {
        if (auto first = failure()) return *first;
        std::this_thread::sleep_for(kLook);
      }
    } catch (const std::exception&) {
      // As above.
    }
    return why;
  }

 private:
  template <class Work>
  auto ask(Work work) const -> decltype(work()) {
    auto answer = within(*silent_ ? std::min(patience_, kStillSilent) : patience_, std::move(work));
    *silent_ = !answer;
    if (!answer) throw StoreIsSilent("the store does not answer");
    return *answer;
  }

  c10::intrusive_ptr<c10d::Store> whole_;
  c10::intrusive_ptr<c10d::Store> store_;
  Milliseconds patience_ = kStoreAnswers;
  std::shared_ptr<std::atomic<bool>> silent_ = std::make_shared<std::atomic<bool>>(false);  // the last time it was asked
};

/// Ends the wait for a rank when somebody has written down a reason to end, for the one waited for may have to wait as well; and when none
/// of the others has shown for the time-out that it works. Gloo's own time-out would close all connections, and knows nothing of work.
class Watcher {
 public:
  Watcher(const Board& board, Milliseconds timeout)
      : timeout_(timeout), thread_([this, board](const std::stop_token& stop) { watch(board, stop); }) {}

  enum class End { kDone, kAborted, kTimeUp };
  /// Throws what the work throws.
  End wait(const c10::intrusive_ptr<c10d::Work>& work) {
    set(work);
    try {
      const bool done = work->wait(kForEver);
      const bool time_up = set({});
      return done ? End::kDone : time_up ? End::kTimeUp : End::kAborted;
    } catch (...) {
      if (set({})) return End::kTimeUp;
      throw;
    }
  }
  /// This rank does something.
  void note_work() noexcept { worked_ = true; }

 private:
  /// Returns whether the wait before was ended because time was up.
  bool set(c10::intrusive_ptr<c10d::Work> work) {
    const std::lock_guard lock(mutex_);
    work_ = std::move(work);
    ++waits_;
    return std::exchange(time_up_, false);
  }

  void watch(const Board& board, const std::stop_token& stop) {
    const Milliseconds look = std::min(kListen, timeout_ / 8);
    std::unique_lock lock(mutex_);
    std::uint64_t last = 0;
    std::string alive;
    Milliseconds waited{0};
    auto before = Clock::now();
    while (!stop.stop_requested()) {
      changed_.wait_for(lock, stop, look, [] { return false; });
      const auto now = Clock::now();
      const Milliseconds passed = std::min(std::chrono::duration_cast<Milliseconds>(now - before), kLongestLook);
      before = now;
      // One wait that lasts from one look to the next is worth a question; steps that go on never ask.
      const bool lasts = work_ && waits_ == last;
      last = waits_;
      if (!lasts) waited = Milliseconds(0);
      if (!lasts && !worked_) continue;
      lock.unlock();
      if (worked_.exchange(false)) board.note_life();
      bool ends = false;
      if (lasts) {
        ends = board.failure().has_value();
        const std::string signs = board.signs_of_life();
        waited = signs == alive ? waited + passed : Milliseconds(0);
        alive = signs;
      }
      lock.lock();
      const bool time_up = lasts && waited >= timeout_;
      if (!work_ || waits_ != last || !(ends || time_up)) continue;
      time_up_ = !ends;
      work_->abort();
      waited = Milliseconds(0);
    }
  }

  const Milliseconds timeout_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  c10::intrusive_ptr<c10d::Work> work_;  // what is waited for now
  std::uint64_t waits_ = 0;
  bool time_up_ = false;  // why it was ended
  std::atomic<bool> worked_{false};
  std::jthread thread_;  // the last: it uses what is above
};

std::string number_of(const sockaddr* address, socklen_t length) {
  std::array<char, NI_MAXHOST> text{};
  return getnameinfo(address, length, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) == 0 ? text.data() : "";
}

/// The way from this host to another, by the numbers of its two ends. Empty: there is none.
struct Way {
  std::string own;
  std::string target;
};

Way way_to(const std::string& target, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(target.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) return {};
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> all(found, freeaddrinfo);
  for (const addrinfo* each = all.get(); each != nullptr; each = each->ai_next) {
    const int socket = ::socket(each->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (socket < 0) continue;
    sockaddr_storage own{};
    socklen_t length = sizeof own;
    const bool known = ::connect(socket, each->ai_addr, each->ai_addrlen) == 0 &&
                       getsockname(socket, reinterpret_cast<sockaddr*>(&own), &length) == 0;
    ::close(socket);
    Way way;
    if (known) way = {number_of(reinterpret_cast<sockaddr*>(&own), length), number_of(each->ai_addr, each->ai_addrlen)};
    if (!way.own.empty()) return way;
  }
  return {};
}

/// Whether an address, a number, leads nowhere but to this host.
bool is_loopback(const std::string& address) {
  in6_addr number{};
  return address.starts_with("127.") || (inet_pton(AF_INET6, address.c_str(), &number) == 1 && IN6_IS_ADDR_LOOPBACK(&number));
}

bool is_of_this_host(const std::string& address) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  hints.ai_flags = AI_NUMERICHOST;
  addrinfo* found = nullptr;
  if (getaddrinfo(address.c_str(), nullptr, &hints, &found) != 0) return false;
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> all(found, freeaddrinfo);
  const int socket = ::socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (socket < 0) return false;
  const bool bound = ::bind(socket, found->ai_addr, found->ai_addrlen) == 0;
  ::close(socket);
  return bound;
}

c10::intrusive_ptr<c10d::Store> open_store(const RankWorld& world) {
  c10d::TCPStoreOptions options;
  options.port = world.port;
  options.isServer = world.rank == 0 && !world.store_elsewhere;
  options.waitWorkers = false;
  options.timeout = milliseconds(world.timeout_seconds);
  try {
    auto store = within(options.timeout + kStoreAnswers, [address = world.address, options] {
      return c10::intrusive_ptr<c10d::Store>(c10::make_intrusive<c10d::TCPStore>(address, options));
    });
    if (store) return *store;
  } catch (const std::exception& error) {
    // Who opened it connects to it as well, and may not find the way.
    const bool unreachable = way_to(world.address, world.port).own.empty();
    if (options.isServer && !unreachable)
      throw RankFailure(
          fmt::format("port {} cannot be opened for the other ranks ({}); choose another MASTER_PORT", world.port,
                      std::string_view(error.what()).find("in use") != std::string_view::npos ? "it is in use" : first_line(error.what())));
    if (unreachable)
      throw RankFailure(
          fmt::format("MASTER_ADDR is '{}': no host of that name or number is known; it must be that of rank 0's host", world.address));
  }
  throw RankFailure(fmt::format("{} cannot be reached at {}, port {}, within {:g} s",
                                world.store_elsewhere ? "the store that ranks meet in" : "rank 0", world.address, world.port,
                                world.timeout_seconds));
}

/// A rank that is gone is told by an error, not by the signal that Gloo's writes to a closed connection raise. Python does the same.
void ignore_broken_pipes() {
  struct sigaction now {};
  if (sigaction(SIGPIPE, nullptr, &now) == 0 && (now.sa_flags & SA_SIGINFO) == 0 && now.sa_handler == SIG_DFL) {
    now.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &now, nullptr);
  }
}

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

/// The round that rank 0 has opened last in a store that lasts; empty: none yet.
std::string last_round(const Board& rounds) { return rounds.has("last") ? rounds.get("last") : ""; }

std::string numbers(const std::set<int>& ranks) {
  return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", fmt::join(ranks, ", "));
}

}  // namespace

bool Ranks::available() { return true; }

struct Ranks::Link::State {
  State(const RankWorld& w, Board b) : world(w), board(std::move(b)) {}

  RankWorld world;
  Board board;
  std::string round;  // of a store that lasts: the one this rank is in
  int local_size = 1;
  int local_rank = 0;
  int tag = 0;
  bool failed = false;
  bool twice = false;       // another process is this rank as well
  bool has_waited = false;  // until the others have heard why all end
  c10::intrusive_ptr<c10d::ProcessGroupGloo> group;
  std::optional<Watcher> watcher;

  bool hosts_store() const { return world.rank == 0 && !world.store_elsewhere; }
  Milliseconds timeout() const { return milliseconds(world.timeout_seconds); }
  void greet(Clock::time_point end_of_wait);
  void enter_round(Clock::time_point end_of_wait);
  void find_round(const Board& rounds, Clock::time_point end_of_wait);
  std::optional<bool> round_is_met(bool all_said_hello);
  std::string came_twice() const;
  void meet(Clock::time_point end_of_wait);
  void compare_hellos();
  std::string address_for_others();
  void connect();
  void has_heard(int rank) const;
  void let_others_hear();
  [[noreturn]] void end(const std::string& why);
  [[noreturn]] void cannot_join(const std::string& error);
  [[noreturn]] void lost(int peer, bool slow);
  std::set<int> silent_ranks() const;
  void wait(const c10::intrusive_ptr<c10d::Work>& work, int peer);
};

namespace {

torch::Tensor bytes_at(const void* data, std::size_t bytes) {
  return torch::from_blob(const_cast<void*>(data), {static_cast<std::int64_t>(bytes)}, torch::kUInt8);
}

}  // namespace

/// Notes that a rank knows why all end, or has left, or will never know.
void Ranks::Link::State::has_heard(int rank) const {
  try {
    board.set(fmt::format("heard/{}", rank), "");
  } catch (const std::exception&) {
    // Then nobody waits for that.
  }
}

/// Who has the store keeps it open until the others have read why all end, which some look for only after a long piece of work. Those that
/// are dead or stand still will not: once nobody shows that it works they are not waited for long.
void Ranks::Link::State::let_others_hear() {
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

/// Ends the work of this rank; all others hear why. Once all are connected they are waited for only after this rank had time to say it.
void Ranks::Link::State::end(const std::string& why) {
  failed = true;
  board.set_patience(kStoreAnswers);
  const std::string first = board.fail(why);
  if (!twice) has_heard(world.rank);  // else the other one of that number is yet to
  if (!watcher) let_others_hear();
  throw RankFailure(first);
}

// All ranks that wait for one that is silent get here at about the same time, and say so; who does not is the one.
std::set<int> Ranks::Link::State::silent_ranks() const {
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

void Ranks::Link::State::lost(int peer, bool slow) {
  // A rank that ended by itself has said why.
  const auto until = Clock::now() + Milliseconds(500);
  do {
    if (auto why = board.failure()) end(*why);
    std::this_thread::sleep_for(kLook);
  } while (!slow && Clock::now() < until);
  if (!slow) {
    // Who waits for a rank that waited for rank 0 sees that one end; the store has ended with rank 0.
    if (!world.store_elsewhere && board.is_gone()) peer = 0;
    has_heard(peer);
    end(fmt::format("rank {} is gone: its connection has closed", peer));
  }
  std::set<int> silent = silent_ranks();
  if (auto why = board.failure()) end(*why);
  if (silent.empty()) silent.insert(peer);
  for (const int each : silent) has_heard(each);
  end(fmt::format("{} {} not answered for {:g} s: stopped, hung, or cut off from the others", numbers(silent),
                  silent.size() == 1 ? "has" : "have", world.timeout_seconds));
}

void Ranks::Link::State::wait(const c10::intrusive_ptr<c10d::Work>& work, int peer) {
  Watcher::End how = Watcher::End::kAborted;
  try {
    how = watcher->wait(work);
  } catch (const std::exception&) {
    // The connection has closed, or the wait was ended for a reason that is found below.
  }
  if (how != Watcher::End::kDone) lost(peer, how == Watcher::End::kTimeUp);
}

/// Makes sure that what listens there is a store.
void Ranks::Link::State::greet(Clock::time_point end_of_wait) {
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

std::string Ranks::Link::State::came_twice() const {
  return fmt::format("rank {} has come twice; every rank must be started once, and no other run may use port {}", world.rank, world.port);
}

/// In a store that lasts rank 0 opens a round, and the others enter the last one. It may be left over from ranks that are dead by now. So
/// one in which this rank has been, or that has failed, is passed over, and `meet` looks again while it waits.
void Ranks::Link::State::find_round(const Board& rounds, Clock::time_point end_of_wait) {
  const std::string came = fmt::format("came/{}", world.rank);
  if (world.rank == 0) {
    round = fmt::to_string(rounds.add("count"));
    board = rounds.of("round/" + round);
    board.add(came);
    rounds.set("last", round);
    return;
  }
  std::optional<std::string> before;  // why all ended in a round that was passed over
  std::optional<Board> doubted;       // was this rank there in an attempt before, or is there another one of this number?
  while (true) {
    if (const std::string last = last_round(rounds); !last.empty() && last != round) {
      round = last;
      const Board there = rounds.of("round/" + last);
      doubted.reset();
      before = there.failure();
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

void Ranks::Link::State::enter_round(Clock::time_point end_of_wait) {
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
std::optional<bool> Ranks::Link::State::round_is_met(bool all_said_hello) {
  if (world.rank > 0) {
    if (board.has("met")) return true;
    return last_round(board.of(kRounds)) == round ? std::optional(false) : std::nullopt;
  }
  if (board.has("twice")) end(board.get("twice"));
  if (last_round(board.of(kRounds)) != round) end(came_twice());
  if (all_said_hello) board.set("met", "");
  return all_said_hello;
}

/// Waits until all ranks have said hello.
void Ranks::Link::State::meet(Clock::time_point end_of_wait) {
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

void Ranks::Link::State::compare_hellos() {
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

/// Where the others can reach this rank; empty: LibTorch is to find out.
std::string Ranks::Link::State::address_for_others() {
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

void Ranks::Link::State::connect() {
  auto options = c10d::ProcessGroupGloo::Options::create();
  options->timeout = timeout();
  options->threads = 1;
  const char* const interface = std::getenv("GLOO_SOCKET_IFNAME");
  if (interface != nullptr && *interface != '\0') {
    try {
      options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForInterface(interface));
    } catch (const std::exception&) {
      end(fmt::format("rank {} has no network interface '{}' with an address, which GLOO_SOCKET_IFNAME names", world.rank, interface));
    }
  } else {
    const std::string address = address_for_others();
    options->devices.push_back(address.empty() ? c10d::ProcessGroupGloo::createDefaultDevice()
                                               : c10d::ProcessGroupGloo::createDeviceForHostname(address));
  }
  // Gloo waits for a first connection for five times its time-out, and knows nothing of what is said on the board.
  const auto made = within(
      timeout(),
      [store = board.store(), rank = world.rank, size = world.size, options] {
        return c10::make_intrusive<c10d::ProcessGroupGloo>(store, rank, size, options);
      },
      [this] { return board.failure() || board.is_gone(); });
  if (!made) cannot_join("Timed out");
  group = *made;
}

/// An error on the way to the others that is not theirs to tell.
void Ranks::Link::State::cannot_join(const std::string& error) {
  board.set_patience(kStoreAnswers);
  if (!hosts_store() && board.is_gone())
    end(world.store_elsewhere ? "the store that ranks meet in is gone" : "rank 0 is gone: its connection has closed");
  if (auto why = board.failure()) end(*why);
  std::set<int> silent;
  if (is_about_time(error)) silent = silent_ranks();
  if (auto why = board.failure()) end(*why);
  for (const int each : silent) has_heard(each);
  if (silent.empty()) end(fmt::format("rank {} cannot connect to the others: {}", world.rank, first_line(error)));
  end(fmt::format("{} {} not connected to the others within {:g} s: stopped, hung, or cut off from them", numbers(silent),
                  silent.size() == 1 ? "has" : "have", world.timeout_seconds));
}

Ranks::Link::Link(const RankWorld& world) {
  ignore_broken_pipes();
  const auto end_of_wait = Clock::now() + milliseconds(world.timeout_seconds);
  state_ = std::make_unique<State>(world, Board(open_store(world), kOnly));
  try {
    state_->greet(end_of_wait);
    state_->meet(end_of_wait);
    state_->board.set_patience(kStoreAnswers);
    state_->compare_hellos();
    state_->connect();
    state_->watcher.emplace(state_->board, state_->timeout());
  } catch (const StoreIsSilent& error) {
    state_->cannot_join(error.what());
  } catch (const RankFailure&) {
    throw;
  } catch (const std::exception& error) {
    state_->cannot_join(error.what());
  }
}

Ranks::Link::~Link() {
  if (!state_->failed) state_->has_heard(state_->world.rank);
  if (state_->failed) state_->let_others_hear();
  // Taking connections down waits for peers that may be gone; the end of the process does it better.
  if (state_->failed) {
    state_->group.release();
    static_cast<void>(c10::intrusive_ptr<c10d::Store>(state_->board.store()).release());
  }
}

int Ranks::Link::local_size() const { return state_->local_size; }
int Ranks::Link::local_rank() const { return state_->local_rank; }
void Ranks::Link::note_work() noexcept {
  if (state_->watcher) state_->watcher->note_work();
}

void Ranks::Link::send(const void* data, std::size_t bytes, int to) {
  if (bytes == 0) return;
  std::vector<torch::Tensor> message = {bytes_at(data, bytes)};
  try {
    state_->wait(state_->group->send(message, to, state_->tag), to);
  } catch (const RankFailure&) {
    throw;
  } catch (const std::exception& error) {
    state_->lost(to, is_about_time(error.what()));
  }
}

void Ranks::Link::receive(void* data, std::size_t bytes, int from) {
  if (bytes == 0) return;
  std::vector<torch::Tensor> message = {bytes_at(data, bytes)};
  try {
    state_->wait(state_->group->recv(message, from, state_->tag), from);
  } catch (const RankFailure&) {
    throw;
  } catch (const std::exception& error) {
    state_->lost(from, is_about_time(error.what()));
  }
}

void Ranks::Link::exchange(std::span<const Piece> pieces) {
  State& state = *state_;
  std::vector<std::pair<c10::intrusive_ptr<c10d::Work>, int> > under_way;
  int peer = 0;
  try {
    for (peer = 0; peer < state.world.size; ++peer) {
      if (peer == state.world.rank) continue;
      const auto start = [&](const void* data, std::size_t bytes, bool out) {
        if (bytes == 0) return;
        std::vector<torch::Tensor> message = {bytes_at(data, bytes)};
        under_way.emplace_back(out ? state.group->send(message, peer, state.tag) : state.group->recv(message, peer, state.tag), peer);
      };
      const Piece& own = pieces[static_cast<std::size_t>(state.world.rank)];
      const Piece& other = pieces[static_cast<std::size_t>(peer)];
      start(own.note, 1, true);
      start(own.data, own.bytes, true);
      start(other.note, 1, false);
      start(other.data, other.bytes, false);
    }
  } catch (const std::exception& error) {
    state.lost(peer, is_about_time(error.what()));
  }
  for (const auto& [work, with] : under_way) state.wait(work, with);
}

void Ranks::Link::fail(const std::string& why) noexcept {
  try {
    if (!std::exchange(state_->failed, true)) {
      state_->board.fail(why);
      state_->has_heard(state_->world.rank);
    }
    state_->let_others_hear();
  } catch (...) {
    // What is noted and waited for is for the others alone.
  }
}

class RankStore::Server {
 public:
  explicit Server(double timeout_seconds) {
    c10d::TCPStoreOptions options;
    options.port = 0;
    options.isServer = true;
    options.waitWorkers = false;
    options.timeout = milliseconds(timeout_seconds);
    store_ = c10::make_intrusive<c10d::TCPStore>("localhost", options);
  }
  std::uint16_t port() const { return store_->getPort(); }
  void fail(const std::string& why) const noexcept { Board(store_, kOnly).fail(why); }

 private:
  c10::intrusive_ptr<c10d::TCPStore> store_;
};

RankStore::RankStore(double timeout_seconds) {
  try {
    server_ = std::make_unique<Server>(timeout_seconds);
  } catch (const std::exception& error) {
    throw RankFailure(fmt::format("no port can be opened for the ranks: {}", first_line(error.what())));
  }
}
RankStore::~RankStore() = default;
std::uint16_t RankStore::port() const { return server_->port(); }
void RankStore::fail(const std::string& why) noexcept { server_->fail(why); }

#endif

}  // namespace smartmine
