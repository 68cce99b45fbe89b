#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <chrono>
#include <cstdint>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "about.h"
#include "commands.h"
#include "console.h"
#include "interrupt.h"
#include "option_checks.h"
#include "outputs.h"
#include "smartmine/core/npy.h"
#include "smartmine/core/output_file.h"
#include "smartmine/core/parallel.h"
#include "smartmine/core/vector_files.h"
#include "smartmine/graph/gpu_lists.h"
#include "smartmine/graph/neighbors.h"
#include "smartmine/metrics/clustering.h"
#include "smartmine/metrics/retrieval.h"
#include "smartmine/run/run_directory.h"
#include "torch_part.h"

namespace smartmine::app {
namespace {

using Clock = std::chrono::steady_clock;

struct EvalArguments {
  std::string embeddings;
  std::string labels;
  std::string gallery;  // what is searched, with its labels; empty: the other rows
  std::string gallery_labels;
  std::string run;          // directory of a run; empty: embeddings and labels are given
  bool seed_given = false;  // else that of the run
  std::string device = "auto";
  std::string clusters;  // file; empty: none
  RetrievalOptions retrieval;
  std::string recall_at = "1,2,4,8";
  KMeansOptions clustering;
  unsigned threads = 0;
  bool no_map = false;
  bool no_nmi = false;
  bool restarts_given = false;
  bool json = false;
  bool quiet = false;
};

// What was measured on which rows.
struct Evaluation {
  std::size_t size = 0;
  std::size_t gallery_size = 0;  // 0: none apart
  std::size_t dimension = 0;
  std::size_t clusters_wanted = 0;
  RowsSummary rows;
  RetrievalOptions options;
  RetrievalResult retrieval;
  KMeansResult clustering;  // empty if NMI was not wanted
  NormalizedMutualInformation nmi;
  std::string note;
};

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

// Everything that can be known to be wrong before the work starts.
void check(const EvalArguments& arguments) {
  const bool files = !arguments.embeddings.empty() || !arguments.labels.empty();
  if (!arguments.run.empty() && files)
    throw UsageError("--run measures the embeddings of a run's test images; --embeddings and --labels are for others");
  if (arguments.run.empty() && (arguments.embeddings.empty() || arguments.labels.empty()))
    throw UsageError(fmt::format("{} is missing; give --embeddings and --labels, or --run; see smartmine eval --help",
                                 arguments.embeddings.empty() ? "--embeddings" : "--labels"));
  if (arguments.gallery.empty() != arguments.gallery_labels.empty())
    throw UsageError(fmt::format("{} is missing; --gallery and --gallery-labels go together",
                                 arguments.gallery.empty() ? "--gallery" : "--gallery-labels"));
  if (!arguments.run.empty() && !arguments.gallery.empty())
    throw UsageError("--gallery is for --embeddings; --run measures a run's test images among each other");
  if (arguments.no_nmi && (arguments.restarts_given || !arguments.clusters.empty()))
    throw UsageError(
        fmt::format("{} is for clustering, which --no-nmi leaves out", arguments.restarts_given ? "--restarts" : "--clusters"));
  if (!arguments.clusters.empty() && arguments.run.empty()) check_outputs({arguments.embeddings, arguments.labels}, {arguments.clusters});
  if (!arguments.clusters.empty() && !arguments.run.empty()) check_outputs({}, {arguments.clusters});
}

Evaluation evaluate(const EvalArguments& arguments, const Labelled& read, const std::optional<Labelled>& gallery,
                    const Progress& progress) {
  const Rows& rows = read.embeddings.rows();
  const std::vector<std::int64_t>& labels = read.labels;
  Evaluation result;
  result.size = rows.size();
  result.dimension = rows.dimension();
  result.options = arguments.retrieval;
  result.rows = about(arguments.embeddings, [&] { return check_rows(rows, arguments.threads); });
  result.options.precision = !arguments.no_map;
  result.options.threads = arguments.threads;
  if (gallery) {
    about(arguments.gallery, [&] { return check_rows(gallery->embeddings.rows(), arguments.threads); });
    result.gallery_size = gallery->labels.size();
  }
  result.retrieval = about(arguments.labels, [&] {
    return gallery ? measure_retrieval(rows, labels, gallery->embeddings.rows(), gallery->labels, result.options, progress)
                   : measure_retrieval(rows, labels, result.options, progress);
  });
  if (!arguments.no_nmi) {
    KMeansOptions options = arguments.clustering;
    options.clusters = std::set<std::int64_t>(labels.begin(), labels.end()).size();
    result.clusters_wanted = options.clusters;
    options.threads = arguments.threads;
    result.clustering = k_means(rows, options, progress);
    result.nmi = normalized_mutual_information(labels, result.clustering.assignments);
  }

  std::vector<std::string> notes;
  const std::size_t alone = result.retrieval.stats.queries_without_positive;
  if (alone > 0)
    notes.push_back(fmt::format("{} of {} {}: misses of recall@k, left out of MAP@R and R-precision", alone, rows.size(),
                                gallery ? "queries have no image of their class in the gallery" : "rows are alone in their class"));
  if (const std::string& note = result.retrieval.stats.note; !note.empty()) notes.push_back(note);
  if (!arguments.no_nmi && result.clustering.clusters < result.clusters_wanted)
    notes.push_back(
        fmt::format("only {} distinct rows for {} classes, so only as many clusters", result.clustering.clusters, result.clusters_wanted));
  result.note = fmt::format("{}", fmt::join(notes, "; "));
  return result;
}

nlohmann::ordered_json to_json(const Evaluation& result, const EvalArguments& arguments) {
  const RetrievalStats& retrieval = result.retrieval.stats;
  nlohmann::ordered_json json;
  for (std::size_t i = 0; i < result.options.recall_at.size(); ++i)
    json[fmt::format("recall@{}", result.options.recall_at[i])] = result.retrieval.recall[i];
  const auto given = [](bool wanted, auto value) { return wanted ? nlohmann::ordered_json(value) : nlohmann::ordered_json(); };
  const bool map = !arguments.no_map, nmi = !arguments.no_nmi;  // without them null: nobody measured it
  const KMeansResult& clustering = result.clustering;
  json["nmi"] = given(nmi, result.nmi.arithmetic);
  json["nmi_geometric"] = given(nmi, result.nmi.geometric);
  json["map@r"] = given(map, result.retrieval.map_at_r);
  json["r_precision"] = given(map, result.retrieval.r_precision);
  json["size"] = result.size;
  json["gallery_size"] = given(result.gallery_size > 0, result.gallery_size);
  json["dimension"] = result.dimension;
  json["classes"] = retrieval.classes;
  json["queries_without_positive"] = retrieval.queries_without_positive;
  json["longest_list"] = retrieval.longest_list;
  json["threads"] = resolve_threads(arguments.threads);
  json["unit_norm"] = result.rows.unit_norm;
  json["clusters"] = given(nmi, clustering.clusters);
  json["restarts"] = given(nmi, clustering.stats.restart_inertia.size());
  json["inertia"] = given(nmi, clustering.inertia);
  json["iterations"] = given(nmi, clustering.stats.iterations);
  json["converged"] = given(nmi, clustering.stats.converged);
  json["seconds"] = retrieval.seconds + clustering.stats.seconds;
  json["stage_seconds"] = {{"retrieval", retrieval.seconds}, {"clustering", clustering.stats.seconds}};
  json["distance_computations"] = retrieval.distance_computations + clustering.stats.distance_computations;
  json["peak_memory_bytes"] = peak_memory_bytes();
  json["note"] = result.note;
  return json;
}

std::string to_table(const Evaluation& result, const EvalArguments& arguments) {
  const RetrievalStats& retrieval = result.retrieval.stats;
  std::string table;
  const auto row = [&](std::string_view name, const std::string& value) { table += fmt::format("  {:<22} {}\n", name, value); };
  row("points", fmt::format("{} of dimension {}, {} classes", result.size, result.dimension, retrieval.classes));
  if (result.gallery_size > 0) row("gallery", fmt::format("{} points; every point above is a query in it", result.gallery_size));
  row("rows", result.rows.unit_norm ? "of unit length" : "not of unit length; distances are Euclidean");
  std::string seconds = fmt::format("retrieval {:.3f}", retrieval.seconds);
  if (!arguments.no_nmi) seconds += fmt::format(", clustering {:.3f}", result.clustering.stats.seconds);
  row("seconds", seconds);
  table += "\n";
  const auto share = [&](std::string_view name, double value) { row(name, fmt::format("{:>7.2f} %", 100.0 * value)); };
  for (std::size_t i = 0; i < result.options.recall_at.size(); ++i)
    share(fmt::format("recall@{}", result.options.recall_at[i]), result.retrieval.recall[i]);
  if (!arguments.no_nmi) {
    share("NMI, arithmetic", result.nmi.arithmetic);
    share("NMI, geometric", result.nmi.geometric);
  }
  if (!arguments.no_map) {
    share("MAP@R", result.retrieval.map_at_r);
    share("R-precision", result.retrieval.r_precision);
  }
  return table;
}

Labelled read_files(const std::string& embeddings_path, const std::string& labels_path, std::size_t least) {
  std::vector<std::int64_t> labels = read_labels(labels_path);
  Embeddings embeddings = read_embeddings(embeddings_path);
  const Rows& rows = embeddings.rows();
  if (rows.size() < least)
    throw IoError(fmt::format("{}: only 1 row; a neighbour must be another row, so at least 2 are needed", embeddings_path));
  if (labels.size() != rows.size())
    throw IoError(fmt::format("{}: {} labels, but {} has {} rows; each row needs exactly one", labels_path, labels.size(), embeddings_path,
                              rows.size()));
  return {std::move(embeddings), std::move(labels)};
}

std::optional<Labelled> read_gallery(const EvalArguments& arguments, const Labelled& queries) {
  if (arguments.gallery.empty()) return std::nullopt;
  Labelled gallery = read_files(arguments.gallery, arguments.gallery_labels, 1);
  if (const std::size_t own = gallery.embeddings.rows().dimension(); own != queries.embeddings.rows().dimension())
    throw IoError(fmt::format("{}: of dimension {}, but {} is of {}; both must be of the same network", arguments.gallery, own,
                              arguments.embeddings, queries.embeddings.rows().dimension()));
  return gallery;
}

// "1,5,10", ascending.
std::vector<std::size_t> parse_ranks(const std::string& text) {
  std::vector<std::size_t> ranks;
  for (const std::string& part : CLI::detail::split(text, ',')) {
    std::size_t rank = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), rank);
    if (error != std::errc() || end != part.data() + part.size() || rank < 1 || rank > kMaxRows || (!ranks.empty() && rank <= ranks.back()))
      throw UsageError(fmt::format("--recall-at is '{}'; it must be ascending whole numbers of at least 1, such as 1,10,100", text));
    ranks.push_back(rank);
  }
  return ranks;
}

