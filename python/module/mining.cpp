#include <nanobind/stl/function.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <iterator>
#include <string>

#include "binding.h"
#include "smartmine/graph/neighbor_index.h"
#include "smartmine/mining/batch_builder.h"
#include "smartmine/mining/kappa_controller.h"
#include "smartmine/mining/selections.h"
#include "smartmine/mining/smart_miner.h"

namespace smartmine::python {
namespace {

constexpr const char* kLevelNames[] = {"min", "p5", "p25", "median", "p75", "p95", "max"};
static_assert(std::size(kLevelNames) == Quantiles::kLevels.size());

void add_quantiles(nb::dict& told, const std::string& name, const Quantiles& quantiles) {
  told[(name + "_count").c_str()] = quantiles.count;
  for (std::size_t i = 0; i < std::size(kLevelNames); ++i) {
    const std::string key = name + "_" + kLevelNames[i];
    if (quantiles.count > 0)
      told[key.c_str()] = quantiles.values[i];
    else
      told[key.c_str()] = nb::none();  // there is none
  }
}

nb::dict to_dict(const MiningStats& stats) {
  nb::dict told;
  told["triplets"] = stats.triplets;
  told["anchors"] = stats.anchors;
  told["anchors_skipped"] = stats.anchors_skipped;
  told["single_member_classes"] = stats.anchors_skipped;
  told["mined"] = stats.mined;
  told["mined_outside_positive"] = stats.mined_outside_positive;
  told["mined_nearer_positive"] = stats.mined_nearer_positive;
  told["random_no_positive"] = stats.random_no_positive;
  told["random_no_negative"] = stats.random_no_negative;
  told["random_no_farther_positive"] = stats.random_no_farther_positive;
  told["random_by_share"] = stats.random_by_share;
  told["mined_violating"] = stats.mined_violating;
  told["outside_violating"] = stats.outside_violating;
  told["positive_distances_unknown"] = stats.positive_distances_unknown;
  add_quantiles(told, "positive_distance", stats.positive_distances);
  add_quantiles(told, "negative_distance", stats.negative_distances);
  told["duplicates_skipped"] = stats.duplicates_skipped;
  told["rank_skipped"] = stats.rank_skipped;
  told["cap_skipped"] = stats.cap_skipped;
  told["negatives_forced"] = stats.negatives_forced;
  told["lists_walked"] = stats.lists_walked;
  told["lists_without_positive"] = stats.lists_without_positive;
  told["lists_without_negative"] = stats.lists_without_negative;
  told["suggested_neighbors"] = stats.suggested_neighbors;
  told["extended_anchors"] = stats.extended_anchors;
  told["extended_neighbors"] = stats.extended_neighbors;
  told["selection_seconds"] = stats.seconds;
  told["note"] = stats.note;
  return told;
}

using TripletArray = nb::ndarray<nb::numpy, std::int64_t, nb::ndim<2>>;

TripletArray to_numpy(const std::vector<Triplet>& triplets) {
  std::vector<std::int64_t> ids;
  ids.reserve(3 * triplets.size());
  for (const Triplet& triplet : triplets) ids.insert(ids.end(), {triplet.anchor, triplet.positive, triplet.negative});
  return python::to_numpy<2>(std::move(ids), {triplets.size(), 3});
}

/// Classes of labels, indexed once for many calls.
struct SharedLabels {
  explicit SharedLabels(const Labels& labels) : index(span_of(labels)) {}
  LabelIndex index;
};

SmartMinerOptions options_of(const nb::dict& given) {
  SmartMinerOptions options;
  options.kappa = nb::cast<double>(given["kappa"]);
  options.triplets_per_anchor = nb::cast<std::size_t>(given["triplets_per_anchor"]);
  options.mined_fraction = nb::cast<double>(given["mined_fraction"]);
  options.seed = nb::cast<std::uint64_t>(given["seed"]);
  options.threads = nb::cast<unsigned>(given["threads"]);
  options.margin = nb::cast<double>(given["margin"]);
  options.nearer_positives = nb::cast<bool>(given["nearer_positives"]);
  options.skip_duplicates = nb::cast<bool>(given["skip_duplicates"]);
  options.min_negative_rank = nb::cast<std::size_t>(given["min_negative_rank"]);
  options.duplicate_distance = nb::cast<double>(given["duplicate_distance"]);
  options.max_negative_uses = nb::cast<std::size_t>(given["max_negative_uses"]);
  options.hub_limit = nb::cast<double>(given["hub_limit"]);
  options.longest_list = nb::cast<std::size_t>(given["longest_list"]);
  return options;
}

nb::tuple mine(const SharedLists& lists, const SharedLabels& labels, const std::optional<FloatMatrix>& matrix, const nb::dict& given,
               nb::handle progress) {
  SmartMinerOptions options = options_of(given);
  const bool longer = nb::cast<bool>(given["longer_lists"]);
  std::optional<Rows> rows;
  if (matrix) rows = rows_of(*matrix);
  std::uint64_t computations = 0;
  double seconds = 0;
  const MinedTriplets mined = run_released(progress, [&](const Progress& report) {
    if (longer && rows)
      options.longer_lists = [&](std::span<const std::uint32_t> anchors, std::size_t neighbors) {
        NeighborResult found = lists_of_some(*rows, anchors, neighbors, options.threads, report);
        computations += found.stats.distance_computations;
        seconds += found.stats.seconds;
        return std::move(found.lists);
      };
    return SmartMiner(options).select(*lists.lists, labels.index, rows ? &*rows : nullptr, report);
  });
  nb::dict told = to_dict(mined.stats);
  told["longer_lists_seconds"] = seconds;
  told["longer_lists_computations"] = computations;
  return nb::make_tuple(to_numpy(mined.triplets), told);
}

/// A kappa for lists and labels that nobody has one for yet, and the share of triplets it mines.
nb::tuple search_kappa(const SharedLists& lists, const SharedLabels& labels, const nb::dict& given, nb::handle progress) {
  const SmartMinerOptions options = options_of(given);
  const FoundKappa found =
      run_released(progress, [&](const Progress& report) { return find_kappa(*lists.lists, labels.index, options, report); });
  return nb::make_tuple(found.kappa, found.mined_share);
}

nb::tuple make_batches(const SharedLists& lists, const SharedLabels& labels, const std::optional<FloatMatrix>& matrix, std::size_t classes,
                       std::size_t images_per_class, double near_share, std::size_t rounds, std::size_t negatives,
                       double duplicate_distance, std::uint64_t seed, unsigned threads) {
  const BatchBuilderOptions options{.classes = classes,
                                    .images_per_class = images_per_class,
                                    .near_share = near_share,
                                    .rounds = rounds,
                                    .negatives = negatives,
                                    .duplicate_distance = duplicate_distance,
                                    .seed = seed,
                                    .threads = threads};
  std::optional<Rows> rows;
  if (matrix) rows = rows_of(*matrix);
  BatchSurvey survey;
  const ClassBatches batches = run_released(nb::none(), [&](const Progress&) {
    ClassBatches made = build_batches(*lists.lists, labels.index, options, rows ? &*rows : nullptr);
    survey = survey_batches(made, labels.index, rows ? &*rows : nullptr);
    return made;
  });
  std::vector<std::int64_t> items(batches.items.begin(), batches.items.end());
  const std::size_t count = items.size();
  nb::dict told;
  told["batches"] = batches.stats.batches;
  told["groups"] = batches.stats.groups;
  told["near_groups"] = batches.stats.near_groups;
  told["random_groups"] = batches.stats.random_groups;
  told["near_share"] = batches.stats.near_share();
  told["repeated"] = batches.stats.repeated;
  told["copies_skipped"] = batches.stats.copies_skipped;
  told["copies_left_out"] = batches.stats.copies_left_out;
  told["alone"] = batches.stats.alone;
  told["only_copies"] = batches.stats.only_copies;
  told["lists_without_negative"] = batches.stats.lists_without_negative;
  told["classes_by_centre"] = batches.stats.classes_by_centre;
  if (!batches.stats.note.empty()) told["note"] = batches.stats.note;
  const auto if_measured = [&](double value) -> nb::object { return survey.points > 0 ? nb::cast(value) : nb::none(); };
  told["batch_error"] = if_measured(survey.error);
  told["nearest_positive_distance"] = if_measured(survey.positive_distance);
  told["nearest_negative_distance"] = if_measured(survey.negative_distance);
  told["looked_at"] = survey.batches;
  nb::list together;
  for (const ClassPair& pair : survey.pairs) {
    nb::dict each;
    each["first"] = labels.index.label(pair.first);
    each["second"] = labels.index.label(pair.second);
    each["batches"] = pair.batches;
    together.append(each);
  }
  told["together"] = together;
  told["batch_seconds"] = batches.stats.seconds;
  return nb::make_tuple(python::to_numpy<1>(std::move(items), {count}), batches.batch_items, told);
}

TripletArray random_triplets(const SharedLabels& labels, std::size_t count, std::uint64_t seed, unsigned threads) {
  return to_numpy(run_released(nb::none(), [&](const Progress&) {
                    return RandomMiner({.count = count, .seed = seed, .threads = threads}).select(labels.index);
                  }).triplets);
}

double violating(const Triplets& triplets, const FloatMatrix& matrix, double margin) {
  const Rows rows = rows_of(matrix);
  if (triplets.shape(1) != 3) throw InvalidArgument("triplets has " + std::to_string(triplets.shape(1)) + " columns; it must have 3");
  std::vector<Triplet> all(triplets.shape(0));
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::int64_t* row = triplets.data() + 3 * i;
    for (std::size_t j = 0; j < 3; ++j)
      if (row[j] < 0 || row[j] >= static_cast<std::int64_t>(rows.size()))
        throw InvalidArgument("triplets row " + std::to_string(i) + " names row " + std::to_string(row[j]) + "; there are " +
                              std::to_string(rows.size()));
    all[i] = {static_cast<std::uint32_t>(row[0]), static_cast<std::uint32_t>(row[1]), static_cast<std::uint32_t>(row[2])};
  }
  const nb::gil_scoped_release release;
  return violating_share(all, rows, margin);
}

KappaFit fit_named(const std::string& name) {
  if (name == "log-odds") return KappaFit::kLogOdds;
  if (name == "linear") return KappaFit::kLinear;
  throw InvalidArgument("kappa_fit is '" + name + "'; it must be log-odds or linear");
}

}  // namespace

