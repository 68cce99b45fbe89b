#include "smartmine/core/progress.h"

#include "smartmine/core/error.h"

namespace smartmine {

void report(const Progress& progress, std::string_view stage, std::size_t done, std::size_t total, std::string_view unit) {
  if (progress && !progress({stage, done, total, unit})) throw Cancelled();
}

}  // namespace smartmine
