#include "report/run_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <set>
#include <system_error>
#include <unordered_map>

#include "smartmine/core/error.h"
#include "smartmine/core/rows.h"
#include "smartmine/data/image.h"
#include "smartmine/run/setting.h"

namespace smartmine {
namespace {

/// Throws InvalidArgument unless `holds`.
void expect(bool holds, const std::string& what) {
  if (!holds) throw InvalidArgument(what);
}

// As the page has it: texts, numbers, true or false, lists of numbers.
Json value_of(const TomlEntry& entry) {
  if (entry.quoted) return entry.value;
  if (entry.list) {
    const Json list = Json::parse("[" + entry.value + "]", nullptr, /*allow_exceptions=*/false);
    return list.is_discarded() ? Json(entry.value) : list;
  }
  const Json number = Json::parse(entry.value, nullptr, /*allow_exceptions=*/false);
  return number.is_discarded() ? Json(entry.value) : number;
}

Json read_json(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw IoError("it cannot be read");
  return Json::parse(file);
}

/// Runs `work`; if what it reads is damaged, that is a problem and nothing worse. Returns whether all went well.
bool damage_is_a_problem(const std::filesystem::path& path, Problems& problems, const std::function<void()>& work) {
  const auto add = [&](const std::string& what) {
    const std::string name = path.string();  // readers' own messages begin with it
    problems.push_back(what.starts_with(name) ? fmt::format("{}; left out", what) : fmt::format("{}: {}; left out", name, what));
    return false;
  };
  try {
    work();
    return true;
  } catch (const nlohmann::json::exception& error) {
    return add(fmt::format("damaged: {}", reason_of(error)));
  } catch (const IoError& error) {
    return add(error.what());
  } catch (const InvalidArgument& error) {
    return add(error.what());
  }
}

/// Names of images and classes, and where images are. Throws if something does not fit the rows.
void read_names(const std::filesystem::path& folder, std::span<const std::int64_t> labels, EvaluatedSplit& split) {
  const Json json = read_json(folder / "evaluation.json");
  auto names = json.at("names").get<std::vector<std::string>>();
  expect(names.size() == labels.size(), fmt::format("it names {} images, but there are embeddings of {}", names.size(), labels.size()));
  const auto own = json.at("labels").get<std::vector<std::int64_t>>();
  expect(std::equal(own.begin(), own.end(), labels.begin(), labels.end()), "its labels are not those of the embeddings");
  std::unordered_map<std::string, std::string> class_names;  // by label as text
  for (const Json& each : json.at("classes"))
    class_names.emplace(std::to_string(each.at("label").get<std::int64_t>()), each.at("name").get<std::string>());
  auto offsets = json.at("image_offsets").get<std::vector<std::uint64_t>>();
  split.names = std::move(names);
  for (std::string& name : split.class_names)
    if (const auto found = class_names.find(name); found != class_names.end()) name = found->second;
  if (offsets.empty()) return;
  auto jpegs = std::make_shared<MappedFile>(folder / "evaluation.jpegs");
  expect(offsets.size() == labels.size() + 1 && std::is_sorted(offsets.begin(), offsets.end()) && offsets.back() <= jpegs->bytes().size(),
         "its places of images do not fit evaluation.jpegs");
  split.offsets = std::move(offsets);
  split.jpegs = std::move(jpegs);
}

// Text fields and images are looked at here, so that the page need not.
Json picture(const Json& from, bool with_distance) {
  Json to{{"name", from.at("name").get<std::string>()}, {"class", from.at("class").get<std::string>()}, {"image", nullptr}};
  if (const Json& image = from.at("image"); image.is_string() && image.get<std::string>().starts_with("data:image/jpeg;base64,"))
    to["image"] = image;
  if (with_distance) to["distance"] = from.at("distance").get<double>();
  return to;
}

Json triplet_list(const Json& from) {
  Json to = Json::array();
  for (const Json& triplet : from)
    to.push_back({{"positive", picture(triplet.at("positive"), true)},
                  {"negative", picture(triplet.at("negative"), true)},
                  {"kind", triplet.at("kind").get<std::string>() == "mined" ? "mined" : "random"}});
  return to;
}

}  // namespace

void require_distinct(std::span<const std::filesystem::path> runs) {
  if (runs.empty()) throw InvalidArgument("runs are none; there must be at least one");
  std::set<std::filesystem::path> known;
  std::error_code none;
  for (const std::filesystem::path& run : runs)
    if (std::filesystem::path full = std::filesystem::weakly_canonical(run, none); !known.insert(full.empty() ? run : full).second)
      throw InvalidArgument(fmt::format("runs has {} twice; each must be given once", run.string()));
}

Json read_settings(const std::filesystem::path& run, Problems& problems) {
  std::error_code none;
  const std::filesystem::path path = run / "config.toml";
  if (!std::filesystem::exists(run, none)) throw IoError(fmt::format("{}: there is no such run", run.string()));
  if (!std::filesystem::is_regular_file(path, none))
    throw IoError(fmt::format("{}: not the folder of a run: it has no config.toml", run.string()));
  std::ifstream file(path, std::ios::binary);
  if (!file) throw IoError(fmt::format("{}: cannot be read", path.string()));
  const TomlFile toml = parse_toml(std::string(std::istreambuf_iterator<char>(file), {}));
  Json settings = Json::object();
  for (const TomlEntry& entry : toml.entries) settings[entry.name] = value_of(entry);
  for (const std::size_t line : toml.bad_lines)
    problems.push_back(fmt::format("{}: line {}: not a setting; left out", path.string(), line));
  return settings;
}

std::vector<Json> read_log(const std::filesystem::path& run, Problems& problems) {
  const std::filesystem::path path = run / "log.jsonl";
  LogFile file = read_log_file(path);
  std::vector<Json> log;
  for (LogLine& line : file.lines) log.push_back(std::move(line.json));
  for (const BadLogLine& bad : file.bad) problems.push_back(fmt::format("{}: line {}: {}; left out", path.string(), bad.number, bad.why));
  return log;
}

std::optional<std::int64_t> epoch_of(const std::filesystem::path& file, const std::string& prefix, const std::string& ending) {
  const std::string name = file.filename().string();
  if (!name.starts_with(prefix) || !name.ends_with(ending) || name.size() <= prefix.size() + ending.size()) return std::nullopt;
  std::int64_t epoch = 0;
  const char* begin = name.data() + prefix.size();
  const char* end = name.data() + name.size() - ending.size();
  const auto [stop, error] = std::from_chars(begin, end, epoch);
  return error == std::errc() && stop == end && epoch >= 0 ? std::optional(epoch) : std::nullopt;
}

std::vector<EpochFile> epoch_files(const std::filesystem::path& folder, const std::string& prefix, const std::string& ending,
                                   std::int64_t last) {
  std::vector<EpochFile> files;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(folder, none))
    if (const auto epoch = epoch_of(entry.path(), prefix, ending); epoch && *epoch <= last) files.push_back({*epoch, entry.path()});
  std::sort(files.begin(), files.end(), [](const EpochFile& a, const EpochFile& b) { return a.epoch < b.epoch; });
  return files;
}

