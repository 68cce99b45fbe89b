// How good weights are that lie part of the way from the start of a run to its end, on the half that the run is measured on: the study
// behind what `train` keeps.
//   bench_shares RUN_DIR...
// Every run must have been trained with --keep-start. Prints a JSON line per run and share.
#include <fmt/format.h>
#include <torch/torch.h>

#include "smartmine/model/weights.h"
#include "smartmine/run/run_data.h"
#include "smartmine/run/run_directory.h"
#include "train/measure_weights.h"

namespace {

void measure(const std::string& path) {
  const auto run = smartmine::RunDirectory::open(path);
  const smartmine::RunConfig config = run.with_own_backbone(smartmine::read_config(run.config_path()).resolved());
  const smartmine::DataSplits splits = smartmine::load_run_data(config);
  const smartmine::Dataset& half = smartmine::evaluated_half(config, splits);
  smartmine::WeightMeasure measured(config, half, {});
  const auto start = smartmine::read_safetensors(run.start_path()), end = smartmine::read_safetensors(run.last_model_path());
  for (const double share : {0.0, 0.25, 0.5, 0.75, 1.0}) {
    const smartmine::HeldOutScore score = measured.score(smartmine::mixed(start, end, share));
    fmt::print("{{\"run\": \"{}\", \"share\": {}, \"recall\": {:.4f}, \"map\": {:.4f}}}\n", path, share, score.recall_at_1, score.map_at_r);
  }
}

}  // namespace

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) measure(argv[i]);
}
