#include "smartmine/mining/batch_builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <queue>
#include <span>

#include "smartmine/core/error.h"
#include "smartmine/core/random.h"

namespace smartmine {
namespace {

enum Purpose : std::uint64_t { kGroups = 0x6261, kOrder, kDraw };

/// Points of one class that go together.
struct Group {
  std::uint32_t label_class = 0;
  std::size_t begin = 0;  // in Round::members
};

/// Every point once, in groups in a random order.
struct Round {
  std::vector<Group> groups;
  std::vector<std::uint32_t> members;   // of the groups, `images_per_class` each
  std::vector<std::uint32_t> group_of;  // by point
};

Round divide(const LabelIndex& labels, const BatchBuilderOptions& options, std::size_t number, BatchStats& stats) {
  Round round;
  const std::size_t size = options.images_per_class;
  round.group_of.resize(labels.size());
  std::vector<std::vector<std::uint32_t>> groups;
  std::vector<std::uint32_t> points;
  for (std::uint32_t c = 0; c < labels.classes(); ++c) {
    const auto members = labels.members(c);
    points.assign(members.begin(), members.end());
    Random random(options.seed ^ (number * 0x9e3779b97f4a7c15ULL), kGroups, c);
    shuffle(points, random);
    const std::size_t whole = points.size();
    while (points.size() % size != 0) points.push_back(points[points.size() % whole]);
    stats.repeated += points.size() - whole;
    for (std::size_t begin = 0; begin < points.size(); begin += size) {
      round.groups.push_back({c, round.members.size()});
      round.members.insert(round.members.end(), points.begin() + static_cast<std::ptrdiff_t>(begin),
                           points.begin() + static_cast<std::ptrdiff_t>(begin + size));
    }
  }
  Random random(options.seed ^ (number * 0x9e3779b97f4a7c15ULL), kOrder);
  shuffle(round.groups, random);
  for (std::uint32_t g = 0; g < round.groups.size(); ++g)
    for (std::size_t i = 0; i < size; ++i) round.group_of[round.members[round.groups[g].begin + i]] = g;
  return round;
}

/// Makes the batches of one round, one after the other.
class Maker {
 public:
  Maker(const NeighborLists& lists, const LabelIndex& labels, const BatchBuilderOptions& options, const Round& round, std::uint64_t seed,
        ClassBatches& result)
      : lists_(lists),
        labels_(labels),
        options_(options),
        round_(round),
        random_(seed, kDraw),
        result_(result),
        used_(round.groups.size(), false),
        votes_(round.groups.size(), 0.0F),
        batch_of_class_(labels.classes(), 0) {}

  void make_all() {
    for (std::uint32_t g = 0; g < round_.groups.size(); ++g)
      if (!used_[g]) make_batch(g);
    result_.items.insert(result_.items.end(), leftovers_.begin(), leftovers_.end());
  }

 private:
  struct Vote {
    float weight;
    std::uint32_t group;
    bool operator<(const Vote& other) const { return weight != other.weight ? weight < other.weight : group > other.group; }
  };

  void make_batch(std::uint32_t first) {
    ++batch_;
    ++result_.stats.random_groups;
    current_.clear();
    take(first);
    const std::size_t wanted = std::min(options_.classes, labels_.classes());
    for (std::size_t count = 1; count < wanted; ++count) {
      const bool near = random_.uniform() < options_.near_share && take_nearest();
      if (!near && !take_drawn()) break;
      ++(near ? result_.stats.near_groups : result_.stats.random_groups);
    }
    // What does not fill a batch goes to the end, where classes may come twice in one.
    std::vector<std::uint32_t>& destination = current_.size() == result_.batch_items ? result_.items : leftovers_;
    destination.insert(destination.end(), current_.begin(), current_.end());
    for (const std::uint32_t group : touched_) votes_[group] = 0;
    touched_.clear();
    queue_ = {};
  }

  void take(std::uint32_t group) {
    used_[group] = true;
    batch_of_class_[round_.groups[group].label_class] = batch_;
    ++result_.stats.groups;
    const auto members = std::span(round_.members).subspan(round_.groups[group].begin, options_.images_per_class);
    current_.insert(current_.end(), members.begin(), members.end());
    if (options_.near_share == 0) return;
    for (const std::uint32_t point : members) vote(point);
  }

  void vote(std::uint32_t point) {
    const auto ids = lists_.ids(point);
    const auto distances = lists_.distances(point);
    const std::uint32_t own = labels_.class_of(point);
    std::size_t voted = 0;
    for (std::size_t j = 0; j < ids.size() && voted < options_.negatives; ++j) {
      if (labels_.class_of(ids[j]) == own) continue;
      if (!(distances[j] > 0) || static_cast<double>(distances[j]) < options_.duplicate_distance) {
        ++result_.stats.copies_skipped;
        continue;
      }
      const std::uint32_t group = round_.group_of[ids[j]];
      ++voted;
      if (used_[group]) continue;
      if (votes_[group] == 0) touched_.push_back(group);
      votes_[group] += 1.0F / static_cast<float>(voted);
      queue_.push({votes_[group], group});
    }
  }

  /// The group with most votes; false: none is left.
  bool take_nearest() {
    while (!queue_.empty()) {
      const Vote best = queue_.top();
      queue_.pop();
      if (used_[best.group] || best.weight != votes_[best.group] || is_taken(best.group)) continue;  // or an older count of it
      take(best.group);
      return true;
    }
    return false;
  }

  /// The next group in the random order whose class the batch lacks; false: there is none at hand.
  bool take_drawn() {
    constexpr std::size_t kLooks = 256;
    while (next_ < used_.size() && used_[next_]) ++next_;
    std::size_t looks = 0;
    for (std::size_t g = next_; g < used_.size() && looks < kLooks; ++g) {
      if (used_[g]) continue;
      ++looks;
      if (is_taken(static_cast<std::uint32_t>(g))) continue;
      take(static_cast<std::uint32_t>(g));
      return true;
    }
    return false;
  }

  bool is_taken(std::uint32_t group) const { return batch_of_class_[round_.groups[group].label_class] == batch_; }

  const NeighborLists& lists_;
  const LabelIndex& labels_;
  const BatchBuilderOptions& options_;
  const Round& round_;
  Random random_;
  ClassBatches& result_;
  std::vector<std::uint32_t> current_, leftovers_;  // of the batch under way, and of those that could not be filled
  std::vector<bool> used_;
  std::vector<float> votes_;
  std::vector<std::uint32_t> touched_;
  std::priority_queue<Vote> queue_;
  std::vector<std::size_t> batch_of_class_;
  std::size_t batch_ = 0;
  std::size_t next_ = 0;
};

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

ClassBatches build_batches(const NeighborLists& lists, const LabelIndex& labels, const BatchBuilderOptions& options) {
  options.validate();
  if (options.near_share > 0) labels.require_size(lists.size(), "lists");
  const auto begin = std::chrono::steady_clock::now();
  ClassBatches result;
  result.batch_items = std::min(options.classes, labels.classes()) * options.images_per_class;
  result.items.reserve(options.rounds * (labels.size() + labels.classes() * options.images_per_class));
  for (std::size_t number = 0; number < options.rounds; ++number) {
    const Round round = divide(labels, options, number, result.stats);
    Maker(lists, labels, options, round, options.seed + number, result).make_all();
  }
  result.stats.batches = (result.items.size() + result.batch_items - 1) / result.batch_items;
  result.stats.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return result;
}

}  // namespace smartmine
