#include <torch/script.h>

#include <cstdlib>

// make_network FILE FEATURES: a TorchScript network that makes so many features of an image, as Python would have saved it.
int main(int count, char** words) {
  if (count != 3) return 2;
  torch::manual_seed(2);
  torch::jit::Module net("Net");
  const torch::Tensor filters = torch::randn({std::atol(words[2]), 3, 5, 5}) * 0.2;
  net.register_parameter("filters", filters.set_requires_grad(true), /*is_buffer=*/false);
  net.define("def forward(self, x):\n  return torch.relu(torch.conv2d(x, self.filters, None, [4, 4])).mean([2, 3])\n");
  net.save(words[1]);
  return 0;
}
