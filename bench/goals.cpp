#include "goals.h"

#include <fmt/format.h>

#include <algorithm>

namespace smartmine::bench {
namespace {

constexpr std::size_t kLarge = 1000000;
constexpr std::size_t kUsualDimension = 64;
constexpr double kRecall = 0.98;

std::optional<double> seconds_of(const Measurement* measured) {
  return measured != nullptr ? std::optional(measured->seconds) : std::nullopt;
}

std::optional<double> seconds_of(const SetResult& result, const std::string& method) { return seconds_of(result.find(method)); }

std::optional<double> recall_of(const SetResult& result, const std::string& method) {
  const Measurement* measured = result.find(method);
  return measured != nullptr ? std::optional(measured->recall) : std::nullopt;
}

std::optional<double> ratio(std::optional<double> above, std::optional<double> below) {
  if (!above || !below || *below <= 0) return std::nullopt;
  return *above / *below;
}

std::optional<double> figure(const Measurement* measured, const std::string& name) {
  if (measured == nullptr || !measured->more.contains(name)) return std::nullopt;
  return measured->more.at(name);
}

void add_goals_of(const SetResult& result, std::vector<Goal>& goals) {
  const std::string at = fmt::format(" at {} rows", result.rows);
  const auto asked = [&](const std::string& method) {
    return std::any_of(result.measurements.begin(), result.measurements.end(),
                       [&](const Measurement& measured) { return measured.method == method; });
  };
  const auto partition = seconds_of(result, "partition");
  if (asked("partition")) {
    const Measurement* measured = result.find("partition");
    goals.push_back({"recall of the partition start" + at, true, kRecall, recall_of(result, "partition")});
    const double times = result.dimension != kUsualDimension ? 5 : result.rows >= kLarge ? 15 : 10;
    goals.push_back(
        {"partition start, times faster than hnswlib" + at, true, times, ratio(seconds_of(result.quickest("hnswlib")), partition)});
    goals.push_back(
        {"partition start, peak memory by embeddings and lists" + at, false, 2.5,
         measured == nullptr ? std::nullopt : std::optional(static_cast<double>(measured->peak_memory_bytes) / result.data_bytes())});
    goals.push_back(
        {"selecting triplets, share of the time of the lists" + at, false, 0.03, ratio(figure(measured, "selection_seconds"), partition)});
  }
  if (asked("exact"))
    goals.push_back({"exact, times faster than faiss exact" + at, true, 12,
                     ratio(seconds_of(result.quickest("faiss-exact")), seconds_of(result, "exact"))});
  if (asked("gpu")) {
    const Measurement* const measured = result.find("gpu");
    const auto on_device = figure(measured, "device_seconds");
    goals.push_back({"recall on a GPU" + at, true, 1, recall_of(result, "gpu")});
    goals.push_back(
        {"on a GPU, times faster than torch" + at, true, 10, ratio(figure(result.find("python-torch-cuda"), "device_seconds"), on_device)});
    if (result.dimension == kUsualDimension && (result.rows == 100000 || result.rows == kLarge))
      goals.push_back({"seconds on a GPU" + at, false, result.rows == kLarge ? 1 : 0.02, on_device});
  }
  if (asked("previous")) {
    goals.push_back({"recall of the previous start" + at, true, kRecall, recall_of(result, "previous")});
    goals.push_back({"previous start, times faster than partition" + at, true, 3, ratio(partition, seconds_of(result, "previous"))});
  }
}

}  // namespace

const Measurement* SetResult::find(const std::string& method) const {
  const auto found = std::find_if(measurements.begin(), measurements.end(),
                                  [&](const Measurement& measured) { return measured.method == method && !measured.failed(); });
  return found == measurements.end() ? nullptr : &*found;
}

const Measurement* SetResult::quickest(const std::string& peer) const {
  const Measurement *one = find(peer), *other = find("python-" + peer);
  if (one == nullptr || other == nullptr) return one != nullptr ? one : other;
  return one->seconds <= other->seconds ? one : other;
}

double SetResult::data_bytes() const {
  constexpr std::size_t kEntry = sizeof(float) + sizeof(std::uint32_t);
  return static_cast<double>(rows) * static_cast<double>(dimension * sizeof(float) + neighbors * kEntry);
}

std::vector<Goal> goals_for(const std::vector<SetResult>& results, const SetResult* random) {
  std::vector<Goal> goals;
  for (const SetResult& result : results) add_goals_of(result, goals);
  for (const SetResult& small : results)
    for (const SetResult& large : results)
      if (large.rows == 10 * small.rows)
        goals.push_back({fmt::format("partition start, time at {} by time at {} rows", large.rows, small.rows), false, 13,
                         ratio(seconds_of(large, "partition"), seconds_of(small, "partition"))});
  if (random != nullptr) {
    const std::string at = fmt::format(" of the random start at {} rows", random->rows);
    const Measurement* measured = random->find("random");
    goals.push_back({"certified success rate" + at, true, kRecall, figure(measured, "success_bound")});
    goals.push_back({"mean degree" + at, true, 10, figure(measured, "mean_degree")});
    goals.push_back({"mean degree" + at, false, 35, figure(measured, "mean_degree")});
    goals.push_back({"seconds" + at, false, 5, seconds_of(*random, "random")});
  }
  return goals;
}

nlohmann::ordered_json to_json(const Goal& goal) {
  nlohmann::ordered_json json = {{"what", goal.what}, {goal.at_least ? "at_least" : "at_most", goal.bound}};
  json["reached"] = goal.reached ? nlohmann::ordered_json(*goal.reached) : nlohmann::ordered_json();
  json["holds"] = goal.reached ? nlohmann::ordered_json(goal.holds()) : nlohmann::ordered_json();
  return json;
}

}  // namespace smartmine::bench
