#pragma once

#include <barrier>
#include <cstddef>
#include <cstring>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "smartmine/graph/team.h"

namespace smartmine::test {

/// Threads that hand each other their parts of an array.
class Together {
 public:
  explicit Together(std::size_t size) : arrays_(size), all_here_(static_cast<std::ptrdiff_t>(size)) {}

  /// What each member gets from `work`.
  template <class Work>
  auto run(const Work& work) {
    std::vector<std::optional<decltype(work(std::declval<const Team*>()))>> results(arrays_.size());
    std::vector<std::thread> threads;
    for (std::size_t member = 0; member < arrays_.size(); ++member)
      threads.emplace_back([&, member] {
        const Team team{.member = member, .size = arrays_.size(), .gather = [&, member](auto... what) { gather(member, what...); }};
        results[member].emplace(work(&team));
      });
    for (std::thread& thread : threads) thread.join();
    return results;
  }
  std::size_t gathers() const { return gathers_; }

 private:
  void gather(std::size_t member, void* all, std::size_t row_bytes, std::span<const std::size_t> begins) {
    arrays_[member] = static_cast<char*>(all);
    all_here_.arrive_and_wait();
    for (std::size_t other = 0; other < arrays_.size(); ++other)
      if (const std::size_t bytes = (begins[other + 1] - begins[other]) * row_bytes; other != member && bytes > 0)
        std::memcpy(arrays_[member] + begins[other] * row_bytes, arrays_[other] + begins[other] * row_bytes, bytes);
    if (member == 0) ++gathers_;
    all_here_.arrive_and_wait();
  }

  std::vector<char*> arrays_;
  std::barrier<> all_here_;
  std::size_t gathers_ = 0;
};

}  // namespace smartmine::test
