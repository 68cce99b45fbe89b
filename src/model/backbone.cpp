#include "smartmine/model/backbone.h"

#include "smartmine/core/error.h"

namespace smartmine {

void fill_normal(torch::Tensor tensor, double deviation, Random& random) {
  require(tensor.is_contiguous() && tensor.scalar_type() == torch::kFloat32 && tensor.is_cpu(),
          "fill_normal takes contiguous floats on the CPU");
  torch::NoGradGuard no_grad;
  auto* const values = tensor.data_ptr<float>();
  for (std::int64_t i = 0; i < tensor.numel(); ++i) values[i] = static_cast<float>(deviation * random.normal());
}

}  // namespace smartmine
