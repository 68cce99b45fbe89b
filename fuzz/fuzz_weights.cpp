#include <cstddef>
#include <cstdint>

#include "input_file.h"
#include "smartmine/core/error.h"
#include "smartmine/model/weights.h"

// safetensors, and state dicts as PyTorch saves them; the first byte says which.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const smartmine::InputFile safetensors("w.safetensors"), pytorch("w.pt");
  if (size == 0) return 0;
  const std::span<const std::uint8_t> rest(data + 1, size - 1);
  try {
    if (data[0] % 2 == 0)
      smartmine::read_safetensors(safetensors.write(rest));
    else
      smartmine::read_pytorch(pytorch.write(rest));
  } catch (const smartmine::IoError& refused) {
    smartmine::expect_one_line(refused.what());
  }
  return 0;
}
