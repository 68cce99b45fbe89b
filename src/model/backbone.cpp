#include "smartmine/model/backbone.h"

#include "smartmine/core/error.h"

namespace smartmine {
namespace {

std::string last_part(const std::string& name) { return name.substr(name.rfind('.') + 1); }

}  // namespace

torch::nn::Module& Backbone::owner_of(const std::string& name) {
  Module* owner = this;
  for (std::size_t begin = 0, dot = name.find('.'); dot != std::string::npos; begin = dot + 1, dot = name.find('.', begin)) {
    const std::string part = name.substr(begin, dot - begin);
    const auto children = owner->named_children();
    const auto* const known = children.find(part);
    owner = known != nullptr ? known->get() : owner->register_module(part, std::make_shared<Module>()).get();
  }
  return *owner;
}

torch::Tensor Backbone::add_parameter(const std::string& name, const torch::Tensor& value, bool trained) {
  return owner_of(name).register_parameter(last_part(name), value, trained);
}

torch::Tensor Backbone::add_buffer(const std::string& name, const torch::Tensor& value) {
  return owner_of(name).register_buffer(last_part(name), value);
}

void fill_normal(torch::Tensor tensor, double deviation, Random& random) {
  require(tensor.is_contiguous() && tensor.scalar_type() == torch::kFloat32 && tensor.is_cpu(),
          "fill_normal takes contiguous floats on the CPU");
  torch::NoGradGuard no_grad;
  auto* const values = tensor.data_ptr<float>();
  for (std::int64_t i = 0; i < tensor.numel(); ++i) values[i] = static_cast<float>(deviation * random.normal());
}

}  // namespace smartmine
