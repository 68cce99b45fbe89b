#include "train/ranks_link.h"

#include <fmt/format.h>
#include <torch/types.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "train/c10d.h"
#include "train/rank_board.h"
#include "train/rank_meeting.h"

namespace smartmine {
namespace {

constexpr Milliseconds kLongestLook{5000};  // what a look may take at most: a process that stood still has not waited
constexpr Milliseconds kForEver = std::chrono::hours(24 * 365);

bool is_about_time(const std::string& error) {
  return error.find("imed out") != std::string::npos || error.find("imeout") != std::string::npos;
}

/// Ends the wait for a rank when somebody has written down a reason to end, for the one waited for may have to wait as well; and when none
/// of the others has shown for the time-out that it works. Gloo's own time-out would close all connections, and knows nothing of work.
class Watcher {
 public:
  Watcher(const RankBoard& board, Milliseconds timeout)
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

  void watch(const RankBoard& board, const std::stop_token& stop) {
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

/// A rank that is gone is told by an error, not by the signal that Gloo's writes to a closed connection raise. Python does the same.
void ignore_broken_pipes() {
  struct sigaction now {};
  if (sigaction(SIGPIPE, nullptr, &now) == 0 && (now.sa_flags & SA_SIGINFO) == 0 && now.sa_handler == SIG_DFL) {
    now.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &now, nullptr);
  }
}

torch::Tensor bytes_at(const void* data, std::size_t bytes) {
  return torch::from_blob(const_cast<void*>(data), {static_cast<std::int64_t>(bytes)}, torch::kUInt8);
}

}  // namespace

bool Ranks::available() { return true; }

struct Ranks::Link::State : RankMeeting {
  using RankMeeting::RankMeeting;

  int tag = 0;
  c10::intrusive_ptr<c10d::ProcessGroupGloo> group;
  std::optional<Watcher> watcher;

  void connect();
  [[noreturn]] void cannot_join(const std::string& error);
  [[noreturn]] void lost(int peer, bool slow);
  void wait(const c10::intrusive_ptr<c10d::Work>& work, int peer);
};

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
  state_ = std::make_unique<State>(world, RankBoard(open_store(world), kOnly));
  try {
    state_->greet(end_of_wait);
    state_->meet(end_of_wait);
    state_->board.set_patience(kStoreAnswers);
    state_->compare_hellos();
    state_->connect();
    state_->watcher.emplace(state_->board, state_->timeout());
    state_->connected = true;
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

}  // namespace smartmine
