// The neighbours of every row, by smartmine and by what one would take instead, in one run and one table. See README.md.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "goals.h"
#include "made_epochs.h"
#include "methods.h"
#include "smartmine/core/error.h"
#include "smartmine/core/parallel.h"
#include "smartmine/core/vector_files.h"

namespace smartmine::bench {
namespace {

constexpr std::size_t kManyRows = 300000;  // above, methods that would take long must be asked for by name

struct Method {
  std::string name;
  std::string title;
  std::function<Measurement(const Task&)> measure;
  bool for_many_rows = true;
};

/// A peer of the Python package index, measured by the interpreter that --python names.
Method python_method(const std::string& peer, const std::string& title, const std::string& python, bool for_many_rows) {
  return {"python-" + peer, title + " of Python",
          [=](const Task& task) {
            if (python.empty()) throw InvalidArgument("needs --python, an interpreter that has it");
            return measure_python(task, python, peer);
          },
          for_many_rows};
}

/// In the order of the table; only those that this program was built with.
std::vector<Method> all_methods(const std::string& python = {}) {
  return {
      {"exact", "smartmine exact", measure_exact, false},
      {"partition", "smartmine fanng, partition", measure_partition, true},
      {"previous", "smartmine fanng, previous", measure_previous, true},
      {"random", "smartmine fanng, random", measure_random, true},
      {"gpu", "smartmine exact, GPU", measure_gpu, true},
#ifdef SMARTMINE_BENCH_HNSWLIB
      {"hnswlib", "hnswlib", measure_hnswlib, true},
#endif
#ifdef SMARTMINE_BENCH_FAISS
      {"faiss-hnsw", "faiss HNSW", measure_faiss_hnsw, false},
      {"faiss-nndescent", "faiss NN-descent", measure_faiss_nndescent, false},
      {"faiss-exact", "faiss exact", measure_faiss_exact, false},
#endif
      python_method("hnswlib", "hnswlib", python, true),
      python_method("usearch", "usearch", python, false),
      python_method("faiss-hnsw", "faiss HNSW", python, false),
      python_method("faiss-exact", "faiss exact", python, false),
      python_method("pynndescent", "pynndescent", python, false),
      python_method("torch-cuda", "torch on a GPU", python, true),
  };
}

struct Arguments {
  std::vector<std::size_t> sizes = {100000};
  std::size_t dimension = 64;
  std::size_t neighbors = 100;
  std::size_t epochs = 3;
  std::size_t random_rows = 6000;
  std::size_t repeat = 1;
  std::uint64_t seed = 7;
  unsigned threads = 0;
  double recall = 0.98;
  std::vector<std::string> methods;  // empty: what fits the size
  std::string python;
  std::vector<std::string> embeddings;
  std::string labels;
  bool json = false;
};

/// Rows of several epochs and their labels, made or read, and the memory they lie in.
struct Epochs {
  std::vector<Rows> rows;
  std::vector<std::int64_t> read_labels;
  std::optional<MadeEpochs> made;
  std::vector<Embeddings> read;

