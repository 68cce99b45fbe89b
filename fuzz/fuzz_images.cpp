#include <cstddef>
#include <cstdint>

#include "decode_anything.h"

/// libFuzzer's way in. `tests/data/fuzz_replay_test.cpp` sends made images the same way without it.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  smartmine::decode_anything({data, size});
  return 0;
}
