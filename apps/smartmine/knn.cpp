#include <fmt/format.h>

#include <bit>
#include <chrono>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "commands.h"
#include "console.h"
#include "interrupt.h"
#include "neighbor_command.h"
#include "option_checks.h"
#include "outputs.h"
#include "smartmine/core/memory.h"
#include "smartmine/core/npy.h"
#include "smartmine/core/output_file.h"
#include "smartmine/core/vector_files.h"
#include "smartmine/graph/list_instructions.h"
#include "smartmine/graph/list_memory.h"
#include "torch_part.h"

namespace smartmine::app {
namespace {

struct KnnArguments {
  std::string embeddings;
  std::string output;
  std::string lists_on = "auto";
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
}

// The same of what is written, where this process writes it.
void check_files(const KnnArguments& arguments) {
  std::vector<std::string> outputs = {arguments.ids_path(), arguments.distances_path()};
  if (!arguments.neighbors.graph.empty()) outputs.push_back(arguments.neighbors.graph);
  check_outputs({arguments.embeddings}, outputs);
}

/// The files of lists. They take their names only once all of them are complete, so a failure or Ctrl-C before that leaves none.
class ListFiles {
 public:
  explicit ListFiles(const KnnArguments& arguments) : arguments_(arguments) {}

  /// Makes lists in the files themselves. Where the file system cannot do that they are in memory, unless the disk was asked for.
  NeighborLists make(std::size_t size, std::size_t neighbors) {
    if (!opened() && !open_mapped(size, neighbors)) {
      if (arguments_.lists_on == "disk")
        throw IoError(fmt::format(
            "{}: lists cannot be made in this file, for its file system sets no room apart; choose another disk, or --lists-on memory",
            arguments_.ids_path()));
      if (!warned_)  // at once: a process that memory does not hold says nothing in the end
        warn(fmt::format("warning: lists are in memory, which may be too small for them: the file system of {} sets no room apart",
                         arguments_.ids_path()));
      warned_ = true;
      return {size, neighbors};
    }
    return {size, neighbors, mapped_ids_, mapped_distances_};
  }

  void write(const NeighborRun& run) {
    if (!opened() || run.lists.all_ids().data() != mapped_ids_.get()) {
      const std::vector<std::size_t> shape = {run.lists.size(), run.lists.neighbors()};
      open();
      write_npy(*ids_, run.lists.all_ids(), shape);
      write_npy(*distances_, run.lists.all_distances(), shape);
    }
    ids_->finish();
    distances_->finish();
    stop_if_interrupted();
    if (!arguments_.neighbors.graph.empty()) run.index.save(arguments_.neighbors.graph);
    commit_all({*ids_, *distances_});
  }

 private:
  bool opened() const { return mapped_ids_ != nullptr; }

  void open() {
    mapped_ids_.reset();
    mapped_distances_.reset();
    ids_.emplace(arguments_.ids_path());
    distances_.emplace(arguments_.distances_path());
  }

  bool open_mapped(std::size_t size, std::size_t neighbors) {
    open();
    write_npy_header(*ids_, NpyType::kInt32, {size, neighbors});
    write_npy_header(*distances_, NpyType::kFloat32, {size, neighbors});
    const auto ids = ids_->append_mapped(size * neighbors * sizeof(std::uint32_t));
    const auto distances = ids ? distances_->append_mapped(size * neighbors * sizeof(float)) : nullptr;
    if (!distances) return false;
    mapped_ids_ = {ids, reinterpret_cast<std::uint32_t*>(ids.get())};
    mapped_distances_ = {distances, reinterpret_cast<float*>(distances.get())};
    return true;
  }

