#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "files.h"
#include "program.h"
#include "smartmine/core/random.h"
#include "train/made_folder.h"

namespace smartmine::test {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST(TwoPrograms, TheVersionSaysWhatCanBeTrainedOn) {
  const TemporaryFolder folder;
  std::filesystem::copy_file(SMARTMINE_PROGRAM, folder / "smartmine");
  const Outcome alone = Process({folder / "smartmine", "--version"}).wait(), both = smartmine({"--version"});
  EXPECT_EQ(alone.status, 0);
  EXPECT_THAT(alone.out, ::testing::EndsWith("\nno training: without LibTorch\n"));
  EXPECT_EQ(both.status, 0);
  EXPECT_THAT(both.out, HasSubstr("\nLibTorch "));
  EXPECT_THAT(both.out, HasSubstr("; trains on cpu"));
  EXPECT_EQ(alone.out.substr(0, alone.out.find('\n')), both.out.substr(0, both.out.find('\n')));
}

TEST(TwoPrograms, ThreadsThatWaitSoonSleepUnlessSomebodySaysOtherwise) {
  // OpenMP's own library tells what it has read; a program that starts itself again is asked twice.
  const auto told = [](const char* program, std::map<std::string, std::string> environment) {
    environment["OMP_DISPLAY_ENV"] = "verbose";
    const std::string text = Process({program, "--version"}, {.environment = environment}).wait().err;
    const std::size_t last = text.rfind("GOMP_SPINCOUNT = '");
    return last == std::string::npos ? "" : text.substr(last + 18, text.find('\'', last + 18) - last - 18);
  };
  for (const char* program : {SMARTMINE_PROGRAM, SMARTMINE_TORCH_PROGRAM}) {
    if (told(program, {}).empty()) GTEST_SKIP() << "this OpenMP library does not tell";
    EXPECT_EQ(told(program, {}), "10000") << program;
    EXPECT_EQ(told(program, {{"GOMP_SPINCOUNT", "77"}}), "77") << program;
    EXPECT_EQ(told(program, {{"OMP_WAIT_POLICY", "passive"}}), "0") << program;
  }
}

TEST(TwoPrograms, OnlyWhatNeedsTorchNeedsTheSecond) {
  const TemporaryFolder folder;
  std::filesystem::copy_file(SMARTMINE_PROGRAM, folder / "smartmine");
  const auto alone = [&](std::vector<std::string> words) {
    words.insert(words.begin(), folder / "smartmine");
    return Process(words).wait();
  };
  using Words = std::vector<std::string>;
  for (const Words& words : {Words{"knn", "--help"},
                             {"mine", "--help"},
                             {"report", "--help"},
                             {"compare", "--help"},
                             {"eval", "--embeddings", "none.npy", "--labels", "none.npy"}}) {
    const Outcome outcome = alone(words);
    Words complete = words;
    complete.insert(complete.begin(), SMARTMINE_TORCH_PROGRAM);
    const Outcome whole = Process(complete).wait();
    EXPECT_EQ(outcome.status, whole.status) << words.front();
    EXPECT_EQ(outcome.out, whole.out);
    EXPECT_EQ(outcome.err, whole.err);
    EXPECT_THAT(outcome.err, Not(HasSubstr("torch")));
  }
  for (const Words& words : {Words{"train"},
                             {"embed"},
                             {"eval", "--run", "run"},
                             {"eval", "--embeddings", "x.npy", "-h"},
                             {"knn", "--config", "some.toml"},
                             {"--quiet", "knn"},
                             {"nkn"},
                             {"--help"},
                             {}}) {
    const Outcome outcome = alone(words);
    EXPECT_EQ(outcome.status, 1);
    EXPECT_THAT(outcome.err,
                AllOf(StartsWith("smartmine: "), HasSubstr("smartmine-torch: not found; smartmine train, embed and eval --run")));
  }
}

class Train : public ::testing::Test {
 protected:
  Train() { make_image_folder(folder_ / "images"); }

