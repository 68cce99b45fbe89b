#include "graph/crowd_lists.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <numeric>
#include <span>

#include "smartmine/core/parallel.h"

namespace smartmine {

namespace {

bool is_crowded(const Group& group, const OrderedRows& ordered, const Candidates& candidates, std::size_t place) {
  const float last = candidates.lists.distances(ordered.point(place)).back();
  return last > 0 && last < group.crowded;  // a list of copies cannot be bettered
}

std::uint32_t root_of(std::vector<std::uint32_t>& parents, std::uint32_t i) {
  while (parents[i] != i) i = parents[i] = parents[parents[i]];
  return i;
}

void unite(std::vector<std::uint32_t>& parents, std::uint32_t a, std::uint32_t b) {
  a = root_of(parents, a);
  b = root_of(parents, b);
  parents[std::max(a, b)] = std::min(a, b);
}

// The crowds of a group, each as places, ascending.
std::vector<std::vector<std::uint32_t>> find_crowds(const BuildTask& task, const Group& group, const OrderedRows& ordered,
                                                    const Candidates& candidates, std::uint64_t& computed) {
  constexpr std::size_t kMostCompared = 2048;
  std::vector<std::uint32_t> parents(group.size());
  std::iota(parents.begin(), parents.end(), 0U);
  std::vector<bool> taken(group.size(), false);
  for (std::size_t i = 0; i < group.size(); ++i) {
    if (!is_crowded(group, ordered, candidates, group.first + i)) continue;
    taken[i] = true;
    for (const std::uint32_t id : candidates.lists.ids(ordered.point(group.first + i))) {
      const std::size_t other = ordered.place(id) - group.first;
      taken[other] = true;
      unite(parents, static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(other));
    }
  }
  // A search looks at some of a large crowd, so that parts of it may not name each other: first points tell.
  std::vector<std::uint32_t> firsts;
  for (std::uint32_t i = 0; i < group.size(); ++i)
    if (taken[i] && parents[i] == i) firsts.push_back(i);
  if (firsts.size() <= kMostCompared) {
    const Rows rows = ordered.rows(group.first, group.last);
    std::vector<float> distances(firsts.size());
    for (const std::uint32_t first : firsts) {
      task.kernels.squared_distances(rows[first], rows.data(), firsts.data(), firsts.size(), rows.dimension(), distances.data());
      for (std::size_t i = 0; i < firsts.size(); ++i)
        if (distances[i] < group.crowded) unite(parents, first, firsts[i]);
    }
    computed += firsts.size() * firsts.size();
  }
  std::vector<std::vector<std::uint32_t>> crowds;
  std::vector<std::uint32_t> number(group.size());
  for (std::uint32_t i = 0; i < group.size(); ++i) {
    if (!taken[i]) continue;
    const std::uint32_t root = root_of(parents, i);  // the first of them
    if (root == i) {
      number[i] = static_cast<std::uint32_t>(crowds.size());
      crowds.emplace_back();
    }
    crowds[number[root]].push_back(static_cast<std::uint32_t>(group.first + i));
  }
  return crowds;
}

struct Crowd {
  OrderedRows ordered;
  Candidates candidates;
};

// As a build begins, but for the recall: the sample of the whole tells it.
Crowd list_alone(const BuildTask& task, std::uint64_t& computed) {
  auto [ordered, groups] = group_rows(task, computed);
  prepare_searches(task, ordered, groups, computed);
  Candidates candidates(task);
  if (task.makes_edges) candidates.forward = ForwardEdges(task.size());
  for (const Group& group : groups) {
    if (group.search == nullptr) {
      list_all_pairs(task, ordered, group, candidates, computed);
    } else {
      list_by_cells(task, ordered, group, candidates, computed);
      exchange_neighbors(ordered, candidates, task.threads(), nullptr, group.shares);
    }
  }
  list_crowds(task, ordered, groups, candidates, computed);
  return {std::move(ordered), std::move(candidates)};
}

// Finds the lists of one crowd and writes those of the crowded.
void list_crowd(const BuildTask& task, const OrderedRows& ordered, const Group& group, std::span<const std::uint32_t> members,
                unsigned threads, const Progress& progress, Candidates& result, std::uint64_t& computed) {
  constexpr float kFiner = 2;
  constexpr double kMissing = 0.5;  // of what may be missing: nothing after this mends it
  const std::size_t dimension = ordered.rows().dimension();
  Buffer<float> values(members.size() * dimension);
  for (std::size_t i = 0; i < members.size(); ++i) std::copy_n(ordered.rows()[members[i]], dimension, values.data() + i * dimension);
  const Rows rows(values.data(), members.size(), dimension);
  // No wider than its group, and it would come out the same.
  if (!(sampled_frame(rows, threads).scale > kFiner * group.packed->frame().scale)) return;
  FanngOptions options = task.options;
  options.edge_candidates = static_cast<std::uint32_t>(task.edge_candidates());
  options.certify = task.certifies();
  options.for_search = false;
  options.recall_target = 1 - kMissing * (1 - task.options.recall_target);
  options.threads = threads;
  options.joined_from = std::numeric_limits<std::size_t>::max();  // nobody joins them
  const BuildTask own{rows, options, task.kernels, progress, task.makes_edges};
  const Crowd crowd = list_alone(own, computed);
  std::vector<std::uint32_t> near;
  for (std::uint32_t i = 0; i < members.size(); ++i) {
    const std::size_t place = members[i], inside = crowd.ordered.place(i);
    if (!is_crowded(group, ordered, result, place)) continue;
    const auto list = result.lists.ids(ordered.point(place));
    const auto squared = result.lists.distances(ordered.point(place));
    near.clear();
    for (const std::uint32_t other : crowd.candidates.lists.ids(i)) near.push_back(members[other]);
    std::transform(near.begin(), near.end(), list.begin(), [&](std::uint32_t other) { return ordered.point(other); });
    std::ranges::copy(crowd.candidates.lists.distances(i), squared.begin());
    order_ties(list, squared);
    if (own.beyond() > 0)
      for (const std::uint32_t other : crowd.candidates.after_list(inside))
        if (other != inside) near.push_back(members[crowd.ordered.point(other)]);
    result.keep(place, near);
    if (!task.makes_edges) continue;
    result.forward.set_count(place, 0);
    for (const std::uint32_t end : crowd.candidates.forward.of(inside)) result.forward.add(place, members[crowd.ordered.point(end)]);
  }
}

}  // namespace

void list_crowds(const BuildTask& task, const OrderedRows& ordered, const std::vector<Group>& groups, Candidates& candidates,
                 std::uint64_t& computed) {
  const Progress as_lists = [&task](const ProgressEvent& event) {
    ProgressEvent same = event;
    same.stage = "lists";
    return task.progress(same);
  };
  for (const Group& group : groups) {
    if (!(group.crowded > 0)) continue;
    std::vector<std::vector<std::uint32_t>> crowds = find_crowds(task, group, ordered, candidates, computed);
    // Small ones side by side.
    const auto small = std::partition(crowds.begin(), crowds.end(), [&](const auto& crowd) { return crowd.size() >= task.few(); });
    for (auto crowd = crowds.begin(); crowd != small; ++crowd)
      list_crowd(task, ordered, group, *crowd, task.threads(), task.progress ? as_lists : Progress{}, candidates, computed);
    std::atomic<std::uint64_t> distances{0};
    parallel_for(
        static_cast<std::size_t>(crowds.end() - small), 1, task.threads(),
        [&](std::size_t begin, std::size_t end, unsigned) {
          std::uint64_t some = 0;
          for (std::size_t c = begin; c < end; ++c)
            list_crowd(task, ordered, group, *(small + static_cast<std::ptrdiff_t>(c)), 1, Progress{}, candidates, some);
          distances += some;
        },
        task.progress, "lists");
    computed += distances;
  }
}

}  // namespace smartmine
