#include <nanobind/stl/string.h>

#include <algorithm>
#include <string>

#include "binding.h"
#include "smartmine/core/parallel.h"
#include "smartmine/graph/fanng.h"
#include "smartmine/graph/neighbor_index.h"

namespace smartmine::python {
namespace {

constexpr std::size_t kSearchGrain = 16;  // queries

Start start_named(const std::string& name) {
  if (name == "partition") return Start::kPartition;
  if (name == "random") return Start::kRandom;
  if (name == "previous") return Start::kPrevious;
  throw InvalidArgument("start is '" + name + "'; it must be partition, random or previous");
}

IndexKind kind_named(const std::string& name) {
  if (name == "auto") return IndexKind::kAutomatic;
  if (name == "exact") return IndexKind::kExact;
  if (name == "fanng") return IndexKind::kFanng;
  throw InvalidArgument("index is '" + name + "'; it must be auto, exact or fanng");
}

void make_index(NeighborIndex* index, const std::string& kind, std::size_t neighbors, const std::string& start, double recall,
                double success_rate, bool certify, std::uint32_t edge_candidates, std::uint32_t max_degree, bool for_search, bool keep,
                std::uint64_t seed, unsigned threads) {
  new (index) NeighborIndex({.kind = kind_named(kind),
                             .neighbors = neighbors,
                             .recall_target = recall,
                             .success_target = success_rate,
                             .certify = certify,
                             .for_search = for_search,
                             .max_degree = max_degree,
                             .edge_candidates = edge_candidates,
                             .start = start_named(start),
                             .keep_graph = keep,
                             .seed = seed,
                             .threads = threads});
}

const char* start_used(const NeighborIndex& index, const NeighborStats& stats, bool had_graph) {
  if (stats.index != "fanng") return "none";
  const Start start = index.options().start;
  if (start == Start::kRandom) return "random";
  return start == Start::kPrevious && had_graph ? "previous" : "partition";
}

nb::tuple find_neighbors(NeighborIndex& index, const FloatMatrix& matrix, std::uint64_t seed, nb::handle progress) {
  const Rows rows = rows_of(matrix);
  const bool had_graph = index.graph() != nullptr;
  NeighborResult found =
      run_released(progress, [&](const Progress& report) { return index.neighbors(rows, {.seed = seed, .device = {}}, report); });
  nb::dict told = to_dict(found.stats);
  told["size"] = rows.size();
  told["dimension"] = rows.dimension();
  told["neighbors"] = found.lists.neighbors();
  told["threads"] = resolve_threads(index.options().threads);
  told["start"] = start_used(index, found.stats, had_graph);
  if (found.stats.success_pairs == 0)  // no edges, so nothing to speak of
    for (const char* name : {"success_rate", "success_bound", "success_pairs", "success_target", "success_reached", "mean_degree",
                             "max_degree", "edges_added"})
      told[name] = nb::none();
  return nb::make_tuple(SharedLists{std::make_shared<NeighborLists>(std::move(found.lists))}, told);
}

nb::tuple search_exact(const FloatMatrix& matrix, const FloatMatrix& queries, std::size_t neighbors, unsigned threads,
                       nb::handle progress) {
  const NeighborIndex index({.kind = IndexKind::kExact, .neighbors = neighbors, .threads = threads});
  NeighborResult found =
      run_released(progress, [&](const Progress& report) { return index.search(rows_of(matrix), rows_of(queries), report); });
  return nb::make_tuple(SharedLists{std::make_shared<NeighborLists>(std::move(found.lists))}, to_dict(found.stats));
}

/// Through the graph, from the vertex whose row is the nearest of a few. A query whose reachable part is too small has id -1 in every
/// place; the caller asks the exact search for it, so that nobody gets fewer than asked for.
SharedLists search_graph(const NeighborIndex& index, const FloatMatrix& matrix, const FloatMatrix& queries, std::size_t neighbors,
                         std::size_t budget, unsigned threads, nb::handle progress) {
  if (index.graph() == nullptr || !index.graph()->has_edges())
    throw InvalidArgument("the index has no edges to walk along; it must be made for search, with index='fanng', and updated first");
  const Rows rows = rows_of(matrix);
  const Rows wanted = rows_of(queries);
  if (wanted.dimension() != rows.dimension())
    throw InvalidArgument("queries have dimension " + std::to_string(wanted.dimension()) + "; the rows have " +
                          std::to_string(rows.dimension()));
  auto lists = std::make_shared<NeighborLists>(wanted.size(), neighbors);
  run_released(progress, [&](const Progress& report) {
    parallel_for(
        wanted.size(), kSearchGrain, threads,
        [&](std::size_t begin, std::size_t end, unsigned) {
          for (std::size_t i = begin; i < end; ++i) {
            const std::vector<Found> found =
                index.graph()->search(rows, wanted[i], {.neighbors = neighbors, .distance_computations = budget, .start = 0});
            const bool enough = found.size() == neighbors;
            for (std::size_t j = 0; j < neighbors; ++j) {
              lists->ids(i)[j] = enough ? found[j].id : ~std::uint32_t{0};
              lists->distances(i)[j] = enough ? found[j].distance : 0;
            }
          }
        },
        report, "search");
  });
  return {lists};
}

/// Lists that were computed elsewhere, checked in full.
SharedLists given_lists(const IdMatrix& ids, const FloatMatrix& distances) {
  if (ids.shape(0) != distances.shape(0) || ids.shape(1) != distances.shape(1))
    throw InvalidArgument("ids and distances differ in shape; each id needs its squared distance");
  auto lists = std::make_shared<NeighborLists>(ids.shape(0), ids.shape(1));
  const nb::gil_scoped_release release;
  const auto* first = reinterpret_cast<const std::uint32_t*>(ids.data());
  std::copy_n(first, ids.size(), lists->all_ids().begin());
  std::copy_n(distances.data(), distances.size(), lists->all_distances().begin());
  lists->validate();
  return {lists};
}

}  // namespace

nb::dict to_dict(const NeighborStats& stats) {
  nb::dict stages;
  for (const auto& [stage, seconds] : stats.stage_seconds) stages[stage.c_str()] = seconds;
  nb::dict told;
  told["index"] = stats.index;
  told["kernel"] = stats.kernel;
  told["seconds"] = stats.seconds;
  told["stage_seconds"] = stages;
  told["distance_computations"] = stats.distance_computations;
  told["recall"] = stats.recall;
  told["recall_target"] = stats.recall_target;
  told["recall_sample"] = stats.recall_sample;
  told["recall_reached"] = stats.recall_reached;
  told["success_rate"] = stats.success_rate;
  told["success_bound"] = stats.success_bound;
  told["success_pairs"] = stats.success_pairs;
  told["success_target"] = stats.success_target;
  told["success_reached"] = stats.success_reached;
  told["mean_degree"] = stats.mean_degree;
  told["max_degree"] = stats.max_degree;
  told["edges_added"] = stats.edges_added;
  told["unit_norm"] = stats.unit_norm;
  told["peak_memory_bytes"] = stats.peak_memory_bytes;
  told["note"] = stats.note;
  return told;
}

void bind_neighbors(nb::module_& module) {
  nb::class_<SharedLists>(module, "Lists", "Neighbour lists: ids and squared distances as arrays that share their memory.")
      .def_prop_ro(
          "ids",
          [](const SharedLists& self) {
            auto* ids = reinterpret_cast<std::int32_t*>(self.lists->all_ids().data());  // every id is below 2^31
            return to_numpy<2>(ids, {self.lists->size(), self.lists->neighbors()}, self.lists);
          },
          nb::rv_policy::automatic)
      .def_prop_ro(
          "distances",
          [](const SharedLists& self) {
            return to_numpy<2>(self.lists->all_distances().data(), {self.lists->size(), self.lists->neighbors()}, self.lists);
          },
          nb::rv_policy::automatic);
  nb::class_<NeighborIndex>(module, "NeighborIndex", "Finds lists, and keeps the graph between calls if asked to.")
      .def("__init__", &make_index, nb::kw_only(), nb::arg("kind"), nb::arg("neighbors"), nb::arg("start"), nb::arg("recall"),
           nb::arg("success_rate"), nb::arg("certify"), nb::arg("edge_candidates"), nb::arg("max_degree"), nb::arg("for_search"),
           nb::arg("keep"), nb::arg("seed"), nb::arg("threads"))
      .def("neighbors", &find_neighbors, nb::arg("rows"), nb::arg("seed"), nb::arg("progress").none())
      .def("search", &search_graph, nb::arg("rows"), nb::arg("queries"), nb::arg("neighbors"), nb::arg("budget"), nb::arg("threads"),
           nb::arg("progress").none())
      .def_prop_ro("has_graph", [](const NeighborIndex& self) { return self.graph() != nullptr; })
      .def_prop_ro("has_edges", [](const NeighborIndex& self) { return self.graph() != nullptr && self.graph()->has_edges(); })
      .def(
          "save", [](const NeighborIndex& self, const std::string& path) { self.save(path); }, nb::arg("path"))
      .def(
          "load", [](NeighborIndex& self, const std::string& path) { self.load(path); }, nb::arg("path"));
  module.def("search_exact", &search_exact, nb::arg("rows"), nb::arg("queries"), nb::arg("neighbors"), nb::arg("threads"),
             nb::arg("progress").none());
  module.def("given_lists", &given_lists, nb::arg("ids"), nb::arg("distances"));
}

}  // namespace smartmine::python
