#pragma once

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "neighbor_command.h"
#include "smartmine/core/output_file.h"
#include "smartmine/mining/batch_builder.h"

// `mine --batches`: batches of near classes in the place of triplets.
namespace smartmine::app {

struct BatchArguments {
  bool asked = false;  ///< --batches.
  BatchBuilderOptions options;

  void add_to(CLI::App& command);
  /// Throws UsageError naming an option that was given and is for the other kind of output.
  void check() const;

 private:
  std::vector<const CLI::Option*> own_, of_triplets_;
  friend void read_given(BatchArguments& arguments, const CLI::App& command);
};

/// Takes note of which options of triplets there are, once all have been added.
void read_given(BatchArguments& arguments, const CLI::App& command);

/// Lists, the batches made of them, and what both cost.
struct BatchRun {
  ClassBatches made;
  /// Two labels, and how many of the batches that were looked at hold both.
  struct Together {
    std::int64_t first = 0, second = 0;
    std::size_t batches = 0;
  };
  BatchSurvey survey;
  std::vector<Together> together;
  std::size_t classes = 0;
  double selection_seconds = 0;  ///< Indexing the labels and making the batches.
};

/// Rows of ids, one a batch.
void write(OutputFile& file, const ClassBatches& made);
/// Adds to the object of the lists.
void add_to(nlohmann::ordered_json& json, const BatchRun& run);
std::string to_table(const BatchRun& run);

}  // namespace smartmine::app
