#pragma once

#include <cstdlib>

namespace smartmine::app {

/// Sets what libraries read from the environment when they are loaded, unless somebody has, so that it holds for programs started after.
/// Returns whether anything was changed.
inline bool prepare_environment() {
  bool changed = false;
  const auto set = [&](const char* name, const char* value) {
    if (std::getenv(name) == nullptr) changed = setenv(name, value, 1) == 0 || changed;
  };
  // OpenMP's threads, LibTorch's among them, wait for their next piece of work by looking again and again for some milliseconds. Beside
  // other programs that time is taken from whoever has work to do, their own other half included. So they look for some ten microseconds
  // and sleep.
  if (std::getenv("OMP_WAIT_POLICY") == nullptr) set("GOMP_SPINCOUNT", "10000");
  // One kind of OpenBLAS has threads of its own that go on running while they wait: beside a busy program each of them takes the turn of a
  // thread that has work. Pieces for several threads are made above it.
  set("OPENBLAS_NUM_THREADS", "1");
  // LibTorch's oneDNN takes AMX where the processor has it, also in virtual machines that do not let it, and dies of it.
  set("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16");
  // What goes wrong between ranks is said once, by us.
  set("GLOG_minloglevel", "3");
  set("TORCH_CPP_LOG_LEVEL", "FATAL");
  return changed;
}

}  // namespace smartmine::app
