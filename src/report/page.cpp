#include "smartmine/report/page.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <limits>
#include <numeric>
#include <optional>
#include <unordered_map>

#include "report/gallery.h"
#include "report/paper_tables.h"
#include "report/run_files.h"
#include "report/strays.h"
#include "smartmine/core/error.h"
#include "smartmine/core/parallel.h"
#include "smartmine/core/random.h"
#include "smartmine/data/data_uri.h"
#include "smartmine/data/image.h"
#include "smartmine/graph/neighbor_index.h"
#include "smartmine/run/choice.h"
#include "smartmine/run/system_traits.h"

namespace smartmine {
namespace {

constexpr std::size_t kThumbnail = 32;  // pixels a side; a multiple of 16, so that JPEG does not smear one into the next
constexpr std::size_t kSheetColumns = 64;
constexpr std::size_t kSheetImages = kSheetColumns * kSheetColumns;
constexpr int kSheetQuality = 75;

// Digits that nobody can see are a good part of the page.
double rounded(double value) { return std::round(value * 1e4) / 1e4; }

/// Small images of the points on few large ones. An image that cannot be decoded leaves its place grey.
Json thumbnails(const EvaluatedSplit& split, std::span<const std::uint32_t> points, unsigned threads) {
  if (split.offsets.empty()) return {};
  Json sheets = Json::array();
  for (std::size_t first = 0; first < points.size(); first += kSheetImages) {
    const std::size_t count = std::min(kSheetImages, points.size() - first);
    constexpr std::uint8_t kGrey = 128;
    Image sheet(kSheetColumns * kThumbnail, (count + kSheetColumns - 1) / kSheetColumns * kThumbnail, kGrey);
    parallel_for(count, 32, threads, [&](std::size_t begin, std::size_t end, unsigned) {
      for (std::size_t i = begin; i < end; ++i) {
        const auto file = split.image(points[first + i]);
        if (file.empty()) continue;
        Image small;
        try {
          small = resize_to_cover(decode_image(file, "thumbnail"), kThumbnail, kThumbnail);
        } catch (const IoError&) {
          continue;
        }
        for (std::size_t y = 0; y < kThumbnail; ++y)
          std::copy_n(small.row(y), kThumbnail * 3, sheet.row(i / kSheetColumns * kThumbnail + y) + i % kSheetColumns * kThumbnail * 3);
      }
    });
    sheets.push_back(jpeg_data_uri(encode_jpeg(sheet, kSheetQuality)));
  }
  return {{"size", kThumbnail}, {"columns", kSheetColumns}, {"per_sheet", kSheetImages}, {"sheets", std::move(sheets)}};
}

/// All rows, or a sample of them in ascending order.
std::vector<std::uint32_t> points_of_map(std::size_t rows, std::size_t most, std::uint64_t seed) {
  std::vector<std::uint32_t> points(rows);
  std::iota(points.begin(), points.end(), 0U);
  if (rows <= most) return points;
  Random random(seed, 0x6d617073);
  for (std::size_t i = 0; i < most; ++i) std::swap(points[i], points[i + random.below(rows - i)]);
  points.resize(most);
  std::sort(points.begin(), points.end());
  return points;
}

Embeddings some_rows(const Rows& rows, std::span<const std::uint32_t> points) {
  Buffer<float> values(points.size() * rows.dimension());
  for (std::size_t i = 0; i < points.size(); ++i) std::copy_n(rows[points[i]], rows.dimension(), values.data() + i * rows.dimension());
  return {std::move(values), points.size(), rows.dimension()};
}

Json map_of(const EvaluatedSplit& split, std::span<const std::uint32_t> points, const Rows& rows, const NeighborLists& lists,
            const TsneOptions& options, const Progress& progress) {
  const TsneResult map = tsne(rows, lists, options, progress);
  const auto [low_x, high_x] = std::minmax_element(map.x.begin(), map.x.end());
  const auto [low_y, high_y] = std::minmax_element(map.y.begin(), map.y.end());
  const double side = std::max({*high_x - *low_x, *high_y - *low_y, std::numeric_limits<double>::min()});
  const auto placed = [&](const std::vector<double>& values, double low, double high) {
    Json json = Json::array();
    for (const double value : values) json.push_back(rounded((2 * value - low - high) / side));
    return json;
  };
  Json labels = Json::array();
  Json names = split.names.empty() ? Json() : Json::array();
  Json neighbors = Json::array();
  for (std::size_t i = 0; i < points.size(); ++i) {
    labels.push_back(split.classes[points[i]]);
    if (!split.names.empty()) names.push_back(split.names[points[i]]);
    const auto ids = lists.ids(i).first(std::min(kResults, lists.neighbors()));
    neighbors.push_back(std::vector<std::uint32_t>(ids.begin(), ids.end()));
  }
  return {{"epoch", split.epoch},
          {"evaluated_on", nullptr},
          {"points", points.size()},
          {"of", split.classes.size()},
          {"x", placed(map.x, *low_x, *high_x)},
          {"y", placed(map.y, *low_y, *high_y)},
          {"label", std::move(labels)},
          {"classes", split.class_names},
          {"neighbors", std::move(neighbors)},
          {"names", std::move(names)},
          {"thumbnails", thumbnails(split, points, options.threads)}};
}

/// A run as far as it is read, and the neighbours of its evaluated images.
struct ReadRun {
  Json json;
  std::optional<EvaluatedSplit> split;  // with at least two images
  NeighborLists lists;                  // long enough for the map, if that shows all images
  GalleryRows queries;
};

std::size_t neighbors_for_map(std::size_t points, const PageOptions& options) {
  return options.map && points > 1 ? std::max(kResults, tsne_neighbors(points, options.tsne)) : 0;
}

NeighborLists lists_of(const Rows& rows, std::size_t neighbors, const PageOptions& options, const Progress& progress) {
  return NeighborIndex({.kind = IndexKind::kExact, .neighbors = std::min(neighbors, rows.size() - 1), .threads = options.tsne.threads})
      .neighbors(rows, progress)
      .lists;
}

void find_neighbors(ReadRun& run, const PageOptions& options, const Progress& progress) {
  const Rows& rows = run.split->embeddings.rows();
  const std::size_t for_map = rows.size() <= options.map_points ? neighbors_for_map(rows.size(), options) : 0;
  run.lists = lists_of(rows, std::max(kResults, for_map), options, progress);
  run.queries = choose_queries(*run.split, run.lists, options.tsne.seed);
}

/// A query of one run is one of every run with the same images, so that they can stand side by side.
void share_queries(std::span<ReadRun> runs) {
  for (ReadRun& run : runs)
    for (ReadRun& other : runs)
      if (&run != &other && run.split && other.split && same_images(*run.split, *other.split))
        for (const auto& [row, sets] : run.queries) other.queries.try_emplace(row);
}

/// Which weights the embeddings are of, where these are not an epoch's as it ended; null: they are.
Json kept_words(const ReadRun& run) {
  if (!run.split->kept) return {};
  const Json& choice = run.json["choice"];
  const Json kept = choice.is_object() ? choice.value("kept", Json()) : Json();
  const Json reason = kept.is_object() ? kept.value("reason", Json()) : Json();
  return reason.is_string() ? reason : Json("the weights that were kept");
}

/// The map, the gallery and the classes: all about the neighbours of the evaluated images.
void add_neighborhoods(ReadRun& run, const PageOptions& options, const Progress& progress) {
  const EvaluatedSplit& split = *run.split;
  const Rows& rows = split.embeddings.rows();
  run.json["gallery"] = gallery_of(split, run.lists, run.queries, options.tsne.threads);
  run.json["classes"] = classes_of(split, run.lists);
  const Json kept = kept_words(run);
  run.json["gallery"]["kept"] = kept;
  run.json["classes"]["kept"] = kept;
  const auto points = points_of_map(rows.size(), options.map_points, options.tsne.seed);
  const std::size_t for_map = neighbors_for_map(points.size(), options);
  if (for_map == 0) return;
  Json& map = run.json["map"];
  if (points.size() == rows.size()) {
    map = map_of(split, points, rows, run.lists, options.tsne, progress);
  } else {
    const Embeddings some = some_rows(rows, points);
    map = map_of(split, points, some.rows(), lists_of(some.rows(), for_map, options, progress), options.tsne, progress);
  }
  map["kept"] = kept;
  for (const Json& epoch : run.json["epochs"])
    if (epoch["epoch"] == map["epoch"] && epoch.contains("evaluated_on")) map["evaluated_on"] = epoch["evaluated_on"];
}

/// When a file was last written, as text in UTC; null if nobody knows.
Json time_of(const std::filesystem::path& file) {
  std::error_code error;
  const auto written = std::filesystem::last_write_time(file, error);
  if (error) return {};
  const auto seconds = std::chrono::floor<std::chrono::seconds>(std::chrono::file_clock::to_sys(written));
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::chrono::system_clock::to_time_t(seconds)));
}