  /// A run of a few seconds at most.
  std::vector<std::string> command(const std::string& run, const std::vector<std::string>& more = {}) {
    std::map<std::string, std::string> options = {{"--dataset", "folder"},    {"--data-root", folder_ / "images"},
                                                  {"--channels", "1"},        {"--input-size", "16"},
                                                  {"--embedding-dim", "8"},   {"--batch-size", "6"},
                                                  {"--epochs", "3"},          {"--warmup-epochs", "1"},
                                                  {"--threads", "1"},         {"--triplets-per-anchor", "1"},
                                                  {"--output", folder_ / run}};
    std::vector<std::string> words = {"train"};
    for (std::size_t i = 0; i < more.size(); ++i) {
      if (i + 1 < more.size() && !more[i + 1].starts_with("--"))
        options[more[i]] = more[i + 1], ++i;
      else
        words.push_back(more[i]);  // a flag
    }
    for (const auto& [name, value] : options) words.insert(words.end(), {name, value});
    return words;
  }
  Outcome run(const std::string& name, const std::vector<std::string>& more = {}, const Surroundings& surroundings = {}) {
    return smartmine(command(name, more), surroundings);
  }
  void expect_refused(int status, const std::string& text, const std::vector<std::string>& more) {
    std::vector<std::string> quietly = more;
    quietly.push_back("--quiet");
    const Outcome outcome = run("refused", quietly);
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
    EXPECT_EQ(outcome.status, status) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(text));
    EXPECT_FALSE(std::filesystem::exists(folder_ / "refused")) << "left something behind";
  }
  std::string file(const std::string& name) { return read_text(folder_ / name); }
  std::string model(const std::string& run) { return file(run + "/checkpoint/model.safetensors"); }

  TemporaryFolder folder_;
};

TEST_F(Train, IsTheSameToTheLastBitOnOneCoreAndOnTwo) {
  for (const std::string threads : {"1", "2"}) {
    const Outcome outcome = run("threads" + threads, {"--threads", threads, "--quiet"});
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_THAT(file("threads" + threads + "/config.toml"), AllOf(HasSubstr("\nshards = 2\n"), HasSubstr("\nnetwork-threads = 1\n")));
  }
  EXPECT_EQ(model("threads1"), model("threads2"));
  EXPECT_EQ(file("threads1/metrics.csv"), file("threads2/metrics.csv"));
}

TEST_F(Train, PrintsALineAnEpochAndATable) {
  const Outcome outcome = run("run");
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("36 images of 6 classes to train on"), HasSubstr("recall@1%"), HasSubstr("at start"), HasSubstr("map@r")));
  EXPECT_THAT(run("plain", {"--choose", "off", "--epochs", "1"}).out, ::testing::ContainsRegex("[ \n]triplet-fanng-global-adaptive,"));
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("  triplets mined "), HasSubstr(" of 36 in epoch 3; "), HasSubstr("; by exact, recall 1.000\n")));
  EXPECT_THAT(file("run/config.toml"), AllOf(HasSubstr("system = \"triplet-fanng-global-adaptive\""), HasSubstr("flip = \"on\"")));
  EXPECT_THAT(file("run/metrics.csv"), StartsWith("epoch,split,training_error,kappa,loss,recall@1,recall@2,recall@4,recall@8,nmi,"));
}