void bind_mining(nb::module_& module) {
  nb::class_<SharedLabels>(module, "LabelIndex", "Classes of labels and the members of each.")
      .def(nb::init<const Labels&>(), nb::arg("labels"))
      .def("__len__", [](const SharedLabels& self) { return self.index.size(); })
      .def_prop_ro("classes", [](const SharedLabels& self) { return self.index.classes(); })
      .def_prop_ro("anchors", [](const SharedLabels& self) { return self.index.anchors().size(); });
  nb::class_<KappaController>(module, "KappaController", "Keeps the training error at its target.")
      .def(
          "__init__",
          [](KappaController* self, double target_error, double start, double min_kappa, double max_kappa, const std::string& fit) {
            new (self) KappaController(
                {.target_error = target_error, .start = start, .min_kappa = min_kappa, .max_kappa = max_kappa, .fit = fit_named(fit)});
          },
          nb::kw_only(), nb::arg("target_error"), nb::arg("start"), nb::arg("min_kappa"), nb::arg("max_kappa"), nb::arg("fit"))
      .def_prop_ro("kappa", &KappaController::kappa)
      .def_prop_ro("explanation", &KappaController::explanation)
      .def("begin", &KappaController::begin, nb::arg("expected_error"))
      .def("observe", nb::overload_cast<double, double>(&KappaController::observe), nb::arg("training_error"), nb::arg("mined"))
      .def("save", &KappaController::save)
      .def(
          "load", [](KappaController& self, const std::string& state) { self.load(state); }, nb::arg("state"));
  module.def("mine", &mine, nb::arg("lists"), nb::arg("labels"), nb::arg("rows").none(), nb::arg("options"), nb::arg("progress").none());
  module.def(
      "check_miner_options", [](const nb::dict& given) { options_of(given).validate(); }, nb::arg("options"));
  module.def("find_kappa", &search_kappa, nb::arg("lists"), nb::arg("labels"), nb::arg("options"), nb::arg("progress").none());
  module.attr("HARDLY_MINED") = kHardlyMined;
  module.def("build_batches", &make_batches, nb::arg("lists"), nb::arg("labels"), nb::arg("rows").none(), nb::arg("classes"),
             nb::arg("images_per_class"), nb::arg("near_share"), nb::arg("rounds"), nb::arg("negatives"), nb::arg("duplicate_distance"),
             nb::arg("seed"), nb::arg("threads"));
  module.def("random_triplets", &random_triplets, nb::arg("labels"), nb::arg("count"), nb::arg("seed"), nb::arg("threads"));
  module.def("violating_share", &violating, nb::arg("triplets"), nb::arg("rows"), nb::arg("margin"));
}

}  // namespace smartmine::python
