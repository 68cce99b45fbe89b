#include "smartmine/mining/batch_builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>

#include "mining/class_graph.h"
#include "smartmine/core/error.h"
#include "smartmine/core/parallel.h"
#include "smartmine/core/random.h"

namespace smartmine {
namespace {

enum Purpose : std::uint64_t { kGroups = 0x6261, kOrder, kDraw };
constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

bool is_copy(float distance, double duplicate_distance) { return !(distance > 0) || static_cast<double>(distance) < duplicate_distance; }

/// Of every point the lowest id among its copies of the same class; empty: no point has a copy. Copies of a copy are copies, be it of
/// another class: a short list may be full of those.
std::vector<std::uint32_t> find_copies(const NeighborLists& lists, const LabelIndex& labels) {
  std::vector<std::uint32_t> root;
  const auto find = [&](std::uint32_t point) {
    while (root[point] != point) point = root[point] = root[root[point]];
    return point;
  };
  for (std::uint32_t point = 0; point < lists.size(); ++point) {
    const auto ids = lists.ids(point);
    const auto distances = lists.distances(point);
    for (std::size_t j = 0; j < ids.size() && !(distances[j] > 0); ++j) {
      if (root.empty()) {
        root.resize(lists.size());
        std::iota(root.begin(), root.end(), 0U);
      }
      const std::uint32_t first = find(point), second = find(ids[j]);
      root[std::max(first, second)] = std::min(first, second);
    }
  }
  if (root.empty()) return {};
  std::vector<std::uint32_t> copy_of(root.size()), lowest(root.size(), kNone);
  for (std::uint32_t c = 0; c < labels.classes(); ++c)
    for (const std::uint32_t point : labels.members(c)) {
      std::uint32_t& first = lowest[find(point)];
      if (first == kNone || labels.class_of(first) != c) first = point;
      copy_of[point] = first;
    }
  return copy_of;
}

/// Adds those that are only nearly copies: of points of a class nearer than `distance` to a lower id that stands for itself, that id stands
/// for them. So no chain of neighbours becomes one point. A class that would be one point keeps all but its true copies: it may just lie
/// close together.
void add_near_copies(const NeighborLists& lists, const LabelIndex& labels, double distance, std::vector<std::uint32_t>& copy_of) {
  if (copy_of.empty()) {
    copy_of.resize(lists.size());
    std::iota(copy_of.begin(), copy_of.end(), 0U);
  }
  const std::vector<std::uint32_t> exact = copy_of;
  const auto near = [&](std::uint32_t point, const auto& visit) {
    const auto ids = lists.ids(point);
    for (std::size_t j = 0; j < ids.size() && is_copy(lists.distances(point)[j], distance); ++j)
      if (labels.class_of(ids[j]) == labels.class_of(point) && copy_of[ids[j]] == ids[j]) visit(ids[j]);
  };
  for (std::uint32_t c = 0; c < labels.classes(); ++c) {
    std::size_t left = 0;
    for (const std::uint32_t point : labels.members(c)) {
      if (copy_of[point] == point)
        near(point, [&](std::uint32_t other) {
          if (other < point) copy_of[point] = other;
        });
      if (copy_of[point] == point)
        near(point, [&](std::uint32_t other) {
          if (other > point) copy_of[other] = point;
        });
      copy_of[point] = copy_of[copy_of[point]];  // a true copy of one that has become a copy
      left += copy_of[point] == point ? 1 : 0;
    }
    if (left > 1) continue;
    for (const std::uint32_t point : labels.members(c)) copy_of[point] = exact[point];
  }
}

/// Points with a copy in another class: one of the labels is wrong, or both are right. Empty: there are none.
std::vector<bool> find_copies_elsewhere(const NeighborLists& lists, const LabelIndex& labels, double duplicate_distance) {
  std::vector<bool> found;
  for (std::uint32_t point = 0; point < lists.size(); ++point) {
    const auto ids = lists.ids(point);
    const auto distances = lists.distances(point);
    for (std::size_t j = 0; j < ids.size() && is_copy(distances[j], duplicate_distance); ++j) {
      if (labels.class_of(ids[j]) == labels.class_of(point)) continue;
      found.resize(lists.size());
      found[point] = found[ids[j]] = true;
    }
  }
  return found;
}

/// Distinct points of a class.
std::size_t distinct(std::span<const std::uint32_t> members, const std::vector<std::uint32_t>& copy_of) {
  if (copy_of.empty()) return members.size();
  return static_cast<std::size_t>(std::count_if(members.begin(), members.end(), [&](std::uint32_t p) { return copy_of[p] == p; }));
}

/// Who takes part.
struct Members {
  std::vector<std::uint32_t> classes;  // that can give a pair
  Copies copies;
};

Members find_members(const NeighborLists& lists, const LabelIndex& labels, const BatchBuilderOptions& options, BatchStats& stats) {
  Members members;
  if (options.near_share > 0) {
    members.copies.of = find_copies(lists, labels);
    if (options.duplicate_distance > 0) add_near_copies(lists, labels, options.duplicate_distance, members.copies.of);
    members.copies.elsewhere = find_copies_elsewhere(lists, labels, options.duplicate_distance);
    stats.copies_skipped = static_cast<std::size_t>(std::count(members.copies.elsewhere.begin(), members.copies.elsewhere.end(), true));
  }
  const auto look = [&] {
    members.classes.clear();
    for (std::uint32_t c = 0; c < labels.classes(); ++c)
      if (distinct(labels.members(c), members.copies.of) > 1) members.classes.push_back(c);
  };
  look();
  if (members.classes.size() < 2 && !members.copies.of.empty()) {  // an embedding that has collapsed: nothing can be told apart
    members.copies.of.clear();
    look();
  }
  std::size_t coming = 0;
  for (const std::uint32_t c : members.classes) coming += labels.class_size(c);
  stats.alone = labels.single_member_classes();
  stats.only_copies = labels.size() - coming - stats.alone;
  return members;
}

/// Points of one class that go together.
struct Group {
  std::uint32_t label_class = 0;
  std::size_t begin = 0;  // in Round::members
};

/// Every point once, in groups in a random order.
struct Round {
  std::vector<Group> groups;
  std::vector<std::uint32_t> members;                // of the groups, `images_per_class` each
  std::vector<std::vector<std::uint32_t>> of_class;  // the groups of each class, in their order
};

Round divide(const LabelIndex& labels, const Members& members, const BatchBuilderOptions& options, std::size_t number, BatchStats& stats) {
  Round round;
  const std::size_t size = options.images_per_class;
  const std::uint64_t seed = options.seed ^ (number * 0x9e3779b97f4a7c15ULL);
  std::vector<bool> came(members.copies.of.empty() ? 0 : labels.size());
  std::vector<std::uint32_t> points;
  for (const std::uint32_t c : members.classes) {
    const auto all = labels.members(c);
    points.assign(all.begin(), all.end());
    Random random(seed, kGroups, c);
    shuffle(points, random);
    if (!came.empty())
      std::erase_if(points, [&](std::uint32_t point) {
        const bool again = came[members.copies.of[point]];
        came[members.copies.of[point]] = true;
        stats.copies_left_out += again ? 1 : 0;
        return again;
      });
    const std::size_t whole = points.size();
    while (points.size() % size != 0) points.push_back(points[points.size() % whole]);
    stats.repeated += points.size() - whole;
    for (std::size_t begin = 0; begin < points.size(); begin += size) {
      round.groups.push_back({c, round.members.size()});
      round.members.insert(round.members.end(), points.begin() + static_cast<std::ptrdiff_t>(begin),
                           points.begin() + static_cast<std::ptrdiff_t>(begin + size));
    }
  }
  Random random(seed, kOrder);
  shuffle(round.groups, random);
  round.of_class.resize(labels.classes());
  for (std::uint32_t g = 0; g < round.groups.size(); ++g) round.of_class[round.groups[g].label_class].push_back(g);
  return round;
}

/// Makes the batches of one round, one after the other.
class Maker {
 public:
  Maker(const ClassGraph& graph, const LabelIndex& labels, const BatchBuilderOptions& options, const Round& round, std::size_t groups,
        std::uint64_t seed, BatchStats& stats)
      : graph_(graph),
        labels_(labels),
        options_(options),
        round_(round),
        wanted_(groups),
        random_(seed, kDraw),
        stats_(stats),
        used_(round.groups.size(), false),
        of_class_(labels.classes()) {
    for (std::uint32_t c = 0; c < of_class_.size(); ++c) {
      if (round.of_class[c].empty()) continue;
      coming_.push_back(c);
      const std::size_t fair = (round.of_class[c].size() * wanted_ + round.groups.size() - 1) / round.groups.size();
      of_class_[c].room = static_cast<std::uint32_t>(std::min(fair, wanted_ - 1));  // a batch of one class teaches nothing
    }
  }