TEST_F(Train, PrintsTheLogWithJsonAndWritesItsFields) {
  const Outcome outcome = run("run", {"--json"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const std::size_t end = outcome.out.find('\n') + 1;
  EXPECT_EQ(json::parse(outcome.out.substr(0, end)).at("choice").at("careful"), true);
  EXPECT_EQ(outcome.out.substr(end), file("run/log.jsonl"));
  std::istringstream lines(outcome.out.substr(end));
  int epoch = 0;
  for (std::string line; std::getline(lines, line); ++epoch) {
    const json record = json::parse(line);
    EXPECT_EQ(record.at("epoch"), epoch);
    for (const char* name : {"recall@1", "recall@2", "recall@4", "recall@8", "nmi", "nmi_geometric", "map@r", "r_precision"})
      EXPECT_TRUE(record.at("metrics").at(name).is_number()) << name;
    EXPECT_EQ(record.at("device"), "cpu");
    if (epoch == 0) {
      EXPECT_TRUE(record.at("training_error").is_null());
      continue;
    }
    EXPECT_TRUE(record.at("training_error").is_number());
    EXPECT_TRUE(record.at("loss").is_number());
    EXPECT_EQ(record.at("step_losses").at("values").size(), record.at("steps"));
    EXPECT_EQ(record.at("kappa").is_number(), epoch > 1);
    EXPECT_TRUE(record.at("stage_seconds").at("steps").is_number());
    EXPECT_EQ(record.at("mining").at("triplets"), 36);
  }
  EXPECT_EQ(epoch, 4);
}

TEST_F(Train, TakesSettingsFromAFileAndGivesThemBackForTheSameRun) {
  ASSERT_EQ(run("one", {"--seed", "7", "--dropout", "0.1", "--save-epochs", "1,2"}).status, 0);
  const Outcome outcome = smartmine({"train", "--config", folder_ / "one/config.toml", "--output", folder_ / "two"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(file("one/config.toml"), file("two/config.toml"));
  EXPECT_EQ(model("one"), model("two"));
  EXPECT_EQ(file("one/triplets/epoch-0002.npy"), file("two/triplets/epoch-0002.npy"));
}

// A setting that one system takes and another refuses shows which of two was taken.
TEST_F(Train, AFileWithoutASystemHasTheSameDefaultsAsTheCommandLine) {
  const auto outcome = [&](const std::string& more) {
    write_text(folder_ / "own.toml", "dataset = \"folder\"\ndata-root = \"images\"\nbackbone = \"net.pt\"\nfind-kappa = true\n" + more);
    return smartmine({"train", "--config", folder_ / "own.toml", "--output", folder_ / "own"}).err;
  };
  EXPECT_THAT(outcome(""), HasSubstr("class-batch has no controller"));
  EXPECT_THAT(outcome("system = \"triplet-fanng-global-adaptive\"\n"), HasSubstr("net.pt: cannot read"));
  EXPECT_THAT(outcome("system = \"auto\"\n"), HasSubstr("class-batch has no controller"));
}

TEST_F(Train, AFileThatSetsOnlyTheEpochsLeavesTheBestSettingsToWeights) {
  write_text(folder_ / "own.toml", "epochs = 3\nfind-kappa = true\n");
  const auto outcome = [&](const char* option, const std::string& value) {
    return smartmine({"train", "--config", folder_ / "own.toml", "--backbone", "googlenet", "--dataset", "folder", "--data-root",
                      folder_ / "images", "--output", folder_ / "own", option, value});
  };
  const Outcome with = outcome("--weights", folder_ / "none.safetensors");
  EXPECT_EQ(with.status, 2);
  EXPECT_THAT(with.err, HasSubstr("class-batch has no controller"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "own"));
}

/// Enough small pictures to hold some classes out.
class TrainSystems : public Train {
 protected:
  TrainSystems() { make_image_folder(folder_ / "many", 40, 16); }
  Outcome choose(const std::string& name, std::vector<std::string> more = {}) {
    more.insert(more.end(), {"--choose", "on", "--data-root", folder_ / "many", "--epochs", "4"});
    return run(name, more);
  }
};

TEST_F(TrainSystems, TellsWhichSystemsWereTried) {
  const Outcome outcome = choose("run");
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("  triplet-fanng-global-adaptive, rate 0.1, epoch 1 of 1 "),
                                 HasSubstr("  neighbor-batch, rate 0.1, epoch 1 of 1 ")));
  const json choice = json::parse(file("run/choice.json"));
  const std::string system = choice.at("chosen").at("system");
  EXPECT_THAT(file("run/config.toml"), HasSubstr("\nsystem = \"" + system + "\"\n"));
  for (const json& trial : choice.at("trials"))
    EXPECT_THAT(trial.at("name").get<std::string>(), HasSubstr(trial.at("settings").at("system")));
  // The command again, in either way of saying that nothing is given.
  EXPECT_EQ(choose("run", {"--resume", "auto"}).status, 0);
  EXPECT_EQ(choose("run", {"--resume", "auto", "--system", "auto"}).status, 0);
  const Outcome other = choose("run", {"--resume", "auto", "--system", "npairs"});
  EXPECT_EQ(other.status, 2);
  EXPECT_THAT(other.err, HasSubstr("--system is \"npairs\", the run has \"" + system + "\""));
}

TEST_F(TrainSystems, ThereIsNoneToChooseWhereAFileHasASectionForTheUsualOne) {
  write_text(folder_ / "own.toml", "[train.triplet-fanng-global-adaptive]\nmargin = 0.3\n");
  const Outcome outcome = choose("run", {"--config", folder_ / "own.toml"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, Not(HasSubstr("neighbor-batch")));
  EXPECT_THAT(file("run/config.toml"), AllOf(HasSubstr("margin = 0.3\n"), HasSubstr("\nsystem = \"triplet-fanng-global-adaptive\"\n")));
}

TEST_F(Train, EmbedsAFolderAndMeasuresARun) {
  ASSERT_EQ(run("run", {"--json"}).status, 0);
  const Outcome embedded = smartmine({"embed", "--run", folder_ / "run", "--input", folder_ / "images", "--output", folder_ / "x.npy"});
  ASSERT_EQ(embedded.status, 0) << embedded.err;
  const auto matrix = read_float32(folder_ / "x.npy");
  EXPECT_EQ(matrix.rows, kMadeClasses * kMadeImages);
  EXPECT_EQ(matrix.columns, 8U);
  std::istringstream paths(file("x.paths.txt"));
  std::size_t count = 0;
  std::string first;
  for (std::string line; std::getline(paths, line); ++count)
    if (count == 0) first = line;
  EXPECT_EQ(count, matrix.rows);
  EXPECT_THAT(first, HasSubstr("class10/0.png"));

  const Outcome measured = smartmine({"eval", "--run", folder_ / "run", "--json", "--threads", "1"});
  ASSERT_EQ(measured.status, 0) << measured.err;
  const json metrics = json::parse(measured.out);
  const std::string log = file("run/log.jsonl");
  const json last = json::parse(log.substr(log.rfind('\n', log.size() - 2) + 1));
  for (const char* name : {"recall@1", "recall@8", "nmi", "map@r", "r_precision"})
    EXPECT_DOUBLE_EQ(metrics.at(name).get<double>(), last.at("metrics").at(name).get<double>()) << name;
  EXPECT_EQ(metrics.at("size"), 36);
}

TEST_F(Train, SaysHowToGoOnWithARunThatHasNoCheckpointYet) {
  ASSERT_EQ(run("run", {"--epochs", "0", "--quiet"}).status, 0);
  std::filesystem::remove_all(folder_ / "run/checkpoint");  // as one that was stopped while it chose
  std::filesystem::remove(folder_ / "run/log.jsonl");
  const std::string told =
      "run: this run has no checkpoint yet; if it was stopped, smartmine train --resume " + (folder_ / "run") + " goes on";
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"embed", "--run", folder_ / "run", "--input", folder_ / "images", "--output", folder_ / "x.npy"},
        {"eval", "--run", folder_ / "run"}}) {
    const Outcome outcome = smartmine(words);
    EXPECT_EQ(outcome.status, 1);
    EXPECT_THAT(outcome.err, HasSubstr(told)) << words.front();
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  }
}

