#include "smartmine/mining/smart_miner.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <iterator>
#include <limits>
#include <optional>
#include <vector>

#include "mining/draw.h"
#include "mining/list_advice.h"
#include "mining/list_checks.h"
#include "mining/reach.h"
#include "smartmine/core/buffer.h"
#include "smartmine/core/error.h"
#include "smartmine/core/parallel.h"

namespace smartmine {
namespace {

constexpr std::uint32_t kNowhere = std::numeric_limits<std::uint32_t>::max();
constexpr std::size_t kGrain = 2048;
constexpr int kRandomTries = 256;     // for a random negative that is neither used nor worn out
constexpr std::size_t kScan = 4096;   // and then so many in a row

bool violates(float positive_distance, float negative_distance, double margin) {
  // 1 - d(a,n) / (d(a,p) + m) > 0, without the division. A margin may be lost beside huge distances; order never is.
  return negative_distance <= positive_distance ||
         std::sqrt(static_cast<double>(negative_distance)) < std::sqrt(static_cast<double>(positive_distance)) + margin;
}

Quantiles quantiles_of(std::vector<float>& values) {
  Quantiles result;
  result.count = values.size();
  if (values.empty()) return result;
  auto done = values.begin();
  for (std::size_t i = 0; i < Quantiles::kLevels.size(); ++i) {
    const auto place = static_cast<std::ptrdiff_t>(std::floor(Quantiles::kLevels[i] * static_cast<double>(values.size() - 1) + 0.5));
    const auto at = values.begin() + place;
    if (at >= done) {
      std::nth_element(done, at, values.end());
      done = at + 1;
    }
    result.values[i] = *at;
  }
  return result;
}

// What one worker counted; sums do not depend on who counted what.
struct Counts {
  std::size_t duplicates_skipped = 0;
  std::size_t rank_skipped = 0;
  std::size_t cap_skipped = 0;
  std::size_t negatives_forced = 0;
  std::size_t lists_walked = 0;
  std::size_t lists_without_positive = 0;
  std::size_t lists_without_negative = 0;
  std::size_t lists_ready_in_half = 0;
  std::size_t lists_ready = 0;
};

// How often a point may serve as a negative, the mean being `mean`; 0: as often as it likes.
std::size_t cap_of(const SmartMinerOptions& options, double mean) {
  if (options.hub_limit == 0) return options.max_negative_uses;
  const auto cap = static_cast<std::size_t>(std::max(1.0, std::round(options.hub_limit * mean)));
  return options.max_negative_uses == 0 ? cap : std::min(cap, options.max_negative_uses);
}

// One call of select: the inputs, the triplets being written, and scratch for each worker.
class Selection {
 public:
  Selection(const SmartMinerOptions& options, const NeighborLists& lists, const LabelIndex& labels, const Rows* rows)
      : options_(options),
        lists_(lists),
        labels_(labels),
        rows_(rows),
        anchors_(labels.anchors()),
        per_anchor_(options.triplets_per_anchor),
        slots_(anchors_.size() * per_anchor_),
        mined_slots_(static_cast<std::size_t>(std::llround(options.mined_fraction * static_cast<double>(slots_)))),
        share_(slots_, options.seed, Draw::kShare),
        positive_distances_(slots_),
        negative_distances_(slots_),
        most_uses_(cap_of(options, static_cast<double>(slots_) / static_cast<double>(labels.size()))),
        uses_(most_uses_ > 0 ? labels.size() : 0, 0),
        // The cap makes anchors depend on those before them.
        threads_(most_uses_ > 0 ? 1 : resolve_threads(options.threads)),
        scratch_(threads_) {
    result_.triplets.resize(slots_);
    result_.origins.resize(slots_);
    for (Scratch& scratch : scratch_) {
      scratch.negatives.reserve(per_anchor_);
      scratch.positives.reserve(per_anchor_);
    }
  }

  MinedTriplets run(const Progress& progress) {
    std::vector<std::uint8_t> unfinished(anchors_.size(), 0);
    const bool may_extend = options_.longer_lists && next_length(lists_.neighbors()) > lists_.neighbors();
    const auto list_of = [&](std::size_t index) { return List{lists_.ids(anchors_[index]), lists_.distances(anchors_[index])}; };
    pass(
        anchors_.size(), progress, [](std::size_t i) { return i; }, list_of,
        [&](std::size_t index, Scratch& scratch) { unfinished[index] = !fill(index, list_of(index), true, !may_extend, scratch); });
    if (may_extend) extend(unfinished, progress);
    return finish();
  }

