#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace smartmine::app {

/// What the chosen subcommand does once the whole command line has been read.
using Work = std::function<void()>;

/// The work was done by other processes, which have said what there is to say: this one ends with their status.
struct Ended {
  int status = 0;
};

/// Each adds one subcommand to the program and, if it is the one chosen, puts what it does into `work`.
void add_knn(CLI::App& program, Work& work);
void add_mine(CLI::App& program, Work& work);
void add_eval(CLI::App& program, Work& work);
void add_report(CLI::App& program, Work& work);
void add_compare(CLI::App& program, Work& work);
// With LibTorch; reached through torch_part.h.
void add_train(CLI::App& program, Work& work);
void add_embed(CLI::App& program, Work& work);

}  // namespace smartmine::app