std::span<const std::byte> EvaluatedSplit::image(std::size_t row) const {
  if (offsets.empty()) return {};
  const auto file = jpegs->bytes().subspan(offsets[row], offsets[row + 1] - offsets[row]);
  return is_image(file) ? file : std::span<const std::byte>{};
}

std::optional<EvaluatedSplit> read_evaluated(const std::filesystem::path& run, std::int64_t last_epoch, Problems& problems) {
  auto files = epoch_files(run / "embeddings", "epoch-", ".npy", last_epoch);
  // A run that has ended and keeps other weights than its last shows these.
  constexpr const char* kKept = "kept.npy";
  if (std::error_code none; std::filesystem::exists(run / "embeddings" / kKept, none))
    files.push_back({last_epoch, run / "embeddings" / kKept});
  std::optional<EvaluatedSplit> split;
  std::vector<std::int64_t> labels;
  for (int looks = 0; !files.empty() && !split; files.pop_back()) {
    std::error_code none;
    if (!std::filesystem::exists(files.back().path, none) && ++looks < 4) {  // a run under way has just put newer ones in their place
      files = epoch_files(run / "embeddings", "epoch-", ".npy", last_epoch + looks);
      files.push_back({});
      continue;
    }
    damage_is_a_problem(files.back().path, problems, [&] {
      EvaluatedSplit found{.epoch = files.back().epoch,
                           .kept = files.back().path.filename() == kKept,
                           .embeddings = read_embeddings(files.back().path),
                           .classes = {},
                           .class_names = {},
                           .names = {},
                           .offsets = {},
                           .jpegs = nullptr};
      check_rows(found.embeddings.rows());
      labels = read_labels(run / "embeddings" / "labels.npy");
      expect(labels.size() == found.embeddings.rows().size(),
             fmt::format("{} embeddings, but labels.npy has {} labels", found.embeddings.rows().size(), labels.size()));
      split = std::move(found);
    });
  }
  if (!split) return std::nullopt;
  std::map<std::int64_t, std::uint32_t> numbers;
  for (const std::int64_t label : labels) numbers.emplace(label, 0);
  for (auto& [label, number] : numbers) {
    number = static_cast<std::uint32_t>(split->class_names.size());
    split->class_names.push_back(std::to_string(label));
  }
  for (const std::int64_t label : labels) split->classes.push_back(numbers.at(label));
  std::error_code none;
  const std::filesystem::path folder = run / "report";
  if (std::filesystem::exists(folder / "evaluation.json", none))
    damage_is_a_problem(folder / "evaluation.json", problems, [&] { read_names(folder, labels, *split); });
  return split;
}

