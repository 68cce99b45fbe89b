#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "report/made_run.h"

namespace smartmine::test {

/// A run's settings and log alone, with a recall that is told.
struct FinishedRun {
  std::string dataset = "cub200";
  std::string system = "triplet-fanng-global";
  std::int64_t epochs = 2;
  std::int64_t epochs_done = 2;
  std::uint64_t seed = 1;
  double recall = 0.5;  ///< Recall@1 after the last epoch; a tenth less an epoch before. NMI is 0.1 more.
  double seconds = 10;  ///< An epoch.
  std::string evaluated_on = "test";
  std::string more = {};  ///< Further lines of config.toml.
  double mined = -1;      ///< Share of triplets that the epochs after the first mined, through the paper's graph; under 0: they mined none.
  std::string index = "fanng";
};

inline void make_finished_run(const std::filesystem::path& path, const FinishedRun& made) {
  write_file(path / "config.toml", "dataset = \"" + made.dataset + "\"\nsystem = \"" + made.system + "\"\nepochs = " +
                                       std::to_string(made.epochs) + "\nseed = " + std::to_string(made.seed) + "\n" + made.more);
  std::string log;
  for (std::int64_t epoch = 0; epoch <= made.epochs_done; ++epoch) {
    const double recall = made.recall - 0.1 * static_cast<double>(made.epochs - epoch);
    Json line{{"epoch", epoch}, {"training_error", nullptr}, {"kappa", nullptr}, {"validation_error", 0.25}, {"seconds", made.seconds}};
    if (epoch > 0) line["training_error"] = 0.6;
    if (epoch > 1) line["kappa"] = 2.5;
    if (epoch > 1 && made.mined >= 0) {
      line["lists"] = {{"index", made.index}, {"recall", 0.99}, {"distance_computations", 1}, {"start", "random"}};
      line["lists"].update({{"success_rate", 0.985}, {"success_bound", 0.981}, {"mean_degree", 25.5}});
      line["stage_seconds"] = {{"lists", 0.25 * static_cast<double>(epoch)}, {"longer_lists", 0.125}, {"selection", 0.01}, {"steps", 5}};
      line["mining"] = {{"triplets", 1000}, {"mined", 1000 * made.mined - 100}, {"mined_outside_positive", 100}};
      line["mining"]["random_no_farther_positive"] = 1000 - 1000 * made.mined;
      line["mining"]["random_no_negative"] = 0;
    }
    line["evaluated_on"] = made.evaluated_on;
    line["metrics"] = {
        {"recall@1", recall}, {"recall@2", recall + 0.05}, {"recall@4", recall + 0.1}, {"recall@8", recall + 0.2}, {"nmi", recall + 0.1}};
    log += line.dump() + "\n";
  }
  write_file(path / "log.jsonl", log);
}

}  // namespace smartmine::test
