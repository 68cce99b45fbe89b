#include "mining/class_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include "smartmine/core/parallel.h"
#include "smartmine/graph/neighbor_index.h"

namespace smartmine {
namespace {

constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();
// Of a class, the strongest. Batches ask for what their classes have in common, so each class needs only some.
constexpr std::size_t kMostLinks = 64;

// From one class in so many on, lists of all centres cost less than comparing those classes with all.
constexpr std::size_t kManyByCentre = 8, kManyClasses = 10'000;
// These need not be long, nor complete: a batch wants some classes that are near, and asks on from each of them.
constexpr std::size_t kListOfManyCentres = 24;
constexpr double kRecallOfManyCentres = 0.5;

// What one point's word is worth beside that of every further one: classes of a few images often have no more to go by.
constexpr float kOfOnePoint = 0.125F;

using Links = std::vector<ClassLink>;

void keep_strongest(Links& links) {
  const auto stronger = [](const ClassLink& a, const ClassLink& b) {
    return a.weight != b.weight ? a.weight > b.weight : a.other < b.other;
  };
  if (links.size() > kMostLinks) {
    std::nth_element(links.begin(), links.begin() + kMostLinks, links.end(), stronger);
    links.resize(kMostLinks);
  }
  std::sort(links.begin(), links.end(), stronger);
}

/// Counts what the points of one class see, class after class.
class Counter {
 public:
  Counter(const NeighborLists& lists, const LabelIndex& labels, const Copies& copies, std::size_t negatives)
      : lists_(lists), labels_(labels), copies_(copies), negatives_(negatives), has_(labels.size()), of_class_(labels.classes()) {}

  /// `blind` becomes the number of points that see no other class.
  Links count(std::uint32_t label_class, std::size_t& blind) {
    std::size_t voters = 0;
    for (const std::uint32_t point : labels_.members(label_class)) {
      if (!copies_.stands_for_itself(point)) continue;
      ++voters;
      if (!copies_.is_doubtful(point) && !look(point, label_class)) ++blind;
    }
    Links links;
    for (const std::uint32_t other : touched_) {
      Counts& counts = of_class_[other];
      const std::uint32_t both = std::min(counts.seeing, counts.seen);
      links.push_back({other, (static_cast<float>(both - 1) + kOfOnePoint) / static_cast<float>(voters)});
      counts = {};
    }
    touched_.clear();
    for (const std::uint32_t stand_in : seen_) has_[stand_in] = false;
    seen_.clear();
    keep_strongest(links);
    return links;
  }

 private:
  struct Counts {
    std::uint32_t last_seeing = kNone;
    std::uint32_t seeing = 0, seen = 0;
  };

  /// Whether the point sees another class.
  bool look(std::uint32_t point, std::uint32_t own) {
    std::size_t found = 0, copies = 0;
    for (const std::uint32_t id : lists_.ids(point)) {
      const std::uint32_t other = labels_.class_of(id);
      if (other == own) continue;
      if (copies_.is_doubtful(id)) {
        ++copies;
        continue;
      }
      Counts& counts = of_class_[other];
      if (counts.seen == 0) touched_.push_back(other);
      if (counts.last_seeing != point) ++counts.seeing;
      counts.last_seeing = point;
      const std::uint32_t stand_in = copies_.stand_in(id);
      if (!has_[stand_in]) {
        has_[stand_in] = true;
        seen_.push_back(stand_in);
        ++counts.seen;
      }
      if (++found == negatives_) break;
    }
    return found + copies > 0;
  }

