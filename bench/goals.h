#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "measurement.h"

namespace smartmine::bench {

/// All that was measured on one set.
struct SetResult {
  std::size_t rows = 0;
  std::size_t dimension = 0;
  std::size_t neighbors = 0;
  std::size_t epochs = 0;
  std::vector<Measurement> measurements;

  /// Of this method; none if it was not measured or failed.
  const Measurement* find(const std::string& method) const;
  /// The quickest version of a peer that was measured, "hnswlib" or "faiss-exact": the distribution's, or that of --python.
  const Measurement* quickest(const std::string& peer) const;
  /// Embeddings of one epoch and the lists.
  double data_bytes() const;
};

/// What the library promises, and whether it keeps it here.
struct Goal {
  std::string what;
  bool at_least = true;  ///< Or at most.
  double bound = 0;
  std::optional<double> reached;  ///< None: not measured.

  bool holds() const { return reached && (at_least ? *reached >= bound : *reached <= bound); }
};

/// The goals that these results can speak about. `random` is the small set of the paper's build.
std::vector<Goal> goals_for(const std::vector<SetResult>& results, const SetResult* random);

nlohmann::ordered_json to_json(const Goal& goal);

}  // namespace smartmine::bench
