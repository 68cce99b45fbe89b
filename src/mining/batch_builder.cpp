#include "smartmine/mining/batch_builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <span>
#include <utility>

#include "mining/batch_groups.h"
#include "mining/class_graph.h"
#include "mining/prepared_batches.h"
#include "smartmine/core/error.h"
#include "smartmine/core/parallel.h"
#include "smartmine/core/random.h"

namespace smartmine {
namespace {

enum Purpose : std::uint64_t { kDraw = 0x6261, kBatches };

/// Makes the batches of one round, one after the other.
class Maker {
 public:
  Maker(const ClassGraph& graph, const Groups& all, const Round& round, double near_share, std::size_t wanted, std::uint64_t seed,
        BatchStats& stats)
      : graph_(graph),
        all_(all),
        round_(round),
        near_share_(near_share),
        wanted_(wanted),
        seed_(seed),
        random_(seed, kDraw),
        stats_(stats),
        used_(round.groups.size(), false),
        of_class_(round.of_class.size()) {
    for (std::uint32_t c = 0; c < of_class_.size(); ++c) {
      if (round.of_class[c].empty()) continue;
      const std::size_t fair = (round.of_class[c].size() * wanted_ + round.groups.size() - 1) / round.groups.size();
      of_class_[c].room = static_cast<std::uint32_t>(std::min(fair, wanted_ - 1));  // a batch of one class teaches nothing
    }
  }

  std::vector<std::uint32_t> make_all() {
    for (std::uint32_t g = 0; g < round_.groups.size(); ++g)
      if (!used_[g]) make_batch(g);
    add_leftovers();
    shuffle_batches();
    return std::move(items_);
  }

 private:
  /// A class that may come next.
  struct Candidate {
    float worth = 0;
    std::uint32_t label_class = 0;
    bool operator<(const Candidate& other) const { return worth != other.worth ? worth < other.worth : label_class > other.label_class; }
  };

  /// Of a class.
  struct Course {
    std::size_t batch = 0;    // that it came into last ...
    std::uint32_t count = 0;  // ... with so many groups
    std::uint32_t room = 1;   // groups of it that a batch may have
    std::size_t taken = 0;    // of its groups, which go in their order
    std::size_t again = 0;    // of those that come again, plus one; 0: none has
    float nearness = 0;       // to the classes of the batch under way
  };

  void make_batch(std::uint32_t first) {
    ++batch_;
    current_.clear();
    first_left_ = left(round_.groups[first].label_class);
    take(first);
    std::size_t near_groups = 0;
    while (current_.size() < wanted_) {
      const bool near = random_.uniform() < near_share_ && take_nearest();
      if (!near && !take_drawn()) break;
      near_groups += near ? 1 : 0;
    }
    if (current_.size() == wanted_) {
      for (const std::uint32_t group : current_) write(round_.groups[group]);
      stats_.near_groups += near_groups;
      stats_.random_groups += wanted_ - near_groups;
    } else {
      leftovers_.insert(leftovers_.end(), current_.begin(), current_.end());
    }
    for (const std::uint32_t c : touched_) of_class_[c].nearness = 0;
    touched_.clear();
    queue_.clear();
  }

  void write(const Group& group) {
    const auto members = all_.of(group.number);
    items_.insert(items_.end(), members.begin(), members.end());
    ++stats_.groups;
  }

  void take(std::uint32_t group) {
    used_[group] = true;
    current_.push_back(group);
    const std::uint32_t c = round_.groups[group].label_class;
    ++of_class_[c].taken;
    const bool joins = count_in(c) == 0;
    add_to_batch(c, 1);
    if (near_share_ == 0) return;
    if (joins)
      for (const ClassLink& link : graph_.of(c)) {
        Course& other = of_class_[link.other];
        if (other.nearness == 0) touched_.push_back(link.other);
        other.nearness += link.weight;
        propose(link.other);
      }
    propose(c);  // a large class may come again
  }

  /// Share of a class's groups that are left.
  float left(std::uint32_t c) const {
    const auto groups = static_cast<float>(round_.of_class[c].size());
    return (groups - static_cast<float>(of_class_[c].taken)) / groups;
  }

  /// Nearness; less of classes of which less is left than of the batch's first, by the square. Classes in the middle are near to all
  /// others: they would be gone first, and a round would end with batches of classes that nothing is near to.
  float worth(std::uint32_t c) const {
    const float share = std::min(1.0F, left(c) / first_left_);
    return of_class_[c].nearness * share * share;
  }

  void propose(std::uint32_t c) {
    if (of_class_[c].nearness == 0 || of_class_[c].taken == round_.of_class[c].size() || !has_room(c)) return;
    queue_.push_back({worth(c), c});
    std::push_heap(queue_.begin(), queue_.end());
  }