  std::vector<std::uint32_t> make_all() {
    for (std::uint32_t g = 0; g < round_.groups.size(); ++g)
      if (!used_[g]) make_batch(g);
    add_leftovers();
    return std::move(items_);
  }

 private:
  /// A class that may come next.
  struct Candidate {
    float nearness = 0;
    std::uint32_t label_class = 0;
    bool operator<(const Candidate& other) const {
      return nearness != other.nearness ? nearness < other.nearness : label_class > other.label_class;
    }
  };

  /// Of a class.
  struct Course {
    std::size_t batch = 0;    // that it came into last ...
    std::uint32_t count = 0;  // ... with so many groups
    std::uint32_t room = 1;   // groups of it that a batch may have
    std::size_t taken = 0;    // of its groups, which go in their order
    std::size_t again = 0;    // likewise, of those that come again
    float nearness = 0;       // to the classes of the batch under way
  };

  void make_batch(std::uint32_t first) {
    ++batch_;
    current_.clear();
    take(first);
    std::size_t near_groups = 0;
    while (current_.size() < wanted_) {
      const bool near = random_.uniform() < options_.near_share && take_nearest();
      if (!near && !take_drawn()) break;
      near_groups += near ? 1 : 0;
    }
    if (current_.size() == wanted_) {
      for (const std::uint32_t group : current_) write(group);
      stats_.near_groups += near_groups;
      stats_.random_groups += wanted_ - near_groups;
    } else {
      leftovers_.insert(leftovers_.end(), current_.begin(), current_.end());
    }
    for (const std::uint32_t c : touched_) of_class_[c].nearness = 0;
    touched_.clear();
    queue_.clear();
  }

