#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

namespace smartmine {

using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::milliseconds;

inline constexpr Milliseconds kLook{20};     // between two looks into the store
inline constexpr Milliseconds kListen{500};  // between two looks of a rank that waits for another, or works

inline Milliseconds milliseconds(double seconds) { return Milliseconds(static_cast<std::int64_t>(1000 * seconds)); }

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

}  // namespace smartmine
