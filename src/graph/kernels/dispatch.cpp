#include <fmt/format.h>

#if defined(__x86_64__)
#include <cpuid.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif
#endif

#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "graph/kernels/kernels.h"
#include "smartmine/core/error.h"

namespace smartmine::kernels {

namespace portable {
extern const Kernels kTable;
}
#if defined(__x86_64__)
namespace avx2 {
extern const Kernels kTable;
}
namespace avx512 {
extern const Kernels kTable;
}
namespace avx512vnni {
extern const Kernels kTable;
}
namespace avx512amx {
extern const Kernels kTable;
}
#endif

namespace {

#if defined(__x86_64__)
// Whether products of matrices can be used: the chip has them, and the system lets this process have the registers, which it must ask for.
bool may_use_matrices() {
#if defined(__linux__)
  static const bool may = [] {
    constexpr unsigned kTiles = 1U << 24, kBytes = 1U << 25;
    unsigned a = 0, b = 0, c = 0, d = 0;
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || (d & kTiles) == 0 || (d & kBytes) == 0) return false;
    constexpr long kAsk = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
    return syscall(SYS_arch_prctl, kAsk, kTileData) == 0;
  }();
  return may;
#else
  return false;
#endif
}
#endif

struct Level {
  const Kernels* table;
  bool runs;
};

std::vector<Level> levels() {
  std::vector<Level> all{{&portable::kTable, true}};
#if defined(__x86_64__)
  const bool fma = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool wide = fma && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                    __builtin_cpu_supports("avx512vl");
  all.push_back({&avx2::kTable, fma});
  all.push_back({&avx512::kTable, wide});
  const bool bytes = wide && __builtin_cpu_supports("avx512vnni");
  all.push_back({&avx512vnni::kTable, bytes});
  all.push_back({&avx512amx::kTable, bytes && may_use_matrices()});
#endif
  return all;
}

const Kernels& choose() {
  const std::vector<Level> all = levels();
  const char* wanted = std::getenv("SMARTMINE_KERNEL");
  if (wanted == nullptr || *wanted == '\0') {
    const Kernels* best = &portable::kTable;
    for (const Level& level : all)
      if (level.runs) best = level.table;
    return *best;
  }
  std::string names;
  for (const Level& level : all) {
    if (level.runs && std::string_view(level.table->name) == wanted) return *level.table;
    if (level.runs) names += (names.empty() ? "" : ", ") + std::string(level.table->name);
  }
  throw InvalidArgument(fmt::format("SMARTMINE_KERNEL is '{}'; this machine can run {}", wanted, names));
}

}  // namespace

const Kernels& active() {
  static const Kernels& chosen = choose();
  return chosen;
}

size_t available(const Kernels** tables, size_t capacity) {
  size_t count = 0;
  for (const Level& level : levels())
    if (level.runs && count < capacity) tables[count++] = level.table;
  return count;
}

}  // namespace smartmine::kernels