  const KnnArguments& arguments_;
  std::optional<OutputFile> ids_, distances_;
  std::shared_ptr<std::uint32_t[]> mapped_ids_;
  std::shared_ptr<float[]> mapped_distances_;
  bool warned_ = false;
};

/// Whether lists are made in their files: memory would not hold them beside what finding them takes.
bool on_disk(const KnnArguments& arguments, const Rows& rows) {
  if (arguments.lists_on != "auto") return arguments.lists_on == "disk";
  const auto taken = static_cast<double>(list_memory_bytes(rows, arguments.neighbors.graph_options()));
  return taken > 0.9 * static_cast<double>(available_memory_bytes());
}

/// Of the graph that all start from.
std::string digest_of_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<char> piece(1 << 20);
  std::uint64_t digest = 0, length = 0;
  while (file.read(piece.data(), static_cast<std::streamsize>(piece.size())) || file.gcount() > 0) {
    for (std::streamsize i = 0; i < file.gcount(); ++i)
      digest = (digest ^ static_cast<unsigned char>(piece[static_cast<std::size_t>(i)])) * 0x100000001b3ULL + 1;
    length += static_cast<std::uint64_t>(file.gcount());
  }
  return fmt::format("{} bytes, digest {:016x}", length, digest);
}

/// What must be the same for all who share the work.
std::string description_of(const KnnArguments& arguments, const Rows& rows) {
  std::uint64_t digest = 0;
  const std::size_t count = rows.size() * rows.dimension();
  for (std::size_t i = 0; i < count; ++i) digest = (digest ^ std::bit_cast<std::uint32_t>(rows.data()[i])) * 0x9e3779b97f4a7c15ULL + i;
  const NeighborIndexOptions& options = arguments.neighbors.options;
  const std::string previous = arguments.neighbors.reads_graph() ? digest_of_file(arguments.neighbors.graph) : "none";
  return fmt::format(
      "{} rows of dimension {}\ndigest {:016x}\nindex {}, start {}\n--graph {}\nedges {}\nprevious graph: {}\n"
      "{} neighbours, recall {}, success {}{}, degree {}, edge candidates {}, seed {}\n",
      rows.size(), rows.dimension(), digest, arguments.neighbors.index, arguments.neighbors.start,
      arguments.neighbors.graph.empty() ? "not given" : "given", arguments.neighbors.wants_edges() ? "made" : "not made", previous,
      options.neighbors, options.recall_target, options.success_target, options.certify ? " certified" : "", options.max_degree,
      options.edge_candidates, options.seed);
}

void run_knn(KnnArguments arguments, const RankPlace& place) {
  if (place.first) check_files(arguments);
  auto begin = std::chrono::steady_clock::now();
  const Embeddings embeddings = read_embeddings(arguments.embeddings);
  double read_seconds = seconds_since(begin);
  if (place.team == nullptr) stop_if_interrupted();  // a team stops together, where its members hand each other something

  ProgressDisplay display(arguments.quiet || arguments.json || !place.first);
  Progress progress = display.callback();
  if (place.team != nullptr) {
    place.expect_same("work", "lists (knn)\n");
    place.expect_same("means of computing", fmt::format("device {}; --device sets that\nlists by {}; SMARTMINE_KERNEL sets that\n",
                                                        arguments.neighbors.means(embeddings.rows().dimension()), list_instructions()));
    place.expect_same("rows or options", description_of(arguments, embeddings.rows()));
    progress = place.watched(progress);
    if (arguments.neighbors.options.threads == 0) arguments.neighbors.options.threads = place.threads;
  }
  ListFiles files(arguments);
  ListMaker maker;
  if (place.first && on_disk(arguments, embeddings.rows()))
    maker = [&files](std::size_t size, std::size_t neighbors) { return files.make(size, neighbors); };
  const NeighborRun run = find_neighbors(arguments.neighbors, embeddings.rows(), arguments.embeddings, progress, place, maker);
  if (place.team != nullptr) {  // all stop if one was asked to at the last
    report(progress, "lists", run.lists.size(), run.lists.size());
    place.expect_same("lists", fmt::format("{} lists\n", run.lists.size()));
  }
  if (!place.first) return;
  read_seconds += run.read_graph_seconds;
  display.finish();

  begin = std::chrono::steady_clock::now();
  files.write(run);
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
  if (!RankArguments::started()) check_files(arguments);  // before ranks are started, the first of which will say the same
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
  command
      .add_option("--lists-on", arguments->lists_on,
                  "auto, memory or disk: where lists are until they are done; auto: on the disk if memory would not hold them")
      ->check(one_of({"auto", "memory", "disk"}))
      ->type_name("NAME")
      ->capture_default_str();
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