  void write(std::uint32_t group) {
    const auto members = members_of(group);
    items_.insert(items_.end(), members.begin(), members.end());
    ++stats_.groups;
  }

  std::span<const std::uint32_t> members_of(std::uint32_t group) const {
    return std::span(round_.members).subspan(round_.groups[group].begin, options_.images_per_class);
  }

  void take(std::uint32_t group) {
    used_[group] = true;
    current_.push_back(group);
    const std::uint32_t c = round_.groups[group].label_class;
    ++of_class_[c].taken;
    const bool joins = count_in(c) == 0;
    add_to_batch(c, 1);
    if (options_.near_share == 0) return;
    if (joins)
      for (const ClassLink& link : graph_.of(c)) {
        Course& other = of_class_[link.other];
        if (other.nearness == 0) touched_.push_back(link.other);
        other.nearness += link.weight;
        propose(link.other);
      }
    propose(c);  // a large class may come again
  }

  void propose(std::uint32_t c) {
    if (of_class_[c].nearness == 0 || of_class_[c].taken == round_.of_class[c].size() || !has_room(c)) return;
    queue_.push_back({of_class_[c].nearness, c});
    std::push_heap(queue_.begin(), queue_.end());
  }

  /// The next group of the class that is nearest to those of the batch; false: none is left.
  bool take_nearest() {
    while (!queue_.empty()) {
      const Candidate best = queue_.front();
      std::pop_heap(queue_.begin(), queue_.end());
      queue_.pop_back();
      const std::uint32_t c = best.label_class;
      if (best.nearness != of_class_[c].nearness || of_class_[c].taken == round_.of_class[c].size() || !has_room(c)) continue;
      take(round_.of_class[c][of_class_[c].taken]);
      return true;
    }
    return false;
  }

