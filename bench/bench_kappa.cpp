// How well the controller of kappa holds its target, on simulated trainings: the table of docs/mining.md.
#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <utility>

#include "mining/simulated_training.h"
#include "smartmine/mining/kappa_controller.h"

using smartmine::KappaFit;

int main() {
  constexpr std::uint64_t kSeeds = 60;
  constexpr std::size_t kEpochs = 20;
  constexpr double kOffEpochs = 16;  // from the fifth on
  const auto all = smartmine::plants();
  fmt::print("{} trainings, {} seeds each\n| noise of the error | drift | fit | window | late | off |\n|---|---|---|---|---|---|\n",
             all.size(), kSeeds);
  for (const auto& [noise, drift] : {std::pair{0.0, 0.0}, {0.01, 0.0}, {0.01, 0.03}, {0.01, -0.03}, {0.02, 0.03}, {0.02, -0.03}})
    for (const KappaFit fit : {KappaFit::kLogOdds, KappaFit::kLinear})
      for (const std::size_t window : {std::size_t{3}, std::size_t{6}}) {
        double late = 0, off = 0, runs = 0;
        for (std::size_t i = 0; i < all.size(); ++i)
          for (std::uint64_t seed = 1; seed <= kSeeds; ++seed, ++runs) {
            smartmine::KappaController controller(
                {.target_error = all[i].target, .start = 4, .min_kappa = 0.5, .window = window, .fit = fit});
            const auto track = smartmine::follow(controller, all[i], noise, -drift, kSeeds * i + seed, kEpochs);
            late += track.arrived > 4 ? 1 : 0;
            off += static_cast<double>(track.epochs_off);
          }
        fmt::print("| {} | {:+.0f} % | {} | {} | {:.1f} % | {:.1f} % |\n", noise, 100 * drift,
                   fit == KappaFit::kLinear ? "linear" : "log odds", window, 100 * late / runs, 100 * off / runs / kOffEpochs);
      }
}
