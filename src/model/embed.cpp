#include "smartmine/model/embed.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>
#include <utility>

#include "smartmine/core/error.h"

namespace smartmine {

Rows rows_of(const torch::Tensor& embeddings) {
  const auto fail = [](const std::string& found) {
    throw InvalidArgument(fmt::format("embeddings are {}; they must be a contiguous float32 tensor [N, D] on the CPU", found));
  };
  if (!embeddings.defined()) fail("undefined");
  if (embeddings.dim() != 2) fail(fmt::format("of {} dimensions", embeddings.dim()));
  if (embeddings.scalar_type() != torch::kFloat32) fail(fmt::format("of type {}", torch::toString(embeddings.scalar_type())));
  if (!embeddings.is_cpu()) fail(fmt::format("on {}", embeddings.device().str()));
  if (!embeddings.is_contiguous()) fail("not contiguous");
  return {embeddings.data_ptr<float>(), static_cast<std::size_t>(embeddings.size(0)), static_cast<std::size_t>(embeddings.size(1))};
}

Embeddings embeddings_of(torch::Tensor embeddings) {
  const Rows rows = rows_of(embeddings);
  return {std::make_shared<const torch::Tensor>(std::move(embeddings)), rows};
}

}  // namespace smartmine