  const NeighborLists& lists_;
  const LabelIndex& labels_;
  const Copies& copies_;
  const std::size_t negatives_;
  std::vector<bool> has_;            // by point: whether the class has seen it. A bit each, for every thread has its own
  std::vector<std::uint32_t> seen_;  // these
  std::vector<Counts> of_class_;
  std::vector<std::uint32_t> touched_;
};

/// Adds the links of both directions.
ClassGraph both_ways(std::vector<Links> rows, unsigned threads) {
  std::vector<std::size_t> counts(rows.size());
  for (const Links& row : rows)
    for (const ClassLink& link : row) ++counts[link.other];
  std::vector<Links> back(rows.size());
  for (std::size_t c = 0; c < rows.size(); ++c) back[c].reserve(counts[c]);
  for (std::uint32_t c = 0; c < rows.size(); ++c)
    for (const ClassLink& link : rows[c]) back[link.other].push_back({c, link.weight});
  parallel_for(rows.size(), 64, threads, [&](std::size_t begin, std::size_t end, unsigned) {
    for (std::size_t c = begin; c < end; ++c) {
      Links& links = rows[c];
      links.insert(links.end(), back[c].begin(), back[c].end());
      std::stable_sort(links.begin(), links.end(), [](const ClassLink& a, const ClassLink& b) { return a.other < b.other; });
      std::size_t kept = 0;
      for (std::size_t i = 0; i < links.size(); ++i)
        if (kept > 0 && links[kept - 1].other == links[i].other)
          links[kept - 1].weight += links[i].weight;
        else
          links[kept++] = links[i];
      links.resize(kept);
      keep_strongest(links);
    }
  });
  return ClassGraph(rows);
}

/// The means of the rows of each class, one after the other.
std::vector<float> centres_of(const Rows& rows, const LabelIndex& labels, unsigned threads) {
  std::vector<float> centres(labels.classes() * rows.dimension());
  parallel_for(labels.classes(), 1, threads, [&](std::size_t begin, std::size_t end, unsigned) {
    std::vector<double> sum(rows.dimension());
    for (std::size_t c = begin; c < end; ++c) {
      std::fill(sum.begin(), sum.end(), 0.0);
      const auto members = labels.members(static_cast<std::uint32_t>(c));
      for (const std::uint32_t point : members)
        for (std::size_t t = 0; t < sum.size(); ++t) sum[t] += static_cast<double>(rows[point][t]);
      for (std::size_t t = 0; t < sum.size(); ++t)
        centres[c * sum.size() + t] = static_cast<float>(sum[t] / static_cast<double>(members.size()));
    }
  });
  return centres;
}

/// Links `wanted` to the classes of the nearest centres, the nearer the more, by as much as their lists are blind. Few classes are compared
/// with all; many are those of short lists, which may be a hundred thousand: the index finds those by a search that does not look at every
/// pair.
void add_centres(const Rows& rows, const LabelIndex& labels, const std::vector<std::uint32_t>& wanted,
                 const std::vector<std::size_t>& blind, unsigned threads, std::vector<Links>& links) {
  const std::vector<float> centres = centres_of(rows, labels, threads);
  const Rows all(centres.data(), labels.classes(), rows.dimension());
  // Of fewer centres than that, all pairs are no work worth mentioning.
  const bool of_all = kManyByCentre * wanted.size() >= labels.classes() && labels.classes() >= kManyClasses;
  const std::size_t neighbors = std::min(of_all ? kListOfManyCentres : kMostLinks, labels.classes() - 1);
  const NeighborLists nearest =
      of_all ? NeighborIndex({.neighbors = neighbors, .recall_target = kRecallOfManyCentres, .threads = threads}).neighbors(all).lists
             : lists_of_some(all, wanted, neighbors, threads).lists;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const float weight = static_cast<float>(blind[wanted[i]]) / static_cast<float>(labels.class_size(wanted[i]));
    const auto ids = nearest.ids(of_all ? wanted[i] : i);
    for (std::size_t place = 0; place < ids.size(); ++place)
      links[wanted[i]].push_back({ids[place], weight / static_cast<float>(1 + place)});
  }
}

}  // namespace

ClassGraph::ClassGraph(const std::vector<Links>& rows) {
  offsets_.push_back(0);
  for (const Links& row : rows) {
    links_.insert(links_.end(), row.begin(), row.end());
    offsets_.push_back(links_.size());
  }
}

ClassGraph link_classes(const NeighborLists& lists, const LabelIndex& labels, const Copies& copies, const BatchBuilderOptions& options,
                        const Rows* rows, BatchStats& stats) {
  std::vector<Links> links(labels.classes());
  std::vector<std::size_t> blind(labels.classes(), 0);
  std::vector<std::unique_ptr<Counter>> counters(resolve_threads(options.threads));  // scratch space, a worker's own
  parallel_for(labels.classes(), 1, options.threads, [&](std::size_t begin, std::size_t end, unsigned worker) {
    if (!counters[worker]) counters[worker] = std::make_unique<Counter>(lists, labels, copies, options.negatives);
    for (std::size_t c = begin; c < end; ++c) links[c] = counters[worker]->count(static_cast<std::uint32_t>(c), blind[c]);
  });
  std::vector<std::uint32_t> mostly_blind;
  for (std::uint32_t c = 0; c < labels.classes(); ++c) {
    stats.lists_without_negative += blind[c];
    if (labels.class_size(c) > 1 && 2 * blind[c] > labels.class_size(c)) mostly_blind.push_back(c);
  }
  if (mostly_blind.empty()) return both_ways(std::move(links), options.threads);
  const double share = 100.0 * static_cast<double>(stats.lists_without_negative) / static_cast<double>(labels.size());
  stats.note =
      fmt::format("{:.0f} % of the lists hold no point of another class, most of those of {} classes: {}", share, mostly_blind.size(),
                  rows != nullptr ? "their centres are compared too" : "what is near them is drawn; longer lists or embeddings tell more");
  if (rows != nullptr) {
    stats.classes_by_centre = mostly_blind.size();
    add_centres(*rows, labels, mostly_blind, blind, options.threads, links);
  }
  return both_ways(std::move(links), options.threads);
}

}  // namespace smartmine