Labelled embed_run(EvalArguments& arguments, const Progress& progress) {
  EmbeddedRun run = torch_part()->embed_run(arguments.run, arguments.device, arguments.threads, progress);
  if (!arguments.seed_given) arguments.clustering.seed = run.seed;  // so that the NMI is the one in the run's log
  return std::move(run.images);
}

void run_eval(EvalArguments arguments) {
  check(arguments);
  if (const std::string why = why_no_gpu(); arguments.device == "cuda" && arguments.run.empty() && !why.empty())
    throw UsageError(fmt::format("--device cuda cannot be: {}", why));
  arguments.retrieval.gpu = arguments.device != "cpu";
  arguments.retrieval.recall_at = parse_ranks(arguments.recall_at);
  const auto begin = Clock::now();
  ProgressDisplay display(arguments.quiet || arguments.json);
  const std::size_t least = arguments.gallery.empty() ? 2 : 1;
  const Labelled read =
      arguments.run.empty() ? read_files(arguments.embeddings, arguments.labels, least) : embed_run(arguments, display.callback());
  const std::optional<Labelled> gallery = read_gallery(arguments, read);
  if (!arguments.run.empty()) arguments.embeddings = arguments.labels = arguments.run;  // what messages name
  const Rows& rows = read.embeddings.rows();
  const double read_seconds = seconds_since(begin);
  stop_if_interrupted();

  const Evaluation result = evaluate(arguments, read, gallery, display.callback());
  display.finish();
  stop_if_interrupted();

  if (!arguments.clusters.empty()) write_npy(arguments.clusters, std::span(result.clustering.assignments), {rows.size()});
  if (!result.note.empty()) warn("note: " + result.note);
  const std::string weights = arguments.run.empty() ? "" : RunDirectory::open(arguments.run).weights_in_words();
  if (arguments.json) {
    nlohmann::ordered_json json = to_json(result, arguments);
    json["read_seconds"] = read_seconds;
    if (!weights.empty()) json["weights"] = weights;
    print(json.dump() + "\n");
  } else if (!arguments.quiet) {
    print(to_table(result, arguments));
    if (!weights.empty()) print(fmt::format("weights: {}\n", weights));
  }
}

}  // namespace

