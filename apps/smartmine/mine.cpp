#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "about.h"
#include "commands.h"
#include "console.h"
#include "interrupt.h"
#include "mine_batches.h"
#include "mining_report.h"
#include "neighbor_command.h"
#include "option_checks.h"
#include "outputs.h"
#include "smartmine/core/npy.h"
#include "smartmine/core/output_file.h"
#include "smartmine/core/parallel.h"
#include "smartmine/core/vector_files.h"
#include "smartmine/graph/neighbor_index.h"
#include "smartmine/mining/kappa_controller.h"
#include "smartmine/mining/smart_miner.h"

namespace smartmine::app {
namespace {

using Clock = std::chrono::steady_clock;
constexpr const char* kFindKappa = "auto";

struct MineArguments {
  std::string embeddings;
  std::string labels;
  std::string ids;
  std::string distances;
  std::string output;
  NeighborArguments neighbors;
  SmartMinerOptions miner;
  BatchArguments batches;
  std::string kappa = "4";  // or auto
  bool keep_duplicates = false;
  bool longer_lists = false;
  bool json = false;
  bool quiet = false;

  bool neighbors_given = false;            // --neighbors, by the person rather than by default
  std::vector<std::string> for_the_index;  // options given that only matter when lists are computed

  bool lists_given() const { return !ids.empty(); }
};

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

// Everything that can be known to be wrong before the work starts.
void check(const MineArguments& arguments) {
  if (arguments.output.empty() || arguments.output.back() == '/')
    throw UsageError(fmt::format("--output is '{}'; it must be the name of a file, such as {}", arguments.output,
                                 arguments.batches.asked ? "batches.npy" : "triplets.npy"));
  if (arguments.ids.empty() != arguments.distances.empty())
    throw UsageError(fmt::format("{} is missing; --ids and --distances go together", arguments.ids.empty() ? "--ids" : "--distances"));
  if (arguments.embeddings.empty() && !arguments.lists_given())
    throw UsageError("--embeddings is missing, or --ids and --distances of lists computed elsewhere");
  if (arguments.lists_given() && !arguments.for_the_index.empty())
    throw UsageError(
        fmt::format("{} is for computing lists, and --ids names lists that are there already", arguments.for_the_index.front()));
  arguments.batches.check();
  if (arguments.longer_lists && arguments.embeddings.empty()) throw UsageError("--longer-lists needs --embeddings to compute them from");
  if (!arguments.longer_lists && arguments.miner.longest_list != 0)
    throw UsageError("--longest-list is for --longer-lists, which was not given");
  arguments.neighbors.check();
  std::vector<std::string> inputs;
  for (const std::string& input : {arguments.embeddings, arguments.labels, arguments.ids, arguments.distances})
    if (!input.empty()) inputs.push_back(input);
  std::vector<std::string> outputs = {arguments.output};
  if (!arguments.neighbors.graph.empty()) outputs.push_back(arguments.neighbors.graph);
  check_outputs(inputs, outputs);
}

LabelIndex index_labels(const std::vector<std::int64_t>& values, const MineArguments& arguments, double& index_seconds) {
  return about(arguments.labels, [&] {
    const auto begin = Clock::now();
    LabelIndex labels(values);
    index_seconds = seconds_since(begin);
    // These throw: better now than after the lists.
    if (arguments.batches.asked) require_classes_for_batches(labels);
    if (labels.single_member_classes() == labels.classes()) labels.anchors();
    return labels;
  });
}

void require_labels_for(std::size_t rows, const std::string& source, const std::vector<std::int64_t>& labels, const std::string& path) {
  if (labels.size() != rows)
    throw IoError(fmt::format("{}: {} labels, but {} has {} rows; each row needs exactly one", path, labels.size(), source, rows));
}

// The lists of --ids and --distances, checked in full.
NeighborLists read_lists(const MineArguments& arguments) {
  const NeighborIds ids = read_ids(arguments.ids);
  const Embeddings distances = read_embeddings(arguments.distances, "distances");
  const Rows& squared = distances.rows();
  if (squared.size() != ids.rows || squared.dimension() != ids.columns)
    throw IoError(fmt::format("{}: {} rows of {} distances, but {} has {} rows of {} ids; they must be of the same shape",
                              arguments.distances, squared.size(), squared.dimension(), arguments.ids, ids.rows, ids.columns));
  const std::size_t wanted = arguments.neighbors_given ? arguments.neighbors.options.neighbors : ids.columns;
  if (wanted > ids.columns)
    throw UsageError(fmt::format("--neighbors is {}; the lists of {} are of {}", wanted, arguments.ids, ids.columns));
  NeighborLists lists(ids.rows, wanted);
  for (std::size_t i = 0; i < ids.rows; ++i) {
    std::copy_n(ids.ids.data() + i * ids.columns, wanted, lists.ids(i).begin());
    std::copy_n(squared[i], wanted, lists.distances(i).begin());
  }
  about(fmt::format("{} and {}", arguments.ids, arguments.distances), [&] { lists.validate(); });
  return lists;
}

// Distances that are not squared, or of an earlier epoch, are easily passed in. Looks at both ends of up to 1,000 lists
// with a tolerance that float16 and distances computed from products keep to; empty if all is well.
std::string disagreement(const MineArguments& arguments, const NeighborLists& lists, const Rows& rows) {
  constexpr std::size_t kLooks = 1000;
  const std::size_t looks = std::min(kLooks, lists.size());
  for (std::size_t look = 0; look < looks; ++look) {
    const std::size_t point = look * lists.size() / looks;
    const float zero_scale = 1e-3F * std::inner_product(rows[point], rows[point] + rows.dimension(), rows[point], 0.0F);
    for (const std::size_t place : {std::size_t{0}, lists.neighbors() - 1}) {
      const float said = lists.distances(point)[place];
      const float found = squared_distance(rows[point], rows[lists.ids(point)[place]], rows.dimension());
      if (std::abs(said - found) > 0.01F * found + zero_scale)
        return fmt::format(
            "{} does not fit {}: point {}, place {} is said to be {:.4g} away, the embeddings say {:.4g}; squared "
            "Euclidean distances of these embeddings are wanted",
            arguments.distances, arguments.embeddings, point, place, said, found);
    }
  }
  return {};
}

// The output, and the graph if it is wanted; both or neither.
template <class Write>
double write_files(const MineArguments& arguments, const NeighborRun& neighbors, const Write& write_output) {
  const auto begin = Clock::now();
  OutputFile file(arguments.output);
  write_output(file);
  file.finish();
  stop_if_interrupted();
  if (!arguments.neighbors.graph.empty()) neighbors.index.save(arguments.neighbors.graph);
  file.commit();
  return seconds_since(begin);
}

void write_triplets(OutputFile& file, const std::vector<Triplet>& triplets) {
  std::vector<std::int64_t> values;
  values.reserve(3 * triplets.size());
  for (const Triplet& triplet : triplets) values.insert(values.end(), {triplet.anchor, triplet.positive, triplet.negative});
  write_npy(file, std::span<const std::int64_t>(values), {triplets.size(), 3});
}

// What was read, all of it checked except the values of embeddings whose lists are still to be computed.
struct Inputs {
  LabelIndex labels;
  std::optional<Embeddings> embeddings;
  std::optional<NeighborLists> lists;
  double index_seconds = 0;  // the labels'
  double read_seconds = 0;

