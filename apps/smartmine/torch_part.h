#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "commands.h"
#include "rank_arguments.h"
#include "smartmine/core/progress.h"
#include "smartmine/core/vector_files.h"

namespace smartmine::app {

/// Embeddings and the label of each row.
struct Labelled {
  Embeddings embeddings;
  std::vector<std::int64_t> labels;
};

struct EmbeddedRun {
  Labelled images;
  std::uint64_t seed = 0;  ///< Of the run.
};

/// What needs LibTorch, whose libraries take longer to load than most commands take. So there are two programs: `smartmine`, which has no
/// such part, and `smartmine-torch`, which is complete and which the first becomes when a command line needs it.
struct TorchPart {
  void (*add_train)(CLI::App& program, Work& work);
  void (*add_embed)(CLI::App& program, Work& work);
  /// The test images of a run (or its validation classes, if that is what it measured), embedded by its last good checkpoint.
  EmbeddedRun (*embed_run)(const std::string& directory, const std::string& device, unsigned threads, const Progress& progress);
  /// Does work together with other processes, as asked for or as the environment says.
  void (*share_work)(const RankArguments& arguments, const std::function<void(const RankPlace& place)>& work);
  /// What can be trained on, in words.
  std::string (*devices)();
};

/// Null: not in this program.
const TorchPart* torch_part();

/// In a program without: becomes the one with it, unless the command line can do without it too or the project was built without. Throws
/// IoError if that program is not where it should be.
void hand_over(int argc, char** argv);

}  // namespace smartmine::app
