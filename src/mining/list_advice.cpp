#include "mining/list_advice.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

namespace smartmine {
namespace {

constexpr double kMostDoublings = 4;  // of a list, that a suggestion goes at once

// How long lists should be, from the shares that are too short at half the length and at the whole: each doubling is
// taken to shrink the share as the last one did. Says no length unless that promises to do, or
// to halve the share at least.
std::string advise(MiningStats& stats, double tolerance, std::size_t points, double short_share, double half_share) {
  const std::size_t most = points - 1;
  // Where negatives lie on their anchors no kappa helps.
  const bool duplicates = stats.duplicates_skipped >= stats.lists_without_negative;
  if (stats.neighbors >= most)
    return fmt::format("the lists hold all points already{}", duplicates ? "" : "; a smaller kappa would help");
  if (stats.neighbors < 2) return "a list of 1 cannot hold both";
  // A tolerance of 0 can be approached only: aim for less than one list.
  const double aim = std::max(tolerance, 0.5 / static_cast<double>(stats.lists_walked));
  const double shrink = short_share / half_share;
  const double needed = shrink < 1 ? std::log(aim / short_share) / std::log(shrink) : std::numeric_limits<double>::infinity();
  const double length = std::ceil(static_cast<double>(stats.neighbors) * std::exp2(std::min(needed, kMostDoublings)));
  const bool for_want_of_negatives = stats.lists_without_negative > stats.lists_without_positive;
  const bool in_reach = needed <= kMostDoublings || std::pow(shrink, kMostDoublings) <= 0.5;
  if (!in_reach || length >= static_cast<double>(most)) {
    constexpr std::size_t kTooShortToTell = 16;
    const std::size_t longer = 16 * stats.neighbors;
    if (stats.neighbors < kTooShortToTell && longer < most && !duplicates) {
      stats.suggested_neighbors = longer;
      return fmt::format("too short to tell what would do; lists of about {} will", longer);
    }
    return fmt::format("longer lists may not help{}", for_want_of_negatives && !duplicates ? "; a smaller kappa may" : "");
  }
  stats.suggested_neighbors = std::max(static_cast<std::size_t>(length), stats.neighbors + 1);
  return fmt::format("lists of about {} {}{}", stats.suggested_neighbors,
                     needed > kMostDoublings ? "would help, if not quite do" : "should do",
                     for_want_of_negatives ? ", or a smaller kappa" : "");
}

}  // namespace

void add_advice(MiningStats& stats, const SmartMinerOptions& options, const ListsSeen& seen) {
  if (stats.anchors_skipped > 0)
    stats.note = fmt::format("{} points are alone in their class and never serve as anchors", stats.anchors_skipped);
  if (stats.extended_neighbors > 0)
    stats.note += fmt::format("{}longer lists, up to {}, were asked for {} anchors", stats.note.empty() ? "" : "; ",
                              stats.extended_neighbors, stats.extended_anchors);
  const auto add = [&](const std::string& sentence) { stats.note += (stats.note.empty() ? "" : "; ") + sentence; };
  if (options.duplicate_distance > 0 && stats.duplicates_skipped > 0)
    add(fmt::format("{} negatives nearer than {} were taken for copies and left aside", stats.duplicates_skipped,
                    options.duplicate_distance));
  if (options.hub_limit > 0 && stats.cap_skipped > 0)
    add(fmt::format("{} times a negative was left aside because it had served {} times already", stats.cap_skipped, seen.most_uses));
  if (stats.lists_walked == 0) return;
  const auto walked = static_cast<double>(stats.lists_walked);
  const double short_share = 1.0 - static_cast<double>(seen.ready) / walked;
  if (short_share <= options.short_list_tolerance) return;

  const std::string advice =
      advise(stats, options.short_list_tolerance, seen.points, short_share, 1.0 - static_cast<double>(seen.ready_in_half) / walked);
  if (!stats.note.empty()) stats.note += "; ";
  stats.note += fmt::format("of the lists of {}, {:.1f} % hold no positive and {:.1f} % no negative beyond the bound: {}",
                            stats.neighbors, 100.0 * static_cast<double>(stats.lists_without_positive) / walked,
                            100.0 * static_cast<double>(stats.lists_without_negative) / walked, advice);
}

}  // namespace smartmine
