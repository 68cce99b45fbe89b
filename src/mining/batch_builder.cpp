#include "smartmine/mining/batch_builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <numeric>
#include <queue>
#include <span>

#include "smartmine/core/error.h"
#include "smartmine/core/parallel.h"
#include "smartmine/core/random.h"

namespace smartmine {
namespace {

enum Purpose : std::uint64_t { kGroups = 0x6261, kOrder, kDraw };
constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

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

/// Distinct points of a class.
std::size_t distinct(std::span<const std::uint32_t> members, const std::vector<std::uint32_t>& copy_of) {
  if (copy_of.empty()) return members.size();
  return static_cast<std::size_t>(std::count_if(members.begin(), members.end(), [&](std::uint32_t p) { return copy_of[p] == p; }));
}

/// Who takes part.
struct Members {
  std::vector<std::uint32_t> classes;  // that can give a pair
  std::vector<std::uint32_t> copy_of;  // as find_copies has it
};

Members find_members(const NeighborLists& lists, const LabelIndex& labels, const BatchBuilderOptions& options, BatchStats& stats) {
  Members members;
  if (options.near_share > 0) members.copy_of = find_copies(lists, labels);
  const auto look = [&] {
    members.classes.clear();
    for (std::uint32_t c = 0; c < labels.classes(); ++c)
      if (distinct(labels.members(c), members.copy_of) > 1) members.classes.push_back(c);
  };
  look();
  if (members.classes.size() < 2 && !members.copy_of.empty()) {  // an embedding that has collapsed: nothing can be told apart
    members.copy_of.clear();
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
  std::vector<std::uint32_t> members;   // of the groups, `images_per_class` each
  std::vector<std::uint32_t> group_of;  // by point; kNone: it does not come
};

Round divide(const LabelIndex& labels, const Members& members, const BatchBuilderOptions& options, std::size_t number, BatchStats& stats) {
  Round round;
  const std::size_t size = options.images_per_class;
  const std::uint64_t seed = options.seed ^ (number * 0x9e3779b97f4a7c15ULL);
  round.group_of.resize(labels.size(), kNone);
  std::vector<bool> came(members.copy_of.empty() ? 0 : labels.size());
  std::vector<std::uint32_t> points;
  for (const std::uint32_t c : members.classes) {
    const auto all = labels.members(c);
    points.assign(all.begin(), all.end());
    Random random(seed, kGroups, c);
    shuffle(points, random);
    if (!came.empty())
      std::erase_if(points, [&](std::uint32_t point) {
        const bool again = came[members.copy_of[point]];
        came[members.copy_of[point]] = true;
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
  for (std::uint32_t g = 0; g < round.groups.size(); ++g)
    for (std::size_t i = 0; i < size; ++i) round.group_of[round.members[round.groups[g].begin + i]] = g;
  return round;
}

/// Makes the batches of one round, one after the other.
class Maker {
 public:
  Maker(const NeighborLists& lists, const LabelIndex& labels, const BatchBuilderOptions& options, const Round& round, std::size_t groups,
        std::uint64_t seed, BatchStats& stats)
      : lists_(lists),
        labels_(labels),
        options_(options),
        round_(round),
        wanted_(groups),
        random_(seed, kDraw),
        stats_(stats),
        used_(round.groups.size(), false),
        votes_(round.groups.size(), 0.0F),
        best_(options.near_share > 0 ? labels.size() : 0, 0.0F),
        room_(labels.classes(), 1),
        batch_of_class_(labels.classes(), 0),
        count_of_class_(labels.classes(), 0) {
    std::vector<std::size_t> counts(labels.classes(), 0);
    for (const Group& group : round.groups) ++counts[group.label_class];
    for (std::size_t c = 0; c < counts.size(); ++c)
      room_[c] =
          static_cast<std::uint32_t>(std::max<std::size_t>(1, (counts[c] * wanted_ + round.groups.size() - 1) / round.groups.size()));
  }

  std::vector<std::uint32_t> make_all() {
    for (std::uint32_t g = 0; g < round_.groups.size(); ++g)
      if (!used_[g]) make_batch(g);
    add_leftovers();
    return std::move(items_);
  }

 private:
  struct Vote {
    float weight;
    std::uint32_t group;
    bool operator<(const Vote& other) const { return weight != other.weight ? weight < other.weight : group > other.group; }
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
    for (const std::uint32_t group : touched_) votes_[group] = 0;
    for (const std::uint32_t point : voted_for_) best_[point] = 0;
    touched_.clear();
    voted_for_.clear();
    queue_ = {};
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
    const std::uint32_t label_class = round_.groups[group].label_class;
    if (batch_of_class_[label_class] != batch_) count_of_class_[label_class] = 0;
    batch_of_class_[label_class] = batch_;
    ++count_of_class_[label_class];
    current_.push_back(group);
    if (options_.near_share == 0) return;
    for (const std::uint32_t point : members_of(group)) vote(point);
  }

  void vote(std::uint32_t point) {
    const auto ids = lists_.ids(point);
    const auto distances = lists_.distances(point);
    const std::uint32_t own = labels_.class_of(point);
    std::size_t voted = 0;
    for (std::size_t j = 0; j < ids.size() && voted < options_.negatives; ++j) {
      const std::uint32_t other = ids[j];
      if (labels_.class_of(other) == own) continue;
      if (!(distances[j] > 0) || static_cast<double>(distances[j]) < options_.duplicate_distance) {
        ++stats_.copies_skipped;
        continue;
      }
      const float weight = 1.0F / static_cast<float>(++voted);
      const std::uint32_t group = round_.group_of[other];
      if (group == kNone || used_[group] || weight <= best_[other]) continue;
      if (votes_[group] == 0) touched_.push_back(group);
      if (best_[other] == 0) voted_for_.push_back(other);
      votes_[group] += weight - best_[other];
      best_[other] = weight;
      queue_.push({votes_[group], group});
    }
  }

  /// The group with most votes; false: none is left.
  bool take_nearest() {
    while (!queue_.empty()) {
      const Vote best = queue_.top();
      queue_.pop();
      if (used_[best.group] || best.weight != votes_[best.group] || !has_room(best.group)) continue;  // or an older count of it
      take(best.group);
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
      if (!has_room(static_cast<std::uint32_t>(g))) continue;
      take(static_cast<std::uint32_t>(g));
      return true;
    }
    return false;
  }

  bool has_room(std::uint32_t group) const {
    const std::uint32_t label_class = round_.groups[group].label_class;
    return batch_of_class_[label_class] != batch_ || count_of_class_[label_class] < room_[label_class];
  }

  /// What did not fill a batch, mixed so that every batch has its share of each class. The last is filled up with what came before.
  void add_leftovers() {
    std::vector<std::size_t> counts(labels_.classes(), 0), seen(labels_.classes(), 0);
    for (const std::uint32_t group : leftovers_) ++counts[round_.groups[group].label_class];
    std::vector<std::pair<double, std::uint32_t>> places;
    for (const std::uint32_t group : leftovers_) {
      const std::uint32_t c = round_.groups[group].label_class;
      places.emplace_back((static_cast<double>(seen[c]++) + 0.5) / static_cast<double>(counts[c]), group);
    }
    std::sort(places.begin(), places.end());
    for (const auto& [place, group] : places) write(group);
    stats_.random_groups += places.size();
    const std::size_t over = places.size() % wanted_;
    if (over == 0) return;
    ++batch_;
    for (std::size_t i = places.size() - over; i < places.size(); ++i) {
      batch_of_class_[round_.groups[places[i].second].label_class] = batch_;
      count_of_class_[round_.groups[places[i].second].label_class] = room_[round_.groups[places[i].second].label_class];
    }
    const std::size_t start = random_.below(round_.groups.size());
    std::size_t missing = wanted_ - over;
    for (const bool any : {false, true})  // classes that it lacks first
      for (std::size_t i = 0; i < round_.groups.size() && missing > 0; ++i) {
        const auto group = static_cast<std::uint32_t>((start + i) % round_.groups.size());
        if (!any && !has_room(group)) continue;
        batch_of_class_[round_.groups[group].label_class] = batch_;
        count_of_class_[round_.groups[group].label_class] = room_[round_.groups[group].label_class];
        write(group);
        --missing;
        ++stats_.random_groups;
        stats_.repeated += options_.images_per_class;
      }
  }

  const NeighborLists& lists_;
  const LabelIndex& labels_;
  const BatchBuilderOptions& options_;
  const Round& round_;
  const std::size_t wanted_;  // groups of a batch
  Random random_;
  BatchStats& stats_;
  std::vector<std::uint32_t> items_;
  std::vector<std::uint32_t> current_, leftovers_;  // groups of the batch under way, and of those that could not be filled
  std::vector<bool> used_;
  std::vector<float> votes_;                        // by group: the sum of the best votes of its points
  std::vector<float> best_;                         // by point
  std::vector<std::uint32_t> touched_, voted_for_;  // where these two are not 0
  std::priority_queue<Vote> queue_;
  std::vector<std::uint32_t> room_;  // by class: groups of it that a batch may have
  std::vector<std::size_t> batch_of_class_;
  std::vector<std::uint32_t> count_of_class_;  // in that batch
  std::size_t batch_ = 0;
  std::size_t next_ = 0;
};

/// Adds what one round came to.
void add(BatchStats& sum, const BatchStats& round) {
  sum.groups += round.groups;
  sum.near_groups += round.near_groups;
  sum.random_groups += round.random_groups;
  sum.repeated += round.repeated;
  sum.copies_skipped += round.copies_skipped;
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

ClassBatches build_batches(const NeighborLists& lists, const LabelIndex& labels, const BatchBuilderOptions& options) {
  options.validate();
  if (options.near_share > 0) labels.require_size(lists.size(), "lists");
  require_classes_for_batches(labels);
  const auto begin = std::chrono::steady_clock::now();
  ClassBatches result;
  const Members members = find_members(lists, labels, options, result.stats);
  const std::size_t groups = std::min(options.classes, members.classes.size());
  result.batch_items = groups * options.images_per_class;
  std::vector<std::vector<std::uint32_t>> items(options.rounds);
  std::vector<BatchStats> stats(options.rounds);
  parallel_for(options.rounds, 1, options.threads, [&](std::size_t first, std::size_t last, unsigned) {
    for (std::size_t number = first; number < last; ++number) {
      const Round round = divide(labels, members, options, number, stats[number]);
      items[number] = Maker(lists, labels, options, round, groups, options.seed + number, stats[number]).make_all();
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
