#include <fmt/format.h>

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
#endif

namespace {

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
  all.push_back({&avx512vnni::kTable, wide && __builtin_cpu_supports("avx512vnni")});
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
