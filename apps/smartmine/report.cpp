#include <fmt/format.h>

#include <chrono>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "about.h"
#include "commands.h"
#include "console.h"
#include "option_checks.h"
#include "outputs.h"
#include "page_template.h"
#include "report_page.h"
#include "smartmine/core/error.h"
#include "smartmine/core/mapped_file.h"
#include "smartmine/core/output_file.h"

namespace smartmine::app {
namespace {

struct ReportArguments {
  std::vector<std::string> runs;
  std::string output = "report.html";
  std::string page;
  PageOptions options;
  bool no_map = false;
  bool json = false;
  bool quiet = false;
};

void run_report(ReportArguments& arguments) {
  const auto begin = std::chrono::steady_clock::now();
  const std::string page = read_page(arguments.page);
  check_outputs({arguments.page}, {arguments.output});
  arguments.options.map = !arguments.no_map;
  ProgressDisplay display(arguments.quiet || arguments.json);
  const WrittenReport report =
      write_report({arguments.runs.begin(), arguments.runs.end()}, page, arguments.output, arguments.options, display.callback());
  display.finish();
  for (const std::string& problem : report.problems) warn("note: " + problem);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (arguments.json) {
    const nlohmann::ordered_json json{
        {"output", arguments.output}, {"bytes", report.bytes}, {"seconds", seconds}, {"problems", report.problems}};
    print(json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
  } else if (!arguments.quiet) {
    constexpr double kMega = 1e6;
    print(fmt::format("{}: {:.1f} MB, in {:.1f} s; open it in a browser\n", arguments.output, static_cast<double>(report.bytes) / kMega,
                      seconds));
  }
}

}  // namespace

std::string read_page(const std::string& file) {
  if (!file.empty()) {
    const MappedFile mapped(file);
    return {reinterpret_cast<const char*>(mapped.bytes().data()), mapped.bytes().size()};
  }
  if (page_template().empty())
    throw IoError(
        "this smartmine was built without the report page; install nodejs and npm (scripts/setup.sh does), then run cmake and build again");
  return std::string(page_template());
}

WrittenReport write_report(const std::vector<std::filesystem::path>& runs, const std::string& page, const std::filesystem::path& output,
                           PageOptions options, const Progress& progress) {
  options.generator = "smartmine " SMARTMINE_VERSION;
  const auto filled = [&](const std::string& json) { return about("the report page", [&] { return fill_page(page, json); }); };
  filled("null");  // a page without a place for data is better noticed now than later
  PageData data;
  try {
    data = page_data(runs, options, progress);
  } catch (const InvalidArgument& error) {
    throw UsageError(error.what());
  }
  const std::string html = filled(data.json);
  OutputFile file(output);
  file.write(html.data(), html.size());
  file.commit();
  return {html.size(), std::move(data.problems)};
}

void add_report(CLI::App& program, Work& work) {
  constexpr unsigned kMostThreads = 1024;
  constexpr std::size_t kMostPoints = 100000;
  auto arguments = std::make_shared<ReportArguments>();
  CLI::App& command = *program.add_subcommand("report", "A page that shows what training runs did, in one file for any browser");
  command.add_option("runs", arguments->runs, "Directories of runs, finished or not; several are drawn over each other")
      ->required()
      ->type_name("RUN_DIR...");
  command.add_option("--output", arguments->output, "File to write")->type_name("FILE")->capture_default_str();
  command.add_flag("--no-map", arguments->no_map, "Leave out the t-SNE map, which takes the longest");
  command.add_option("--map-points", arguments->options.map_points, "Most points on the map; of more images a sample is drawn")
      ->check(whole_number(1, kMostPoints))
      ->type_name("N")
      ->capture_default_str();
  command.add_option("--seed", arguments->options.tsne.seed, "Same seed, same map, at any number of threads")
      ->check(whole_number(0, std::numeric_limits<std::uint64_t>::max()))
      ->type_name("S")
      ->capture_default_str();
  command.add_option("--threads", arguments->options.tsne.threads, "Threads to use; 0: all cores")
      ->check(whole_number(0, kMostThreads))
      ->type_name("T")
      ->capture_default_str();
  command.add_option("--template", arguments->page, "Another page to put the data into; default: the one built into the program")
      ->type_name("FILE");
  command.add_flag("--json", arguments->json, "Print size, time and what was damaged as one JSON object, and nothing else");
  command.add_flag("--quiet", arguments->quiet, "Print warnings and errors only");
  command.footer(
      "Examples:\n"
      "  smartmine report runs/glyphs-1\n"
      "  smartmine report runs/glyphs-1 runs/glyphs-2 --output compared.html");
  command.callback([arguments, &work] { work = [arguments] { run_report(*arguments); }; });
}

}  // namespace smartmine::app
