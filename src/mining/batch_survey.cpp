#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

#include "smartmine/core/rows.h"
#include "smartmine/mining/batch_builder.h"

namespace smartmine {
namespace {

/// Adds `count` points of a batch, spread evenly, to the sums of a survey.
void look_at(std::span<const std::uint32_t> batch, std::size_t count, const Rows& rows, const LabelIndex& labels, BatchSurvey& survey) {
  constexpr float kFar = std::numeric_limits<float>::infinity();
  for (std::size_t look = 0; look < count; ++look) {
    const std::uint32_t point = batch[look * batch.size() / count];
    float positive = kFar, negative = kFar;
    for (const std::uint32_t other : batch) {
      if (other == point) continue;
      float& nearest = labels.class_of(other) == labels.class_of(point) ? positive : negative;
      nearest = std::min(nearest, squared_distance(rows[point], rows[other], rows.dimension()));
    }
    if (positive == kFar || negative == kFar) continue;
    ++survey.points;
    survey.error += negative < positive ? 1 : 0;
    survey.positive_distance += static_cast<double>(positive);
    survey.negative_distance += static_cast<double>(negative);
  }
}

/// The classes of a batch, ascending, at most `most`.
std::vector<std::uint32_t> classes_of(std::span<const std::uint32_t> batch, const LabelIndex& labels, std::size_t most) {
  std::vector<std::uint32_t> classes;
  for (const std::uint32_t point : batch) classes.push_back(labels.class_of(point));
  std::sort(classes.begin(), classes.end());
  classes.erase(std::unique(classes.begin(), classes.end()), classes.end());
  classes.resize(std::min(most, classes.size()));
  return classes;
}

}  // namespace

BatchSurvey survey_batches(const ClassBatches& made, const LabelIndex& labels, const Rows* rows, std::size_t batches, std::size_t pairs) {
  if (rows != nullptr) labels.require_size(rows->size(), "rows");
  const auto begin = std::chrono::steady_clock::now();
  BatchSurvey survey;
  survey.batches = std::min(batches, made.batches());
  if (survey.batches == 0) return survey;
  const std::size_t points = std::clamp<std::size_t>(kMostSurveyed / survey.batches / made.batch_items, 1, made.batch_items);
  const auto most_classes =
      static_cast<std::size_t>(std::max(2.0, std::sqrt(2.0 * static_cast<double>(kMostSurveyed) / static_cast<double>(survey.batches))));
  std::vector<std::pair<std::uint32_t, std::uint32_t>> together;
  for (std::size_t look = 0; look < survey.batches; ++look) {
    const auto batch = made.batch(look * made.batches() / survey.batches);
    if (rows != nullptr) look_at(batch, points, *rows, labels, survey);
    const std::vector<std::uint32_t> classes = classes_of(batch, labels, most_classes);
    for (std::size_t i = 0; i < classes.size(); ++i)
      for (std::size_t j = i + 1; j < classes.size(); ++j) together.emplace_back(classes[i], classes[j]);
  }
  if (survey.points > 0)
    for (double* sum : {&survey.error, &survey.positive_distance, &survey.negative_distance}) *sum /= static_cast<double>(survey.points);
  std::sort(together.begin(), together.end());
  for (std::size_t i = 0, next = 0; i < together.size(); i = next) {
    while (next < together.size() && together[next] == together[i]) ++next;
    survey.pairs.push_back({together[i].first, together[i].second, next - i});
  }
  std::stable_sort(survey.pairs.begin(), survey.pairs.end(), [](const ClassPair& a, const ClassPair& b) { return a.batches > b.batches; });
  survey.pairs.resize(std::min(pairs, survey.pairs.size()));
  survey.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return survey;
}

}  // namespace smartmine
