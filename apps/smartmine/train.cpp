#include "smartmine/train/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "commands.h"
#include "console.h"
#include "interrupt.h"
#include "mined_summary.h"
#include "option_checks.h"
#include "ranks.h"
#include "report_page.h"
#include "smartmine/model/weights.h"
#include "smartmine/run/backbone_traits.h"
#include "smartmine/train/choose.h"
#include "smartmine/train/shared_run.h"
#include "train_settings.h"

namespace smartmine::app {
namespace {

struct TrainArguments {
  RunConfig config;
  std::string output;
  RankArguments ranks;
  std::string resume_how = "off";  // on, or auto: if there is something to go on with
  bool resume = false;
  bool report = false;
  bool json = false;
  bool quiet = false;
};

std::string percent(double share) { return fmt::format("{:.2f}", 100 * share); }

// One line an epoch: what was learnt, what was mined, what it came to, and where the time went.
std::string epoch_line(const EpochRecord& record) {
  const auto seconds = [&](const char* stage) {
    const auto found = record.stage_seconds.find(stage);
    return found == record.stage_seconds.end() ? 0.0 : found->second;
  };
  const bool trained = record.steps > 0;
  return fmt::format("{:>5} {:>8} {:>7} {:>7} {:>7} {:>9} {:>7} {:>8} {:>9.1f} {:>7.1f} {:>7.1f} {:>7.1f} {:>7.1f} {:>7.1f}\n",
                     record.epoch, trained ? fmt::format("{:.4f}", record.loss()) : "-", trained ? percent(record.training_error()) : "-",
                     record.kappa ? fmt::format("{:.2f}", *record.kappa) : "-", record.mining ? percent(record.mined_share()) : "-",
                     record.metrics ? percent(record.metrics->recall_at_1) : "-", record.metrics ? percent(record.metrics->nmi) : "-",
                     trained ? fmt::format("{:.0f}", record.images_per_second()) : "-", record.seconds(), seconds("embedding"),
                     seconds("lists"), seconds("selection"), seconds("steps"), seconds("evaluation"));
}

std::string heading() {
  return fmt::format("{:>5} {:>8} {:>7} {:>7} {:>7} {:>9} {:>7} {:>8} {:>9} {:>7} {:>7} {:>7} {:>7} {:>7}\n", "epoch", "loss", "error%",
                     "kappa", "mined%", "recall@1%", "NMI%", "images/s", "seconds:", "embed", "lists", "select", "steps", "eval");
}

std::string trial_line(const std::string& name, const HeldOutScore& score) {
  return fmt::format("  {:<38} {:>9} {:>7}\n", name, percent(score.recall_at_1), percent(score.map_at_r));
}

std::string summary(const RunDirectory& run, const std::optional<EpochRecord>& kept) {
  const EpochRecord* first = nullptr;
  const EpochRecord* last = nullptr;
  double seconds = 0;
  for (const EpochRecord& record : run.log()) {
    seconds += record.seconds();
    if (!record.metrics) continue;
    if (first == nullptr) first = &record;
    last = &record;
  }
  std::string table = "\n";
  if (first != nullptr && last != first) {
    const RetrievalMetrics& of_kept = kept && kept->metrics ? *kept->metrics : *last->metrics;
    table += fmt::format("  {:<16} {:>10} {:>10} {:>10}\n", fmt::format("on {} classes", last->metrics->split), "at start", "kept",
                         fmt::format("epoch {}", last->epoch));
    std::vector<double> before, held;
    visit_metrics(*first->metrics, [&](const char*, double value) { before.push_back(value); });
    visit_metrics(of_kept, [&](const char*, double value) { held.push_back(value); });
    std::size_t number = 0;
    visit_metrics(*last->metrics, [&](const char* name, double value) {
      table += fmt::format("  {:<16} {:>8.2f} % {:>8.2f} % {:>8.2f} %\n", name, 100 * before[number], 100 * held[number], 100 * value);
      ++number;
    });
    table += "\n";
  }
  table += mined_summary(run.log());
  return table + fmt::format("  {:.0f} s; the run is in {}\n", seconds, run.path().string());
}

/// The page in a run's directory, drawn anew after every epoch.
class FollowingPage {
 public:
  FollowingPage(const RunDirectory& run, const TrainArguments& arguments) : run_(run.path()), wanted_(arguments.report) {
    threads_ = static_cast<unsigned>(arguments.config.compute.threads);
    if (wanted_) page_ = read_page("");
  }
  std::filesystem::path path() const { return run_ / "report.html"; }
  void draw(bool goes_on, bool map, const Progress& progress = {}) const {
    if (!wanted_) return;
    constexpr double kRefreshSeconds = 10;
    try {
      write_report({run_}, page_, path(), {.map = map, .refresh_seconds = goes_on ? kRefreshSeconds : 0, .tsne = {.threads = threads_}},
                   progress);
    } catch (const IoError& error) {
      warn(fmt::format("note: the report was not written: {}", error.what()));  // the training is worth more
    }
  }

