#pragma once

#include <cstdint>

namespace smartmine {

/// Bytes that this process can still have without others or the disk suffering: what the system says is available, or, if that is less,
/// what a container leaves to it. The largest number there is where neither can be asked.
std::uint64_t available_memory_bytes();

}  // namespace smartmine
