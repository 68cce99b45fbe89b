#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "smartmine/core/random.h"
#include "smartmine/mining/kappa_controller.h"

// Trainings made of a formula each, for policies of kappa to steer.
namespace smartmine {

/// A training whose error falls as kappa grows: `error(kappa)`, which is `target` at `settling`. As the network learns, the
/// same kappa gives fewer errors: the curve moves towards smaller kappas by the share `drift` an epoch.
struct Plant {
  std::string name;
  double target;
  double settling;
  std::function<double(double kappa)> error;
};

inline std::vector<Plant> plants() {
  std::vector<Plant> all;
  for (const double target : {0.5, 0.6, 0.75})
    for (const double settling : {1.5, 2.1, 4.0, 7.0}) {
      const auto add = [&](const std::string& name, const std::function<double(double)>& error) {
        all.push_back({fmt::format("{}, {} at kappa {}", name, target, settling), target, settling, error});
      };
      for (const double steepness : {1.0, 2.0, 3.0})
        add(fmt::format("logistic in log kappa, steepness {}", steepness),
            [=](double kappa) { return 1 / (1 + std::exp(-std::log(target / (1 - target)) + steepness * std::log(kappa / settling))); });
      add("exponential", [=](double kappa) { return std::pow(target, kappa / settling); });
      for (const double slope : {0.05, 0.1, 0.2})
        add(fmt::format("linear, slope {}", slope), [=](double kappa) { return target - slope * (kappa - settling); });
    }
  return all;
}

struct Track {
  std::size_t arrived = 0;     // the first epoch, counted from 1, with an error within 0.05 of the target
  std::size_t epochs_off = 0;  // epochs from the fifth on that are farther off than 0.05 and the noise explain
  double worst_late = 0;       // largest distance from the target from the fifth epoch on, without the noise
};

inline Track follow(KappaPolicy& policy, const Plant& plant, double noise, double drift, std::uint64_t seed, std::size_t epochs = 20) {
  Track track;
  for (std::size_t epoch = 1; epoch <= epochs; ++epoch) {
    const double moved = policy.kappa() * std::exp(drift * static_cast<double>(epoch - 1));
    const double clean = std::clamp(plant.error(moved), 0.0, 1.0);
    const double error = std::clamp(clean + noise * Random(seed, 1, epoch).normal(), 0.0, 1.0);
    const double off = std::abs(clean - plant.target);
    if (track.arrived == 0 && off <= 0.05) track.arrived = epoch;
    if (epoch > 4) {
      track.worst_late = std::max(track.worst_late, off);
      track.epochs_off += off > 0.05;
    }
    policy.observe(error);
  }
  if (track.arrived == 0) track.arrived = epochs + 1;
  return track;
}

}  // namespace smartmine
