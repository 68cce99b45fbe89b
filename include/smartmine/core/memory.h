#pragma once

#include <cstdint>
#include <filesystem>

namespace smartmine {

/// Bytes that this process can still have without others or the disk suffering: what the system says is available, or, if that is less,
/// what a container, or a group of processes that it is in, leaves to it. The largest number there is where neither can be asked. `root` is
/// where the system's `proc` and `sys` are.
std::uint64_t available_memory_bytes(const std::filesystem::path& root = "/");

}  // namespace smartmine