 private:
  struct Scratch {
    std::vector<std::uint32_t> negatives;  // places in the list, in order [NEG]
    std::vector<std::uint32_t> positives;  // place of the positive for each of the first of them [POS]
    bool has_positive = false;
    double bound = 0;                       // where it has one
    std::vector<std::uint32_t> inside;      // places of all positives of the list; filled when first needed
    std::vector<std::uint32_t> inside_ids;  // the anchor and these, ascending; with the next
    std::vector<std::uint32_t> outside;     // members of the class that are not in the list; filled when first needed
    Counts counts;
  };

  bool is_mined_slot(std::size_t slot) const { return mined_slots_ == slots_ || (mined_slots_ > 0 && share_(slot) < mined_slots_); }

  std::size_t longest_length() const {
    const std::size_t most = labels_.size() - 1;
    return options_.longest_list == 0 ? most : std::min(options_.longest_list, most);
  }
  std::size_t next_length(std::size_t length) const { return std::min(2 * length, longest_length()); }

  // Checks and works on `count` anchors, whose indices `index_of` gives. With a cap they come in a random order of
  // their own each epoch, so that no class has the first pick for ever.
  template <class IndexOf, class ListOf, class Work>
  void pass(std::size_t count, const Progress& progress, const IndexOf& index_of, const ListOf& list_of, const Work& work) {
    const KeyedPermutation order(count, options_.seed, Draw::kAnchorOrder, count);
    std::atomic<std::size_t> first_fault{count};
    parallel_for(
        count, kGrain, threads_,
        [&](std::size_t begin, std::size_t end, unsigned worker) {
          for (std::size_t i = begin; i < end; ++i) {
            const std::size_t at = uses_.empty() ? i : order(i);
            if (!is_sound(anchors_[index_of(at)], list_of(at), labels_.size())) {
              std::size_t known = first_fault.load();
              while (at < known && !first_fault.compare_exchange_weak(known, at)) {
              }
              continue;
            }
            work(at, scratch_[worker]);
          }
        },
        progress, "select");
    // Reported once all have been seen, so that the first is named at any number of threads.
    if (first_fault < count) throw_fault(anchors_[index_of(first_fault)], list_of(first_fault), labels_.size());
  }

  // An anchor that waits for a longer list.
  struct Waiting {
    std::uint32_t index;        // into anchors_
    std::size_t reach = 0;      // a list must be longer than this to yield anything, as far as known
    bool has_positive = false;  // in a list asked for: its bound is the true one
    double bound = 0;
    bool was_asked = false;
  };

  NeighborLists ask(const std::vector<std::uint32_t>& anchors, std::size_t length) {
    NeighborLists longer = options_.longer_lists(anchors, length);
    if (longer.size() != anchors.size() || longer.neighbors() != length)
      throw InvalidArgument(fmt::format("longer_lists gave {} lists of {}; {} lists of {} were asked for", longer.size(),
                                        longer.neighbors(), anchors.size(), length));
    result_.stats.extended_neighbors = length;
    return longer;
  }

