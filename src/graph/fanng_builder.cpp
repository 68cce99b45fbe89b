#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "graph/build_task.h"
#include "graph/candidates.h"
#include "graph/crowd_lists.h"
#include "graph/edge_lists.h"
#include "graph/fanng_parts.h"
#include "graph/join.h"
#include "graph/make_edges.h"
#include "graph/partition_lists.h"
#include "graph/previous_lists.h"
#include "graph/recall_sample.h"
#include "graph/search_lists.h"
#include "graph/stopwatch.h"
#include "smartmine/core/error.h"
#include "smartmine/core/parallel.h"
#include "smartmine/graph/fanng.h"

// A build, stage after stage: an order that keeps near points together, candidates of every point, the recall of the lists they give,
// edges, and the success rate of walks along them. Each stage is given what the ones before it made.
namespace smartmine {

namespace {

// What a build keeps account of in every stage.
struct Account {
  NeighborStats stats;
  Stopwatch watch;

  std::uint64_t& computed() { return stats.distance_computations; }
  void end(const std::string& stage) { watch.lap(stats, stage); }
  void note(const std::string& text) { stats.note += (stats.note.empty() ? "" : "; ") + text; }
};

// The lists of all points before there is a graph.
struct Listed {
  OrderedRows ordered;
  Candidates candidates;
  std::unique_ptr<PackedPoints> packed;  // the rows in this order, for quick comparisons; null where there are none
  RecallSample truth;
};

// All that is built, still by place.
struct Built {
  OrderedRows ordered;
  Candidates candidates;
  EdgeLists edges;  // none where lists alone are wanted
};

RecallSample take_sample(const BuildTask& task, Account& account) {
  RecallSample truth = sample_recall(task, account.computed());
  account.stats.recall_sample = truth.points().size();
  return truth;
}

// The lists of a group are as good as they get, and those of all members of a team, which begin at `shares`.
void exchange(const BuildTask& task, const OrderedRows& ordered, const std::vector<std::size_t>& shares, Candidates& candidates) {
  exchange_neighbors(ordered, candidates, task.threads(), task.team, shares);
  if (task.team != nullptr) candidates.share_lists(*task.team, ordered, shares);
}

// Joins the groups that were searched less for it, and once more with twice the helpers if the recall is not reached: another search takes
// longer.
void join(const BuildTask& task, const OrderedRows& ordered, const std::vector<Group>& groups, const RecallSample& truth,
          Candidates& candidates, Account& account) {
  if (std::none_of(groups.begin(), groups.end(), [](const Group& group) { return group.joins; })) return;
  for (Join how; how.helpers <= how.entries && account.stats.recall < task.options.recall_target; how.helpers *= 2) {
    for (const Group& group : groups) {
      if (!group.joins) continue;
      join_neighbors(task, ordered, *group.packed, how, group.shares, candidates.lists, account.computed());
      if (task.team != nullptr) candidates.share_lists(*task.team, ordered, group.shares);
    }
    account.stats.recall = truth.recall(candidates.lists);
    account.end("join");
  }
}

// What is changed from one search to the next while the recall is too low: a farther reach, or more candidates that are measured in full
// where that helped little. Where neither helps at all, nothing more is tried.
class Attempts {
 public:
  explicit Attempts(double target) : target_(target) {}

  bool go_on(double recall, std::vector<Group>& groups) {
    constexpr double kHelpsLittle = 0.25, kInVain = 0.05;  // of what was missing
    if (recall >= target_) return false;
    if (const double lacked = target_ - last_; begun_) {
      vain_ = recall - last_ < kInVain * lacked ? vain_ + 1 : 0;
      if (vain_ == 2) return false;
      if (recall - last_ < kHelpsLittle * lacked) widens_ = !widens_;
    }
    begun_ = true;
    last_ = recall;
    return widens_ ? widen(groups) || measure_more(groups) : measure_more(groups) || widen(groups);
  }

