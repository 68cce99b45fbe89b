#include "ranks.h"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>
#include <string_view>
#include <thread>
#include <vector>

#include "commands.h"
#include "console.h"
#include "interrupt.h"
#include "smartmine/core/error.h"
#include "smartmine/core/parallel.h"

extern char** environ;

namespace smartmine::app {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds kLastWords{5};   // for the others, once one has failed
constexpr std::chrono::milliseconds kLook{10};  // between two looks at the children
constexpr int kSignalBase = 128;
constexpr std::string_view kKilled = " was killed by signal ";  // who has started the ranks says so itself

bool is_said(const RankFailure& failure) { return std::string_view(failure.what()).find(kKilled) != std::string_view::npos; }

/// Words as exec wants them.
class Words {
 public:
  explicit Words(std::vector<std::string> words) : words_(std::move(words)) {
    for (std::string& word : words_) pointers_.push_back(word.data());
    pointers_.push_back(nullptr);
  }
  char* const* get() const { return pointers_.data(); }

 private:
  std::vector<std::string> words_;
  std::vector<char*> pointers_;
};

std::vector<std::string> own_command_line() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  const std::string all((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  std::vector<std::string> words;
  for (std::size_t begin = 0; begin < all.size();) {
    const std::size_t end = std::min(all.find('\0', begin), all.size());
    words.push_back(all.substr(begin, end - begin));
    begin = end + 1;
  }
  if (words.empty()) throw IoError("/proc/self/cmdline: cannot be read; ranks are started with the same words as this process");
  return words;
}

std::vector<std::string> environment_with(const std::vector<std::pair<std::string, std::string>>& changes) {
  std::vector<std::string> result;
  for (char** each = environ; *each != nullptr; ++each) {
    const std::string_view entry(*each);
    const bool changed =
        std::any_of(changes.begin(), changes.end(), [&](const auto& change) { return entry.starts_with(change.first + "="); });
    if (!changed) result.emplace_back(entry);
  }
  for (const auto& [name, value] : changes) result.push_back(name + "=" + value);
  return result;
}

/// The ranks that this process started.
class Children {
 public:
  explicit Children(const RankArguments& arguments) : store_(arguments.timeout), timeout_(arguments.timeout) {
    const Words words(own_command_line());
    const auto count = static_cast<std::size_t>(arguments.ranks);
    for (std::size_t rank = 0; rank < count; ++rank) {
      const Words environment(environment_with({{"RANK", std::to_string(rank)},
                                                {"WORLD_SIZE", std::to_string(count)},
                                                {"LOCAL_RANK", std::to_string(rank)},
                                                {"MASTER_ADDR", "127.0.0.1"},
                                                {"MASTER_PORT", std::to_string(store_.port())},
                                                {"TORCHELASTIC_USE_AGENT_STORE", "False"},
                                                {kStartersStore, "True"}}));
      const pid_t id = fork();
      if (id < 0) {
        end_all(SIGKILL);
        throw IoError(fmt::format("rank {} cannot be started: {}", rank, std::strerror(errno)));
      }
      if (id == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);  // none outlives this process
        setpgid(0, 0);                     // Ctrl-C comes to this process alone, which hands it on once
        execve("/proc/self/exe", words.get(), environment.get());
        _exit(127);
      }
      running_.push_back(id);
    }
  }
  ~Children() { end_all(SIGKILL); }
  Children(const Children&) = delete;
  Children& operator=(const Children&) = delete;

  /// Waits for all; hands on signals. Returns the status to end with: of the first that failed. Throws Cancelled if a signal ended ranks
  /// that were not yet ready to hear it.
  int wait() {
    for (std::size_t left = running_.size(); left > 0;) {
      for (std::size_t rank = 0; rank < running_.size(); ++rank) {
        int raw = 0;
        if (running_[rank] <= 0 || waitpid(running_[rank], &raw, WNOHANG) != running_[rank]) continue;
        running_[rank] = 0;
        --left;
        note_end(rank, raw);
      }
      if (const int signal = interrupt_signal(); signal != handed_on_) end_all(handed_on_ = signal);
      if (kill_at_ && Clock::now() > *kill_at_) end_all(SIGKILL);
      std::this_thread::sleep_for(kLook);
    }
    if (unheard_ && status_ == kSignalBase + handed_on_) throw Cancelled();
    return status_;
  }

 private:
  void end_all(int signal) const {
    for (const pid_t id : running_)
      if (id > 0) kill(id, signal);
  }
  void note_end(std::size_t rank, int raw) {
    const int status = WIFSIGNALED(raw) ? kSignalBase + WTERMSIG(raw) : WEXITSTATUS(raw);
    const bool asked_to = WIFSIGNALED(raw) ? WTERMSIG(raw) == handed_on_ : status > kSignalBase;  // by us, or that rank alone
    if (WIFSIGNALED(raw) && status_ == 0) {
      const std::string what = fmt::format("rank {}{}{}", rank, kKilled, WTERMSIG(raw));
      store_.fail(what);
      if (asked_to)
        unheard_ = true;
      else
        warn(what);
    }
    if (status_ == 0) status_ = status;
    if (status == 0) return;
    // Who was asked to stop may have much to save; one that stands still would never end.
    const auto rest = asked_to ? std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(timeout_)) : kLastWords;
    const Clock::time_point end = Clock::now() + rest;
    if (!kill_at_ || end < *kill_at_) kill_at_ = end;
  }

