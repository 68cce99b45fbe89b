#include "smartmine/train/trainer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "commands.h"
#include "console.h"
#include "interrupt.h"
#include "mined_summary.h"
#include "option_checks.h"
#include "ranks.h"
#include "report_page.h"
#include "smartmine/model/weights.h"
#include "smartmine/run/backbone_traits.h"
#include "smartmine/run/system_traits.h"
#include "smartmine/train/choose.h"
#include "smartmine/train/cost.h"
#include "smartmine/train/devices.h"
#include "smartmine/train/shared_run.h"
#include "train_settings.h"

namespace smartmine::app {
namespace {

struct TrainArguments {
  RunConfig config;
  std::string output;
  RankArguments ranks;
  std::string resumed;            // a directory, or auto: the one of --output, which is begun if there is none
  std::int64_t saved_epochs = 0;  // of a resumed run, as it was
  bool longer_asked = false;      // a resumed run was given its epochs, and not by the command that began it
  bool resume = false;
  bool report = false;
  bool json = false;
  bool quiet = false;
};

std::string percent(double share) { return fmt::format("{:.2f}", 100 * share); }

/// One line per epoch: what was learnt, what was mined, what it came to; where there is room also where the time went.
class EpochTable {
 public:
  std::string heading() const {
    std::string line = fmt::format("{:>5} {:>7} {:>7} {:>6} {:>7} {:>9} {:>7} {:>6} {:>8} {:>8}", "epoch", "loss", "error%", "kappa",
                                   "mined%", "recall@1%", "MAP@R%", "NMI%", "images/s", "seconds");
    if (wide_) line += fmt::format(" = {:>7} {:>7} {:>7} {:>7} {:>7} {:>7}", "embed", "lists", "longer", "select", "steps", "eval");
    return line + "\n";
  }

  std::string line(const EpochRecord& record) const {
    const bool trained = record.steps > 0;
    const auto of = [&](double RetrievalMetrics::*metric) { return record.metrics ? percent((*record.metrics).*metric) : "-"; };
    std::string line = fmt::format(
        "{:>5} {:>7} {:>7} {:>6} {:>7} {:>9} {:>7} {:>6} {:>8} {:>8.1f}", record.epoch,
        trained ? fmt::format("{:.4f}", record.loss()) : "-", trained ? percent(record.training_error()) : "-",
        record.kappa ? fmt::format("{:.2f}", *record.kappa) : "-", record.mining || record.grouping ? percent(record.mined_share()) : "-",
        of(&RetrievalMetrics::recall_at_1), of(&RetrievalMetrics::map_at_r), of(&RetrievalMetrics::nmi),
        trained ? fmt::format("{:.{}f}", record.images_per_second(), record.images_per_second() < 10 ? 1 : 0) : "-", record.seconds());
    if (wide_) line += "  ";
    for (const char* stage : {"embedding", "lists", "longer_lists", "selection", "steps", "evaluation"}) {
      const auto found = record.stage_seconds.find(stage);
      if (wide_) line += fmt::format(" {:>7.1f}", found == record.stage_seconds.end() ? 0.0 : found->second);
    }
    return line + "\n";
  }

