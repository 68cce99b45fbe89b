// Training steps of smartmine beside a bare LibTorch loop over the same network that does nothing else: no data, no augmentation, no
// records.
//   bench_steps [threads] [rounds]
// Prints images/s of both and their ratio; exit status 1 if it is under the goal.
#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>

#include "smartmine/core/parallel.h"
#include "smartmine/loss/global_loss.h"
#include "smartmine/loss/triplet_loss.h"
#include "smartmine/model/embedding_model.h"
#include "smartmine/train/trainer.h"

namespace {

using smartmine::RunConfig;

constexpr double kGoal = 0.95;

double bare_loop(const RunConfig& config, std::int64_t steps) {
  const auto model = smartmine::make_model({.embedding_dimension = config.model.embedding_dim});
  model->train();
  torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(*config.schedule.learning_rate)
                                                       .momentum(config.schedule.momentum)
                                                       .weight_decay(config.schedule.weight_decay));
  const std::int64_t batch = 3 * config.system.batch_size;
  const torch::Tensor images = torch::randn({batch, model->input().channels, model->input().size, model->input().size});
  const auto begin = std::chrono::steady_clock::now();
  for (std::int64_t step = 0; step < steps; ++step) {
    const auto parts = model->forward(images).chunk(3);
    const torch::Tensor loss =
        smartmine::triplet_loss(parts[0], parts[1], parts[2]).value + smartmine::global_loss(parts[0], parts[1], parts[2]).value;
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
  }
  return static_cast<double>(steps * batch) / std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// One epoch of random triplets, mining and measuring left out.
double trainer(const RunConfig& config, const std::filesystem::path& folder, std::int64_t& steps) {
  std::filesystem::remove_all(folder);
  auto run = smartmine::RunDirectory::create(folder, config);
  smartmine::Trainer(config, run).run();
  const double rate = run.log().back().images_per_second();
  steps = run.log().back().steps;
  std::filesystem::remove_all(folder);
  return rate;
}

}  // namespace

int main(int argc, char** argv) try {
  RunConfig config;
  config.system.name = "triplet-global";
  config.compute.device = "cpu";
  config.schedule.epochs = 1;
  config.system.triplets_per_anchor = 2;
  config.compute.threads = argc > 1 ? std::atoi(argv[1]) : 0;
  config = config.resolved();
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 3;
  at::set_num_threads(static_cast<int>(smartmine::resolve_threads(static_cast<unsigned>(config.compute.threads))));
  const auto folder = std::filesystem::temp_directory_path() /
                      fmt::format("smartmine-bench-steps-{}", std::chrono::steady_clock::now().time_since_epoch().count());
  double best_bare = 0, best_trainer = 0;
  for (int round = 0; round < rounds; ++round) {  // in turns, so that both see the same machine
    std::int64_t steps = 0;
    const double ours = trainer(config, folder, steps), bare = bare_loop(config, steps);
    fmt::print("round {}: smartmine {:.0f} images/s, bare loop {:.0f} images/s, ratio {:.3f}\n", round + 1, ours, bare, ours / bare);
    best_trainer = std::max(best_trainer, ours);
    best_bare = std::max(best_bare, bare);
  }
  fmt::print("best: smartmine {:.0f} images/s, bare loop {:.0f} images/s, ratio {:.3f}, goal {}\n", best_trainer, best_bare,
             best_trainer / best_bare, kGoal);
  return best_trainer >= kGoal * best_bare ? 0 : 1;
} catch (const std::exception& error) {
  fmt::print(stderr, "bench_steps: {}\n", error.what());
  return 1;
}
