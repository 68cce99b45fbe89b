#include "outputs.h"

#include <fmt/format.h>

#include <filesystem>
#include <system_error>

#include "console.h"
#include "smartmine/core/output_file.h"

namespace smartmine::app {
namespace {

bool same_file(const std::string& one, const std::string& other) {
  std::error_code ignored;  // a path that cannot be resolved is the same as none
  const auto resolved = std::filesystem::weakly_canonical(one, ignored);
  return !resolved.empty() && resolved == std::filesystem::weakly_canonical(other, ignored);
}

}  // namespace

void check_outputs(const std::vector<std::string>& inputs, const std::vector<std::string>& outputs) {
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    for (const std::string& input : inputs)
      if (same_file(outputs[i], input)) throw UsageError(fmt::format("{} would overwrite what is read from it", outputs[i]));
    for (std::size_t j = 0; j < i; ++j)
      if (same_file(outputs[i], outputs[j])) throw UsageError(fmt::format("{} would be written twice", outputs[i]));
  }
  for (const std::string& output : outputs) const OutputFile probe(output);  // opens a temporary beside it and removes it
}

}  // namespace smartmine::app
