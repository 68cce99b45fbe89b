#pragma once

#include <torch/types.h>

#include "smartmine/core/rows.h"
#include "smartmine/core/vector_files.h"

namespace smartmine {

/// Views a contiguous float32 CPU tensor [N, D] as rows; valid as long as the tensor's memory. Throws InvalidArgument saying what it
/// is otherwise. This is the crossing from torch to the rest of the library.
Rows rows_of(const torch::Tensor& embeddings);

/// The same, keeping the tensor's memory alive.
Embeddings embeddings_of(torch::Tensor embeddings);

}  // namespace smartmine