TEST_F(Train, RefusesADirectoryThatIsThereAndResumesIt) {
  ASSERT_EQ(run("run").status, 0);
  const std::string before = file("run/log.jsonl");
  const Outcome again = run("run");
  EXPECT_EQ(again.status, 1);
  EXPECT_THAT(again.err, HasSubstr("run: exists already; --resume goes on with the run in it"));
  EXPECT_EQ(file("run/log.jsonl"), before);
  const Outcome resumed = smartmine({"train", "--resume", "--output", folder_ / "run"});
  EXPECT_EQ(resumed.status, 0) << resumed.err;
  EXPECT_EQ(file("run/log.jsonl"), before);
}

TEST_F(Train, AFinishedRunIsExtendedToTheBitsOfALongerOne) {
  ASSERT_EQ(run("run", {"--epochs", "2"}).status, 0);
  const Outcome longer = smartmine({"train", "--resume", folder_ / "run", "--epochs", "3"});
  ASSERT_EQ(longer.status, 0) << longer.err;
  ASSERT_EQ(run("whole", {"--epochs", "3"}).status, 0);
  EXPECT_EQ(model("run"), model("whole"));
  EXPECT_THAT(file("run/config.toml"), HasSubstr("epochs = 3\n"));
  EXPECT_EQ(file("run/config.toml"), file("whole/config.toml"));
  const Outcome shorter = smartmine({"train", "--resume", folder_ / "run", "--epochs", "2"});
  EXPECT_EQ(shorter.status, 2);
  EXPECT_THAT(shorter.err, HasSubstr("--epochs is 2, the run has 3"));
}

