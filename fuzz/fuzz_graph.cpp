#include <cstddef>
#include <cstdint>
#include <stdexcept>

#include "input_file.h"
#include "smartmine/core/error.h"
#include "smartmine/graph/fanng.h"

// Fuzzers are built to pass over the checksum of a graph, or they would never see more of it.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const smartmine::InputFile file;
  try {
    const smartmine::Fanng graph = smartmine::Fanng::load(file.write({data, size}));
    for (std::uint32_t point = 0; point < graph.size(); ++point)
      for (const std::uint32_t other : graph.edges(point))
        if (other >= graph.size()) throw std::logic_error("an edge leads nowhere");
  } catch (const smartmine::IoError& refused) {
    smartmine::expect_one_line(refused.what());
  }
  return 0;
}