/// The epoch whose weights a choice says are kept; none: it says nothing of that.
std::optional<std::int64_t> kept_epoch(const Json& choice) {
  const Json kept = choice.is_object() ? choice.value("kept", Json()) : Json();
  const Json epoch = kept.is_object() ? kept.value("epoch", Json()) : Json();
  return epoch.is_number_integer() ? std::optional(epoch.get<std::int64_t>()) : std::nullopt;
}

/// What was chosen on held-out classes, and what is kept, if it still is after `done` epochs; null where the run says nothing of it.
Json choice_of(const std::filesystem::path& run, std::int64_t done, Problems& problems) {
  const std::filesystem::path path = run / "choice.json";
  std::ifstream file(path, std::ios::binary);
  if (!file) return {};
  Json choice = Json::parse(file, nullptr, false);
  if (const auto kept = kept_epoch(choice); kept && !still_kept(run, *kept, done)) choice.erase("kept");
  if (choice.is_object()) return choice.value("decided", Json(true)) == false ? Json() : choice;  // false: trials are still made
  problems.push_back(fmt::format("{}: damaged: not a JSON object; left out", path.string()));
  return {};
}

Json paper_of(const std::string& dataset, const std::string& system) {
  const auto table = paper_table(dataset);
  if (table.empty()) return {};
  Json rows = Json::array();
  Json own;
  for (const PaperRow& row : table) {
    if (row.system == system) own = rows.size();
    const auto share = [](double percent) { return std::round(percent * 100) / 1e4; };
    rows.push_back({{"name", row.name},
                    {"system", row.system},
                    {"recall@1", share(row.recall_at_1)},
                    {"recall@2", share(row.recall_at_2)},
                    {"recall@4", share(row.recall_at_4)},
                    {"recall@8", share(row.recall_at_8)},
                    {"nmi", share(row.nmi)}});
  }
  return {{"rows", std::move(rows)}, {"row_of_system", std::move(own)}};
}