  /// The next group in the random order that the batch has room for; false: there is none at hand.
  bool take_drawn() {
    constexpr std::size_t kLooks = 256;
    while (next_ < used_.size() && used_[next_]) ++next_;
    std::size_t looks = 0;
    for (std::size_t g = next_; g < used_.size() && looks < kLooks; ++g) {
      if (used_[g]) continue;
      ++looks;
      if (!has_room(round_.groups[g].label_class)) continue;
      take(static_cast<std::uint32_t>(g));
      return true;
    }
    return false;
  }

  std::uint32_t count_in(std::uint32_t c) const { return of_class_[c].batch == batch_ ? of_class_[c].count : 0; }
  bool has_room(std::uint32_t c) const { return count_in(c) < of_class_[c].room; }
  void add_to_batch(std::uint32_t c, std::uint32_t groups) {
    of_class_[c].count = count_in(c) + groups;
    of_class_[c].batch = batch_;
  }

  /// What did not fill a batch, mixed so that every batch has its share of each class, but at least two classes: where all that is left is
  /// of one, groups of others come again. The last is filled up with what came before.
  void add_leftovers() {
    std::vector<std::size_t> counts(labels_.classes(), 0), seen(labels_.classes(), 0);
    for (const std::uint32_t group : leftovers_) ++counts[round_.groups[group].label_class];
    std::vector<std::pair<double, std::uint32_t>> order;
    for (const std::uint32_t group : leftovers_) {
      const std::uint32_t c = round_.groups[group].label_class;
      order.emplace_back((static_cast<double>(seen[c]++) + 0.5) / static_cast<double>(counts[c]), group);
    }
    std::sort(order.begin(), order.end());
    place_ = 0;
    for (const auto& [share, group] : order) {
      const std::uint32_t c = round_.groups[group].label_class;
      if (place_ + 1 == wanted_ && count_in(c) == place_) put_again(another_class(c));
      put(group);
    }
    if (place_ == 0) return;
    const std::size_t start = random_.below(round_.groups.size());
    for (const bool any : {false, true})  // classes that it lacks first
      for (std::size_t i = 0; i < round_.groups.size() && place_ > 0; ++i) {
        const auto group = static_cast<std::uint32_t>((start + i) % round_.groups.size());
        if (any || count_in(round_.groups[group].label_class) == 0) put_again(group);
      }
  }

  /// At the next place of the batches of leftovers.
  void put(std::uint32_t group) {
    if (place_ == 0) ++batch_;
    add_to_batch(round_.groups[group].label_class, 1);
    write(group);
    ++stats_.random_groups;
    place_ = (place_ + 1) % wanted_;
  }
  void put_again(std::uint32_t group) {
    put(group);
    stats_.repeated += options_.images_per_class;
  }

  /// A group of a class other than this one; all classes and their groups in turn.
  std::uint32_t another_class(std::uint32_t label_class) {
    while (coming_[next_again_ % coming_.size()] == label_class) ++next_again_;
    const std::uint32_t c = coming_[next_again_++ % coming_.size()];
    return round_.of_class[c][of_class_[c].again++ % round_.of_class[c].size()];
  }