 private:
  static constexpr std::size_t kWide = 129;
  bool wide_ = output_columns() >= kWide;
};

/// Seconds of the run after the steps of an epoch: evaluation, and the epochs to come, whose steps take as long as these and whose other
/// stages as long as those of the epoch before.
ProgressDisplay::Rest rest_of(const RunDirectory& run, std::int64_t epochs) {
  return [&run, epochs](std::string_view stage, double stage_seconds) {
    if (!stage.starts_with("epoch ") || run.log().empty()) return 0.0;
    const EpochRecord& last = run.log().back();
    const auto of = [&](const char* name) { return last.stage_seconds.contains(name) ? last.stage_seconds.at(name) : 0.0; };
    const auto to_come = static_cast<double>(std::max<std::int64_t>(0, epochs - last.epoch - 1));
    return of("evaluation") + to_come * (stage_seconds + last.seconds() - of("steps"));
  };
}

/// Says what is ahead before the hours begin.
void warn_of_hours(const RunConfig& config, std::int64_t done) {
  if (config.choosing.budget_seconds() > 0) return;  // it is not exceeded by hours
  constexpr double kHour = 3600, kWorthAWord = kHour / 4;
  const auto cost = cpu_cost(config);
  const double seconds = cost ? cost->epoch_seconds * static_cast<double>(config.schedule.epochs - done) : 0;
  if (seconds < kWorthAWord) return;
  warn(fmt::format(
      "note: on the CPU {} trains about {:.{}f} images/s: some {:.1f} hours for {} epochs of {} images{}. A GPU, a smaller "
      "--input-size, fewer --epochs, or --budget 2h shorten that",
      config.model.backbone, cost->images_per_second, cost->images_per_second < 10 ? 1 : 0, seconds / kHour, config.schedule.epochs - done,
      cost->images, config.resolved().choosing.choose == "on" && done == 0 ? ", and choosing up to as much again" : ""));
}

std::string trial_line(const std::string& name, std::size_t width, const HeldOutScore& score) {
  return fmt::format("  {:<{}} {:>9} {:>7}\n", name, width, percent(score.recall_at_1), percent(score.map_at_r));
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
  if (first != nullptr) {  // also where the start is all there is: that is the result
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
    if (kept) table += fmt::format("  kept: {}\n", run.weights_in_words());
    table += "\n";
  }
  table += mined_summary(run.log());
  const auto choice = read_choice(run.path());
  const std::string choosing = choice ? fmt::format(", {:.0f} s of them for choosing", choice->seconds) : "";
  if (choice) seconds += choice->seconds;
  return table + fmt::format("  {:.0f} s{}; the run is in {}\n", seconds, choosing, run.path().string());
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

/// What the file given with --config holds; nothing if there is none.
std::vector<TomlEntry> settings_file(const CLI::App& command) {
  const CLI::Option& given = *command.get_parent()->get_config_ptr();
  if (given.count() == 0) return {};
  std::ifstream file(given.as<std::string>(), std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  return parse_toml(text).entries;
}

/// Whether the settings come from a file that names its system: a recipe, which knows what it leaves out.
bool from_recipe(const CLI::App& command) {
  const std::vector<TomlEntry> settings = settings_file(command);
  return std::any_of(settings.begin(), settings.end(), [](const TomlEntry& each) { return each.name == "system" && each.value != "auto"; });
}

/// Whether they come from a file with a section for this system.
bool has_section_of(const CLI::App& command, const std::string& system) {
  const std::vector<TomlEntry> settings = settings_file(command);
  return std::any_of(settings.begin(), settings.end(), [&](const TomlEntry& each) { return each.section == "train." + system; });
}

/// The settings to begin with: the program's own or, for pretrained weights and no recipe, the best we know; then those given.
RunConfig settings_of(const CLI::App& command) {
  const auto given = given_settings(command);
  const auto value_of = [&](const std::string& name) {
    const auto found = std::find_if(given.begin(), given.end(), [&](const GivenSetting& each) { return each.first == name; });
    return found == given.end() ? std::string() : found->second;
  };
  const std::string weights = value_of("weights");
  std::string backbone = value_of("backbone");
  if (backbone.empty() && !weights.empty()) {
    const std::string found = network_of(without_wrapper(read_weights(weights)));
    if (known_backbone(found) == nullptr)
      throw UsageError(fmt::format("{}: these are {}; give --backbone, one of {}, or a TorchScript file", weights,
                                   found.empty() ? "weights of a network that nobody here knows" : "weights of " + found,
                                   fmt::join(backbone_names(), ", ")));
    backbone = found;
  }
  const bool pictures = !weights.empty() && (backbone == "googlenet" || backbone == "resnet18" || backbone == "resnet50");
  RunConfig config = !from_recipe(command) && (pictures || is_backbone_file(backbone)) ? best_config() : RunConfig();
  if (!pictures) {  // a file of one's own knows what it wants to see
    const NetworkOptions own;
    config.model.pooling = own.pooling;
    config.model.new_layer_start = own.new_layer_start;  // suit_new_layer sees to it
    config.model.input_size = config.model.image_size = config.model.evaluation_size = {};
  }
  if (!backbone.empty()) config.model.backbone = backbone;
  const std::string usual = config.system.name;
  set_given(config, given);
  if (config.system.name == "auto") config.system.name = usual;
  // Settings for the usual system alone are not tried with another.
  if (has_section_of(command, config.system.usual_name())) config.system.name = config.system.usual_name();
  // Who says how many epochs wants no more of them, however long the budget.
  if (!value_of("budget").empty() && !value_of("epochs").empty() && value_of("most-epochs").empty())
    config.choosing.most_epochs = std::max<std::int64_t>(1, config.schedule.epochs);
  if (value_of("rate-warmup-epochs").empty())
    config.schedule.rate_warmup_epochs = std::min(config.schedule.rate_warmup_epochs, static_cast<double>(config.schedule.epochs));
  return config;
}

/// The new layer of a network in a file, whose features are known only once it has been tried: as for the others, but of no more dimensions
/// than there are features. All ranks do as the first.
void suit_new_layer(RunConfig& config, const CLI::App& command, Ranks* ranks) {
  const bool first = ranks == nullptr || ranks->is_first();
  std::int64_t features = first ? check_network(config).value_or(0) : 0;
  if (ranks != nullptr) ranks->broadcast(&features, sizeof features);
  if (!is_backbone_file(config.model.backbone) || from_recipe(command)) return;
  if (command.count("--embedding-dim") == 0) config.model.embedding_dim = std::min(config.model.embedding_dim, features);
  // Components of very many features would take minutes, and gigabytes.
  constexpr std::int64_t kMostFeatures = 8192;
  if (command.count("--new-layer-start") == 0 && config.model.embedding_dim <= features && features <= kMostFeatures)
    config.model.new_layer_start = "components";
}

/// Finds out on held-out classes what to train with, and says what it does.
Choice choose(const RunConfig& config, RunDirectory& run, ProgressDisplay& display, bool table, bool json,
              const std::shared_ptr<Ranks>& ranks) {
  ChoiceEvents events;
  const bool systems = config.chooses_system();
  const std::size_t width = systems ? 56 : 38;
  if (table) {
    events.on_begin = [&](const Choice& choice) {
      if (choice.held_out_classes == 0 || choice.careful) return;
      display.finish();
      const char* const classes = choice.own_split ? "validation" : "held-out training";
      print(fmt::format("Choosing on {} {} classes, {} images:\n\n  {:<{}} {:>9} {:>7}\n", choice.held_out_classes, classes,
                        choice.held_out_images, "", width, "recall@1%", "MAP@R%"));
    };
    events.on_epoch = [&, said = false](const Trial& trial, const EpochRecord& record) mutable {
      display.finish();
      if (record.epoch == 0 && std::exchange(said, true)) return;
      const std::string name =
          fmt::format("{}rate {:g}, epoch {} of {}", systems ? trial.system + ", " : "", trial.learning_rate, record.epoch, trial.epochs);
      print(trial_line(record.epoch == 0 ? "at the start" : name, width, trial.score));
    };
  }
  const Choice choice = choose_settings(config, run, events, display.callback(), ranks);
  display.finish();
  if (table) print(fmt::format("\nChosen in {:.0f} s: {}.\n\n", choice.seconds, choice.reason));
  if (json) print(to_json_line(choice) + "\n");
  return choice;
}

/// Where little or nothing was learnt, a note of it for those who read no table.
void tell_choice(const RunDirectory& run) {
  const Choice choice = read_choice(run.path()).value();
  const bool start = choice.kept && in_words(*choice.kept) == in_words(KeptWeights{});
  if (choice.careful || (start && choice.epochs == 0))
    warn("note: " + choice.reason);
  else if (start)
    warn("note: the training does not beat the weights it starts from on the validation classes, so these are kept");
}

/// The settings of the command line, looked at before anything is begun.
void prepare(TrainArguments& arguments, const CLI::App& command) {
  const bool automatic = arguments.resumed == "auto";
  if (!automatic) {
    if (!arguments.resumed.empty() && !arguments.output.empty() && arguments.resumed != arguments.output)
      throw UsageError("--resume and --output name two directories; name the run to go on with once");
    if (!arguments.resumed.empty()) arguments.output = arguments.resumed;
  }
  if (automatic && arguments.output.empty()) throw UsageError("--resume auto needs --output, the directory of the run");
  if (arguments.resume && arguments.output.empty())
    throw UsageError("--resume needs the directory of the run to go on with: --resume RUN_DIR");
  arguments.resume = arguments.resume && !automatic;  // whether there is something to go on with is seen later
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
    find_traits(arguments.config.system.usual_name());
    if (!arguments.resume && arguments.config.resolved().choosing.choose == "on") check_choosing(arguments.config);
  } catch (const InvalidArgument& error) {
    // A resumed run brings its own settings; those given are looked at beside them.
    if (!arguments.resume || command.count("--dataset") > 0) throw UsageError(fmt::format("--{}", error.what()));
  }
  if (!arguments.resume && !arguments.config.choosing.budget.empty() && arguments.config.resolved().choosing.choose == "off")
    throw UsageError("--budget is for a training that is chosen; without --choose on, give --epochs instead");
}

/// Whether a run has been begun there.
bool is_begun(const std::string& output) {
  std::error_code none;
  return std::filesystem::exists(std::filesystem::path(output) / "config.toml", none);
}

/// The run's directory, new or to go on with, and in `arguments` the settings that it has. Rank 0 sees to it, and tells the others.
RunDirectory open_run(TrainArguments& arguments, const CLI::App& command, Ranks* ranks) {
  // Before anything that one rank would do and another not.
  if (ranks != nullptr)
    ranks->expect_same("work", fmt::format("train, {}\n", arguments.resumed == "auto" ? "--resume auto"
                                                          : arguments.resume          ? "--resume"
                                                                                      : "a new run"));
  if (arguments.resumed == "auto") {
    const bool begun = (ranks == nullptr || ranks->is_first()) && is_begun(arguments.output);
    arguments.resume = ranks == nullptr ? begun : ranks->broadcast(begun ? "begun" : "") == "begun";
  }
  auto given = given_settings(command);
  // What was left open when the run was begun has been settled since.
  std::erase_if(given, [](const GivenSetting& each) {
    return (each.first == "shards" || each.first == "network-threads" || each.first == "system") && each.second == "auto";
  });
  if (ranks != nullptr && arguments.resume) {
    std::string lines;
    for (const GivenSetting& each : given)
      if (changes_of(each.first) != Changes::kNothing) lines += fmt::format("{} = {}\n", each.first, each.second);
    ranks->expect_same("settings", lines);
  }
  if (!arguments.resume) share_out(arguments.config, ranks);
  if (!arguments.resume) suit_new_layer(arguments.config, command, ranks);
  if (ranks != nullptr && !arguments.resume) ranks->expect_same("settings", settings_of_all_ranks(arguments.config.resolved()));
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
    arguments.saved_epochs = saved.schedule.epochs;
    arguments.config = resumed_config(saved, given);
    const auto of_epochs = [](const GivenSetting& each) { return each.first == "epochs"; };
    arguments.longer_asked = arguments.resumed != "auto" && std::any_of(given.begin(), given.end(), of_epochs);
  } catch (const InvalidArgument& error) {
    throw UsageError(fmt::format("{} cannot be resumed with other settings: {}", run.path().string(), error.what()));
  }
  return run;
}

/// What comes after the last epoch: `work`. Who stops it is told how to go on, for all that was trained is there.
void after_training(const TrainArguments& arguments, ProgressDisplay& display, const std::function<void()>& work) {
  try {
    work();
  } catch (const Cancelled&) {
    display.finish();
    throw Interrupted(fmt::format("stopped after the training; smartmine train --resume {} does what is left", arguments.output));
  }
}

void train_as_rank(TrainArguments& arguments, const CLI::App& command, const std::shared_ptr<Ranks>& ranks) {
  const bool speaks = !ranks || ranks->is_first();
  ProgressDisplay display(arguments.quiet || arguments.json || !speaks);
  std::unique_ptr<Trainer> trainer;
  std::optional<RunDirectory> run = open_run(arguments, command, ranks.get());
  const bool table = !arguments.json && !arguments.quiet && speaks;
  arguments.report = arguments.report && speaks;
  const std::int64_t done = run->log().empty() ? 0 : run->log().back().epoch, planned = arguments.config.schedule.epochs;
  const bool longer = arguments.resume && planned > arguments.saved_epochs;
  std::optional<Choice> choice;
  try {
    if (!arguments.quiet && speaks && done < planned) warn_of_hours(arguments.config, done);
    if (arguments.config.resolved().choosing.choose == "on") {
      choice = choose(arguments.config, *run, display, table, arguments.json && speaks, ranks);
      arguments.config = chosen_config(arguments.config, *choice);
      // What a finished run was told to do beyond its choice stays.
      const bool beyond = longer || (arguments.resume && done >= choice->epochs && planned > done);
      if (beyond && (arguments.longer_asked || planned > choice->asked_epochs)) arguments.config.schedule.epochs = planned;
    }
    if (choice || longer) run->change_config(arguments.config);
    trainer = std::make_unique<Trainer>(arguments.config, *run, display.callback(), ranks);
  } catch (const Cancelled&) {
    display.finish();
    if (!arguments.resume) run->remove_if_unused();
    if (!std::filesystem::exists(run->path())) throw;
    throw Interrupted(fmt::format("stopped and saved; smartmine train --resume {} goes on", arguments.output));
  } catch (const IoError& error) {
    display.finish();
    if (!arguments.resume) run->remove_if_unused();  // nothing was trained: the same command can be given again
    if (!std::filesystem::exists(run->path()) || (arguments.resume && !choice)) throw;
    throw IoError(fmt::format("{}; once this is mended, smartmine train --resume {} goes on, and what was tried stays", error.what(),
                              arguments.output));
  } catch (...) {
    display.finish();
    if (!arguments.resume) run->remove_if_unused();
    throw;
  }
  display.finish();
  if (speaks)
    for (const std::string& note : trainer->notes()) warn("note: " + note);
  const EpochTable lines;
  display.expect(rest_of(*run, arguments.config.schedule.epochs));
  if (table) {
    const TrainingData& data = trainer->data();
    print(in_lines(fmt::format("{}: {} images of {} classes to train on, {} of {} {} classes to measure on; {}, on {}, into {}",
                               arguments.config.data.dataset, data.training_images, data.training_classes, data.evaluation_images,
                               data.evaluation_classes, data.evaluated_on, arguments.config.system.usual_name(), data.device,
                               arguments.output)) +
          "\n\n");
    print(lines.heading());
    for (const EpochRecord& record : run->log()) print(lines.line(record));  // of a run that goes on
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
      if (table) print(lines.line(record));
    });
  } catch (const Cancelled&) {
    display.finish();
    page.draw(false, false);
    throw Interrupted(fmt::format("stopped and saved after epoch {} and the steps since; smartmine train --resume {} goes on",
                                  trainer->epochs_done(), arguments.output));
  } catch (const TrainingStopped& error) {
    display.finish();
    std::error_code none;
    if (!choice || !std::filesystem::exists(run->start_path(), none)) throw;
    const Progress progress = ranks ? ranks->watched(display.callback()) : display.callback();
    if (speaks) {
      after_training(arguments, display, [&] { keep_start(arguments.config, *run, *choice, progress); });
      display.finish();
    }
    if (ranks) ranks->expect_same("end", "stopped\n");  // who started the ranks ends all soon after the first
    throw TrainingStopped(fmt::format("{}; the weights it starts from are kept", error.what()));
  }
  display.expect({});
  std::optional<EpochRecord> kept;
  after_training(arguments, display, [&] {
    if (choice && speaks) kept = keep_chosen(arguments.config, *run, *choice, display.callback());
    page.draw(false, true, display.callback());
  });
  display.finish();
  if (table) print(summary(*run, kept));
  if (table && arguments.report) print(fmt::format("  the report is {}\n", page.path().string()));
  if (choice && speaks && !table) tell_choice(*run);
}