std::string folder_name(const std::filesystem::path& run) {
  std::error_code none;
  std::filesystem::path full = std::filesystem::weakly_canonical(run, none);  // for names such as "." and "runs/a/"
  if (full.empty()) full = run;
  return full.has_filename() ? full.filename().string() : full.parent_path().filename().string();
}

/// What the controller aimed at, if there was one. Older logs do not say; there the system tells.
Json target_error_of(const std::vector<Json>& log, const std::string& system, const Json& setting) {
  for (auto line = log.rbegin(); line != log.rend(); ++line)
    if (line->contains("target_error") && (*line)["target_error"].is_number()) return (*line)["target_error"];
  const SystemTraits* traits = known_traits(system);
  return traits != nullptr && traits->adaptive ? setting : Json();
}

ReadRun read_run(const std::filesystem::path& path, const PageOptions& options, const Progress& progress, Problems& problems) {
  const Json settings = read_settings(path, problems);
  std::vector<Json> log = read_log(path, problems);
  const auto text = [&](const char* name) { return settings.contains(name) && settings[name].is_string() ? settings[name] : Json(); };
  const auto number = [&](const char* name) { return settings.contains(name) && settings[name].is_number() ? settings[name] : Json(); };
  const std::int64_t last = log.empty() ? -1 : log.back()["epoch"].get<std::int64_t>();
  const Json planned = number("epochs");
  const Json dataset = text("dataset");
  const Json system = text("system");
  const std::string system_name = system.is_null() ? "" : system.get<std::string>();
  Json run{{"name", folder_name(path)},
           {"path", path.string()},
           {"dataset", dataset},
           {"system", system},
           {"settings", settings},
           {"finished", planned.is_number() && last >= planned.get<std::int64_t>()},
           {"epochs_planned", planned},
           {"target_error", text("target") == "validation" ? Json() : target_error_of(log, system_name, number("target-error"))},
           {"paper", dataset.is_null() ? Json() : paper_of(dataset.get<std::string>(), system_name)},
           {"started", time_of(path / "config.toml")},
           {"updated", time_of(path / "log.jsonl")},
           {"choice", choice_of(path, last, problems)},
           {"epochs", std::move(log)},
           {"map", nullptr},
           {"triplets", read_triplets(path, last, problems)},
           {"classes", nullptr},
           {"gallery", nullptr}};
  ReadRun read{.json = std::move(run), .split = read_evaluated(path, last, problems), .lists = {}, .queries = {}};
  if (read.split && read.split->embeddings.rows().size() < 2) read.split.reset();
  // Of a run made longer, what it shows may be of an epoch before the last.
  if (read.split && read.split->kept) read.split->epoch = kept_epoch(read.json["choice"]).value_or(read.split->epoch);
  if (read.split) find_neighbors(read, options, progress);
  return read;
}