namespace {

constexpr std::size_t kShownAnchors = 6;

// Those whose first triplet is mined in most epochs, in the order they stand in.
Json choose_mined(const Json& anchors) {
  std::vector<std::pair<std::size_t, std::size_t>> order;  // epochs without a mined triplet, and the place
  for (std::size_t a = 0; a < anchors.size(); ++a) {
    const Json& epochs = anchors[a]["epochs"];
    order.emplace_back(std::count_if(epochs.begin(), epochs.end(),
                                     [](const Json& epoch) { return epoch["mined"].empty() || epoch["mined"][0]["kind"] != "mined"; }),
                       a);
  }
  std::sort(order.begin(), order.end());
  order.resize(std::min(kShownAnchors, order.size()));
  std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  Json chosen = Json::array();
  for (const auto& [without, place] : order) chosen.push_back(anchors[place]);
  return chosen;
}

}  // namespace

Json read_triplets(const std::filesystem::path& run, std::int64_t last_epoch, Problems& problems) {
  Json anchors = Json::array();
  for (const EpochFile& file : epoch_files(run / "report", "triplets-", ".json", last_epoch)) {
    damage_is_a_problem(file.path, problems, [&] {
      const Json json = read_json(file.path);
      Json merged = anchors;
      for (const Json& from : json.at("anchors")) {
        const Json anchor = picture(from, false);
        auto known = std::find_if(merged.begin(), merged.end(), [&](const Json& each) { return each["name"] == anchor["name"]; });
        if (known == merged.end()) {
          merged.push_back(anchor);
          known = merged.end() - 1;
          (*known)["epochs"] = Json::array();
        }
        const Json kappa = json.contains("kappa") && json["kappa"].is_number() ? json["kappa"] : Json();
        (*known)["epochs"].push_back({{"epoch", file.epoch},
                                      {"kappa", kappa},
                                      {"mined", triplet_list(from.at("mined"))},
                                      {"random", triplet_list(from.at("random"))}});
      }
      anchors = std::move(merged);
    });
  }
  return anchors.empty() ? Json() : Json{{"anchors", choose_mined(anchors)}};
}

}  // namespace smartmine
