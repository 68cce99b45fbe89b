#include "smartmine/mining/labels.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "smartmine/core/error.h"
#include "smartmine/core/rows.h"

namespace smartmine {
namespace {

constexpr std::uint32_t kAbsent = std::numeric_limits<std::uint32_t>::max();

// Labels that lie close together, as most do: one table from label to class.
void index_by_table(std::span<const std::int64_t> labels, std::int64_t lowest, std::uint64_t range, std::vector<std::uint32_t>& class_of,
                    std::vector<std::int64_t>& distinct) {
  std::vector<std::uint32_t> table(range + 1, kAbsent);
  const auto place = [&](std::int64_t label) { return static_cast<std::uint64_t>(label) - static_cast<std::uint64_t>(lowest); };
  for (const std::int64_t label : labels) table[place(label)] = 0;
  for (std::uint64_t i = 0; i <= range; ++i) {
    if (table[i] == kAbsent) continue;
    table[i] = static_cast<std::uint32_t>(distinct.size());
    distinct.push_back(static_cast<std::int64_t>(static_cast<std::uint64_t>(lowest) + i));
  }
  for (std::size_t i = 0; i < labels.size(); ++i) class_of[i] = table[place(labels[i])];
}

void index_by_sorting(std::span<const std::int64_t> labels, std::vector<std::uint32_t>& class_of, std::vector<std::int64_t>& distinct) {
  distinct.assign(labels.begin(), labels.end());
  std::sort(distinct.begin(), distinct.end());
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  distinct.shrink_to_fit();
  for (std::size_t i = 0; i < labels.size(); ++i)
    class_of[i] = static_cast<std::uint32_t>(std::lower_bound(distinct.begin(), distinct.end(), labels[i]) - distinct.begin());
}

}  // namespace

LabelIndex::LabelIndex(std::span<const std::int64_t> labels) {
  if (labels.empty()) throw InvalidArgument("labels are empty; every embedding needs one");
  if (labels.size() > kMaxRows)
    throw InvalidArgument(fmt::format("there are {} labels; at most {} are supported", labels.size(), kMaxRows));
  const auto [lowest, highest] = std::minmax_element(labels.begin(), labels.end());
  if (*lowest == *highest)
    throw InvalidArgument(
        fmt::format("labels name one class only ({} for all {} points); triplets and batches need at least 2", *lowest, labels.size()));

  class_of_.resize(labels.size());
  const std::uint64_t range = static_cast<std::uint64_t>(*highest) - static_cast<std::uint64_t>(*lowest);
  if (range < 4 * labels.size() + 1024)
    index_by_table(labels, *lowest, range, class_of_, labels_);
  else
    index_by_sorting(labels, class_of_, labels_);

  offsets_.assign(labels_.size() + 1, 0);
  for (const std::uint32_t label_class : class_of_) ++offsets_[label_class + 1];
  for (std::size_t c = 0; c < labels_.size(); ++c) {
    if (offsets_[c + 1] == 1) ++single_member_classes_;
    offsets_[c + 1] += offsets_[c];
  }
  by_class_.resize(labels.size());
  std::vector<std::uint32_t> next(offsets_.begin(), offsets_.end() - 1);
  for (std::size_t i = 0; i < class_of_.size(); ++i) by_class_[next[class_of_[i]]++] = static_cast<std::uint32_t>(i);
}

std::vector<std::uint32_t> LabelIndex::anchors() const {
  std::vector<std::uint32_t> result;
  result.reserve(size() - single_member_classes_);
  for (std::size_t i = 0; i < size(); ++i)
    if (class_size(class_of_[i]) > 1) result.push_back(static_cast<std::uint32_t>(i));
  if (result.empty())
    throw InvalidArgument(fmt::format("each of the {} classes has one member only; a triplet needs two points of one class", classes()));
  return result;
}

void LabelIndex::require_size(std::size_t size, const char* what) const {
  if (class_of_.size() != size)
    throw InvalidArgument(fmt::format("there are {} labels but {} {}; each needs exactly one", class_of_.size(), size, what));
}

}  // namespace smartmine
