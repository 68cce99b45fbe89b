#include "smartmine/graph/list_instructions.h"

#include "graph/kernels/kernels.h"

namespace smartmine {

std::string list_instructions() { return kernels::active().name; }

}  // namespace smartmine