 private:
  double target_;
  double last_ = 0;  // what the search before reached
  bool begun_ = false;
  bool widens_ = true;
  int vain_ = 0;  // searches one after the other that brought nothing
};

Listed list_from_partition(const BuildTask& task, Account& account) {
  auto [ordered, groups] = group_rows(task, account.computed());
  account.end("partition");
  prepare_searches(task, ordered, groups, account.computed());
  account.end("calibration");
  RecallSample truth = take_sample(task, account);
  account.end("recall");
  Candidates candidates(task);
  if (task.makes_edges) candidates.forward = ForwardEdges(task.size());
  for (const Group& group : groups)
    if (group.search == nullptr) list_all_pairs(task, ordered, group, candidates, account.computed());
  Attempts attempts(task.options.recall_target);
  do {
    for (const Group& group : groups)
      if (group.search != nullptr) list_by_cells(task, ordered, group, candidates, account.computed());
    account.end("lists");
    for (const Group& group : groups) exchange(task, ordered, group.shares, candidates);
    account.end("exchange");
    if (std::ranges::any_of(groups, [](const Group& group) { return group.crowded > 0; })) {
      list_crowds(task, ordered, groups, candidates, account.computed());
      account.end("crowds");
    }
    account.stats.recall = truth.recall(candidates.lists);
    join(task, ordered, groups, truth, candidates, account);
  } while (attempts.go_on(account.stats.recall, groups));
  if (!task.makes_edges && account.stats.recall < task.options.recall_target) {
    candidates.forward = ForwardEdges(task.size());
    for (const Group& group : groups) choose_edges_from_lists(task, ordered, group, candidates, account.computed());
    account.end("edges");
  }
  // Points packed about different centres cannot be compared.
  std::unique_ptr<PackedPoints> packed = groups.size() == 1 ? std::move(groups[0].packed) : nullptr;
  return Listed{std::move(ordered), std::move(candidates), std::move(packed), std::move(truth)};
}

// Why an earlier graph cannot be started from; empty: it can.
std::string unfit(const BuildTask& task, const Fanng& previous) {
  const std::size_t known = FanngParts::candidates_per_point(previous);
  if (known >= std::min(2 * task.neighbors(), task.size() - 1)) return {};
  return fmt::format("the previous graph keeps {} candidates a point and lists of {} need {}: built from a partition instead", known,
                     task.neighbors(), 2 * task.neighbors());
}

// Empty where too much has changed for the recall to be reached.
std::optional<Listed> list_from_earlier(const BuildTask& task, const Fanng& previous, Account& account) {
  OrderedRows ordered(task.rows, FanngParts::order(previous), task.threads());
  auto packed = std::make_unique<PackedPoints>(ordered.rows(), task.kernels, task.threads());
  account.end("order");
  RecallSample truth = take_sample(task, account);
  account.end("recall");
  // Where lists alone are wanted, what has moved little is looked at little. Edges need more than the lists do.
  std::optional<Refresh> chosen = kRefreshForEdges;
  if (!task.makes_edges) chosen = choose_refresh(task, previous, ordered, *packed, truth, account.stats.recall, account.computed());
  account.end("calibration");
  if (!chosen) return std::nullopt;
  Refresh how = *chosen;
  const std::vector<std::size_t> shares = team_shares(task.team, task.size());
  const auto list = [&] {
    Candidates listed = list_from_previous(task, previous, how, ordered, *packed, account.computed());
    account.end("lists");
    if (how.exchanges)
      exchange(task, ordered, shares, listed);
    else if (task.team != nullptr)
      listed.share_lists(*task.team, ordered, shares);
    account.stats.recall = truth.recall(listed.lists);
    account.end("exchange");
    return listed;
  };
  std::optional<Candidates> candidates = list();
  if (account.stats.recall < task.options.recall_target && !task.makes_edges && how.helpers < kMostRefresh.helpers) {
    how = kMostRefresh;
    candidates.reset();  // not both at once
    candidates = list();
  }
  if (account.stats.recall < task.options.recall_target) return std::nullopt;
  if (task.makes_edges && !chooses_edges(task, previous)) candidates->forward = forward_from_previous(previous, ordered, task.threads());
  return Listed{std::move(ordered), *std::move(candidates), std::move(packed), std::move(truth)};
}

EdgeLists make_edges(const BuildTask& task, Listed& listed, Account& account) {
  std::vector<Trap> traps = find_traps(task, listed.ordered, listed.candidates);
  listed.candidates.forget_after_lists();
  account.end("traps");
  EdgeLists edges = make_edges(task, listed.ordered, listed.candidates.forward, std::move(traps), listed.packed.get(), account.computed());
  account.end("edges");
  return edges;
}

// Traverse-add until the success rate is certain or it is not worth going on.
void certify(const BuildTask& task, const Fanng* previous, const OrderedRows& ordered, EdgeLists& edges, Account& account) {
  TraverseOptions how{.target = task.options.success_target, .seed = task.options.seed, .threads = task.threads()};
  const bool random = task.options.start == Start::kRandom;
  if (random) {
    how.batch = std::max<std::size_t>(1024, task.size());
    how.growing = true;
    how.most_pairs = 2000 * task.size() + 100000;
  } else {
    how.batch = std::max<std::size_t>(1024, task.size() / 16);
    how.most_pairs = 100 * task.size() + 100000;
    how.whole_targets = true;
    if (!task.certifies()) how.hopeless_below = 1;
  }
  // Pairs that the earlier build has mended would not be fresh.
  if (previous != nullptr) how.seed ^= 0x9e3779b97f4a7c15U * (FanngParts::edge_count(*previous) + 1);
  const TraverseResult reached = traverse_add(edges, ordered.rows(), how, task.kernels, task.progress);
  NeighborStats& stats = account.stats;
  stats.success_target = task.options.success_target;
  stats.certified = random || task.certifies();
  stats.success_rate = reached.rate;
  stats.success_bound = reached.bound;
  stats.success_pairs = reached.pairs;
  stats.success_reached = reached.reached;
  stats.edges_added = reached.added;
  stats.distance_computations += reached.computed;
  account.end("traverse_add");
}

// Searches through the graph for what the lists lack.
void complete_lists(const BuildTask& task, const RecallSample& truth, Built& built, Account& account) {
  const Searched how = search_lists(task, built.ordered, built.edges, truth, built.candidates, account.computed());
  if (how != Searched::kNot) account.stats.recall = truth.recall(built.candidates.lists);
  if (how == Searched::kByAllPairs) account.note("no search through the graph reached the recall asked for: all pairs were looked at");
  account.end(how == Searched::kByAllPairs ? "all_pairs" : "search");
}

void judge_recall(const BuildTask& task, Account& account) {
  account.stats.recall_reached = account.stats.recall >= task.options.recall_target;
  if (!account.stats.recall_reached)
    account.note(fmt::format("recall {:.4f} is under the {:.4f} asked for, and no larger search is left; exact search would reach it",
                             account.stats.recall, task.options.recall_target));
}

Built build_from_partition(const BuildTask& task, const Fanng* previous, Account& account) {
  Listed listed = list_from_partition(task, account);
  BuildTask with_edges = task;
  if (!task.makes_edges) {
    if (account.stats.recall >= task.options.recall_target) {
      judge_recall(task, account);
      return Built{std::move(listed.ordered), std::move(listed.candidates), EdgeLists(0, 1)};
    }
    // Searches through edges are what is left; they are made from the lists, for nothing that comes after these was kept.
    with_edges.makes_edges = true;
    with_edges.options.edge_candidates = 0;
  }
  EdgeLists edges = make_edges(with_edges, listed, account);
  listed.packed.reset();
  certify(with_edges, previous, listed.ordered, edges, account);
  Built built{std::move(listed.ordered), std::move(listed.candidates), std::move(edges)};
  if (account.stats.recall < task.options.recall_target) complete_lists(with_edges, listed.truth, built, account);
  judge_recall(task, account);
  return built;
}

Built build_from_random_edges(const BuildTask& task, Account& account) {
  OrderedRows ordered(task.rows, own_order(task.size()), task.threads());
  EdgeLists edges = make_random_edges(task, ordered);
  account.end("random_edges");
  certify(task, nullptr, ordered, edges, account);
  const RecallSample truth = take_sample(task, account);
  account.end("recall");
  account.stats.recall = 0;
  Built built{std::move(ordered), Candidates(task), std::move(edges)};
  complete_lists(task, truth, built, account);
  judge_recall(task, account);
  return built;
}

Built build_from_previous(const BuildTask& task, const Fanng& previous, Account& account) {
  const auto from_partition = [&](const std::string& why) {
    Built built = build_from_partition(task, &previous, account);
    if (!why.empty()) account.note(why);
    return built;
  };
  if (task.size() < task.few()) return from_partition("");  // looking at all pairs is quicker
  if (const std::string why = unfit(task, previous); !why.empty()) return from_partition(why);
  std::optional<Listed> listed = list_from_earlier(task, previous, account);
  if (!listed)
    return from_partition(fmt::format(
        "from the previous graph the lists reached a recall of {:.4f}, too little: built from a partition instead", account.stats.recall));
  if (!task.makes_edges) return Built{std::move(listed->ordered), std::move(listed->candidates), EdgeLists(0, 1)};
  EdgeLists edges = make_edges(task, *listed, account);
  certify(task, &previous, listed->ordered, edges, account);
  return Built{std::move(listed->ordered), std::move(listed->candidates), std::move(edges)};
}

Built build(const BuildTask& task, const Fanng* previous, Account& account) {
  switch (task.options.start) {
    case Start::kRandom:
      return build_from_random_edges(task, account);
    case Start::kPrevious:
      return build_from_previous(task, *previous, account);
    default:
      return build_from_partition(task, nullptr, account);
  }
}

}  // namespace

Fanng FanngParts::assemble(const BuildTask& task, OrderedRows ordered, const EdgeLists& edges, Candidates candidates) {
  const std::size_t size = ordered.size();
  Fanng graph;
  graph.dimension_ = task.rows.dimension();
  graph.offsets_.assign(size + 1, 0);
  for (std::size_t i = 0; i < edges.vertices(); ++i) graph.offsets_[i + 1] = graph.offsets_[i] + edges.of(ordered.place(i)).size();
  graph.edges_.resize(graph.offsets_.back());
  parallel_for(edges.vertices(), 4096, task.threads(), [&](std::size_t begin, std::size_t end, unsigned) {
    for (std::size_t i = begin; i < end; ++i) {
      std::uint32_t* out = graph.edges_.data() + graph.offsets_[i];
      for (const Edge& edge : edges.of(ordered.place(i))) *out++ = ordered.point(edge.end);
    }
  });
  if (task.options.refreshable) {
    graph.order_ = std::move(ordered).take_order();
    graph.candidates_per_point_ = candidates.kept_per_point();
    graph.candidates_ = std::move(candidates).take_kept();
  }
  return graph;
}

FanngResult build_fanng(const Rows& rows, const FanngOptions& options, const Fanng* previous, const Progress& progress, const Team* team,
                        const ListMaker& lists) {
  options.validate();
  if (options.neighbors >= rows.size())
    throw InvalidArgument(fmt::format("neighbors is {}; with {} rows it must be under {}", options.neighbors, rows.size(), rows.size()));
  if (options.start == Start::kPrevious) {
    if (previous == nullptr) throw InvalidArgument("start is previous, but no previous graph was given");
    if (previous->size() != rows.size() || previous->dimension() != rows.dimension())
      throw InvalidArgument(
          fmt::format("the previous graph is of {} points of dimension {}, the embeddings are {} of dimension {}; they must agree",
                      previous->size(), previous->dimension(), rows.size(), rows.dimension()));
  }
  const bool makes_edges = options.for_search || options.certify || options.start == Start::kRandom;
  const BuildTask task{rows, options, kernels::active(), progress, makes_edges, team, lists};
  Account account;
  NeighborStats& stats = account.stats;
  stats.index = "fanng";
  stats.kernel = task.kernels.name;
  stats.recall_target = options.recall_target;
  stats.unit_norm = check_rows(rows, options.threads).unit_norm;
  account.end("check");
  Built built = build(task, previous, account);
  FanngResult result;
  result.lists = std::move(built.candidates.lists);
  for (std::size_t i = 0; i < built.edges.vertices(); ++i) stats.max_degree = std::max(stats.max_degree, built.edges.of(i).size());
  result.graph = FanngParts::assemble(task, std::move(built.ordered), built.edges, std::move(built.candidates));
  stats.mean_degree = static_cast<double>(FanngParts::edge_count(result.graph)) / static_cast<double>(rows.size());
  account.end("publish");
  account.watch.finish(stats);
  result.stats = std::move(stats);
  return result;
}

}  // namespace smartmine