  const ClassGraph& graph_;
  const LabelIndex& labels_;
  const BatchBuilderOptions& options_;
  const Round& round_;
  const std::size_t wanted_;  // groups of a batch
  Random random_;
  BatchStats& stats_;
  std::vector<std::uint32_t> items_;
  std::vector<std::uint32_t> current_, leftovers_;  // groups of the batch under way, and of those that could not be filled
  std::vector<bool> used_;                          // by group
  std::vector<Course> of_class_;
  std::vector<std::uint32_t> touched_;  // classes that are near those of the batch under way
  std::vector<Candidate> queue_;        // a heap
  std::vector<std::uint32_t> coming_;   // classes that have groups
  std::size_t batch_ = 0;
  std::size_t place_ = 0;  // in a batch of leftovers
  std::size_t next_ = 0, next_again_ = 0;
};

/// Adds what one round came to.
void add(BatchStats& sum, const BatchStats& round) {
  sum.groups += round.groups;
  sum.near_groups += round.near_groups;
  sum.random_groups += round.random_groups;
  sum.repeated += round.repeated;
  sum.copies_left_out += round.copies_left_out;
}

}  // namespace

void BatchBuilderOptions::validate() const {
  if (classes < 2) throw InvalidArgument(fmt::format("classes is {}; it must be at least 2", classes));
  if (images_per_class < 2) throw InvalidArgument(fmt::format("images_per_class is {}; it must be at least 2", images_per_class));
  if (!(near_share >= 0 && near_share <= 1)) throw InvalidArgument(fmt::format("near_share is {}; it must be from 0 to 1", near_share));
  if (rounds < 1) throw InvalidArgument("rounds is 0; it must be at least 1");
  if (negatives < 1) throw InvalidArgument("negatives is 0; it must be at least 1");
  if (!(duplicate_distance >= 0 && std::isfinite(duplicate_distance)))
    throw InvalidArgument(fmt::format("duplicate_distance is {}; it must be at least 0 and finite", duplicate_distance));
}

void require_classes_for_batches(const LabelIndex& labels) {
  const std::size_t able = labels.classes() - labels.single_member_classes();
  if (able == 0)
    throw InvalidArgument(
        fmt::format("each of the {} classes has one member only; batches need two classes of two points or more", labels.classes()));
  if (able > 1) return;
  std::uint32_t only = 0;
  while (labels.class_size(only) < 2) ++only;
  throw InvalidArgument(fmt::format("of the {} classes only that of label {} has more than one member; batches need two such classes",
                                    labels.classes(), labels.label(only)));
}

ClassBatches build_batches(const NeighborLists& lists, const LabelIndex& labels, const BatchBuilderOptions& options, const Rows* rows) {
  options.validate();
  if (options.near_share > 0) labels.require_size(lists.size(), "lists");
  if (rows != nullptr) labels.require_size(rows->size(), "rows");
  require_classes_for_batches(labels);
  const auto begin = std::chrono::steady_clock::now();
  ClassBatches result;
  const Members members = find_members(lists, labels, options, result.stats);
  const std::size_t groups = std::min(options.classes, members.classes.size());
  result.batch_items = groups * options.images_per_class;
  ClassGraph graph;
  if (options.near_share > 0) graph = link_classes(lists, labels, members.copies, options, rows, result.stats);
  std::vector<std::vector<std::uint32_t>> items(options.rounds);
  std::vector<BatchStats> stats(options.rounds);
  parallel_for(options.rounds, 1, options.threads, [&](std::size_t first, std::size_t last, unsigned) {
    for (std::size_t number = first; number < last; ++number) {
      const Round round = divide(labels, members, options, number, stats[number]);
      items[number] = Maker(graph, labels, options, round, groups, options.seed + number, stats[number]).make_all();
    }
  });
  for (std::size_t number = 0; number < options.rounds; ++number) {
    result.items.insert(result.items.end(), items[number].begin(), items[number].end());
    add(result.stats, stats[number]);
  }
  result.stats.batches = result.batches();
  result.stats.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return result;
}

}  // namespace smartmine
