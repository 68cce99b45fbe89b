#include "mining/batch_groups.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "smartmine/core/parallel.h"
#include "smartmine/core/random.h"

namespace smartmine {
namespace {

enum Purpose : std::uint64_t { kRounds = 0x6264, kGroups, kBegin, kOrder };
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

}  // namespace

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

namespace {

/// What the groups of one class are made of: its points in a random order, then all of them in another one, and so on. No group has a point
/// twice while there is one that it lacks.
class Course {
 public:
  Course(const LabelIndex& labels, const Copies& copies, std::uint64_t seed) : labels_(labels), copies_(copies), seed_(seed) {
    if (!copies.of.empty()) came_.resize(labels.size());
  }

  void fill(std::uint32_t label_class, std::span<std::uint32_t> members, std::size_t size) {
    left_.clear();
    std::size_t turn = 0;
    for (std::size_t i = 0; i < members.size(); ++i) {
      if (left_.empty()) begin_turn(label_class, turn++, members.subspan(i - i % size, i % size));
      members[i] = left_.back();
      left_.pop_back();
    }
  }

 private:
  /// Points from the back to the front. Of copies one comes, any of them. Those that the group under way has got come last.
  void begin_turn(std::uint32_t label_class, std::size_t turn, std::span<const std::uint32_t> group) {
    const auto all = labels_.members(label_class);
    left_.assign(all.begin(), all.end());
    Random random(round_seed(seed_, turn), kGroups, label_class);
    shuffle(left_, random);
    if (!came_.empty()) {
      std::erase_if(left_, [&](std::uint32_t point) {
        const bool again = came_[copies_.of[point]];
        came_[copies_.of[point]] = true;
        return again;
      });
      for (const std::uint32_t point : all) came_[copies_.of[point]] = false;
    }
    if (group.empty()) return;
    has_.clear();
    for (const std::uint32_t point : group) has_.push_back(copies_.stand_in(point));
    std::sort(has_.begin(), has_.end());
    std::stable_partition(left_.begin(), left_.end(),
                          [&](std::uint32_t point) { return std::binary_search(has_.begin(), has_.end(), copies_.stand_in(point)); });
  }

  const LabelIndex& labels_;
  const Copies& copies_;
  const std::uint64_t seed_;
  std::vector<bool> came_;  // by stand-in; empty: there are no copies
  std::vector<std::uint32_t> left_, has_;
};

}  // namespace

std::uint64_t round_seed(std::uint64_t seed, std::size_t round) { return Random(seed, kRounds, round).bits(); }

Groups divide(const LabelIndex& labels, const Members& members, const BatchBuilderOptions& options, std::size_t rounds, BatchStats& stats) {
  Groups groups;
  groups.size = options.images_per_class;
  groups.rounds = rounds;
  for (const std::uint32_t c : members.classes) {
    const std::size_t points = distinct(labels.members(c), members.copies.of);
    const std::size_t count = (rounds * points + groups.size - 1) / groups.size;
    groups.classes.push_back({c, groups.members.size() / groups.size, count, points, Random(options.seed, kBegin, c).below(groups.size)});
    groups.members.resize(groups.members.size() + count * groups.size);
    stats.repeated += count * groups.size - rounds * points;
    stats.copies_left_out += rounds * (labels.class_size(c) - points);
  }
  parallel_for(groups.classes.size(), 64, options.threads, [&](std::size_t begin, std::size_t end, unsigned) {
    Course course(labels, members.copies, options.seed);
    for (std::size_t i = begin; i < end; ++i) {
      const ClassGroups& of = groups.classes[i];
      course.fill(of.label_class, std::span(groups.members).subspan(of.first * groups.size, of.count * groups.size), groups.size);
    }
  });
  return groups;
}

Round Groups::round(std::size_t number, std::size_t all_classes, std::uint64_t seed) const {
  Round round;
  for (const ClassGroups& of : classes)
    for (std::size_t g = come_before(of, number); g < come_before(of, number + 1); ++g)
      round.groups.push_back({of.label_class, of.first + g});
  Random random(round_seed(seed, number), kOrder);
  shuffle(round.groups, random);
  round.of_class.resize(all_classes);
  for (std::uint32_t g = 0; g < round.groups.size(); ++g) round.of_class[round.groups[g].label_class].push_back(g);
  return round;
}

std::size_t Groups::come_before(const ClassGroups& of, std::size_t round) const {
  if (round == 0) return 0;
  return round == rounds ? of.count : (round * of.points + of.begin) / size;
}

}  // namespace smartmine
