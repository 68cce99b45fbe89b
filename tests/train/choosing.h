#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "smartmine/core/error.h"
#include "smartmine/data/glyphs.h"
#include "smartmine/model/weights.h"
#include "smartmine/train/choose.h"
#include "smartmine/train/trainer.h"

namespace smartmine {

inline std::string bytes_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Pictures of many classes, and weights to start from.
class Choosing : public ::testing::Test {
 protected:
  Choosing() {
    static int number = 0;
    root_ = std::filesystem::temp_directory_path() / fmt::format("smartmine-choose-{}-{}", getpid(), number++);
    make_images(24);
    config_.data.dataset = "folder";
    config_.data.root = (root_ / "images").string();
    config_.model.channels = 1;
    config_.model.input_size = 16;
    config_.model.embedding_dim = 8;
    config_.schedule.epochs = 4;
    config_.system.name = "class-batch";
    config_.system.batch_size = 8;
    config_.system.triplets_per_anchor = 1;
    config_.compute.threads = 1;
    config_.compute.device = "cpu";
    NamedTensors trunk = make_model({.embedding_dimension = 8, .input_size = 16, .channels = 1})->state();
    trunk.erase("embedding.weight");
    trunk.erase("embedding.bias");
    write_safetensors(root_ / "trunk.safetensors", trunk);
    config_.model.weights = (root_ / "trunk.safetensors").string();
    config_.schedule.learning_rate = 0.02;
    config_.choosing.choose = "on";
  }
  ~Choosing() override { std::filesystem::remove_all(root_); }

  void make_images(std::size_t classes) const {
    std::filesystem::remove_all(root_ / "images");
    const GlyphOptions options{.classes = classes, .images_per_class = 20, .size = 16};
    for (std::size_t c = 0; c < classes; ++c) {
      const auto folder = root_ / "images" / fmt::format("class{}", 10 + c);
      std::filesystem::create_directories(folder);
      for (std::size_t i = 0; i < 20; ++i) write_png(folder / fmt::format("{}.png", i), draw_glyph(options, c * 20 + i));
    }
  }
  /// A table that divides the pictures: classes to train on, of a validation split, and the others to test with.
  void make_table(int training, int validation) {
    std::ofstream table(root_ / "table.csv");
    table << "path,label,split\n";
    for (int c = 0; c < 24; ++c)
      for (int i = 0; i < 20; ++i)
        table << fmt::format("{}/images/class{}/{}.png,class{},{}\n", root_.string(), 10 + c, i, 10 + c,
                             c < training ? "train" : (c < training + validation ? "validation" : "test"));
    config_.data.root = (root_ / "table.csv").string();
  }
  RunDirectory new_run(const std::string& name) const { return RunDirectory::create(root_ / name, config_.resolved()); }

  /// The whole of it, as the program does it.
  Choice train(RunDirectory& run, const Progress& progress = {}) const {
    const Choice choice = choose_settings(config_, run, {}, progress);
    const RunConfig chosen = chosen_config(config_, choice);
    run.change_config(chosen);
    Trainer(chosen, run, progress).run();
    keep_chosen(chosen, run, choice, progress);
    return choice;
  }

  /// Stops it so many times, each time at another moment, and goes on with it.
  void expect_same_bits_wherever_stopped(std::size_t stops) const {
    std::size_t events = 0;
    RunDirectory whole = new_run("whole");
    const Choice expected = train(whole, [&](const ProgressEvent&) { return ++events > 0; });
    ASSERT_GT(events, 30U);
    for (std::size_t stop = 2; stop < events; stop += events / stops) {
      const std::string name = fmt::format("cut{}", stop);
      {
        RunDirectory run = new_run(name);
        std::size_t seen = 0;
        EXPECT_THROW(train(run, [&](const ProgressEvent&) { return ++seen < stop; }), Cancelled) << stop;
      }
      RunDirectory again = RunDirectory::open(root_ / name);
      const Choice choice = train(again);
      EXPECT_EQ(choice.system, expected.system) << stop;
      EXPECT_EQ(choice.learning_rate, expected.learning_rate) << stop;
      EXPECT_EQ(choice.share, expected.share) << stop;
      EXPECT_EQ(bytes_of(again.last_model_path()), bytes_of(whole.last_model_path())) << stop;
      EXPECT_EQ(bytes_of(again.model_path()), bytes_of(whole.model_path())) << stop;
    }
  }

  std::filesystem::path root_;
  RunConfig config_;
};

/// The same from weights drawn at random, with the system left open.
class ChoosingSystems : public Choosing {
 protected:
  ChoosingSystems() {
    config_.model.weights.clear();
    config_.system.name = "auto";
    config_.schedule.learning_rate.reset();
    config_.schedule.epochs = 8;
  }
};

}  // namespace smartmine