TEST_F(Train, HelpListsTheSystemsAndTheTableFitsATerminal) {
  const std::string help = smartmine({"train", "--help"}).out;
  for (const char* name : {"semihard", "triplet-fanng-global-adaptive", "neighbor-batch"})
    EXPECT_THAT(help, HasSubstr(std::string("\n  ") + name + " ")) << name;
  // `script` gives the program a terminal of 80 columns.
  if (std::system("command -v script >/dev/null") != 0) GTEST_SKIP() << "there is no script(1) to make a terminal with";
  std::string words;
  for (const std::string& word : command("run")) words += " '" + word + "'";
  const std::string typed = "stty cols 80; exec " SMARTMINE_PROGRAM + words;
  const Outcome outcome = Process({"/bin/sh", "-c", "TERM=xterm script -q -e -c \"" + typed + "\" '" + folder_ / "typed" + "'"}).wait();
  ASSERT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  std::istringstream lines(file("typed"));
  std::size_t rows = 0, drawn = 0;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream parts(line);  // a carriage return begins the line again
    for (std::string part; std::getline(parts, part, '\r');) {
      const bool cleared = part.starts_with("\x1b[2K");
      if (cleared) part = part.substr(4);
      const bool row = part.starts_with("    ") || part.starts_with("epoch  ");
      rows += row ? 1 : 0;
      // After the line of progress is cleared, sentences may follow in its place: these are wrapped by the terminal.
      const bool progress = cleared && part.find('[') != std::string::npos && part.find('%') != std::string::npos;
      drawn += progress ? 1 : 0;
      if (row || progress) {
        EXPECT_LE(part.size(), 80U) << part;
      }
    }
  }
  EXPECT_GE(rows, 5U) << file("typed");  // a heading and four epochs
  EXPECT_GE(drawn, 1U) << file("typed");
}

TEST_F(Train, NamesTheDifferenceWhenResumedWithOtherSettings) {
  ASSERT_EQ(run("run").status, 0);
  const std::string before = model("run");
  const Outcome outcome =
      smartmine({"train", "--resume", "--output", folder_ / "run", "--learning-rate", "0.5", "--seed", "9", "--epochs", "3"});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("cannot be resumed with other settings: --learning-rate is 0.5, the run has"),
                                 HasSubstr("--seed is 9, the run has 1"), Not(HasSubstr("--epochs"))));
  EXPECT_EQ(model("run"), before);
  EXPECT_EQ(smartmine({"train", "--resume", "--output", folder_ / "none"}).status, 1);
  EXPECT_EQ(smartmine({"train", "--resume"}).status, 2);
  EXPECT_EQ(smartmine({"train", "--resume", folder_ / "run", "--output", folder_ / "other"}).status, 2);
}

TEST_F(Train, RefusesBadInputInOneLine) {
  expect_refused(2, "system is 'magic'; it must be one of semihard", {"--system", "magic"});
  expect_refused(2, "epochs is -1", {"--epochs", "-1"});
  expect_refused(2, "--learning-rate is -1; it must be above 0", {"--learning-rate", "-1"});
  expect_refused(2, "dataset is 'mnist'", {"--dataset", "mnist"});
  expect_refused(2, "seed", {"--seed", "-1"});
  expect_refused(1, "nowhere", {"--data-root", folder_ / "nowhere"});
  expect_refused(1, "neighbors is 36; with 36 training images it must be at most 35", {"--neighbors", "36"});
  write_text(folder_ / "weights", "no weights");
  expect_refused(1, "weights", {"--weights", folder_ / "weights"});
  expect_refused(1, "device is 'cuda', but no CUDA device can be used here", {"--device", "cuda"});
}

TEST_F(Train, RefusesWeightsOfAnotherNetwork) {
  ASSERT_EQ(run("small").status, 0);
  const Outcome outcome = run("other", {"--weights", folder_ / "small/checkpoint/model.safetensors", "--channels", "3"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("model.safetensors"), HasSubstr("'conv1.weight' [32, 1, 5, 5] instead of [32, 3, 5, 5]")));
  EXPECT_EQ(outcome.out, "") << "something had been begun";
  EXPECT_EQ(run("same", {"--weights", folder_ / "small/checkpoint/model.safetensors"}).status, 0);
}

TEST_F(Train, NamesABadImageOrGoesOnWithoutIt) {
  write_text(folder_ / "images/class10/1.png", "");
  write_text(folder_ / "images/class12/1.png", "no image");
  const Outcome refused = run("run");
  EXPECT_EQ(refused.status, 1);
  EXPECT_THAT(refused.err, HasSubstr("class10/1.png"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "run"));
  const Outcome skipped = run("run", {"--skip-bad-images"});
  EXPECT_EQ(skipped.status, 0) << skipped.err;
  EXPECT_THAT(skipped.err, HasSubstr("2 bad images of the train half were skipped"));
  EXPECT_THAT(skipped.out, HasSubstr("34 images of 6 classes"));
}

