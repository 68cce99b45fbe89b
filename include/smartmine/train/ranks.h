#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "smartmine/core/error.h"
#include "smartmine/core/progress.h"
#include "smartmine/graph/team.h"

namespace smartmine {

/// The work of several ranks cannot go on: one is missing, does not fit the others, or failed itself. The message says who.
class RankFailure : public Error {
 public:
  using Error::Error;
};

/// Who is meant to work together, and where they meet.
struct RankWorld {
  static constexpr double kUsualTimeout = 300;

  int rank = 0;
  int size = 1;
  std::optional<int> local_rank;  ///< Among those of its host: which GPU it takes. Unset: by the names of the hosts.
  std::string address;            ///< Where the store is that they meet in.
  std::uint16_t port = 0;
  bool store_elsewhere = false;  ///< The store is no rank's: that of torchrun's agent or of a RankStore. Otherwise rank 0 opens it.
  bool store_lasts = false;      ///< Ranks have met in it before, or may meet again: that of torchrun's agent.
  double timeout_seconds = kUsualTimeout;

  /// Throws InvalidArgument naming the field, its value and the range.
  void validate() const;
};

/// The variable that is "True" for ranks that are to meet in the RankStore of who started them.
inline constexpr const char* kStartersStore = "SMARTMINE_STARTERS_STORE";

/// As torchrun and others say it: RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT. None: there is no RANK and no WORLD_SIZE, or it
/// is a world of one. Throws InvalidArgument naming the variable that is missing or makes no sense.
std::optional<RankWorld> world_of_environment();

/// Which of `count` things (blocks, shards, rows) each rank takes: those from `begin` to `end`, in the order of the ranks.
struct RankShare {
  std::size_t begin = 0;
  std::size_t end = 0;
};
RankShare share_of(std::size_t count, int rank, int size);
/// The same for things that lie in blocks of `block`, the last one shorter: a share begins and ends with a block.
RankShare share_of_blocks(std::size_t count, std::size_t block, int rank, int size);

/// Several processes that do one piece of work together, connected by c10d (Gloo). Every rank makes the same calls in the same order. A
/// call that waits for the time-out while no rank shows that it works (see `watched`), or whose rank is gone, throws RankFailure naming
/// who it is. Not safe for concurrent use.
class Ranks {
 public:
  /// Whether this library was built with them.
  static bool available();

  /// Waits until all are there. Throws RankFailure saying who is missing, came twice or is another version, InvalidArgument. From here on
  /// the process ignores SIGPIPE, unless it has a handler for it.
  static std::shared_ptr<Ranks> join(const RankWorld& world);
  ~Ranks();
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  int rank() const { return world_.rank; }
  int size() const { return world_.size; }
  int local_rank() const { return local_rank_; }
  /// Ranks on this host.
  int local_size() const { return local_size_; }
  bool is_first() const { return world_.rank == 0; }

  /// Bytes of another rank, and to it; both know how many.
  void send(const void* data, std::size_t bytes, int to);
  void receive(void* data, std::size_t bytes, int from);

  /// What rank 0 has.
  void broadcast(void* data, std::size_t bytes);
  std::string broadcast(const std::string& text);

  /// Every rank gives its own part of `all` and gets the others'. Part r begins at byte `begins[r]`, the last one ends at `begins[size()]`.
  /// If anybody was asked to stop, see `watched`, all throw Cancelled instead, after the exchange.
  void gather(void* all, std::span<const std::size_t> begins);
  /// The same for rows of so many bytes, of which each rank has those of its share.
  void gather_rows(void* all, std::size_t row_bytes, std::span<const RankShare> shares);
  /// Texts of all, by rank.
  std::vector<std::string> gather(const std::string& text);

  /// Throws RankFailure on all ranks if one has another text than rank 0, naming the rank and its first line that differs. `what` is what
  /// they are lines of.
  void expect_same(const std::string& what, const std::string& text);

  /// A progress that cancels nothing by itself: that this rank was asked to stop is told to all at the next `gather`. Each report shows the
  /// others that this rank works.
  Progress watched(const Progress& progress);

  /// Tells the others why this rank ends; they say so. The first reason counts. Rank 0, if it opened the port, waits until they have heard.
  void fail(const std::string& why) noexcept;

 private:
  class Link;
  Ranks(const RankWorld& world, std::unique_ptr<Link> link);

  RankWorld world_;
  int local_size_ = 1;
  int local_rank_ = 0;
  bool asked_to_stop_ = false;
  std::unique_ptr<Link> link_;
};

/// The ranks as a team that finds lists together.
Team team_of(Ranks& ranks);

/// The store that ranks of this host meet in, for who starts them: it outlives each of them.
class RankStore {
 public:
  /// At a port that is free. Throws RankFailure.
  explicit RankStore(double timeout_seconds);
  ~RankStore();
  RankStore(const RankStore&) = delete;
  RankStore& operator=(const RankStore&) = delete;
  std::uint16_t port() const;
  /// Tells all ranks that the work ends, and why. The first reason counts.
  void fail(const std::string& why) noexcept;

 private:
  class Server;
  std::unique_ptr<Server> server_;
};

}  // namespace smartmine
