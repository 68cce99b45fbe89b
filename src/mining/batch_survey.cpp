#include <algorithm>
#include <limits>

#include "smartmine/core/rows.h"
#include "smartmine/mining/batch_builder.h"

namespace smartmine {
namespace {

/// Adds the points of a batch to the sums of a survey.
void look_at(std::span<const std::uint32_t> batch, const Rows& rows, const LabelIndex& labels, std::size_t& points, BatchSurvey& survey) {
  constexpr float kFar = std::numeric_limits<float>::infinity();
  for (const std::uint32_t point : batch) {
    float positive = kFar, negative = kFar;
    for (const std::uint32_t other : batch) {
      if (other == point) continue;
      float& nearest = labels.class_of(other) == labels.class_of(point) ? positive : negative;
      nearest = std::min(nearest, squared_distance(rows[point], rows[other], rows.dimension()));
    }
    if (positive == kFar || negative == kFar) continue;
    ++points;
    survey.error += negative < positive ? 1 : 0;
    survey.positive_distance += static_cast<double>(positive);
    survey.negative_distance += static_cast<double>(negative);
  }
}

}  // namespace

BatchSurvey survey_batches(const ClassBatches& made, const Rows& rows, const LabelIndex& labels, std::size_t batches, std::size_t pairs) {
  labels.require_size(rows.size(), "rows");
  BatchSurvey survey;
  survey.batches = std::min(batches, made.batches());
  std::size_t points = 0;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> together;
  for (std::size_t look = 0; look < survey.batches; ++look) {
    const auto batch = made.batch(look * made.batches() / survey.batches);
    look_at(batch, rows, labels, points, survey);
    std::vector<std::uint32_t> classes;
    for (const std::uint32_t point : batch) classes.push_back(labels.class_of(point));
    std::sort(classes.begin(), classes.end());
    classes.erase(std::unique(classes.begin(), classes.end()), classes.end());
    for (std::size_t i = 0; i < classes.size(); ++i)
      for (std::size_t j = i + 1; j < classes.size(); ++j) together.emplace_back(classes[i], classes[j]);
  }
  if (points > 0)
    for (double* sum : {&survey.error, &survey.positive_distance, &survey.negative_distance}) *sum /= static_cast<double>(points);
  std::sort(together.begin(), together.end());
  for (std::size_t i = 0, next = 0; i < together.size(); i = next) {
    while (next < together.size() && together[next] == together[i]) ++next;
    survey.pairs.push_back({together[i].first, together[i].second, next - i});
  }
  std::stable_sort(survey.pairs.begin(), survey.pairs.end(), [](const ClassPair& a, const ClassPair& b) { return a.batches > b.batches; });
  survey.pairs.resize(std::min(pairs, survey.pairs.size()));
  return survey;
}

}  // namespace smartmine
