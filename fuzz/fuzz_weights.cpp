#include <cstddef>
#include <cstdint>
#include <stdexcept>

#include "input_file.h"
#include "memory_file.h"
#include "smartmine/core/error.h"
#include "smartmine/model/weights.h"

// LibTorch 1.13 keeps 350 bytes for ever of each zip archive that it refuses.
extern "C" const char* __asan_default_options() { return "detect_leaks=0"; }

// Files of weights; the first byte says of which kind. LibTorch itself is as the distribution built it, without sanitizers.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace smartmine;
  static const InputFile file;
  if (size == 0) return 0;
  put_in_memory(file.path(), {data + 1, size - 1});
  if (data[0] % 3 == 1) file.write({data + 1, size - 1});  // LibTorch reads archives by itself
  try {
    const NamedTensors tensors = data[0] % 3 == 0   ? read_safetensors(file.path())
                                 : data[0] % 3 == 1 ? read_pytorch(file.path())
                                                    : read_caffemodel(file.path());
    std::size_t bytes = 0;
    for (const auto& [name, tensor] : tensors) {
      if (!tensor.defined() || !tensor.is_contiguous()) throw std::logic_error("a tensor that nobody can use: " + name);
      const auto* const values = static_cast<const std::uint8_t*>(tensor.data_ptr());
      std::size_t sum = 0;
      for (std::size_t i = 0; i < tensor.nbytes(); ++i) sum += values[i];
      bytes += tensor.nbytes() + sum % 2;
    }
    if (bytes > 1000 * size) throw std::logic_error("more tensors than the file has bytes for");
  } catch (const IoError& refused) {
    expect_one_line(refused.what());
  }
  return 0;
}
