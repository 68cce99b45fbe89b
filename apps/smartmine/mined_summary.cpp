#include "mined_summary.h"

#include <fmt/format.h>

#include <algorithm>

namespace smartmine::app {
namespace {

std::string row(const char* name, const std::string& text) { return fmt::format("  {:<16} {}\n", name, text); }

std::string index_of(const ListRecord& lists) {
  std::string text = lists.index;
  if (!lists.start.empty() && lists.index != "fanng") text += " after a graph";
  if (!lists.start.empty()) text += fmt::format(" (start: {})", lists.start);
  text += fmt::format(", recall {:.3f}", lists.recall);
  if (lists.success_rate)
    text += fmt::format(", success rate {:.3f}, at least {:.3f}, degree {:.1f}", *lists.success_rate, lists.success_bound.value_or(0),
                        lists.mean_degree.value_or(0));
  return text;
}

}  // namespace

std::string mined_summary(std::span<const EpochRecord> log) {
  const EpochRecord* last = nullptr;
  double least = 1, sum = 0, lists = 0, longer = 0, selection = 0, all = 0;
  std::size_t epochs = 0;
  const auto seconds = [](const EpochRecord& record, const char* stage) {
    const auto found = record.stage_seconds.find(stage);
    return found == record.stage_seconds.end() ? 0.0 : found->second;
  };
  for (const EpochRecord& record : log) {
    if (!record.mining || !record.lists) continue;
    last = &record;
    ++epochs;
    least = std::min(least, record.mined_share());
    sum += record.mined_share();
    lists += seconds(record, "lists");
    longer += seconds(record, "longer_lists");
    selection += seconds(record, "selection");
    all += record.seconds() - seconds(record, "evaluation");
  }
  if (last == nullptr) return {};
  const MiningStats& mining = *last->mining;
  std::string text = row("triplets mined", fmt::format("{:.1f} % of {} in epoch {}; {:.1f} % in {} epochs of mining, at least {:.1f}",
                                                       100 * mining.mined_share(), mining.triplets, last->epoch,
                                                       100 * sum / static_cast<double>(epochs), epochs, 100 * least));
  std::string length = fmt::format("of {}", mining.neighbors);
  if (mining.extended_anchors > 0) length += fmt::format(", up to {} for {} images", mining.extended_neighbors, mining.extended_anchors);
  text += row("lists", fmt::format("{}; by {}", length, index_of(*last->lists)));
  if (all > 0)
    text += row("time of these",
                fmt::format("{:.2g} % of an epoch without its evaluation; {}selecting {:.2g} %", 100 * lists / all,
                            longer > 0 ? fmt::format("longer ones {:.2g} %; ", 100 * longer / all) : "", 100 * selection / all));
  return text + "\n";
}

}  // namespace smartmine::app
