#include "mining/class_graph.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include "smartmine/core/parallel.h"

namespace smartmine {
namespace {

constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();
// Of a class, the strongest. Batches ask for what their classes have in common, so each class needs only some.
constexpr std::size_t kMostLinks = 64;

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
      : lists_(lists),
        labels_(labels),
        copies_(copies),
        negatives_(negatives),
        seen_by_(labels.size(), kNone),
        of_class_(labels.classes()) {}

  Links count(std::uint32_t label_class) {
    std::size_t voters = 0;
    for (const std::uint32_t point : labels_.members(label_class)) {
      if (!copies_.stands_for_itself(point)) continue;
      ++voters;
      if (!copies_.is_doubtful(point)) look(point, label_class);
    }
    Links links;
    for (const std::uint32_t other : touched_) {
      Counts& counts = of_class_[other];
      const std::uint32_t both = std::min(counts.seeing, counts.seen);
      links.push_back({other, (static_cast<float>(both - 1) + kOfOnePoint) / static_cast<float>(voters)});
      counts = {};
    }
    touched_.clear();
    keep_strongest(links);
    return links;
  }

 private:
  struct Counts {
    std::uint32_t last_seeing = kNone;
    std::uint32_t seeing = 0, seen = 0;
  };

  void look(std::uint32_t point, std::uint32_t own) {
    std::size_t found = 0;
    for (const std::uint32_t id : lists_.ids(point)) {
      const std::uint32_t other = labels_.class_of(id);
      if (other == own || copies_.is_doubtful(id)) continue;
      Counts& counts = of_class_[other];
      if (counts.seen == 0) touched_.push_back(other);
      if (counts.last_seeing != point) ++counts.seeing;
      counts.last_seeing = point;
      const std::uint32_t stand_in = copies_.stand_in(id);
      if (seen_by_[stand_in] != own) ++counts.seen;
      seen_by_[stand_in] = own;
      if (++found == negatives_) break;
    }
  }

  const NeighborLists& lists_;
  const LabelIndex& labels_;
  const Copies& copies_;
  const std::size_t negatives_;
  std::vector<std::uint32_t> seen_by_;  // by point: the class that saw it last
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
      std::sort(links.begin(), links.end(), [](const ClassLink& a, const ClassLink& b) { return a.other < b.other; });
      std::size_t kept = 0;
      for (std::size_t i = 0; i < links.size(); ++i)
        if (kept > 0 && links[kept - 1].other == links[i].other)
          links[kept - 1].weight += links[i].weight;  // of two: their order does not matter
        else
          links[kept++] = links[i];
      links.resize(kept);
      keep_strongest(links);
    }
  });
  return ClassGraph(rows);
}

}  // namespace

ClassGraph::ClassGraph(const std::vector<Links>& rows) {
  offsets_.push_back(0);
  for (const Links& row : rows) {
    links_.insert(links_.end(), row.begin(), row.end());
    offsets_.push_back(links_.size());
  }
}

ClassGraph link_classes(const NeighborLists& lists, const LabelIndex& labels, const Copies& copies, const BatchBuilderOptions& options) {
  std::vector<Links> rows(labels.classes());
  std::vector<std::unique_ptr<Counter>> counters(resolve_threads(options.threads));  // scratch space, a worker's own
  parallel_for(labels.classes(), 1, options.threads, [&](std::size_t begin, std::size_t end, unsigned worker) {
    if (!counters[worker]) counters[worker] = std::make_unique<Counter>(lists, labels, copies, options.negatives);
    for (std::size_t c = begin; c < end; ++c) rows[c] = counters[worker]->count(static_cast<std::uint32_t>(c));
  });
  return both_ways(std::move(rows), options.threads);
}

}  // namespace smartmine