  const Rows* rows() const { return embeddings ? &embeddings->rows() : nullptr; }
};

Inputs read_inputs(const MineArguments& arguments) {
  const auto begin = Clock::now();
  const std::vector<std::int64_t> values = read_labels(arguments.labels);
  std::optional<Embeddings> embeddings;
  std::optional<NeighborLists> lists;
  // Labels of another set are often of one class too, and that they are of another set says more.
  if (!arguments.embeddings.empty()) {
    embeddings = read_embeddings(arguments.embeddings);
    require_labels_for(embeddings->rows().size(), arguments.embeddings, values, arguments.labels);
  }
  if (arguments.lists_given()) {
    lists = read_lists(arguments);
    require_labels_for(lists->size(), arguments.ids, values, arguments.labels);
  }
  double index_seconds = 0;
  Inputs inputs{.labels = index_labels(values, arguments, index_seconds), .embeddings = std::move(embeddings), .lists = std::move(lists)};
  inputs.index_seconds = index_seconds;
  inputs.read_seconds = seconds_since(begin) - index_seconds;
  return inputs;
}

// Lists that were read, dressed as a run. `misfit` becomes what is wrong between them and the embeddings.
NeighborRun given_neighbors(const MineArguments& arguments, Inputs& inputs, std::string& misfit) {
  NeighborRun run;
  run.lists = std::move(inputs.lists).value();
  run.start = "none";
  run.threads = resolve_threads(arguments.neighbors.options.threads);
  run.stats.index = kGivenLists;
  run.stats.kernel = "none";
  if (const Rows* rows = inputs.rows()) {
    run.dimension = rows->dimension();
    run.stats.unit_norm = about(arguments.embeddings, [&] { return check_rows(*rows, run.threads); }).unit_norm;
    misfit = disagreement(arguments, run.lists, *rows);
  }
  return run;
}

// For batches that are drawn: of lists nobody looks at.
NeighborRun no_neighbors(const MineArguments& arguments, const Rows& rows) {
  NeighborRun run;
  run.lists = NeighborLists(rows.size(), 0);
  run.dimension = rows.dimension();
  run.start = "none";
  run.threads = resolve_threads(arguments.neighbors.options.threads);
  run.stats.index = "none";
  run.stats.kernel = "none";
  run.stats.unit_norm = about(arguments.embeddings, [&] { return check_rows(rows, run.threads); }).unit_norm;
  return run;
}

SmartMinerOptions miner_options(const MineArguments& arguments, std::size_t list_length) {
  constexpr std::size_t kLongestByDefault = 16;
  SmartMinerOptions options = arguments.miner;
  if (arguments.kappa != kFindKappa) CLI::detail::lexical_cast(arguments.kappa, options.kappa);  // checked when it was read
  options.seed = arguments.neighbors.options.seed;
  options.threads = arguments.neighbors.options.threads;
  options.skip_duplicates = !arguments.keep_duplicates;
  if (options.longest_list == 0) options.longest_list = kLongestByDefault * list_length;
  if (options.longest_list <= list_length)
    throw UsageError(fmt::format("--longest-list is {}; it must be more than the {} of the lists", options.longest_list, list_length));
  return options;
}

// If hardly anything was mined: which kappa would mine, and how much. Empty: enough was, or none would.
template <class Search>
std::string hint_for_kappa(const MiningRun& run, const SmartMinerOptions& options, const Search& search) {
  const MiningStats& stats = run.mined.stats;
  const std::size_t mined = stats.mined + stats.mined_outside_positive + stats.mined_nearer_positive;
  const double wanted = options.mined_fraction * static_cast<double>(stats.triplets);
  if (wanted <= 0 || static_cast<double>(mined) > kHardlyMined * wanted) return {};
  const FoundKappa found = search();
  if (found.mined_share * static_cast<double>(stats.triplets) <= static_cast<double>(mined) || found.kappa == options.kappa)
    return fmt::format("only {} of {} triplets were mined, and no kappa from 1/256 to 4 mines more from these lists", mined,
                       stats.triplets);
  return fmt::format("only {} of {} triplets were mined; --kappa {:.3g} would mine {:.0f} % of them, and --kappa auto finds it", mined,
                     stats.triplets, found.kappa, 100.0 * found.mined_share);
}

// The note may name files, and their names may be any bytes.
void print_json(const nlohmann::ordered_json& json) {
  print(json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
}

void run_batches(const MineArguments& arguments, Inputs& inputs) {
  ProgressDisplay display(arguments.quiet || arguments.json);
  std::string misfit;
  MiningRun lists;
  const bool drawn = arguments.batches.options.near_share == 0 && arguments.neighbors.graph.empty();
  lists.neighbors = inputs.lists ? given_neighbors(arguments, inputs, misfit)
                    : drawn      ? no_neighbors(arguments, *inputs.rows())
                                 : find_neighbors(arguments.neighbors, *inputs.rows(), arguments.embeddings, display.callback());
  BatchBuilderOptions options = arguments.batches.options;
  options.duplicate_distance = arguments.miner.duplicate_distance;
  options.seed = arguments.neighbors.options.seed;
  options.threads = arguments.neighbors.options.threads;
  BatchRun run;
  run.classes = inputs.labels.classes();
  run.made = build_batches(lists.neighbors.lists, inputs.labels, options, inputs.rows());
  run.selection_seconds = inputs.index_seconds + run.made.stats.seconds;
  run.survey = survey_batches(run.made, inputs.labels, inputs.rows());
  for (const ClassPair& pair : run.survey.pairs)
    run.together.push_back({inputs.labels.label(pair.first), inputs.labels.label(pair.second), pair.batches});
  stop_if_interrupted();
  lists.neighbors.stats.peak_memory_bytes = peak_memory_bytes();
  display.finish();
  const double write_seconds = write_files(arguments, lists.neighbors, [&](OutputFile& file) { write(file, run.made); });

  std::vector<std::string> sentences = warnings(lists.neighbors);
  if (!misfit.empty()) sentences.push_back("warning: " + misfit);
  if (!run.made.stats.note.empty()) sentences.push_back("warning: " + run.made.stats.note);
  for (const std::string& sentence : sentences) warn(sentence);
  if (arguments.json) {
    nlohmann::ordered_json json = lists_json(lists);
    add_to(json, run);
    if (!run.made.stats.note.empty()) json["note"] = run.made.stats.note;
    if (!misfit.empty()) json["note"] = misfit;
    json["read_seconds"] = inputs.read_seconds + lists.neighbors.read_graph_seconds;
    json["write_seconds"] = write_seconds;
    print_json(json);
  } else if (!arguments.quiet) {
    print(lists_table(lists) + "\n" + to_table(run) + fmt::format("  {:<22} {}\n", "written", arguments.output));
  }
}

void run_mine(const MineArguments& arguments) {
  check(arguments);
  Inputs inputs = read_inputs(arguments);
  if (arguments.batches.asked) return run_batches(arguments, inputs);
  SmartMinerOptions options = miner_options(arguments, inputs.lists ? inputs.lists->neighbors() : arguments.neighbors.options.neighbors);
  stop_if_interrupted();

  ProgressDisplay display(arguments.quiet || arguments.json);
  const Progress progress = display.callback();
  MiningRun run;
  run.classes = inputs.labels.classes();
  run.kappa = options.kappa;
  std::string misfit;
  run.neighbors = inputs.lists ? given_neighbors(arguments, inputs, misfit)
                               : find_neighbors(arguments.neighbors, *inputs.rows(), arguments.embeddings, progress);
  if (arguments.longer_lists)
    options.longer_lists = [&](std::span<const std::uint32_t> anchors, std::size_t neighbors) {
      const auto begin = Clock::now();
      NeighborResult found = lists_of_some(*inputs.rows(), anchors, neighbors, options.threads, progress);
      run.neighbors.stats.distance_computations += found.stats.distance_computations;
      run.longer_lists_seconds += seconds_since(begin);
      return std::move(found.lists);
    };
  const auto search = [&] {
    const auto begin = Clock::now();
    const FoundKappa found = find_kappa(run.neighbors.lists, inputs.labels, options, progress);
    run.kappa_search_seconds += seconds_since(begin);
    return found;
  };
  if (arguments.kappa == kFindKappa) options.kappa = run.kappa = search().kappa;
  run.mined = SmartMiner(options).select(run.neighbors.lists, inputs.labels, inputs.rows(), progress);
  run.selection_seconds = inputs.index_seconds + run.mined.stats.seconds - run.longer_lists_seconds;
  if (arguments.kappa != kFindKappa) run.hint = hint_for_kappa(run, options, search);
  run.neighbors.stats.peak_memory_bytes = peak_memory_bytes();
  display.finish();

  const double write_seconds = write_files(arguments, run.neighbors, [&](OutputFile& file) { write_triplets(file, run.mined.triplets); });

  std::vector<std::string> sentences = warnings(run.neighbors);
  if (!misfit.empty()) sentences.push_back("warning: " + misfit);
  if (!run.mined.stats.note.empty()) sentences.push_back("note: " + run.mined.stats.note);
  if (!run.hint.empty()) sentences.push_back("note: " + run.hint);
  for (const std::string& sentence : sentences) warn(sentence);
  for (const std::string& note : {run.neighbors.stats.note, misfit, run.mined.stats.note, run.hint})
    if (!note.empty()) run.note += (run.note.empty() ? "" : "; ") + note;
  if (arguments.json) {
    nlohmann::ordered_json json = to_json(run);
    json["read_seconds"] = inputs.read_seconds + run.neighbors.read_graph_seconds;
    json["write_seconds"] = write_seconds;
    print_json(json);
  } else if (!arguments.quiet) {
    print(to_table(run) + fmt::format("  {:<22} {}\n", "written", arguments.output));
  }
}

void add_miner_options(CLI::App& command, MineArguments& arguments) {
  constexpr std::size_t kMostTripletsPerAnchor = 65536;
  SmartMinerOptions& miner = arguments.miner;
  command
      .add_option("--kappa", arguments.kappa,
                  "A negative must be this many times as far (squared) as the nearest positive; auto: the largest that mines")
      ->check(positive_number_or(kFindKappa))
      ->type_name("X")
      ->capture_default_str();
  command.add_option("--triplets-per-anchor", miner.triplets_per_anchor, "Triplets of each anchor; 1 to 65536")
      ->check(whole_number(1, kMostTripletsPerAnchor))
      ->type_name("T")
      ->capture_default_str();
  command.add_option("--mined-fraction", miner.mined_fraction, "Share of triplets to mine, 0 to 1; the others are random")
      ->check(share())
      ->type_name("X")
      ->capture_default_str();
  command.add_option("--margin", miner.margin, "Margin of the triplet loss, to count the triplets that violate it")
      ->check(positive_number())
      ->type_name("M")
      ->capture_default_str();
  command.add_flag(
      "--nearer-positives", miner.nearer_positives,
      "Where the whole class is nearer than the negative, take its farthest if that violates the margin, not a random triplet");
  command.add_flag("--keep-duplicates", arguments.keep_duplicates, "Mine negatives at distance 0 too, the same image under two labels");
  command.add_option("--min-negative-rank", miner.min_negative_rank, "Mine no negative among the first R of a list")
      ->check(whole_number(0, kMaxRows))
      ->type_name("R")
      ->capture_default_str();
  command.add_option("--max-negative-uses", miner.max_negative_uses, "A point is a negative at most U times (hubs); 0: no limit")
      ->check(whole_number(0, kMaxRows))
      ->type_name("U")
      ->capture_default_str();
  command.add_option("--hub-limit", miner.hub_limit, "The same as a multiple of the mean, at least 1; 0: no limit")
      ->check(zero_or(1, 1e6))
      ->type_name("X")
      ->capture_default_str();
  command
      .add_option("--duplicate-distance", miner.duplicate_distance,
                  "Mine no negative nearer (squared) than this: a copy under another label; 0: none at distance 0")
      ->check(not_negative())
      ->type_name("D")
      ->capture_default_str();
  command.add_flag("--longer-lists", arguments.longer_lists,
                   "Search longer lists, exactly, for anchors whose list yields too few triplets");
  command.add_option("--longest-list", miner.longest_list, "Longest of these; 16 times the length of the others unless given")
      ->check(whole_number(1, kMaxRows))
      ->type_name("K");
}

}  // namespace

void add_mine(CLI::App& program, Work& work) {
  auto arguments = std::make_shared<MineArguments>();
  CLI::App& command = *program.add_subcommand("mine", "Hard triplets for every point, selected from its nearest neighbours");
  command.add_option("--embeddings", arguments->embeddings, "Vectors, one per row: .npy (float16/32/64, C order), .fvecs or .fbin")
      ->type_name("FILE");
  command.add_option("--labels", arguments->labels, "The class of each row: .npy of int32 or int64, any values")
      ->required()
      ->type_name("FILE");
  command.add_option("--output", arguments->output, "Writes rows of (anchor, positive, negative), or batches, .npy of int64")
      ->required()
      ->type_name("FILE");
  command
      .add_option("--ids", arguments->ids,
                  "Lists computed elsewhere: .npy of whole numbers or .ivecs, nearest first, without the row itself")
      ->type_name("FILE");
  command.add_option("--distances", arguments->distances, "Their squared distances: .npy, .fvecs or .fbin")->type_name("FILE");
  add_miner_options(command, *arguments);
  arguments->batches.add_to(command);
  read_given(arguments->batches, command);
  arguments->neighbors.add_to(command);
  command.add_flag("--json", arguments->json, "Print what was mined, and what it cost, as one JSON object, and nothing else");
  command.add_flag("--quiet", arguments->quiet, "Print warnings and errors only");
  command.footer(
      "Examples:\n"
      "  smartmine mine --embeddings x.npy --labels y.npy --output triplets.npy\n"
      "      a triplet for every row that is not alone in its class\n"
      "  smartmine mine --embeddings x.npy --labels y.npy --kappa 2 --mined-fraction 0.5 --seed 7 --output epoch7.npy\n"
      "      harder negatives; every second triplet random; give every epoch its own seed\n"
      "  smartmine mine --embeddings x.npy --labels y.npy --kappa auto --output triplets.npy\n"
      "      the kappa that suits these lists is looked for, and told\n"
      "  smartmine mine --ids lists.ids.npy --distances lists.distances.npy --labels y.npy --output triplets.npy\n"
      "      from lists that are there already, such as those of smartmine knn\n"
      "  smartmine mine --embeddings x.npy --labels y.npy --batches --classes 16 --images-per-class 8 --output batches.npy\n"
      "      batches of 128 rows, 8 of each of 16 classes that lie near each other");
  command.callback([arguments, &command, &work] {
    arguments->neighbors_given = command.count("--neighbors") > 0;
    for (const char* option :
         {"--index", "--start", "--graph", "--recall", "--success-rate", "--certify", "--edge-candidates", "--max-degree"})
      if (command.count(option) > 0) arguments->for_the_index.emplace_back(option);
    work = [arguments] { run_mine(*arguments); };
  });
}

}  // namespace smartmine::app
