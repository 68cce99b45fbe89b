#include "smartmine/core/random.h"

#include <cmath>
#include <numbers>

namespace smartmine {

double Random::normal() {
  // Box-Muller; the second value is thrown away to keep the state a single counter.
  const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform()));
  return radius * std::cos(2.0 * std::numbers::pi * uniform());
}

}  // namespace smartmine