/// Pictures of all runs, each once: runs of one data set share most of theirs.
class Pictures {
 public:
  /// Takes the pictures out of `json` and leaves their numbers in their places.
  void collect(Json& json) {
    if (json.is_object()) {
      for (auto& [name, value] : json.items()) {
        if (name == "image")
          take(value);
        else if (name == "sheets")
          for (Json& sheet : value) take(sheet);
        else
          collect(value);
      }
    } else if (json.is_array()) {
      for (Json& each : json) collect(each);
    }
  }

  Json list = Json::array();

 private:
  void take(Json& picture) {
    if (!picture.is_string()) return;
    const auto [place, fresh] = known_.try_emplace(picture.get<std::string>(), list.size());
    if (fresh) list.push_back(std::move(picture));
    picture = place->second;
  }

  std::unordered_map<std::string, std::size_t> known_;
};

/// Nothing in it ends the script element it stands in, or a line of JavaScript.
std::string safe_in_script(const std::string& json) {
  std::string safe;
  safe.reserve(json.size());
  for (std::size_t i = 0; i < json.size(); ++i) {
    const std::string_view rest = std::string_view(json).substr(i);
    if (json[i] == '<') {
      safe += "\\u003c";
    } else if (rest.starts_with("\xe2\x80\xa8") || rest.starts_with("\xe2\x80\xa9")) {
      safe += rest[2] == '\xa8' ? "\\u2028" : "\\u2029";
      i += 2;
    } else {
      safe += json[i];
    }
  }
  return safe;
}

}  // namespace

void PageOptions::validate() const {
  if (map_points < 1 || map_points > 100000)
    throw InvalidArgument(fmt::format("map_points is {}; it must be from 1 to 100000", map_points));
  if (!(refresh_seconds >= 0 && std::isfinite(refresh_seconds)))
    throw InvalidArgument(fmt::format("refresh_seconds is {}; it must be at least 0 and finite", refresh_seconds));
  tsne.validate();
}

PageData page_data(std::span<const std::filesystem::path> paths, const PageOptions& options, const Progress& progress) {
  options.validate();
  require_distinct(paths);
  PageData data;
  const std::vector<std::filesystem::path> runs = without_strays(paths, data.problems);
  for (const std::filesystem::path& run : runs) {  // before any of them takes its time
    Problems none;
    read_settings(run, none);
  }
  std::vector<ReadRun> read;
  for (const std::filesystem::path& run : runs) read.push_back(read_run(run, options, progress, data.problems));
  share_queries(read);
  Json list = Json::array();
  Pictures pictures;
  for (std::size_t i = 0; i < read.size(); ++i) {
    ReadRun& run = read[i];
    if (run.split) add_neighborhoods(run, options, progress);
    for (const char* part : {"map", "triplets", "gallery"}) pictures.collect(run.json[part]);
    for (std::size_t j = 0; j < runs.size(); ++j)
      if (i != j && folder_name(runs[i]) == folder_name(runs[j])) run.json["name"] = run.json["path"];
    list.push_back(std::move(run.json));
    run = {};
  }
  const Json json{{"format", 1},
                  {"generator", options.generator},
                  {"refresh_seconds", options.refresh_seconds > 0 ? Json(options.refresh_seconds) : Json()},
                  {"problems", data.problems},
                  {"pictures", std::move(pictures.list)},
                  {"runs", std::move(list)}};
  // Names of files may be no text at all; what is none is replaced.
  data.json = safe_in_script(json.dump(-1, ' ', false, Json::error_handler_t::replace));
  return data;
}

std::string fill_page(std::string_view page, std::string_view json) {
  constexpr std::string_view kId = "id=\"report-data\"";
  constexpr std::string_view kNothing = "null";
  // The page's own scripts may speak of the element, so it is not the id alone that counts.
  std::size_t end = std::string_view::npos;
  for (std::size_t id = page.find(kId); id != std::string_view::npos; id = page.find(kId, id + 1)) {
    end = page.find('>', id);
    if (end != std::string_view::npos && page.substr(end + 1).starts_with("null</script>")) break;
    end = std::string_view::npos;
  }
  if (end == std::string_view::npos)
    throw InvalidArgument(R"(the page has no place for the data: <script id="report-data" type="application/json">null</script>)");
  std::string filled;
  filled.reserve(page.size() + json.size());
  filled.append(page.substr(0, end + 1)).append(json).append(page.substr(end + 1 + kNothing.size()));
  return filled;
}

}  // namespace smartmine