  RankStore store_;
  double timeout_;
  std::vector<pid_t> running_;
  std::optional<Clock::time_point> kill_at_;  // those that are left then
  int handed_on_ = 0;                         // a signal
  bool unheard_ = false;                      // it ended a rank that could not stop by itself
  int status_ = 0;
};

}  // namespace

void start_ranks(const RankArguments& arguments) {
  const std::optional<RankWorld> world = world_of_environment();
  if (world && arguments.ranks > 1 && arguments.ranks != world->size)
    throw UsageError(fmt::format("--ranks is {}, but WORLD_SIZE is {}: this process has been started as one of several; leave out --ranks",
                                 arguments.ranks, world->size));
  if (world || arguments.ranks == 1) return;
  Children children(arguments);
  throw Ended{children.wait()};
}

std::shared_ptr<Ranks> join_ranks(const RankArguments& arguments) {
  std::optional<RankWorld> world = world_of_environment();
  if (!world) return nullptr;
  world->timeout_seconds = arguments.timeout;
  if (world->rank > 0) speak_as(fmt::format("rank {} of {}", world->rank, world->size));
  try {
    return Ranks::join(*world);
  } catch (const RankFailure& failure) {
    if (is_said(failure)) throw Ended{1};
    throw;
  }
}

void run_as_rank(const std::shared_ptr<Ranks>& ranks, const std::function<void()>& work) {
  constexpr std::string_view kAskedToStop = "it was asked to stop";
  const auto stopped = [] { return kSignalBase + (interrupt_signal() == 0 ? SIGINT : interrupt_signal()); };
  // Most often all stop together. Where one was at something that it does alone, the others hear of it.
  const auto tell_of_stop = [&] {
    if (!ranks) return;
    ranks->fail(std::string(kAskedToStop));
    if (!ranks->is_first()) throw Ended{stopped()};  // the first says it for all
  };
  try {
    work();
  } catch (const Interrupted&) {
    tell_of_stop();
    throw;
  } catch (const Cancelled&) {
    tell_of_stop();
    throw;
  } catch (const RankFailure& failure) {
    if (!ranks) throw;
    const bool was_asked = std::string_view(failure.what()).ends_with(kAskedToStop);
    if ((!was_asked || ranks->is_first()) && !is_said(failure)) warn(failure.what());
    std::fflush(nullptr);
    ranks->fail(failure.what());  // the first may then wait for others that are to hear it
    _exit(was_asked ? stopped() : 1);  // connections to ranks that are gone are not to be waited for
  } catch (const std::exception& error) {
    const std::string_view what = error.what();
    if (ranks) ranks->fail(std::string(what.substr(0, what.find('\n'))));  // LibTorch adds where in its code
    throw;
  }
}

void share_work(const RankArguments& arguments, const std::function<void(const RankPlace& place)>& work) {
  start_ranks(arguments);
  const std::shared_ptr<Ranks> ranks = join_ranks(arguments);
  if (!ranks) return work({});
  run_as_rank(ranks, [&] {
    const Team team = team_of(*ranks);
    RankPlace place{
        .team = &team, .first = ranks->is_first(), .local_rank = ranks->local_rank(), .threads = 0, .expect_same = {}, .watched = {}};
    place.threads = std::max(1U, resolve_threads(0) / static_cast<unsigned>(ranks->local_size()));
    place.expect_same = [&](const std::string& what, const std::string& text) { ranks->expect_same(what, text); };
    place.watched = [&](const Progress& progress) { return ranks->watched(progress); };
    work(place);
  });
}

}  // namespace smartmine::app
