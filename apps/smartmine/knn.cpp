#include <fmt/format.h>

#include <bit>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "commands.h"
#include "console.h"
#include "interrupt.h"
#include "neighbor_command.h"
#include "outputs.h"
#include "smartmine/core/npy.h"
#include "smartmine/core/output_file.h"
#include "smartmine/core/vector_files.h"
#include "smartmine/graph/list_instructions.h"
#include "torch_part.h"

namespace smartmine::app {
namespace {

struct KnnArguments {
  std::string embeddings;
  std::string output;
  NeighborArguments neighbors;
  RankArguments ranks;
  bool json = false;
  bool quiet = false;

  std::string ids_path() const { return output + ".ids.npy"; }
  std::string distances_path() const { return output + ".distances.npy"; }
};

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// Everything that can be known to be wrong before the work starts.
void check(const KnnArguments& arguments) {
  if (arguments.output.empty() || arguments.output.back() == '/')
    throw UsageError(
        fmt::format("--output is '{}'; it must be the beginning of file names, such as lists or results/lists", arguments.output));
  arguments.neighbors.check();
  std::vector<std::string> outputs = {arguments.ids_path(), arguments.distances_path()};
  if (!arguments.neighbors.graph.empty()) outputs.push_back(arguments.neighbors.graph);
  check_outputs({arguments.embeddings}, outputs);
}

// The files take their names only once all of them are complete, so a failure or Ctrl-C before that leaves none.
void write(const KnnArguments& arguments, const NeighborRun& run) {
  const std::vector<std::size_t> shape = {run.lists.size(), run.lists.neighbors()};
  OutputFile ids(arguments.ids_path());
  OutputFile distances(arguments.distances_path());
  write_npy(ids, run.lists.all_ids(), shape);
  write_npy(distances, run.lists.all_distances(), shape);
  ids.finish();
  distances.finish();
  stop_if_interrupted();
  if (!arguments.neighbors.graph.empty()) run.index.save(arguments.neighbors.graph);
  commit_all({ids, distances});
}

/// What must be the same for all who share the work.
std::string description_of(const KnnArguments& arguments, const Rows& rows) {
  std::uint64_t digest = 0;
  const std::size_t count = rows.size() * rows.dimension();
  for (std::size_t i = 0; i < count; ++i) digest = (digest ^ std::bit_cast<std::uint32_t>(rows.data()[i])) * 0x9e3779b97f4a7c15ULL + i;
  const NeighborIndexOptions& options = arguments.neighbors.options;
  return fmt::format(
      "{} rows of dimension {}\ndigest {:016x}\nindex {}, start {}\n{} neighbours, recall {}, success {}{}, degree {}, {} {}\n",
      rows.size(), rows.dimension(), digest, arguments.neighbors.index, arguments.neighbors.start, options.neighbors, options.recall_target,
      options.success_target, options.certify ? " certified" : "", options.max_degree, options.edge_candidates, options.seed);
}

void run_knn(KnnArguments arguments, const RankPlace& place) {
  auto begin = std::chrono::steady_clock::now();
  const Embeddings embeddings = read_embeddings(arguments.embeddings);
  double read_seconds = seconds_since(begin);
  if (place.team == nullptr) stop_if_interrupted();  // a team stops together, where its members hand each other something

  ProgressDisplay display(arguments.quiet || arguments.json || !place.first);
  Progress progress = display.callback();
  if (place.team != nullptr) {
    place.expect_same("means of computing", fmt::format("lists by {}; SMARTMINE_KERNEL sets that\n", list_instructions()));
    place.expect_same("rows or options", description_of(arguments, embeddings.rows()));
    progress = place.watched(progress);
    if (arguments.neighbors.options.threads == 0) arguments.neighbors.options.threads = place.threads;
  }
  const NeighborRun run = find_neighbors(arguments.neighbors, embeddings.rows(), arguments.embeddings, progress, place.team);
  if (place.team != nullptr) {  // all stop if one was asked to at the last
    report(progress, "lists", run.lists.size(), run.lists.size());
    place.expect_same("lists", fmt::format("{} lists\n", run.lists.size()));
  }
  if (!place.first) return;
  read_seconds += run.read_graph_seconds;
  display.finish();

  begin = std::chrono::steady_clock::now();
  write(arguments, run);
  const double write_seconds = seconds_since(begin);

  for (const std::string& warning : warnings(run)) warn(warning);
  if (arguments.json) {
    nlohmann::ordered_json json = to_json(run);
    json["read_seconds"] = read_seconds;
    json["write_seconds"] = write_seconds;
    print(json.dump() + "\n");
  } else if (!arguments.quiet) {
    print(to_table(run) + fmt::format("  {:<22} {}\n  {:<22} {}\n", "written", arguments.ids_path(), "", arguments.distances_path()));
  }
}

void run_knn(const KnnArguments& arguments) {
  check(arguments);
  if (!arguments.ranks.several()) return run_knn(arguments, {});
  if (arguments.neighbors.device == "cuda") throw UsageError("--ranks shares out the work of CPUs; --device cuda takes one process");
  if (torch_part() == nullptr) throw UsageError("--ranks needs a smartmine that was built with LibTorch, through which ranks talk");
  torch_part()->share_work(arguments.ranks, [&](const RankPlace& place) { run_knn(arguments, place); });
}

}  // namespace

void add_knn(CLI::App& program, Work& work) {
  auto arguments = std::make_shared<KnnArguments>();
  CLI::App& command = *program.add_subcommand("knn", "The nearest neighbours of every row, sorted, with squared distances");
  command.add_option("--embeddings", arguments->embeddings, "Vectors, one per row: .npy (float16/32/64, C order), .fvecs or .fbin")
      ->required()
      ->type_name("FILE");
  command.add_option("--output", arguments->output, "Writes PREFIX.ids.npy (int32) and PREFIX.distances.npy (float32, squared)")
      ->required()
      ->type_name("PREFIX");
  arguments->neighbors.add_to(command);
  arguments->ranks.add_to(command);
  command.add_flag("--json", arguments->json, "Print what it cost and reached as one JSON object, and nothing else");
  command.add_flag("--quiet", arguments->quiet, "Print warnings and errors only");
  command.footer(
      "Examples:\n"
      "  smartmine knn --embeddings x.npy --neighbors 100 --output lists\n"
      "      lists.ids.npy and lists.distances.npy, rows x 100, nearest first, a row never its own neighbour\n"
      "  smartmine knn --embeddings epoch1.npy --graph run.graph --output epoch1\n"
      "  smartmine knn --embeddings epoch2.npy --graph run.graph --start previous --output epoch2\n"
      "      the second starts from the graph of the first and leaves its own there for the next\n"
      "  smartmine knn --embeddings x.npy --output lists --config settings.toml --json");
  command.callback([arguments, &work] { work = [arguments] { run_knn(*arguments); }; });
}

}  // namespace smartmine::app
