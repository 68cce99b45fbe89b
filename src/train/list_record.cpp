#include "train/list_record.h"

#include <fmt/format.h>

namespace smartmine {

ListRecord list_record(const NeighborStats& stats, const std::string& graph_start) {
  const bool by_all_pairs = stats.stage_seconds.contains("all_pairs");
  ListRecord record{.index = by_all_pairs ? "exact" : stats.index,
                    .recall = stats.recall,
                    .distance_computations = stats.distance_computations};
  if (stats.success_pairs == 0) return record;
  record.start = graph_start == "auto" ? "previous" : graph_start;
  record.success_rate = stats.success_rate;
  record.success_bound = stats.success_bound;
  record.mean_degree = stats.mean_degree;
  return record;
}

std::vector<std::string> list_notes(const NeighborStats& stats, bool graph_asked_for) {
  std::vector<std::string> notes;
  if (!stats.recall_reached)
    notes.push_back(fmt::format("recall of the lists is {:.4f}, under {:.4f}", stats.recall, stats.recall_target));
  else if (!stats.note.empty())  // such as that all pairs were looked at because no search through the graph was good enough
    notes.push_back(fmt::format("lists: {}", stats.note));
  if (graph_asked_for && stats.success_pairs > 0 && !stats.success_reached)
    notes.push_back(fmt::format("the graph's success rate is {:.4f}, at least {:.4f} with 95 % confidence: under the {:.4f} asked for",
                                stats.success_rate, stats.success_bound, stats.success_target));
  return notes;
}

}  // namespace smartmine
