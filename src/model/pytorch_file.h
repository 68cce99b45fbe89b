#pragma once

#include <cstddef>
#include <span>

namespace smartmine {

/// Whether a file starts as torch.save had it before PyTorch 1.6.
bool is_old_pytorch(std::span<const std::byte> bytes);

}  // namespace smartmine
