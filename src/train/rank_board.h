#pragma once

#include <c10/util/intrusive_ptr.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "smartmine/train/ranks.h"
#include "train/rank_wait.h"

namespace c10d {
class Store;
}

namespace smartmine {

inline constexpr Milliseconds kStoreAnswers{2000};  // a store that takes longer, once all have met, is not there
inline constexpr const char* kOnly = "0";           // what ranks write below in a store that serves no others, before or after

/// The first line of what LibTorch says; the rest is where in its code.
std::string first_line(const std::string& text);

/// The store that the ranks of `world` meet in, which rank 0 opens unless it is elsewhere. Throws RankFailure.
c10::intrusive_ptr<c10d::Store> open_store(const RankWorld& world);

class StoreIsSilent : public RankFailure {
 public:
  using RankFailure::RankFailure;
};

/// What the ranks of one attempt tell each other beside their work. Every call ends soon, whatever became of the store.
class RankBoard {
 public:
  RankBoard(c10::intrusive_ptr<c10d::Store> store, const std::string& attempt);
  // Defined where c10d is known.
  RankBoard(const RankBoard& other);
  RankBoard& operator=(const RankBoard& other);
  ~RankBoard();

  /// That of another attempt in the same store.
  RankBoard of(const std::string& attempt) const;
  const c10::intrusive_ptr<c10d::Store>& store() const { return store_; }
  /// How long calls wait from now on.
  void set_patience(Milliseconds patience) { patience_ = patience; }

  std::int64_t add(const std::string& key) const;
  void set(const std::string& key, const std::string& text) const;
  std::string get(const std::string& key) const;
  bool has(const std::string& key) const;

  /// The first reason to end that was written down; nothing: there is none, or nobody to ask.
  std::optional<std::string> failure() const noexcept;
  /// This rank works.
  void note_life() const noexcept;
  /// Another text whenever a rank has said that it works. The same if there is nobody to ask.
  std::string signs_of_life() const noexcept;
  /// Whether there is nobody to ask: the connection has closed.
  bool is_gone() const noexcept;
  /// Writes down a reason, unless there is one. Returns the one that counts.
  std::string fail(const std::string& why) const noexcept;

 private:
  template <class Work>
  auto ask(Work work) const -> decltype(work());

  c10::intrusive_ptr<c10d::Store> whole_;
  c10::intrusive_ptr<c10d::Store> store_;
  Milliseconds patience_ = kStoreAnswers;
  std::shared_ptr<std::atomic<bool>> silent_ = std::make_shared<std::atomic<bool>>(false);  // the last time it was asked
};

}  // namespace smartmine