void add_eval(CLI::App& program, Work& work) {
  constexpr unsigned kMostThreads = 1024;
  constexpr std::size_t kMostRestarts = 1000;
  auto arguments = std::make_shared<EvalArguments>();
  CLI::App& command = *program.add_subcommand("eval", "How well embeddings tell classes apart: recall@k, NMI, MAP@R, R-precision");
  command.add_option("--embeddings", arguments->embeddings, "Vectors, one per row: .npy (float16/32/64, C order), .fvecs or .fbin")
      ->type_name("FILE");
  command.add_option("--labels", arguments->labels, "The class of each row: .npy of whole numbers, any values")->type_name("FILE");
  if (torch_part() != nullptr) {
    command.add_option("--run", arguments->run, "Instead of both: the directory of a run, whose test images are embedded and measured")
        ->type_name("RUN_DIR");
  }
  command.add_option("--device", arguments->device, "auto, cpu or cuda: where a run's images are embedded and neighbours are found")
      ->check(one_of({"auto", "cpu", "cuda"}))
      ->type_name("NAME")
      ->capture_default_str();
  command.add_option("--gallery", arguments->gallery, "Search these instead of the other rows; every row of --embeddings is a query")
      ->type_name("FILE");
  command.add_option("--gallery-labels", arguments->gallery_labels, "The class of each row of --gallery")->type_name("FILE");
  command.add_option("--recall-at", arguments->recall_at, "The k of each recall@k, ascending")->type_name("K,...")->capture_default_str();
  command.add_flag("--no-nmi", arguments->no_nmi, "Leave out NMI, which needs a clustering");
  command.add_flag("--no-map", arguments->no_map, "Leave out MAP@R and R-precision, which need lists as long as a class");
  command.add_option("--restarts", arguments->clustering.restarts, "Runs of k-means, of which the best is taken; 1 to 1000")
      ->check(whole_number(1, kMostRestarts))
      ->type_name("R")
      ->capture_default_str();
  command.add_option("--clusters", arguments->clusters, "Writes the cluster of each row, .npy of int64")->type_name("FILE");
  command.add_option("--seed", arguments->clustering.seed, "Same seed, same result, at any number of threads")
      ->check(whole_number(0, std::numeric_limits<std::uint64_t>::max()))
      ->type_name("S")
      ->capture_default_str();
  command.add_option("--threads", arguments->threads, "Threads to use; 0: all cores")
      ->check(whole_number(0, kMostThreads))
      ->type_name("T")
      ->capture_default_str();
  command.add_flag("--json", arguments->json, "Print all of it as one JSON object, shares as fractions of 1, and nothing else");
  command.add_flag("--quiet", arguments->quiet, "Print warnings and errors only");
  command.footer(
      "Examples:\n"
      "  smartmine eval --embeddings x.npy --labels y.npy\n"
      "      every row is a query among all others; NMI of k-means with as many clusters as there are classes\n"
      "  smartmine eval --embeddings x.npy --labels y.npy --no-nmi --no-map --json\n"
      "      recall@1, 2, 4 and 8 only, which is fastest\n"
      "  smartmine eval --embeddings queries.npy --labels q.npy --gallery shop.npy --gallery-labels s.npy --recall-at 1,10,20\n"
      "      queries and gallery apart; NMI is that of the queries");
  command.callback([arguments, &command, &work] {
    arguments->restarts_given = command.count("--restarts") > 0;
    arguments->seed_given = command.count("--seed") > 0;
    work = [arguments] { run_eval(*arguments); };
  });
}

}  // namespace smartmine::app
