#include "neighbor_command.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <limits>

#include "about.h"
#include "console.h"
#include "interrupt.h"
#include "option_checks.h"
#include "smartmine/core/error.h"
#include "smartmine/core/parallel.h"
#include "smartmine/graph/gpu_lists.h"

namespace smartmine::app {
namespace {

constexpr unsigned kMostThreads = 1024;

Start start_from(std::string_view name) {
  if (name == "random") return Start::kRandom;
  if (name == "previous") return Start::kPrevious;
  return Start::kPartition;
}

IndexKind kind_of(const NeighborArguments& arguments) {
  if (arguments.device == "cuda") return IndexKind::kDevice;  // no other will do
  if (arguments.index == "exact") return IndexKind::kExact;
  if (arguments.index == "fanng" || !arguments.graph_option().empty())
    return IndexKind::kFanng;  // who says how the graph is to be wants one
  return IndexKind::kAutomatic;
}

void load_previous(NeighborIndex& index, const std::string& path, const Rows& rows) {
  index.load(path);
  const Fanng& graph = *index.graph();
  if (graph.size() != rows.size() || graph.dimension() != rows.dimension())
    throw IoError(
        fmt::format("{}: a graph of {} points of dimension {}, but the embeddings are {} of dimension {}; it must come from "
                    "the same points",
                    path, graph.size(), graph.dimension(), rows.size(), rows.dimension()));
}

// Looks at the rows only once something was wrong; the search looks at every value anyway.
template <class Search>
auto search_rows(const Rows& rows, std::string_view source, const Search& search) {
  try {
    return search();
  } catch (const InvalidArgument&) {
    about(source, [&] { check_rows(rows); });
    throw;
  }
}

std::string with_unit(std::uint64_t bytes) {
  constexpr double kMebibyte = 1024.0 * 1024.0;
  return fmt::format("{:.0f} MiB", static_cast<double>(bytes) / kMebibyte);
}

}  // namespace

void NeighborArguments::add_to(CLI::App& command) {
  command.add_option("--neighbors", options.neighbors, "Length of each list, fewer than there are rows")
      ->check(whole_number(1, kMaxRows))
      ->type_name("K")
      ->capture_default_str();
  command.add_option("--index", index, "auto, exact or fanng: exact looks at every pair, fanng at few, auto takes the faster")
      ->check(one_of({"auto", "exact", "fanng"}))
      ->type_name("NAME")
      ->capture_default_str();
  command
      .add_option("--device", device,
                  "auto, cpu or cuda: where every pair is looked at; a graph is built on the CPU. auto: "
                  "a GPU if there, from 30,000 rows on")
      ->check(one_of({"auto", "cpu", "cuda"}))
      ->type_name("NAME")
      ->capture_default_str();
  command.add_option("--start", start, "partition, random (the paper's build) or previous: what the graph is built from")
      ->check(one_of({"partition", "random", "previous"}))
      ->type_name("NAME")
      ->default_str("partition");
  command.add_option("--graph", graph, "The graph is written here; with --start previous it is first read from here")->type_name("FILE");
  command.add_option("--recall", options.recall_target, "Share of true neighbours the lists must hold, checked on a sample")
      ->check(fraction(true))
      ->type_name("R")
      ->capture_default_str();
  command
      .add_option("--success-rate", options.success_target, "Share of random pairs whose descent through the graph is to reach its target")
      ->check(fraction(false))
      ->type_name("P")
      ->capture_default_str();
  command.add_flag(
      "--certify", options.certify,
      fmt::format(
          "Go on until the success rate is reached or 100 walks a row were tried; without it, only with another option for the graph "
          "and up to {},{:03} rows, or with --start random",
          kCertifiedUnasked / 1000, kCertifiedUnasked % 1000));
  command
      .add_option("--edge-candidates", options.edge_candidates,
                  "Nearest neighbours considered for a vertex's edges; 0: as many as needed; at most 4096")
      ->check(whole_number(0, 4096))
      ->type_name("C")
      ->capture_default_str();
  command.add_option("--max-degree", options.max_degree, "Most edges of a vertex, shortest first; 4 to 1024")
      ->check(whole_number(4, 1024))
      ->type_name("D")
      ->capture_default_str();
  command.add_option("--seed", options.seed, "Same seed, same result, at any number of threads")
      ->check(whole_number(0, std::numeric_limits<std::uint64_t>::max()))
      ->type_name("S")
      ->capture_default_str();
  command.add_option("--threads", options.threads, "Threads to use; 0: all cores")
      ->check(whole_number(0, kMostThreads))
      ->type_name("T")
      ->capture_default_str();
  for (const char* name : {"--success-rate", "--edge-candidates", "--max-degree"}) graph_numbers_.push_back(command.get_option(name));
}

std::string NeighborArguments::graph_option() const {
  if (!start.empty()) return "--start";
  if (!graph.empty()) return "--graph";
  if (options.certify) return "--certify";
  for (const CLI::Option* option : graph_numbers_)
    if (option->count() > 0) return option->get_name();
  return {};
}

bool NeighborArguments::wants_edges() const {
  const auto given = [](const CLI::Option* option) { return option->count() > 0; };
  return options.certify || start == "random" || std::any_of(graph_numbers_.begin(), graph_numbers_.end(), given);
}

FanngOptions NeighborArguments::graph_options() const {
  return {.neighbors = options.neighbors,
          .certify = options.certify,
          .for_search = wants_edges(),
          .max_degree = options.max_degree,
          .edge_candidates = options.edge_candidates,
          .start = start_from(start),
          .refreshable = !graph.empty()};
}

std::string NeighborArguments::means(std::size_t dimension) const {
  return device != "cpu" && kind_of(*this) != IndexKind::kFanng && gpu_search(options.neighbors, dimension) ? "cuda" : "cpu";
}

void NeighborArguments::check() const {
  if (const std::string option = graph_option(); index == "exact" && !option.empty())
    throw UsageError(fmt::format("{} is for a graph, and --index exact builds none; use --index fanng or auto", option));
  if (device == "cuda") {
    if (index == "fanng" || !graph_option().empty())
      throw UsageError(fmt::format("--device cuda looks at every pair, and {} asks for a graph, which is built on the CPU",
                                   index == "fanng" ? "--index fanng" : graph_option()));
    if (options.neighbors > kLongestGpuLists)
      throw UsageError(fmt::format("--neighbors is {}; with --device cuda it must be at most {}", options.neighbors, kLongestGpuLists));
    if (const std::string why = why_no_gpu(); !why.empty()) throw UsageError(fmt::format("--device cuda cannot be: {}", why));
  }
  if (reads_graph() && graph.empty()) throw UsageError("--start previous needs --graph FILE, the graph to start from");
  if (reads_graph() && !std::filesystem::exists(graph))
    throw IoError(fmt::format("{}: no such graph; a run with another --start and this --graph writes one", graph));
  try {
    options.validate();
  } catch (const InvalidArgument& error) {
    throw UsageError(error.what());
  }
}

NeighborRun find_neighbors(const NeighborArguments& arguments, const Rows& rows, std::string_view source, const Progress& progress,
                           const RankPlace& place, const ListMaker& lists) {
  if (rows.size() < 2) throw IoError(fmt::format("{}: only 1 row; a neighbour must be another row, so at least 2 are needed", source));
  if (arguments.options.neighbors >= rows.size())
    throw UsageError(fmt::format("--neighbors is {}; with the {} rows of {} it must be from 1 to {}", arguments.options.neighbors,
                                 rows.size(), source, rows.size() - 1));
  if (arguments.device == "cuda" && rows.dimension() > kMostGpuDimensions)
    throw UsageError(fmt::format("--device is cuda, where rows must be of at most {} dimensions; those of {} are of {}", kMostGpuDimensions,
                                 source, rows.dimension()));
  NeighborIndexOptions options = arguments.options;
  options.kind = kind_of(arguments);
  options.start = start_from(arguments.start);
  options.for_search = arguments.wants_edges();
  options.keep_graph = !arguments.graph.empty();  // who keeps the graph means to start from it again
  NeighborRun run;
  run.index = NeighborIndex(options);
  run.dimension = rows.dimension();
  run.threads = resolve_threads(options.threads);
  if (arguments.reads_graph()) {
    const auto begin = std::chrono::steady_clock::now();
    load_previous(run.index, arguments.graph, rows);
    run.read_graph_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (place.team == nullptr) stop_if_interrupted();  // a team stops together
  }
  DeviceSearch search;
  // A GPU takes some half a second to start (docs/results.md), in which the processor finds lists of about so many rows.
  constexpr std::size_t kRowsWorthStarting = 30'000;
  if (arguments.means(rows.dimension()) == "cuda" && (arguments.device == "cuda" || rows.size() >= kRowsWorthStarting)) {
    GpuPlace gpus;
    if (place.team != nullptr) gpus = {.gpu = place.local_rank % gpu_count(), .alone = true};  // each rank has one
    search = gpu_search(options.neighbors, rows.dimension(), gpus);
  }
  NeighborResult result = search_rows(rows, source, [&] {
    return run.index.neighbors(rows, {.seed = {}, .device = search, .team = place.team, .lists = lists}, progress);
  });
  run.lists = std::move(result.lists);
  run.stats = std::move(result.stats);
  run.start = run.stats.index != "fanng" ? "none" : arguments.start.empty() ? "partition" : arguments.start;
  return run;
}

nlohmann::ordered_json to_json(const NeighborRun& run) {
  const NeighborStats& stats = run.stats;
  nlohmann::ordered_json stages = nlohmann::ordered_json::object();
  for (const auto& [stage, seconds] : stats.stage_seconds) stages[stage] = seconds;
  nlohmann::ordered_json json = {{"size", run.lists.size()},
                                 {"dimension", run.dimension},
                                 {"neighbors", run.lists.neighbors()},
                                 {"index", stats.index},
                                 {"start", run.start},
                                 {"threads", run.threads},
                                 {"kernel", stats.kernel},
                                 {"seconds", stats.seconds},
                                 {"stage_seconds", stages},
                                 {"distance_computations", stats.distance_computations},
                                 {"recall", stats.recall},
                                 {"recall_target", stats.recall_target},
                                 {"recall_sample", stats.recall_sample},
                                 {"recall_reached", stats.recall_reached},
                                 {"success_rate", stats.success_rate},
                                 {"success_bound", stats.success_bound},
                                 {"success_pairs", stats.success_pairs},
                                 {"success_target", stats.success_target},
                                 {"success_reached", stats.success_reached},
                                 {"mean_degree", stats.mean_degree},
                                 {"max_degree", stats.max_degree},
                                 {"edges_added", stats.edges_added},
                                 {"unit_norm", stats.unit_norm},
                                 {"peak_memory_bytes", stats.peak_memory_bytes},
                                 {"note", stats.note}};
  if (stats.index == "exact-cuda") {
    json["rows_certified"] = stats.rows_certified;
    json["rows_again"] = stats.rows_again;
    json["rows_measured"] = stats.rows_measured;
  }
  if (!run.has_edges())  // nothing to speak of
    for (const char* name : {"success_rate", "success_bound", "success_pairs", "success_target", "success_reached", "mean_degree",
                             "max_degree", "edges_added"})
      json[name] = nullptr;
  return json;
}

std::string to_table(const NeighborRun& run) {
  const NeighborStats& stats = run.stats;
  std::string table;
  const auto row = [&](std::string_view name, const std::string& value) { table += fmt::format("  {:<22} {}\n", name, value); };
  row("points", fmt::format("{} of dimension {}", run.lists.size(), run.dimension));
  row("neighbours of each", std::to_string(run.lists.neighbors()));
  row("index", run.start != "none" ? fmt::format("{}, {} start", stats.index, run.start) : stats.index);
  row("threads, kernel", fmt::format("{}, {}", run.threads, stats.kernel));
  std::string stages;
  for (const auto& [stage, seconds] : stats.stage_seconds) stages += fmt::format("{}{} {:.3f}", stages.empty() ? "" : ", ", stage, seconds);
  row("seconds", stages.empty() ? fmt::format("{:.3f}", stats.seconds) : fmt::format("{:.3f} ({})", stats.seconds, stages));
  row("distances computed", std::to_string(stats.distance_computations));
  if (stats.recall_sample > 0)
    row("recall", fmt::format("{:.4f} on {} points, {:.4f} asked for", stats.recall, stats.recall_sample, stats.recall_target));
  else
    row("recall", "1, exact search");
  if (stats.index == "exact-cuda")
    row("rows",
        fmt::format("{} certain at once, {} done again, {} measured in full", stats.rows_certified, stats.rows_again, stats.rows_measured));
  if (run.has_edges()) {
    row("success rate", fmt::format("{:.4f}, at least {:.4f} with 95 % confidence, {} pairs", stats.success_rate, stats.success_bound,
                                    stats.success_pairs));
    row("edges of a vertex", fmt::format("{:.1f}, at most {}", stats.mean_degree, stats.max_degree));
  }
  row("rows", stats.unit_norm ? "of unit length" : "not of unit length; distances are Euclidean");
  row("peak memory", with_unit(stats.peak_memory_bytes));
  return table;
}

std::vector<std::string> warnings(const NeighborRun& run) {
  const NeighborStats& stats = run.stats;
  std::vector<std::string> all;
  if (!stats.recall_reached)
    all.push_back(fmt::format("warning: recall is {:.4f}, under the {:.4f} asked for; a larger --max-degree or --index exact may help",
                              stats.recall, stats.recall_target));
  if (!stats.success_reached && run.index.options().for_search)  // who wants lists alone has no use for it
    all.push_back(fmt::format(
        "note: the graph's success rate is {:.4f} (at least {:.4f} with 95 % confidence), under {:.4f}; the lists do not depend on "
        "it. For searching with the graph, {} it",
        stats.success_rate, stats.success_bound, stats.success_target,
        stats.certified ? "more --edge-candidates or a larger --max-degree may raise" : "--certify or more --edge-candidates raise"));
  if (!stats.note.empty()) all.push_back("note: " + stats.note);
  return all;
}

}  // namespace smartmine::app
