#include "smartmine/report/compare.h"

#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "commands.h"
#include "console.h"
#include "outputs.h"
#include "smartmine/core/output_file.h"

namespace smartmine::app {
namespace {

struct CompareArguments {
  std::vector<std::string> runs;
  ComparisonOptions options;
  std::string output;
  bool json = false;
  bool quiet = false;
};

void check_paper(const Comparison& comparison, const std::string& paper) {
  if (paper.empty()) return;
  for (const RunGroup& group : comparison.groups) {
    if (group.dataset != paper)
      throw UsageError(fmt::format("--paper is {}, but {} is of {}", paper, group.runs[0].string(), group.dataset));
    if (group.evaluated_on != "test")
      warn(fmt::format("note: {} was not measured on the test classes, so it is not held against the paper", group.name));
  }
}

void run_compare(const CompareArguments& arguments) {
  if (!arguments.output.empty()) check_outputs({}, {arguments.output});
  Comparison comparison;
  try {
    comparison = compare_runs(std::vector<std::filesystem::path>(arguments.runs.begin(), arguments.runs.end()));
  } catch (const InvalidArgument& error) {
    throw UsageError(error.what());
  }
  check_paper(comparison, arguments.options.paper);
  for (const std::string& note : comparison.notes) warn("note: " + note);
  const std::string tables = comparison_tables(comparison, arguments.options);
  if (!arguments.output.empty()) {
    OutputFile file(arguments.output);
    file.write(tables.data(), tables.size());
    file.commit();
  }
  if (arguments.json)
    print(comparison_json(comparison, arguments.options) + "\n");
  else if (!arguments.quiet)
    print(tables);
}

}  // namespace

void add_compare(CLI::App& program, Work& work) {
  auto arguments = std::make_shared<CompareArguments>();
  CLI::App& command = *program.add_subcommand("compare", "A table of finished runs: mean and spread over seeds, and the paper's figures");
  command.add_option("runs", arguments->runs, "Directories of runs; those that differ in nothing but the seed are one row")
      ->required()
      ->type_name("RUN_DIR...");
  command.add_option("--paper", arguments->options.paper, "Add the paper's figures on cub200 or cars196, and the difference")
      ->check(CLI::IsMember({"cub200", "cars196"}))
      ->type_name("DATASET");
  command.add_flag("--by-epoch", arguments->options.by_epoch, "Also recall, NMI, errors and kappa by epoch");
  command.add_flag("--triplets", arguments->options.triplets, "Also what the fixed anchors of each run were trained with, by epoch");
  command.add_option("--output", arguments->output, "Also write the tables to this file, in markdown")->type_name("FILE");
  command.add_flag("--json", arguments->json, "Print one JSON object instead of tables");
  command.add_flag("--quiet", arguments->quiet, "Print warnings and errors only");
  command.footer(
      "Examples:\n"
      "  smartmine compare runs/glyphs-1 runs/glyphs-2\n"
      "  smartmine compare results/rows/*/seed-* --paper cub200 --output table.md");
  command.callback([arguments, &work] { work = [arguments] { run_compare(*arguments); }; });
}

}  // namespace smartmine::app
