#include "smartmine/run/run_directory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <set>
#include <system_error>

#include "run/log_file.h"
#include "smartmine/core/error.h"
#include "smartmine/core/mapped_file.h"
#include "smartmine/core/npy.h"
#include "smartmine/core/output_file.h"
#include "smartmine/run/backbone_traits.h"
#include "smartmine/run/checkpoint.h"
#include "smartmine/run/choice.h"

namespace smartmine {
namespace {

void write_text(const std::filesystem::path& path, const std::string& text) {
  OutputFile file(path);
  file.write(text.data(), text.size());
  file.commit();
}

std::string metrics_csv(std::span<const EpochRecord> log) {
  std::string text = "epoch,split,training_error,kappa,loss";
  const RetrievalMetrics names;
  visit_metrics(names, [&](const char* name, double) { text += fmt::format(",{}", name); });
  text += "\n";
  for (const EpochRecord& record : log) {
    if (!record.metrics) continue;
    const std::string kappa = record.kappa ? fmt::format("{}", *record.kappa) : "";
    text += record.steps > 0
                ? fmt::format("{},{},{},{},{}", record.epoch, record.metrics->split, record.training_error(), kappa, record.loss())
                : fmt::format("{},{},,,", record.epoch, record.metrics->split);
    visit_metrics(*record.metrics, [&](const char*, double value) { text += fmt::format(",{}", value); });
    text += "\n";
  }
  return text;
}

}  // namespace

RunDirectory RunDirectory::create(const std::filesystem::path& path, const RunConfig& config) {
  std::error_code none;
  remove_left_behind(path);  // a run that was killed before it had settings leaves a folder with nothing else in it
  if (std::filesystem::exists(path, none) && !(std::filesystem::is_directory(path, none) && std::filesystem::is_empty(path, none)))
    throw IoError(fmt::format("{}: exists already; --resume goes on with the run in it, or choose another --output", path.string()));
  const bool from_file = is_backbone_file(config.model.backbone);
  if (from_file) MappedFile(config.model.backbone);  // says what is wrong with it before anything is made
  make_folders(path);
  RunDirectory run(path);
  std::error_code error;
  if (from_file && !std::filesystem::copy_file(config.model.backbone, run.backbone_path(), error))
    throw IoError(fmt::format("{}: cannot be copied to {}: {}", config.model.backbone, run.backbone_path().string(), error.message()));
  write_text(run.config_path(), to_toml(config));
  return run;
}

RunConfig RunDirectory::with_own_backbone(RunConfig config) const {
  std::error_code none;
  if (is_backbone_file(config.model.backbone) && std::filesystem::exists(backbone_path(), none))
    config.model.backbone = backbone_path().string();
  return config;
}

RunDirectory RunDirectory::open(const std::filesystem::path& path) {
  RunDirectory run(path);
  std::error_code none;
  if (!std::filesystem::exists(path, none)) throw IoError(fmt::format("{}: there is no such run", path.string()));
  if (!std::filesystem::is_regular_file(run.config_path(), none))
    throw IoError(fmt::format("{}: not the folder of a run: it has no config.toml", path.string()));
  LogFile log = read_log_file(path / "log.jsonl");
  const auto refuse = [&](std::size_t line, const std::string& why) {
    throw IoError(fmt::format("{}: line {}: {}", (path / "log.jsonl").string(), line, why));
  };
  if (!log.bad.empty()) refuse(log.bad.front().number, log.bad.front().why);
  for (const LogLine& line : log.lines) {
    try {
      run.log_.push_back(record_of(line.json));
    } catch (const InvalidArgument& error) {
      refuse(line.number, error.what());
    }
    run.lines_.push_back(line.text);
  }
  return run;
}

RunDirectory RunDirectory::follow(const std::filesystem::path& path, std::span<const std::string> log) {
  RunDirectory run(path);
  run.writes_ = false;
  for (const std::string& line : log) {
    run.log_.push_back(parse_record(line));
    run.lines_.push_back(line);
  }
  return run;
}

std::filesystem::path RunDirectory::last_model_path() const { return find_checkpoint(checkpoint_path()) / "model.safetensors"; }

std::filesystem::path RunDirectory::model_path() const {
  std::error_code none;
  return std::filesystem::exists(kept_path(), none) ? kept_path() : last_model_path();
}

void RunDirectory::change_config(const RunConfig& config) const {
  if (writes_) write_text(config_path(), to_toml(config));
}

void RunDirectory::append(const EpochRecord& record) {
  log_.push_back(record);
  lines_.push_back(to_json_line(record));
  write_log();
}

void RunDirectory::forget_after(std::int64_t epoch) {
  std::size_t kept = 0;
  while (kept < log_.size() && log_[kept].epoch <= epoch) ++kept;
  if (kept == log_.size()) return;
  log_.resize(kept);
  lines_.resize(kept);
  write_log();
}

std::shared_ptr<void> RunDirectory::lock() const {
  if (!writes_) return nullptr;
  // On the folder itself, so that no file is left behind; the system lets go of it however the process ends.
  const int folder = ::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return nullptr;  // what is wrong with it will be said when something is written
  std::shared_ptr<void> held(nullptr, [folder](void*) { ::close(folder); });
  if (::flock(folder, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)  // some network disks have no locks
    throw IoError(fmt::format("{}: another process is training in it; wait for its end, or choose another --output", path_.string()));
  return held;
}

void RunDirectory::remove_if_unused() const {
  if (!writes_) return;
  std::error_code none;
  std::filesystem::remove(path_ / "trials", none);  // only if it is empty
  const std::set<std::string> of_a_beginning = {"config.toml", "backbone.pt", "choice.json"};
  for (const auto& entry : std::filesystem::directory_iterator(path_, none))
    if (!of_a_beginning.contains(entry.path().filename().string())) return;
  for (const std::string& name : of_a_beginning) std::filesystem::remove(path_ / name, none);
  std::filesystem::remove(path_, none);  // only if it is empty
}

void RunDirectory::write_log() const {
  if (!writes_) return;
  write_text(path_ / "log.jsonl", lines_.empty() ? "" : fmt::format("{}\n", fmt::join(lines_, "\n")));
  write_text(path_ / "metrics.csv", metrics_csv(log_));
}

namespace {

void write_embeddings(const std::filesystem::path& folder, const std::string& name, const Rows& rows,
                      std::span<const std::int64_t> labels) {
  make_folders(folder);
  write_npy(folder / "labels.npy", labels, {labels.size()});
  write_npy(folder / name, std::span(rows.data(), rows.size() * rows.dimension()), {rows.size(), rows.dimension()});
}

}  // namespace

void RunDirectory::save_embeddings(std::int64_t epoch, const Rows& rows, std::span<const std::int64_t> labels) const {
  write_embeddings(path_ / "embeddings", fmt::format("epoch-{:04}.npy", epoch), rows, labels);
}

void RunDirectory::save_kept_embeddings(const Rows& rows, std::span<const std::int64_t> labels) const {
  write_embeddings(path_ / "embeddings", "kept.npy", rows, labels);
}

void RunDirectory::forget_kept() const {
  std::error_code none;
  std::filesystem::remove(kept_path(), none);
  std::filesystem::remove(path_ / "embeddings" / "kept.npy", none);
}

std::string RunDirectory::weights_in_words() const {
  const std::int64_t done = log_.empty() ? 0 : log_.back().epoch;
  const auto choice = read_choice(path_);
  if (choice && choice->kept && still_kept(path_, choice->kept->epoch, done)) return in_words(*choice->kept);
  const std::int64_t all = read_config(config_path()).schedule.epochs;
  if (done < all) return fmt::format("epoch {} of {}, where it stands now", done, all);
  if (!choice || !choice->decided) return fmt::format("epoch {}", done);
  std::error_code none;
  const char* const way = std::filesystem::exists(kept_path(), none) ? "on the way from the start to " : "";
  return fmt::format("{}epoch {}; what to keep is not settled yet, smartmine train --resume {} does it", way, done, path_.string());
}

void RunDirectory::keep_embeddings_of(std::span<const std::int64_t> epochs) const {
  std::set<std::string> kept = {"labels.npy"};
  for (const std::int64_t epoch : epochs) kept.insert(fmt::format("epoch-{:04}.npy", epoch));
  std::error_code none;
  std::vector<std::filesystem::path> others;
  for (const auto& entry : std::filesystem::directory_iterator(path_ / "embeddings", none))
    if (const std::string name = entry.path().filename().string(); name.starts_with("epoch-") && !kept.contains(name))
      others.push_back(entry.path());
  for (const auto& other : others) std::filesystem::remove(other, none);
}

void RunDirectory::save_triplets(std::int64_t epoch, std::span<const Triplet> triplets) const {
  const std::filesystem::path folder = path_ / "triplets";
  make_folders(folder);
  std::vector<std::int64_t> values;
  values.reserve(3 * triplets.size());
  for (const Triplet& triplet : triplets)
    for (const std::uint32_t id : {triplet.anchor, triplet.positive, triplet.negative}) values.push_back(id);
  write_npy(folder / fmt::format("epoch-{:04}.npy", epoch), std::span<const std::int64_t>(values), {triplets.size(), 3});
}

std::filesystem::path free_run_path(const std::filesystem::path& parent, const std::string& dataset) {
  std::error_code none;
  for (int number = 1;; ++number)
    if (const auto path = parent / fmt::format("{}-{}", dataset, number); !std::filesystem::exists(path, none)) return path;
}

}  // namespace smartmine
