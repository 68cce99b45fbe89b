#include "train/rank_board.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "train/c10d.h"
#include "train/rank_address.h"

namespace smartmine {
namespace {

constexpr Milliseconds kStillSilent{200};      // one that took longer is not waited for as long again until it answers
constexpr const char* kPrefix = "smartmine/";  // of our keys in a store that others may use
constexpr const char* kFailure = "failure";    // the key under which the first reason to end stands
constexpr const char* kAlive = "alive";        // how often ranks that work have said so

std::vector<std::uint8_t> bytes_of(const std::string& text) { return {text.begin(), text.end()}; }

}  // namespace

std::string first_line(const std::string& text) {
  std::string line = text.substr(0, text.find('\n'));
  if (const std::size_t trace = line.find(" Exception raised from"); trace != std::string::npos) line.resize(trace);
  return line;
}

RankBoard::RankBoard(c10::intrusive_ptr<c10d::Store> store, const std::string& attempt)
    : whole_(store), store_(c10::make_intrusive<c10d::PrefixStore>(kPrefix + attempt, std::move(store))) {}
RankBoard::RankBoard(const RankBoard& other) = default;
RankBoard& RankBoard::operator=(const RankBoard& other) = default;
RankBoard::~RankBoard() = default;

template <class Work>
auto RankBoard::ask(Work work) const -> decltype(work()) {
  auto answer = within(*silent_ ? std::min(patience_, kStillSilent) : patience_, std::move(work));
  *silent_ = !answer;
  if (!answer) throw StoreIsSilent("the store does not answer");
  return *answer;
}

RankBoard RankBoard::of(const std::string& attempt) const {
  RankBoard other(whole_, attempt);
  other.patience_ = patience_;
  return other;
}

std::int64_t RankBoard::add(const std::string& key) const {
  return ask([store = store_, key] { return store->add(key, 1); });
}

void RankBoard::set(const std::string& key, const std::string& text) const {
  ask([store = store_, key, text] { return store->set(key, bytes_of(text)), true; });
}

std::string RankBoard::get(const std::string& key) const {
  return ask([store = store_, key] {
    const std::vector<std::uint8_t> value = store->get(key);
    return std::string(value.begin(), value.end());
  });
}

bool RankBoard::has(const std::string& key) const {
  return ask([store = store_, key] { return store->check({key}); });
}

std::optional<std::string> RankBoard::failure() const noexcept {
  try {
    if (has(kFailure)) return get(kFailure);
  } catch (const std::exception&) {
    // Then there is nobody to ask.
  }
  return std::nullopt;
}

void RankBoard::note_life() const noexcept {
  try {
    add(kAlive);
  } catch (const std::exception&) {
    // As above.
  }
}

std::string RankBoard::signs_of_life() const noexcept {
  try {
    if (has(kAlive)) return get(kAlive);
  } catch (const std::exception&) {
    // As above.
  }
  return {};
}

bool RankBoard::is_gone() const noexcept {
  try {
    has(kFailure);
    return false;
  } catch (const StoreIsSilent&) {
    return false;
  } catch (const std::exception&) {
    return true;
  }
}

std::string RankBoard::fail(const std::string& why) const noexcept {
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
  void fail(const std::string& why) const noexcept { RankBoard(store_, kOnly).fail(why); }

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

}  // namespace smartmine
