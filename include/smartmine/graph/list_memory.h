#pragma once

#include <cstdint>

#include "smartmine/core/rows.h"
#include "smartmine/graph/fanng.h"

namespace smartmine {

/// Bytes that build_fanng takes for these rows at most, its lists included and the rows not: an estimate within some tenths.
/// Rows that crowd together are copied once more while they are searched, which is not in it.
std::uint64_t list_memory_bytes(const Rows& rows, const FanngOptions& options);

}  // namespace smartmine
