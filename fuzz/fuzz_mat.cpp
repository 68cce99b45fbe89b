#include <cstddef>
#include <cstdint>
#include <vector>

#include "data/mat_file.h"
#include "input_file.h"
#include "smartmine/core/error.h"

namespace {

std::size_t look_at(const smartmine::MatValue& value) {
  std::size_t seen = value.text.size() + value.count % 7;
  for (const auto& part : value.parts) seen += look_at(part);
  for (std::size_t i = 0; i < value.count && i < 4; ++i)
    for (const std::string& field : value.fields)
      if (const auto* part = value.field(i, field)) seen += part->text.size();
  return seen;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::vector<std::uint8_t> copy(data, data + size);  // of the exact size: one byte too far is then an error
  for (const char* name : {"annotations", "class_names"}) {
    try {
      if (const auto value = smartmine::read_mat_variable(std::as_bytes(std::span(copy)), name, "x.mat")) look_at(*value);
    } catch (const smartmine::IoError& refused) {
      smartmine::expect_one_line(refused.what());
    }
  }
  return 0;
}