void train(TrainArguments& arguments, const CLI::App& command) {
  prepare(arguments, command);
  start_ranks(arguments.ranks);
  const std::shared_ptr<Ranks> ranks = join_ranks(arguments.ranks);
  run_as_rank(ranks, [&] { train_as_rank(arguments, command, ranks); });
}

/// For the help.
std::string systems() {
  std::string text = "Systems:";
  for (const SystemTraits& traits : system_traits()) text += fmt::format("\n  {:<30} {}", traits.name, traits.description);
  return text;
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
      .add_option("--resume", arguments->resumed,
                  "Go on with this run, or the one in --output, from its last checkpoint, with its settings; more --epochs make it longer; "
                  "auto: begin the one in --output if there is none")
      ->type_name("RUN_DIR")
      ->expected(0, 1);
  arguments->ranks.add_to(command);
  command.add_flag("--report", arguments->report,
                   "Write RUN_DIR/report.html and draw it anew after every epoch: a browser tab left open follows");
  command.add_flag("--json", arguments->json,
                   "Print a JSON object per epoch, as in the run's log.jsonl, before them one of what was chosen, and nothing else");
  command.add_flag("--quiet", arguments->quiet, "Print warnings and errors only");
  command.footer(
      "Examples:\n"
      "  smartmine train\n"
      "      draws characters of an invented script and learns to tell new ones apart, in about a minute\n"
      "  smartmine train --dataset folder --data-root photos --backbone googlenet --weights bvlc_googlenet.caffemodel --output run\n"
      "      your own photos, one folder per class; half of the classes test\n"
      "  smartmine train --resume run\n"
      "  smartmine train --resume run --epochs 20\n"
      "      goes on with a run that is finished, to 20 epochs in all\n\n" +
      systems());
  command.callback([arguments, &command, &work] {
    arguments->resume = command.count("--resume") > 0;
    work = [arguments, &command] { train(*arguments, command); };
  });
}

}  // namespace smartmine::app