  // Lists of twice the length for those whose list did not yield all, and so on. Those that are known to need more yet are passed over:
  // with a cap all have their turn still, so that the order is the same.
  void extend(const std::vector<std::uint8_t>& unfinished, const Progress& progress) {
    std::vector<Waiting> waiting;
    for (std::size_t i = 0; i < unfinished.size(); ++i)
      if (unfinished[i]) waiting.push_back({.index = static_cast<std::uint32_t>(i)});
    std::optional<Reach> reach;  // made when first needed
    for (std::size_t length = lists_.neighbors(); !waiting.empty();) {
      length = next_length(length);
      const bool last = next_length(length) == length;
      std::vector<std::uint32_t> asked;
      std::vector<std::uint32_t> place(waiting.size(), kNowhere);  // of an anchor's list among those asked for
      for (std::size_t i = 0; i < waiting.size(); ++i) {
        if (waiting[i].reach >= length) continue;
        place[i] = static_cast<std::uint32_t>(asked.size());
        asked.push_back(anchors_[waiting[i].index]);
        result_.stats.extended_anchors += !waiting[i].was_asked;
        waiting[i].was_asked = true;
      }
      if (asked.empty() && !last) continue;
      const NeighborLists longer = asked.empty() ? NeighborLists() : ask(asked, length);
      std::vector<std::uint8_t> still(waiting.size(), 0);
      const auto list_of = [&](std::size_t i) {
        const std::uint32_t anchor = anchors_[waiting[i].index];
        return place[i] == kNowhere ? List{lists_.ids(anchor), lists_.distances(anchor)}
                                    : List{longer.ids(place[i]), longer.distances(place[i])};
      };
      pass(
          waiting.size(), progress, [&](std::size_t i) { return waiting[i].index; }, list_of,
          [&](std::size_t i, Scratch& scratch) {
            Waiting& one = waiting[i];
            if (place[i] == kNowhere) {
              still[i] = !last;
              if (last) write_unmined(one.index, scratch);
              return;
            }
            still[i] = !fill(one.index, list_of(i), false, last, scratch);
            one.has_positive = scratch.has_positive;
            one.bound = scratch.bound;
          });
      std::size_t kept = 0;
      for (std::size_t i = 0; i < waiting.size(); ++i)
        if (still[i]) waiting[kept++] = waiting[i];
      waiting.resize(kept);
      if (rows_ != nullptr && !waiting.empty()) {
        if (!reach) reach.emplace(*rows_, longest_length(), options_.threads);
        look_ahead(*reach, waiting, progress);
      }
    }
  }

  void look_ahead(const Reach& reach, std::vector<Waiting>& waiting, const Progress& progress) const {
    parallel_for(
        waiting.size(), 16, options_.threads,
        [&](std::size_t begin, std::size_t end, unsigned) {
          for (Waiting& one : std::span(waiting).subspan(begin, end - begin))
            if (one.reach == 0 && one.has_positive) one.reach = reach.nearer(anchors_[one.index], one.bound);
        },
        progress, "select");
  }

  // Writes all triplets of an anchor. If its list does not yield all that are to be mined and this is not the last
  // word, writes nothing and returns false.
  bool fill(std::size_t index, const List& list, bool first, bool last, Scratch& scratch) {
    const std::uint32_t anchor = anchors_[index];
    const std::size_t base = index * per_anchor_;
    std::size_t wanted = 0;
    for (std::size_t j = 0; j < per_anchor_; ++j) wanted += is_mined_slot(base + j);

    Counts skipped;
    if (wanted > 0) {
      walk(anchor, list, wanted, scratch, skipped);
      if (first) {
        Counts& counts = scratch.counts;
        ++counts.lists_walked;
        if (!scratch.has_positive)
          ++counts.lists_without_positive;
        else if (scratch.negatives.empty())
          ++counts.lists_without_negative;
        else {
          ++counts.lists_ready;
          counts.lists_ready_in_half += scratch.negatives[0] < list.ids.size() / 2;
        }
      }
      if (!last && scratch.negatives.size() < wanted) return false;
    }
    scratch.counts.duplicates_skipped += skipped.duplicates_skipped;
    scratch.counts.rank_skipped += skipped.rank_skipped;
    scratch.counts.cap_skipped += skipped.cap_skipped;
    write(index, list, scratch);
    return true;
  }

  // The triplets of an anchor whose bound lies beyond every list there may be.
  void write_unmined(std::size_t index, Scratch& scratch) {
    scratch.has_positive = true;
    scratch.negatives.clear();
    write(index, {}, scratch);
  }

  // Mined ones first: random negatives must keep clear of theirs.
  void write(std::size_t index, const List& list, Scratch& scratch) {
    const std::uint32_t anchor = anchors_[index];
    const std::size_t base = index * per_anchor_;
    std::size_t next = 0;
    for (std::size_t j = 0; j < per_anchor_; ++j) {
      const std::size_t slot = base + j;
      result_.origins[slot] = is_mined_slot(slot) ? mine(anchor, slot, list, next++, scratch) : TripletOrigin::kRandomByShare;
    }
    for (std::size_t j = 0; j < per_anchor_; ++j)
      if (!is_mined(result_.origins[base + j])) draw_random(anchor, base, j, scratch.counts);
  }

