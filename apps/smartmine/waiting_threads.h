#pragma once

#include <cstdlib>

namespace smartmine::app {

/// OpenMP's threads, LibTorch's among them, wait for their next piece of work by looking again and again for some milliseconds. Beside
/// other programs that time is taken from whoever has work to do, their own other half included. This makes them look for some ten
/// microseconds and sleep then, unless somebody has set how they are to wait. The library reads it when it is loaded, so it holds for
/// programs started after. Returns whether anything was changed.
inline bool shorten_waiting() {
  constexpr const char* kVariable = "GOMP_SPINCOUNT";
  if (std::getenv(kVariable) != nullptr || std::getenv("OMP_WAIT_POLICY") != nullptr) return false;
  return setenv(kVariable, "10000", 1) == 0;
}

}  // namespace smartmine::app
