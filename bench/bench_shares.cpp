// How good weights are that lie part of the way from the start of a run to its end, on the half that the run is measured on: the study
// behind what `train` keeps.
//   bench_shares RUN_DIR...
// Every run must have been trained with --keep-start. Prints a JSON line per run and share. "crowd" is measured with the images of the
// training classes among what is searched.
#include <fmt/format.h>
#include <torch/torch.h>

#include "smartmine/model/embed.h"
#include "smartmine/model/weights.h"
#include "smartmine/run/run_data.h"
#include "smartmine/run/run_directory.h"
#include "train/measure_weights.h"

namespace {

using smartmine::Rows;

torch::Tensor matrix_of(const Rows& rows) {
  return torch::from_blob(const_cast<float*>(rows.data()),
                          {static_cast<std::int64_t>(rows.size()), static_cast<std::int64_t>(rows.dimension())})
      .clone();
}

/// Queries among themselves and the others.
smartmine::HeldOutScore crowd_score(const torch::Tensor& queries, const torch::Tensor& labels, const torch::Tensor& others) {
  const torch::Tensor all = torch::cat({queries, others});
  torch::Tensor near = queries.mm(all.t());
  near.diagonal().fill_(-2);
  const torch::Tensor order = near.argsort(1, true);
  const torch::Tensor known = torch::cat({labels, torch::full({others.size(0)}, -1, torch::kLong)});
  double recall = 0, precision = 0;
  std::int64_t counted = 0;
  for (std::int64_t q = 0; q < queries.size(0); ++q) {
    const std::int64_t relevant = labels.eq(labels[q]).sum().item<std::int64_t>() - 1;
    if (relevant == 0) continue;
    const torch::Tensor right = known.index_select(0, order[q].narrow(0, 0, relevant)).eq(labels[q]).to(torch::kDouble);
    recall += right[0].item<double>();
    precision += (right * right.cumsum(0) / torch::arange(1, relevant + 1, torch::kDouble)).sum().item<double>() / double(relevant);
    ++counted;
  }
  return {recall / double(queries.size(0)), precision / double(std::max<std::int64_t>(1, counted))};
}

void measure(const std::string& path) {
  const auto run = smartmine::RunDirectory::open(path);
  const smartmine::RunConfig config = run.with_own_backbone(smartmine::read_config(run.config_path()).resolved());
  const smartmine::DataSplits splits = smartmine::load_run_data(config);
  const smartmine::Dataset& half = smartmine::evaluated_half(splits);
  smartmine::WeightMeasure own(config, half, {}), train(config, splits.train, {});
  const auto start = smartmine::read_safetensors(run.start_path()), end = smartmine::read_safetensors(run.last_model_path());
  const torch::Tensor labels = torch::tensor(std::vector<std::int64_t>(half.labels().begin(), half.labels().end()));
  for (const double share : {0.0, 0.25, 0.5, 0.75, 1.0}) {
    const auto weights = smartmine::mixed(start, end, share);
    const smartmine::HeldOutScore alone = own.score(weights);
    smartmine::HeldOutScore crowd;
    if (splits.validation) {
      train.score(weights);
      crowd = crowd_score(matrix_of(own.rows()), labels, matrix_of(train.rows()));
    }
    fmt::print("{{\"run\": \"{}\", \"share\": {}, \"recall\": {:.4f}, \"map\": {:.4f}, \"crowd_recall\": {:.4f}, \"crowd_map\": {:.4f}}}\n",
               path, share, alone.recall_at_1, alone.map_at_r, crowd.recall_at_1, crowd.map_at_r);
  }
}

}  // namespace

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) measure(argv[i]);
}