  // One pass over the list. Stops as soon as `wanted` negatives have found their positives.
  void walk(std::uint32_t anchor, const List& list, std::size_t wanted, Scratch& scratch, Counts& skipped) const {
    scratch.negatives.clear();
    scratch.positives.clear();
    scratch.inside.clear();
    scratch.outside.clear();
    const std::uint32_t* class_of = labels_.class_ids().data();
    const std::uint32_t own = class_of[anchor];
    const std::size_t count = list.ids.size();
    std::size_t place = 0;
    while (place < count && class_of[list.ids[place]] != own) ++place;
    scratch.has_positive = place < count;
    if (!scratch.has_positive) return;

    const double bound = options_.kappa * static_cast<double>(list.distances[place]);
    scratch.bound = bound;
    const auto rest = list.distances.subspan(place + 1);
    const auto beyond =
        std::partition_point(rest.begin(), rest.end(), [&](float distance) { return static_cast<double>(distance) < bound; });
    for (place = count - static_cast<std::size_t>(rest.end() - beyond); place < count; ++place) {
      const std::uint32_t id = list.ids[place];
      if (class_of[id] == own) {
        // The first positive behind a negative is the nearest that covers it, and it covers all before it.
        scratch.positives.resize(scratch.negatives.size(), static_cast<std::uint32_t>(place));
        if (scratch.positives.size() == wanted) return;
      } else if (scratch.negatives.size() < wanted) {
        if ((options_.skip_duplicates && list.distances[place] == 0) ||
            static_cast<double>(list.distances[place]) < options_.duplicate_distance)
          ++skipped.duplicates_skipped;
        else if (place < options_.min_negative_rank)
          ++skipped.rank_skipped;
        else if (!uses_.empty() && uses_[id] >= most_uses_)
          ++skipped.cap_skipped;
        else
          scratch.negatives.push_back(static_cast<std::uint32_t>(place));
      }
    }
  }

  // Writes the triplet with the `nth` negative found, or says why there is none.
  TripletOrigin mine(std::uint32_t anchor, std::size_t slot, const List& list, std::size_t nth, Scratch& scratch) {
    if (!scratch.has_positive) return TripletOrigin::kRandomNoPositive;
    if (nth >= scratch.negatives.size()) return TripletOrigin::kRandomNoNegative;
    const std::uint32_t place = scratch.negatives[nth];
    const std::uint32_t negative = list.ids[place];
    const float negative_distance = list.distances[place];

    TripletOrigin origin = TripletOrigin::kMined;
    std::uint32_t positive = kNowhere;
    float positive_distance = std::numeric_limits<float>::quiet_NaN();
    if (nth < scratch.positives.size()) {
      positive = list.ids[scratch.positives[nth]];
      positive_distance = list.distances[scratch.positives[nth]];
    } else if (find_inside(anchor, list, scratch); scratch.inside.size() + 1 < labels_.class_size(labels_.class_of(anchor))) {
      origin = TripletOrigin::kMinedOutsidePositive;
      positive = draw_outside(anchor, slot, list, scratch);
      if (rows_ != nullptr) positive_distance = squared_distance((*rows_)[anchor], (*rows_)[positive], rows_->dimension());
    } else {
      origin = TripletOrigin::kMinedNearerPositive;
      positive = list.ids[scratch.inside.back()];
      positive_distance = list.distances[scratch.inside.back()];
      if (!options_.nearer_positives || !violates(positive_distance, negative_distance, options_.margin))
        return TripletOrigin::kRandomNoFartherPositive;
    }
    result_.triplets[slot] = {anchor, positive, negative};
    positive_distances_[slot] = positive_distance;
    negative_distances_[slot] = negative_distance;
    if (!uses_.empty()) ++uses_[negative];
    return origin;
  }

  void find_inside(std::uint32_t anchor, const List& list, Scratch& scratch) const {
    if (!scratch.inside.empty()) return;
    for (std::size_t place = 0; place < list.ids.size(); ++place)
      if (labels_.class_of(list.ids[place]) == labels_.class_of(anchor)) scratch.inside.push_back(static_cast<std::uint32_t>(place));
  }

