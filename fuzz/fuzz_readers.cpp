#include <cstddef>
#include <cstdint>

#include "read_anything.h"

/// libFuzzer's way in. `tests/core/fuzz_replay_test.cpp` sends made files the same way without it.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  smartmine::read_anything({data, size});
  return 0;
}