  std::span<const std::int64_t> labels() const { return made ? made->labels.span() : std::span<const std::int64_t>(read_labels); }
};

Epochs make_epochs(const Arguments& arguments, std::size_t rows, std::size_t epochs) {
  Epochs result;
  result.made.emplace(MadeEpochsOptions{
      .rows = rows, .dimension = arguments.dimension, .epochs = epochs, .seed = arguments.seed, .threads = arguments.threads});
  for (const auto& values : result.made->values) result.rows.emplace_back(values.data(), rows, arguments.dimension);
  return result;
}

Epochs read_epochs(const Arguments& arguments) {
  Epochs result;
  for (const std::string& path : arguments.embeddings) {
    result.read.push_back(read_embeddings(path));
    const Rows& rows = result.read.back().rows();
    result.rows.push_back(rows);
    if (rows.size() != result.rows.front().size() || rows.dimension() != result.rows.front().dimension())
      throw IoError(path + ": of another shape than the first; epochs are of the same points");
  }
  if (!arguments.labels.empty()) {
    result.read_labels = read_labels(arguments.labels);
    if (result.read_labels.size() != result.rows.front().size())
      throw IoError(arguments.labels + ": as many labels are needed as there are embeddings");
  }
  return result;
}

/// The first rows of each, for a method that is too slow for all.
std::vector<Rows> beginning_of(const std::vector<Rows>& epochs, std::size_t rows) {
  const Rows& last = epochs.back();
  return {Rows(last.data(), std::min(rows, last.size()), last.dimension())};
}

bool is_wanted(const Arguments& arguments, const Method& method, std::size_t rows) {
  if (arguments.methods.empty()) {
    // Whether there is a GPU is not asked here: CUDA, once it has started, does not survive into the processes that measure.
    if (method.name == "gpu" || method.name == "python-torch-cuda") return false;
    if (method.name.starts_with("python-") && arguments.python.empty()) return false;
    return rows <= kManyRows || method.for_many_rows;
  }
  return std::find(arguments.methods.begin(), arguments.methods.end(), method.name) != arguments.methods.end();
}

void say(const Arguments& arguments, const std::string& what) {
  if (!arguments.json) fmt::print(stderr, "bench_neighbors: {}\n", what);
}

/// Measures `methods` on `epochs`, the best of as many repetitions as asked for.
SetResult measure(const Arguments& arguments, const std::vector<Rows>& epochs, std::span<const std::int64_t> labels,
                  const std::vector<Method>& methods) {
  const Rows& rows = epochs.back();
  if (arguments.neighbors + 1 >= rows.size())
    throw InvalidArgument(
        fmt::format("--neighbors is {}; with {} rows it must be under {}", arguments.neighbors, rows.size(), rows.size() - 1));
  SetResult result{
      .rows = rows.size(), .dimension = rows.dimension(), .neighbors = arguments.neighbors, .epochs = epochs.size(), .measurements = {}};
  const Truth truth(rows, arguments.neighbors, arguments.threads);
  const Task task{.epochs = epochs,
                  .labels = labels,
                  .neighbors = arguments.neighbors,
                  .threads = resolve_threads(arguments.threads),
                  .recall_target = arguments.recall,
                  .truth = &truth};
  for (const Method& method : methods) {
    say(arguments, fmt::format("{} rows, {}", rows.size(), method.title));
    std::optional<Measurement> best;
    for (std::size_t i = 0; i < arguments.repeat; ++i) {
      Measurement measured = measure_in_child(method.name, [&] { return method.measure(task); });
      const bool failed = measured.failed();
      if (!best || failed || measured.seconds < best->seconds) best = std::move(measured);
      if (failed) break;
    }
    result.measurements.push_back(std::move(*best));
  }
  return result;
}

std::string times(const SetResult& result, const std::string& peer, const Measurement& measured) {
  const Measurement* other = result.quickest(peer);
  return other == nullptr || measured.seconds <= 0 ? "-" : fmt::format("{:.2f}", other->seconds / measured.seconds);
}

void print_set(const SetResult& result, const std::vector<Method>& methods) {
  constexpr double kMebibyte = 1024.0 * 1024.0;
  fmt::print("\n{} x {}, k = {}, {} epoch{}; embeddings and lists take {:.0f} MiB\n\n", result.rows, result.dimension, result.neighbors,
             result.epochs, result.epochs == 1 ? "" : "s", result.data_bytes() / kMebibyte);
  fmt::print("{:<28} {:>9} {:>9} {:>8} {:>11} {:>14} {:>9} {:>8}  {}\n", "method", "seconds", "processor", "recall", "by hnswlib",
             "by faiss exact", "peak MiB", "by data", "settings");
  for (const Measurement& measured : result.measurements) {
    const auto method = std::find_if(methods.begin(), methods.end(), [&](const Method& each) { return each.name == measured.method; });
    if (measured.failed()) {
      fmt::print("{:<28} failed: {}\n", method->title, measured.failure);
      continue;
    }
    const auto peak = static_cast<double>(measured.peak_memory_bytes);
    fmt::print("{:<28} {:>9.2f} {:>9.2f} {:>8.4f} {:>11} {:>14} {:>9.0f} {:>8.2f}  {}\n", method->title, measured.seconds,
               measured.processor_seconds, measured.recall, times(result, "hnswlib", measured), times(result, "faiss-exact", measured),
               peak / kMebibyte, peak / result.data_bytes(), measured.settings);
  }
}

void print_goals(const std::vector<Goal>& goals) {
  fmt::print("\n{:<68} {:>15} {:>9}  {}\n", "must hold", "goal", "reached", "holds");
  for (const Goal& goal : goals)
    fmt::print("{:<68} {:>15} {:>9}  {}\n", goal.what, fmt::format("{} {:g}", goal.at_least ? "at least" : "at most", goal.bound),
               goal.reached ? fmt::format("{:.4g}", *goal.reached) : "-",
               !goal.reached  ? "not measured"
               : goal.holds() ? "yes"
                              : "no");
}

nlohmann::ordered_json to_json(const SetResult& result) {
  nlohmann::ordered_json json = {
      {"rows", result.rows},     {"dimension", result.dimension},     {"neighbors", result.neighbors},
      {"epochs", result.epochs}, {"data_bytes", result.data_bytes()}, {"methods", nlohmann::ordered_json::array()}};
  for (const Measurement& measured : result.measurements) json["methods"].push_back(bench::to_json(measured));
  return json;
}

void run(const Arguments& arguments) {
  const std::vector<Method> methods = all_methods(arguments.python);
  const auto chosen = [&](std::size_t rows, bool random) {
    std::vector<Method> some;
    for (const Method& method : methods)
      if ((method.name == "random") == random && is_wanted(arguments, method, rows)) some.push_back(method);
    return some;
  };
  std::vector<SetResult> results;
  std::optional<SetResult> random;
  // The paper's build is measured once, on a small set.
  const auto measure_random_on = [&](const std::vector<Rows>& epochs) {
    if (!chosen(0, true).empty()) random = measure(arguments, epochs, {}, chosen(0, true));
  };
  if (!arguments.embeddings.empty()) {
    const Epochs epochs = read_epochs(arguments);
    results.push_back(measure(arguments, epochs.rows, epochs.labels(), chosen(epochs.rows.back().size(), false)));
    measure_random_on(beginning_of(epochs.rows, arguments.random_rows));
  } else {
    for (const std::size_t size : arguments.sizes) {
      say(arguments, fmt::format("making {} rows", size));
      const Epochs epochs = make_epochs(arguments, size, arguments.epochs);
      results.push_back(measure(arguments, epochs.rows, epochs.labels(), chosen(size, false)));
    }
    const Epochs small = make_epochs(arguments, arguments.random_rows, 1);
    measure_random_on(small.rows);
  }

  const std::vector<Goal> goals = goals_for(results, random ? &*random : nullptr);
  const unsigned threads = resolve_threads(arguments.threads);
  if (arguments.json) {
    nlohmann::ordered_json json = {{"threads", threads}, {"recall_target", arguments.recall}, {"sets", nlohmann::ordered_json::array()}};
    for (const SetResult& result : results) json["sets"].push_back(to_json(result));
    if (random) json["sets"].push_back(to_json(*random));
    for (const Goal& goal : goals) json["must_hold"].push_back(bench::to_json(goal));
    fmt::print("{}\n", json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
    return;
  }
  fmt::print(
      "{} threads; 'by' a peer: how many times faster than the quickest version of it; recall on up to 1,000 rows against exact search\n",
      threads);
  for (const SetResult& result : results) print_set(result, methods);
  if (random) print_set(*random, methods);
  print_goals(goals);
  fmt::print("\nThe goals are meant for 64 dimensions, 100 neighbours and two threads of an otherwise idle machine.\n");
}

void add_options(CLI::App& program, Arguments& arguments) {
  std::vector<std::string> names;
  for (const Method& method : all_methods()) names.push_back(method.name);
  program.add_option("--sizes", arguments.sizes, "Numbers of rows to make, as in 100000,1000000")
      ->delimiter(',')
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  program.add_option("--dimension", arguments.dimension, "Of the rows made")->check(CLI::Range(1, 65535))->capture_default_str();
  program.add_option("--neighbors", arguments.neighbors, "Length of the lists")->check(CLI::PositiveNumber)->capture_default_str();
  program.add_option("--epochs", arguments.epochs, "Epochs to make; the last is measured, the previous start needs 2")
      ->check(CLI::Range(1, 100))
      ->capture_default_str();
  program.add_option("--methods", arguments.methods, fmt::format("Some of {}; all that a size allows unless given", fmt::join(names, ",")))
      ->delimiter(',')
      ->check(CLI::IsMember(names));
  program.add_option("--python", arguments.python, "An interpreter that has numpy and peers of the Python package index")
      ->type_name("PROGRAM");
  program.add_option("--threads", arguments.threads, "Of every method; 0: all cores")->check(CLI::Range(0, 1024))->capture_default_str();
  program.add_option("--recall", arguments.recall, "What the methods must reach")->check(CLI::Range(0.01, 1.0))->capture_default_str();
  program.add_option("--random-rows", arguments.random_rows, "Rows for the paper's own build")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  program.add_option("--repeat", arguments.repeat, "Measure so often and tell the quickest")
      ->check(CLI::Range(1, 100))
      ->capture_default_str();
  program.add_option("--seed", arguments.seed, "Of the rows made")->capture_default_str();
  auto* embeddings = program.add_option("--embeddings", arguments.embeddings, "Files to measure on instead, one an epoch, earliest first")
                         ->excludes("--sizes");
  program.add_option("--labels", arguments.labels, "Of these, for selecting triplets")->needs(embeddings);
  program.add_flag("--json", arguments.json, "Print one JSON object instead of tables");
}

}  // namespace
}  // namespace smartmine::bench

int main(int argc, char** argv) {
  smartmine::bench::Arguments arguments;
  CLI::App program{"The neighbours of every row, by smartmine and by what one would take instead, in one run."};
  program.name("bench_neighbors");
  smartmine::bench::add_options(program, arguments);
  try {
    program.parse(argc, argv);
  } catch (const CLI::Success& asked) {
    return program.exit(asked);
  } catch (const CLI::ParseError& error) {
    fmt::print(stderr, "bench_neighbors: {}; see bench_neighbors --help\n", error.what());
    return 2;
  }
  try {
    smartmine::bench::run(arguments);
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench_neighbors: {}\n", error.what());
    return 1;
  }
  return 0;
}
