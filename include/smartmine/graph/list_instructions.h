#pragma once

#include <string>

namespace smartmine {

/// The instructions that this machine finds lists with, e.g. "avx512vnni". Those of others round differently, so all that share the work
/// must have the same ones; the environment variable SMARTMINE_KERNEL sets them.
std::string list_instructions();

}  // namespace smartmine