  // A uniform member of the anchor's class that is not in its list; there must be one.
  std::uint32_t draw_outside(std::uint32_t anchor, std::size_t slot, const List& list, Scratch& scratch) const {
    const auto members = labels_.members(labels_.class_of(anchor));
    const auto& inside = scratch.inside;
    Random random = random_for(options_.seed, Draw::kOutsidePositive, key(anchor, slot));
    const std::size_t available = members.size() - 1 - inside.size();
    if (4 * available >= members.size()) {
      const auto is_inside = [&](std::uint32_t id) {
        return id == anchor || std::any_of(inside.begin(), inside.end(), [&](std::uint32_t place) { return list.ids[place] == id; });
      };
      while (true) {
        const std::uint32_t id = members[random.below(members.size())];
        if (!is_inside(id)) return id;
      }
    }
    // Few are left, so the class is hardly larger than the list: gather them, once an anchor.
    if (auto& outside = scratch.outside; outside.empty()) {
      auto& ids = scratch.inside_ids;
      ids.assign(1, anchor);
      for (const std::uint32_t place : inside) ids.push_back(list.ids[place]);
      std::sort(ids.begin(), ids.end());
      std::set_difference(members.begin(), members.end(), ids.begin(), ids.end(), std::back_inserter(outside));
    }
    return scratch.outside[random.below(scratch.outside.size())];
  }

  // A uniform positive, and a uniform negative that this anchor has not had and that is below the cap.
  void draw_random(std::uint32_t anchor, std::size_t base, std::size_t j, Counts& counts) {
    const std::size_t slot = base + j;
    Random random = random_for(options_.seed, Draw::kRandomTriplet, key(anchor, slot));
    const std::uint32_t own = labels_.class_of(anchor);
    const std::uint32_t positive = draw_positive(labels_, anchor, random);
    const auto is_free = [&](std::uint32_t id) {
      if (!uses_.empty() && uses_[id] >= most_uses_) return false;
      for (std::size_t other = base; other < base + per_anchor_; ++other) {
        const bool written = other < slot || is_mined(result_.origins[other]);
        if (written && result_.triplets[other].negative == id) return false;
      }
      return true;
    };
    std::uint32_t negative = draw_negative(labels_, own, random);
    for (int tries = 1; tries < kRandomTries && !is_free(negative); ++tries) negative = draw_negative(labels_, own, random);
    if (!is_free(negative)) {
      const std::uint32_t drawn = negative;
      const auto all = labels_.by_class();
      const std::size_t start = random.below(all.size());
      for (std::size_t i = 0; i < std::min(kScan, all.size()) && negative == drawn; ++i) {
        const std::uint32_t id = all[(start + i) % all.size()];
        if (labels_.class_of(id) != own && is_free(id)) negative = id;
      }
      counts.negatives_forced += negative == drawn;
    }
    result_.triplets[slot] = {anchor, positive, negative};
    if (!uses_.empty()) ++uses_[negative];
  }

  std::uint64_t key(std::uint32_t anchor, std::size_t slot) const {
    return static_cast<std::uint64_t>(anchor) << 32 | static_cast<std::uint64_t>(slot % per_anchor_);
  }

  MinedTriplets finish() {
    MiningStats& stats = result_.stats;
    stats.triplets = slots_;
    stats.anchors = anchors_.size();
    stats.anchors_skipped = labels_.single_member_classes();
    stats.neighbors = lists_.neighbors();
    Counts sum;
    for (const Scratch& scratch : scratch_) {
      const Counts& counts = scratch.counts;
      stats.duplicates_skipped += counts.duplicates_skipped;
      stats.rank_skipped += counts.rank_skipped;
      stats.cap_skipped += counts.cap_skipped;
      stats.negatives_forced += counts.negatives_forced;
      stats.lists_walked += counts.lists_walked;
      stats.lists_without_positive += counts.lists_without_positive;
      stats.lists_without_negative += counts.lists_without_negative;
      sum.lists_ready += counts.lists_ready;
      sum.lists_ready_in_half += counts.lists_ready_in_half;
    }
    std::vector<float> positives;
    std::vector<float> negatives;
    positives.reserve(slots_);
    negatives.reserve(slots_);
    std::size_t by_origin[7] = {};
    for (std::size_t slot = 0; slot < slots_; ++slot) {
      const TripletOrigin origin = result_.origins[slot];
      ++by_origin[static_cast<std::size_t>(origin)];
      if (!is_mined(origin)) continue;
      negatives.push_back(negative_distances_[slot]);
      if (origin == TripletOrigin::kMinedOutsidePositive && rows_ == nullptr) continue;
      positives.push_back(positive_distances_[slot]);
      const bool violating = violates(positive_distances_[slot], negative_distances_[slot], options_.margin);
      if (origin == TripletOrigin::kMined) stats.mined_violating += violating;
      if (origin == TripletOrigin::kMinedOutsidePositive) stats.outside_violating += violating;
    }
    stats.mined = by_origin[0];
    stats.mined_outside_positive = by_origin[1];
    stats.mined_nearer_positive = by_origin[2];
    stats.random_no_positive = by_origin[3];
    stats.random_no_negative = by_origin[4];
    stats.random_no_farther_positive = by_origin[5];
    stats.random_by_share = by_origin[6];
    stats.positive_distances_unknown = negatives.size() - positives.size();
    require(stats.mined_violating == stats.mined, "a mined triplet with a positive of the list does not violate the margin");
    parallel_for(2, 1, options_.threads, [&](std::size_t begin, std::size_t end, unsigned) {
      for (std::size_t i = begin; i < end; ++i)
        (i == 0 ? stats.positive_distances : stats.negative_distances) = quantiles_of(i == 0 ? positives : negatives);
    });
    add_advice(
        stats, options_,
        {.points = labels_.size(), .most_uses = most_uses_, .ready = sum.lists_ready, .ready_in_half = sum.lists_ready_in_half});
    return std::move(result_);
  }

