#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>

#include "binding.h"
#include "smartmine/metrics/clustering.h"
#include "smartmine/metrics/retrieval.h"

namespace smartmine::python {
namespace {

void require_labels(const Rows& rows, const Labels& labels) {
  if (labels.shape(0) != rows.size())
    throw InvalidArgument("labels has " + std::to_string(labels.shape(0)) + " entries; there are " + std::to_string(rows.size()) +
                          " rows, and each needs exactly one");
}

nb::dict measure(const FloatMatrix& matrix, const Labels& labels, const std::optional<FloatMatrix>& gallery,
                 const std::optional<Labels>& gallery_labels, const std::vector<std::size_t>& recall_at, bool precision, unsigned threads,
                 nb::handle progress) {
  const Rows rows = rows_of(matrix);
  require_labels(rows, labels);
  std::optional<Rows> searched;
  if (gallery) searched = rows_of(*gallery);
  const RetrievalOptions options{.recall_at = recall_at, .precision = precision, .threads = threads};
  bool unit_norm = false;
  const RetrievalResult result = run_released(progress, [&](const Progress& report) {
    unit_norm = check_rows(rows, threads).unit_norm;
    if (!searched) return measure_retrieval(rows, span_of(labels), options, report);
    check_rows(*searched, threads);
    return measure_retrieval(rows, span_of(labels), *searched, span_of(gallery_labels.value()), options, report);
  });
  nb::dict told;
  told["recall"] = result.recall;
  told["map@r"] = result.map_at_r;
  told["r_precision"] = result.r_precision;
  told["unit_norm"] = unit_norm;
  told["classes"] = result.stats.classes;
  told["queries_without_positive"] = result.stats.queries_without_positive;
  told["longest_list"] = result.stats.longest_list;
  told["distance_computations"] = result.stats.distance_computations;
  told["seconds"] = result.stats.seconds;
  return told;
}

nb::dict cluster(const FloatMatrix& matrix, std::size_t clusters, std::size_t restarts, std::size_t max_iterations, double tolerance,
                 std::uint64_t seed, unsigned threads, nb::handle progress) {
  KMeansResult result = run_released(progress, [&](const Progress& report) {
    return k_means(rows_of(matrix),
                   {.clusters = clusters,
                    .restarts = restarts,
                    .max_iterations = max_iterations,
                    .tolerance = tolerance,
                    .seed = seed,
                    .threads = threads},
                   report);
  });
  nb::dict told;
  const std::size_t rows = result.assignments.size();
  told["assignments"] = to_numpy<1>(std::move(result.assignments), {rows});
  told["centres"] = to_numpy<2>(std::move(result.centres), {result.clusters, matrix.shape(1)});
  told["clusters"] = result.clusters;
  told["inertia"] = result.inertia;
  told["iterations"] = result.stats.iterations;
  told["converged"] = result.stats.converged;
  told["restarts"] = result.stats.restart_inertia.size();
  told["distance_computations"] = result.stats.distance_computations;
  told["seconds"] = result.stats.seconds;
  return told;
}

nb::tuple mutual_information(const Labels& first, const Labels& second) {
  const NormalizedMutualInformation nmi = normalized_mutual_information(span_of(first), span_of(second));
  return nb::make_tuple(nmi.arithmetic, nmi.geometric);
}

}  // namespace

void bind_metrics(nb::module_& module) {
  module.def("measure_retrieval", &measure, nb::arg("rows"), nb::arg("labels"), nb::arg("gallery").none(), nb::arg("gallery_labels").none(),
             nb::arg("recall_at"), nb::arg("precision"), nb::arg("threads"), nb::arg("progress").none());
  module.def("k_means", &cluster, nb::arg("rows"), nb::arg("clusters"), nb::arg("restarts"), nb::arg("max_iterations"),
             nb::arg("tolerance"), nb::arg("seed"), nb::arg("threads"), nb::arg("progress").none());
  module.def("normalized_mutual_information", &mutual_information, nb::arg("first"), nb::arg("second"));
}

}  // namespace smartmine::python
