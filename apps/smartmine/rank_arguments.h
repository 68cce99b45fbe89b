#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>

#include "smartmine/core/progress.h"
#include "smartmine/graph/team.h"

namespace smartmine::app {

/// Options of commands whose work several processes can share.
struct RankArguments {
  static constexpr double kUsualTimeout = 300;
  int ranks = 1;
  double timeout = kUsualTimeout;

  void add_to(CLI::App& command);
  /// Whether there are several: they are asked for, or the environment speaks of them.
  bool several() const;
  /// Whether the environment speaks of them: this process is one, and not who starts them.
  static bool started();
};

/// Where a command stands among the processes that do its work.
struct RankPlace {
  const Team* team = nullptr;  ///< Null: it is alone.
  bool first = true;           ///< The one that writes and speaks.
  int local_rank = 0;          ///< Among those of its host: which GPU it takes.
  unsigned threads = 0;        ///< Its share of the cores. 0: all.
  /// Ends all ranks, saying who and what, if one has another text than the first.
  std::function<void(const std::string& what, const std::string& text)> expect_same;
  /// A progress for all ranks: if one is asked to stop, all do.
  std::function<Progress(const Progress& progress)> watched;
};

}  // namespace smartmine::app