TEST_F(Train, TheClosingTableSaysWhichWeightsAreKept) {
  const Outcome outcome = run("run", {"--choose", "on"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("\n  kept: epoch 3\n"));
}

TEST_F(Train, TheSameCommandWithResumeAutoDoesNotGoBeyondTheChoice) {
  make_image_folder(folder_ / "many", 40, 16);  // enough to hold some classes out
  const std::vector<std::string> words = {"--choose", "on",       "--data-root", folder_ / "many", "--learning-rate",
                                          "1e-9",     "--resume", "auto",        "--epochs",       "2"};
  for (int i = 0; i < 2; ++i) {
    const Outcome outcome = run("run", words);
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    const std::string log = read_text(folder_ / "run/log.jsonl");
    EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 1) << "no training helps, so none is done, whatever is said again";
  }
  const Outcome longer = smartmine({"train", "--resume", folder_ / "run", "--epochs", "2", "--quiet"});
  ASSERT_EQ(longer.status, 0) << longer.err;
  const std::string log = read_text(folder_ / "run/log.jsonl");
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 3) << "who names the run and more epochs wants them";
}

TEST_F(Train, ABadImageAfterAChoiceNamesTheWayToGoOn) {
  ASSERT_EQ(run("run", {"--choose", "on", "--quiet"}).status, 0);
  write_text(folder_ / "images/class20/1.png", "");
  const Outcome outcome = smartmine({"train", "--resume", folder_ / "run", "--epochs", "5", "--quiet"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("class20/1.png"), HasSubstr("smartmine train --resume " + (folder_ / "run") + " goes on")));
  EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
}

TEST_F(Train, EpochsThatAreGivenAreTheMostThatABudgetComesTo) {
  const auto most = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = {"--budget", "60s", "--quiet", "--choose", "on"};
    words.insert(words.end(), more.begin(), more.end());
    std::filesystem::remove_all(folder_ / "run");
    EXPECT_EQ(run("run", words).status, 0);
    const std::string settings = file("run/config.toml");
    const std::size_t at = settings.find("\nmost-epochs = ") + 15;
    return settings.substr(at, settings.find('\n', at) - at);
  };
  EXPECT_EQ(most({"--epochs", "2"}), "2");
  EXPECT_EQ(most({"--epochs", "2", "--most-epochs", "3"}), "3");
}