  const SmartMinerOptions& options_;
  const NeighborLists& lists_;
  const LabelIndex& labels_;
  const Rows* rows_;
  std::vector<std::uint32_t> anchors_;
  std::size_t per_anchor_;
  std::size_t slots_;
  std::size_t mined_slots_;
  KeyedPermutation share_;
  Buffer<float> positive_distances_;  // of mined triplets; NaN where unknown
  Buffer<float> negative_distances_;
  std::size_t most_uses_;            // of a point as a negative; 0: no cap
  std::vector<std::uint32_t> uses_;  // as a negative, so far; empty without a cap
  unsigned threads_;
  std::vector<Scratch> scratch_;
  MinedTriplets result_;
};

}  // namespace

void SmartMinerOptions::validate() const {
  if (!std::isfinite(kappa) || kappa <= 0) throw InvalidArgument(fmt::format("kappa is {}; it must be positive and finite", kappa));
  if (triplets_per_anchor < 1 || triplets_per_anchor > 65536)
    throw InvalidArgument(fmt::format("triplets_per_anchor is {}; it must be from 1 to 65536", triplets_per_anchor));
  if (!(mined_fraction >= 0 && mined_fraction <= 1))
    throw InvalidArgument(fmt::format("mined_fraction is {}; it must be from 0 to 1", mined_fraction));
  if (!(duplicate_distance >= 0 && std::isfinite(duplicate_distance)))
    throw InvalidArgument(fmt::format("duplicate_distance is {}; it must be at least 0 and finite", duplicate_distance));
  if (hub_limit != 0 && !(hub_limit >= 1 && hub_limit <= 1e6))
    throw InvalidArgument(fmt::format("hub_limit is {}; it must be 0 or from 1 to 1e6", hub_limit));
  if (!std::isfinite(margin) || margin <= 0) throw InvalidArgument(fmt::format("margin is {}; it must be positive and finite", margin));
  if (!(short_list_tolerance >= 0 && short_list_tolerance <= 1))
    throw InvalidArgument(fmt::format("short_list_tolerance is {}; it must be from 0 to 1", short_list_tolerance));
}

SmartMiner::SmartMiner(const SmartMinerOptions& options) : options_(options) { options_.validate(); }

MinedTriplets SmartMiner::select(const NeighborLists& lists, const LabelIndex& labels, const Rows* rows, const Progress& progress) const {
  const auto start = std::chrono::steady_clock::now();
  labels.require_size(lists.size(), "neighbour lists");
  if (rows != nullptr) labels.require_size(rows->size(), "embeddings");
  if (lists.neighbors() == 0) throw InvalidArgument("neighbour lists have length 0; they need at least 1 neighbour each");
  MinedTriplets result = Selection(options_, lists, labels, rows).run(progress);
  result.stats.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

MinedTriplets SmartMiner::select(const NeighborLists& lists, std::span<const std::int64_t> labels, const Rows* rows,
                                 const Progress& progress) const {
  if (labels.size() != lists.size())
    throw InvalidArgument(fmt::format("there are {} labels but {} neighbour lists; each needs exactly one", labels.size(), lists.size()));
  return select(lists, LabelIndex(labels), rows, progress);
}

}  // namespace smartmine
