#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "smartmine/data/dataset.h"

namespace smartmine {

/// Training and test halves by class: labels up to `last_training_label` train, the others test.
inline DataSplits split_by_class(DatasetContents all, std::int64_t last_training_label) {
  const Dataset whole(std::move(all));
  std::vector<std::size_t> train;
  std::vector<std::size_t> test;
  for (std::size_t i = 0; i < whole.size(); ++i) (whole.label(i) <= last_training_label ? train : test).push_back(i);
  return {whole.select(train, "train"), whole.select(test, "test"), std::nullopt};
}

}  // namespace smartmine