TEST_F(Train, TellsNobodyOfHoursThatABudgetWillNotTake) {
  ASSERT_EQ(run("small", {"--epochs", "1", "--quiet"}).status, 0);
  const Outcome outcome = run(
      "run", {"--weights", folder_ / "small/checkpoint/model.safetensors", "--epochs", "1000000", "--most-epochs", "1", "--budget", "60s"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.err, Not(HasSubstr("hours")));
}

TEST_F(Train, SaysThatATableDisagreesWithTheFolder) {
  write_text(folder_ / "images/labels.csv", "path,label\nclass10/0.png,1\nclass10/99.png,2\n");
  expect_refused(1, "class10/99.png", {});
}

TEST_F(Train, LeavesWhatAReportNeeds) {
  ASSERT_EQ(run("run", {"--quiet"}).status, 0);
  write_text(folder_ / "page.html", "<script id=\"report-data\" type=\"application/json\">null</script>");
  const Outcome outcome = smartmine({"report", folder_ / "run", "--template", folder_ / "page.html", "--output", folder_ / "report.html"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.err.find("note"), std::string::npos) << outcome.err;
  const std::string page = file("report.html");
  const std::size_t begin = page.find('{');
  const json data = json::parse(page.substr(begin, page.rfind('}') + 1 - begin));
  const json& made = data.at("runs").at(0);
  EXPECT_TRUE(data.at("problems").empty());
  EXPECT_EQ(made.at("finished"), true);
  EXPECT_EQ(made.at("map").at("points"), 36);
  EXPECT_EQ(made.at("map").at("names").at(0), "class16/0.png");
  EXPECT_EQ(made.at("map").at("classes").at(0), "class16");
  EXPECT_EQ(made.at("map").at("thumbnails").at("sheets").size(), 1U);
  EXPECT_EQ(made.at("triplets").at("anchors").size(), 6U);
  for (const json& anchor : made.at("triplets").at("anchors"))
    for (const json& epoch : anchor.at("epochs"))
      for (const json& triplet : epoch.at("random")) {
        EXPECT_EQ(triplet.at("positive").at("class"), anchor.at("class"));
        EXPECT_NE(triplet.at("negative").at("class"), anchor.at("class"));
      }
  const json& image = made.at("gallery").at("queries").at(0).at("image");  // its number among the pictures
  EXPECT_THAT(data.at("pictures").at(image.get<std::size_t>()).get<std::string>(), StartsWith("data:image/jpeg;base64,"));
}

TEST_F(Train, DrawsAPageAsItGoesOrSaysThatThereIsNone) {
  const Outcome outcome = run("run", {"--report", "--quiet"});
  if (outcome.status == 0) {
    EXPECT_THAT(file("run/report.html"), AllOf(HasSubstr("\"refresh_seconds\":null"), HasSubstr("\"points\":36")));
  } else {
    EXPECT_EQ(outcome.status, 1);
    EXPECT_THAT(outcome.err, HasSubstr("was built without the report page"));
    EXPECT_FALSE(std::filesystem::exists(folder_ / "run"));
  }
}

class TrainLong : public Train {
 protected:
  std::vector<std::string> long_command(const std::string& run) { return command(run, {"--epochs", "12", "--quiet"}); }
  Outcome resume(const std::string& run, const Surroundings& surroundings = {}) {
    return smartmine({"train", "--resume", "--quiet", "--output", folder_ / run}, surroundings);
  }
  /// Starts a run and sends it a signal after so many milliseconds; its outcome, or that of a run which was faster.
  Outcome cut(const std::string& run, int signal, std::uint64_t milliseconds) {
    std::vector<std::string> words = long_command(run);
    words.insert(words.begin(), SMARTMINE_PROGRAM);
    Process process(words);
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
    process.send(signal);
    return process.wait();
  }
};

TEST_F(TrainLong, KilledAtAnyMomentAndResumedEndsLikeAnUncutRun) {
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_EQ(smartmine(long_command("whole")).status, 0);
  const auto milliseconds =
      static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - begin).count());
  Random random(static_cast<std::uint64_t>(begin.time_since_epoch().count()));
  for (int i = 0; i < 5; ++i) {
    const std::string name = "cut" + std::to_string(i);
    const std::uint64_t after = random.below(milliseconds + 1);
    cut(name, SIGKILL, after);
    if (!std::filesystem::exists(folder_ / (name + "/config.toml"))) continue;  // it had not begun
    const Outcome resumed = resume(name);
    EXPECT_EQ(resumed.status, 0) << "killed after " << after << " ms: " << resumed.err;
    EXPECT_EQ(file(name + "/metrics.csv"), file("whole/metrics.csv")) << "killed after " << after << " ms";
    EXPECT_EQ(model(name), model("whole"));
  }
}

TEST_F(TrainLong, CtrlCSavesAndAFullDiskLeavesWhatWasSaved) {
  ASSERT_EQ(smartmine(long_command("whole")).status, 0);
  Outcome stopped;
  for (std::uint64_t wait = 4000; wait > 0; wait /= 2) {  // until it is stopped in time
    std::filesystem::remove_all(folder_ / "run");
    stopped = cut("run", SIGINT, wait);
    if (stopped.status != 0) break;
  }
  ASSERT_EQ(stopped.status, 130) << stopped.err;
  EXPECT_THAT(stopped.err, HasSubstr("stopped and saved after epoch"));
  const std::string saved = model("run");
  const std::string state = file("run/checkpoint/state.json");
  // Room for pictures of triplets, none for a network.
  const Outcome full = resume("run", {.environment = {}, .most_bytes_per_file = 300000, .out = ""});
  EXPECT_EQ(full.status, 1);
  EXPECT_THAT(full.err, HasSubstr("model.safetensors"));
  EXPECT_EQ(model("run"), saved);
  EXPECT_EQ(file("run/checkpoint/state.json"), state);
  ASSERT_EQ(resume("run").status, 0);
  EXPECT_EQ(file("run/metrics.csv"), file("whole/metrics.csv"));
  EXPECT_EQ(model("run"), model("whole"));
}

}  // namespace
}  // namespace smartmine::test
