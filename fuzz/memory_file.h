#pragma once

#include <cstdint>
#include <filesystem>
#include <span>

namespace smartmine {

/// What a MappedFile of this name holds from now on. The fuzzers' MappedFile reads nothing from a disk: it holds a copy of the exact size,
/// so that one byte too far is an error, where a mapped page would end in zeros; and it costs no call to the system.
void put_in_memory(const std::filesystem::path& name, std::span<const std::uint8_t> bytes);

}  // namespace smartmine