  /// The next group of the class that is nearest to those of the batch, by its worth; false: none is left.
  bool take_nearest() {
    while (!queue_.empty()) {
      const Candidate best = queue_.front();
      std::pop_heap(queue_.begin(), queue_.end());
      queue_.pop_back();
      const std::uint32_t c = best.label_class;
      if (of_class_[c].taken == round_.of_class[c].size() || best.worth != worth(c) || !has_room(c)) continue;
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
  /// of one, groups of others come again. The last is filled up with groups that come anyway, of this round or another.
  void add_leftovers() {
    std::vector<std::size_t> counts(of_class_.size(), 0), seen(of_class_.size(), 0);
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
      put(round_.groups[group]);
    }
    if (place_ == 0) return;
    next_again_ = random_.below(all_.classes.size());
    for (std::size_t i = 0; i < all_.classes.size() && place_ > 0; ++i) {  // classes that it lacks first
      const ClassGroups& of = all_.classes[next_again_++ % all_.classes.size()];
      if (count_in(of.label_class) == 0) put_again(group_again(of));
    }
    while (place_ > 0) put_again(group_again(all_.classes[next_again_++ % all_.classes.size()]));
  }

  /// At the next place of the batches of leftovers.
  void put(const Group& group) {
    if (place_ == 0) ++batch_;
    add_to_batch(group.label_class, 1);
    write(group);
    ++stats_.random_groups;
    place_ = (place_ + 1) % wanted_;
  }
  void put_again(const Group& group) {
    put(group);
    stats_.repeated += all_.size;
  }

  /// A group of a class other than this one; all classes and their groups in turn.
  Group another_class(std::uint32_t label_class) {
    while (all_.classes[next_again_ % all_.classes.size()].label_class == label_class) ++next_again_;
    return group_again(all_.classes[next_again_++ % all_.classes.size()]);
  }
  Group group_again(const ClassGroups& of) {
    Course& course = of_class_[of.label_class];
    if (course.again == 0) course.again = 1 + random_.below(of.count);
    return {of.label_class, of.first + (course.again++ - 1) % of.count};
  }

  /// For the first of a round had the most to choose from, and the last are what was left.
  void shuffle_batches() {
    const auto size = static_cast<std::ptrdiff_t>(wanted_ * all_.size);
    const auto at = [&](std::size_t batch) { return items_.begin() + static_cast<std::ptrdiff_t>(batch) * size; };
    Random random(seed_, kBatches);
    for (std::size_t i = items_.size() / static_cast<std::size_t>(size); i > 1; --i)
      if (const std::size_t other = random.below(i); other + 1 != i) std::swap_ranges(at(other), at(other) + size, at(i - 1));
  }

  const ClassGraph& graph_;
  const Groups& all_;
  const Round& round_;
  const double near_share_;
  const std::size_t wanted_;  // groups of a batch
  const std::uint64_t seed_;
  Random random_;
  BatchStats& stats_;
  std::vector<std::uint32_t> items_;
  std::vector<std::uint32_t> current_, leftovers_;  // groups of the batch under way, and of those that could not be filled
  std::vector<bool> used_;                          // by group
  std::vector<Course> of_class_;
  std::vector<std::uint32_t> touched_;  // classes that are near those of the batch under way
  std::vector<Candidate> queue_;        // a heap
  std::size_t batch_ = 0;
  float first_left_ = 1;   // share of the groups of the first class of the batch under way, as it began
  std::size_t place_ = 0;  // in a batch of leftovers
  std::size_t next_ = 0, next_again_ = 0;
};

/// Adds what one round came to.
void add(BatchStats& sum, const BatchStats& round) {
  sum.groups += round.groups;
  sum.near_groups += round.near_groups;
  sum.random_groups += round.random_groups;
  sum.repeated += round.repeated;
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

PreparedBatches::PreparedBatches(const NeighborLists& lists, const LabelIndex& labels, const BatchBuilderOptions& options, const Rows* rows)
    : labels_(labels), options_(options) {
  options.validate();
  if (options.near_share > 0) labels.require_size(lists.size(), "lists");
  if (rows != nullptr) labels.require_size(rows->size(), "rows");
  require_classes_for_batches(labels);
  const auto begin = std::chrono::steady_clock::now();
  members_ = find_members(lists, labels, options, stats_);
  if (options.near_share > 0) graph_ = link_classes(lists, labels, members_.copies, options, rows, stats_);
  stats_.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

ClassBatches PreparedBatches::make(double near_share, std::size_t rounds) const {
  BatchBuilderOptions options = options_;
  if (near_share > 0 && options.near_share == 0)
    throw InvalidArgument(fmt::format("near_share is {}; it must be 0, for no lists were looked at", near_share));
  options.near_share = near_share;
  options.rounds = rounds;
  options.validate();
  const auto begin = std::chrono::steady_clock::now();
  ClassBatches result;
  result.stats = stats_;
  const std::size_t wanted = std::min(options.classes, members_.classes.size());
  result.batch_items = wanted * options.images_per_class;
  const Groups groups = divide(labels_, members_, options, rounds, result.stats);
  std::vector<std::vector<std::uint32_t>> items(rounds);
  std::vector<BatchStats> stats(rounds);
  parallel_for(rounds, 1, options.threads, [&](std::size_t first, std::size_t last, unsigned) {
    for (std::size_t number = first; number < last; ++number) {
      const Round round = groups.round(number, labels_.classes(), options.seed);
      items[number] = Maker(graph_, groups, round, near_share, wanted, round_seed(options.seed, number), stats[number]).make_all();
    }
  });
  for (std::size_t number = 0; number < rounds; ++number) {
    result.items.insert(result.items.end(), items[number].begin(), items[number].end());
    add(result.stats, stats[number]);
  }
  result.stats.batches = result.batches();
  result.stats.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return result;
}

ClassBatches build_batches(const NeighborLists& lists, const LabelIndex& labels, const BatchBuilderOptions& options, const Rows* rows) {
  const PreparedBatches prepared(lists, labels, options, rows);
  ClassBatches made = prepared.make(options.near_share, options.rounds);
  made.stats.seconds += prepared.seconds();
  return made;
}

}  // namespace smartmine