 private:
  std::filesystem::path run_;
  std::string page_;
  unsigned threads_ = 0;
  bool wanted_ = false;
};

/// The settings to begin with: the program's own or, for pretrained weights without a file of settings, the best we know; then those given.
RunConfig settings_of(const CLI::App& command) {
  const auto given = given_settings(command);
  const auto value_of = [&](const std::string& name) {
    const auto found = std::find_if(given.begin(), given.end(), [&](const GivenSetting& each) { return each.first == name; });
    return found == given.end() ? std::string() : found->second;
  };
  const bool from_file = command.get_parent()->get_config_ptr()->count() > 0;
  const std::string weights = value_of("weights");
  std::string backbone = value_of("backbone");
  if (backbone.empty() && !weights.empty()) {
    const std::string found = network_of(read_weights(weights));
    if (known_backbone(found) != nullptr) backbone = found;
  }
  const bool best = !from_file && !weights.empty() && (backbone == "googlenet" || backbone == "resnet18" || backbone == "resnet50");
  RunConfig config = best ? best_config() : RunConfig();
  if (!backbone.empty()) config.model.backbone = backbone;
  set_given(config, given);
  return config;
}

/// Finds out on held-out classes what to train with, and says what it does.
Choice choose(const RunConfig& config, RunDirectory& run, ProgressDisplay& display, bool table, const std::shared_ptr<Ranks>& ranks) {
  ChoiceEvents events;
  if (table) {
    events.on_begin = [&](const Choice& choice) {
      if (choice.held_out_classes == 0 || choice.careful) return;
      display.finish();
      print(fmt::format("Choosing on {} held-out training classes, {} images:\n\n  {:<38} {:>9} {:>7}\n", choice.held_out_classes,
                        choice.held_out_images, "", "recall@1%", "MAP@R%"));
    };
    events.on_epoch = [&, said = false](const Trial& trial, const EpochRecord& record) mutable {
      display.finish();
      if (record.epoch == 0 && std::exchange(said, true)) return;
      print(trial_line(
          record.epoch == 0 ? "at the start" : fmt::format("rate {:g}, epoch {} of {}", trial.learning_rate, record.epoch, trial.epochs),
          trial.score));
    };
  }
  const Choice choice = choose_settings(config, run, events, display.callback(), ranks);
  display.finish();
  if (table) print(fmt::format("\nChosen: {}.\n\n", choice.reason));
  return choice;
}

/// The settings of the command line, looked at before anything is begun.
void prepare(TrainArguments& arguments, const CLI::App& command) {
  if (command.count("--resume") > 0 && arguments.resume_how != "auto") arguments.resume_how = "on";
  if (arguments.resume_how != "off" && arguments.output.empty())
    throw UsageError("--resume needs --output, the directory of the run to go on with");
  arguments.resume = arguments.resume_how == "on";
  if (!arguments.resume) {
    try {
      arguments.config = settings_of(command);
    } catch (const InvalidArgument& error) {
      throw UsageError(fmt::format("--{}", error.what()));
    }
  }
  if (arguments.report) read_page("");  // better now than later
  try {
    arguments.config.validate();
    find_traits(arguments.config.system.name);
  } catch (const InvalidArgument& error) {
    // A resumed run brings its own settings; those given are looked at beside them.
    if (!arguments.resume || command.count("--dataset") > 0) throw UsageError(fmt::format("--{}", error.what()));
  }
}

/// Whether a run has been begun there.
bool is_begun(const std::string& output) {
  std::error_code none;
  return std::filesystem::exists(std::filesystem::path(output) / "config.toml", none);
}

/// The run's directory, new or to go on with, and in `arguments` the settings that it has. Rank 0 sees to it, and tells the others.
RunDirectory open_run(TrainArguments& arguments, const CLI::App& command, Ranks* ranks) {
  if (arguments.resume_how == "auto") {
    const bool begun = (ranks == nullptr || ranks->is_first()) && is_begun(arguments.output);
    arguments.resume = ranks == nullptr ? begun : ranks->broadcast(begun ? "begun" : "") == "begun";
  }
  const auto given = given_settings(command);
  if (ranks != nullptr && arguments.resume) {
    std::string lines;
    for (const GivenSetting& each : given)
      if (changes_of(each.first) != Changes::kNothing) lines += fmt::format("{} = {}\n", each.first, each.second);
    ranks->expect_same("settings", lines);
  }
  if (ranks != nullptr && !arguments.resume) {
    if (!arguments.config.compute.shards) arguments.config.compute.shards = ranks->size();
    ranks->expect_same("settings", settings_of_all_ranks(arguments.config.resolved()));
  }
  RunDirectory run = open_shared(ranks, [&] {
    if (arguments.resume) return RunDirectory::open(arguments.output);
    if (arguments.output.empty()) arguments.output = free_run_path("runs", arguments.config.data.dataset).string();
    return RunDirectory::create(arguments.output, arguments.config.resolved());
  });
  if (!arguments.resume) return run;
  try {
    RunConfig saved;
    if (ranks == nullptr || ranks->is_first()) saved = read_config(run.config_path());
    if (ranks != nullptr) set_from_toml(saved, ranks->broadcast(to_toml(saved)));
    arguments.config = resumed_config(saved, given);
  } catch (const InvalidArgument& error) {
    throw UsageError(fmt::format("{} cannot be resumed with other settings: {}", run.path().string(), error.what()));
  }
  return run;
}

void train_as_rank(TrainArguments& arguments, const CLI::App& command, const std::shared_ptr<Ranks>& ranks) {
  const bool speaks = !ranks || ranks->is_first();
  ProgressDisplay display(arguments.quiet || arguments.json || !speaks);
  std::unique_ptr<Trainer> trainer;
  std::optional<RunDirectory> run = open_run(arguments, command, ranks.get());
  const bool table = !arguments.json && !arguments.quiet && speaks;
  arguments.report = arguments.report && speaks;
  std::optional<Choice> choice;
  try {
    if (arguments.config.resolved().choosing.choose == "on") {
      choice = choose(arguments.config, *run, display, table, ranks);
      arguments.config = chosen_config(arguments.config, *choice);
      run->change_config(arguments.config);
    }
    trainer = std::make_unique<Trainer>(arguments.config, *run, display.callback(), ranks);
  } catch (const Cancelled&) {
    display.finish();
    if (!arguments.resume) run->remove_if_unused();
    if (!std::filesystem::exists(run->path())) throw;
    throw Interrupted(fmt::format("stopped and saved; smartmine train --resume --output {} goes on", arguments.output));
  } catch (...) {
    display.finish();
    if (!arguments.resume) run->remove_if_unused();  // nothing was trained: the same command can be given again
    throw;
  }
  display.finish();
  if (speaks)
    for (const std::string& note : trainer->notes()) warn("note: " + note);
  if (table) {
    const TrainingData& data = trainer->data();
    print(fmt::format("{}: {} images of {} classes to train on, {} of {} {} classes to measure on; {}, on {}, into {}\n\n",
                      arguments.config.data.dataset, data.training_images, data.training_classes, data.evaluation_images,
                      data.evaluation_classes, data.evaluated_on, arguments.config.system.name, data.device, arguments.output));
    print(heading());
    for (const EpochRecord& record : run->log()) print(epoch_line(record));  // of a run that goes on
  }
  const FollowingPage page(*run, arguments);
  page.draw(true, false);
  try {
    trainer->run([&](const EpochRecord& record) {
      display.finish();
      page.draw(true, false);
      if (!speaks) return;
      for (const std::string& note : record.notes) warn(fmt::format("note: epoch {}: {}", record.epoch, note));
      if (arguments.json) print(to_json_line(record) + "\n");
      if (table) print(epoch_line(record));
    });
  } catch (const Cancelled&) {
    display.finish();
    page.draw(false, false);
    throw Interrupted(fmt::format("stopped and saved after epoch {} and the steps since; smartmine train --resume --output {} goes on",
                                  trainer->epochs_done(), arguments.output));
  }
  std::optional<EpochRecord> kept;
  if (choice && speaks) kept = keep_chosen(arguments.config, *run, *choice, display.callback());
  page.draw(false, true, display.callback());
  display.finish();
  if (table) print(summary(*run, kept));
  if (table && arguments.report) print(fmt::format("  the report is {}\n", page.path().string()));
}

void train(TrainArguments& arguments, const CLI::App& command) {
  prepare(arguments, command);
  start_ranks(arguments.ranks);
  const std::shared_ptr<Ranks> ranks = join_ranks(arguments.ranks);
  run_as_rank(ranks, [&] { train_as_rank(arguments, command, ranks); });
}

}  // namespace

void add_train(CLI::App& program, Work& work) {
  auto arguments = std::make_shared<TrainArguments>();
  CLI::App& command = *program.add_subcommand("train", "Trains an embedding from labelled images");
  add_settings(command, arguments->config);
  command
      .add_option("--output", arguments->output,
                  "Directory for the run, a new one; default: runs/DATASET-1, or the next number that is free")
      ->type_name("RUN_DIR");
  command
      .add_option("--resume", arguments->resume_how,
                  "Go on with the run in --output from its last checkpoint, with its settings; auto: begin it if there is none")
      ->expected(0, 1)
      ->type_name("[auto]")
      ->check(one_of({"on", "auto"}));
  arguments->ranks.add_to(command);
  command.add_flag("--report", arguments->report,
                   "Write RUN_DIR/report.html and draw it anew after every epoch: a browser tab left open follows");
  command.add_flag("--json", arguments->json, "Print a JSON object per epoch, as in the run's log.jsonl, and nothing else");
  command.add_flag("--quiet", arguments->quiet, "Print warnings and errors only");
  command.footer(
      "Examples:\n"
      "  smartmine train\n"
      "      draws characters of an invented script and learns to tell new ones apart, in about a minute\n"
      "  smartmine train --dataset folder --data-root photos --backbone googlenet --weights bvlc_googlenet.caffemodel --output run\n"
      "      your own photos, one folder per class; half of the classes test\n"
      "  smartmine train --resume --output run");
  command.callback([arguments, &command, &work] { work = [arguments, &command] { train(*arguments, command); }; });
}

}  // namespace smartmine::app
