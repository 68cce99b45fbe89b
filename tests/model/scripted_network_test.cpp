#include "smartmine/model/scripted_network.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/script.h>
#include <torch/torch.h>

#include <cstdlib>
#include <string>

#include "core/made_files.h"
#include "smartmine/core/error.h"
#include "smartmine/model/embedding_model.h"
#include "smartmine/model/weights.h"

namespace smartmine {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::ThrowsMessage;

torch::Tensor noise(torch::IntArrayRef shape, std::uint64_t seed) {
  torch::Tensor tensor = torch::empty(shape);
  Random random(seed);
  fill_normal(tensor, 1, random);
  return tensor;
}

constexpr const char* kMeans = "  return torch.matmul(x.mean([2, 3]), self.weight.t())\n";

class Scripted : public ::testing::Test {
 protected:
  /// A module of a weight [6, 3], as torch.jit.script would save it, with `code` for its forward.
  std::string made(const std::string& code, bool trained = true) const {
    torch::jit::Module module("Net");
    module.register_parameter("weight", noise({6, 3}, 1).set_requires_grad(trained), /*is_buffer=*/false);
    return saved(module, code);
  }
  std::string with_weight(const torch::Tensor& weight) const {
    torch::jit::Module module("Net");
    module.register_parameter("weight", weight.set_requires_grad(true), /*is_buffer=*/false);
    return saved(module, kMeans);
  }
  std::string saved(torch::jit::Module& module, const std::string& code) const {
    module.define("def forward(self, x):\n" + code);
    const std::string path = (folder_ / "net.pt").string();
    module.save(path);
    return path;
  }
  /// One whose running mean moves in training: what a batch norm does.
  std::string with_norm() const {
    torch::jit::Module module("Net"), norm("Norm");
    module.register_parameter("embedding", noise({6, 3}, 1).set_requires_grad(true), false);
    norm.register_attribute("training", torch::jit::BoolType::get(), true);
    norm.register_buffer("running_mean", torch::zeros({6}));
    norm.register_buffer("running_var", torch::ones({6}));
    norm.register_buffer("num_batches_tracked", torch::zeros({}, torch::kInt64));
    norm.define(R"(
def forward(self, x):
  return torch.batch_norm(x, None, None, self.running_mean, self.running_var, self.training, 0.1, 1e-5, False)
)");
    module.register_module("norm", norm);
    return saved(module, "  return self.norm.forward(torch.matmul(x.mean([2, 3]), self.embedding.t()))\n");
  }
  std::shared_ptr<EmbeddingModel> model(const std::string& path, bool frozen = false) const {
    return make_model({.backbone = path, .embedding_dimension = 4, .input_size = 16, .frozen_norms = frozen});
  }
  void expect_refused(const std::string& path, const std::string& words) const {
    EXPECT_THAT([&] { model(path); }, ThrowsMessage<IoError>(AllOf(HasSubstr(path + ": "), HasSubstr(words), Not(HasSubstr("\n")))));
  }

  testing::TemporaryFolder folder_;
};

TEST_F(Scripted, ComputesWhatItsCodeSays) {
  const auto net = model(made(kMeans));
  const torch::Tensor images = noise({5, 3, 16, 16}, 2);
  EXPECT_EQ(net->backbone().feature_dimension(), 6);
  EXPECT_TRUE(torch::allclose(net->backbone().forward(images), images.mean({2, 3}).matmul(noise({6, 3}, 1).t()), 1e-5, 1e-6));
  EXPECT_EQ(net->forward(images).sizes(), (std::vector<std::int64_t>{5, 4}));
  EXPECT_EQ(net->input().size, 16);
  EXPECT_EQ(net->input().resize, 18);
}

TEST_F(Scripted, IsTrainedAndSavedLikeTheOthers) {
  const std::string path = made(kMeans);
  const auto net = model(path), other = model(path);
  const torch::Tensor images = noise({5, 3, 16, 16}, 2);
  NamedTensors state = net->state();
  ASSERT_EQ(state.size(), 3U);
  ASSERT_TRUE(state.contains("backbone.weight"));
  EXPECT_EQ(net->trunk_parameters().size(), 1U);
  const torch::Tensor before = net->forward(images).detach();
  net->raw(images).square().sum().backward();
  torch::Tensor weight = state.at("backbone.weight");
  ASSERT_TRUE(weight.grad().defined());
  {
    const torch::NoGradGuard no_grad;
    weight.sub_(weight.grad() * 0.5);
  }
  const torch::Tensor after = net->forward(images).detach();
  EXPECT_GT((after - before).abs().max().item<double>(), 1e-3) << "the module does not see what is put into its parameters";
  write_safetensors(folder_ / "model.safetensors", net->state());
  load_into(*other, read_weights(folder_ / "model.safetensors"));
  EXPECT_TRUE(other->forward(images).equal(after));
}

TEST_F(Scripted, NormsAreFrozenOrNotAsAsked) {
  const std::string path = with_norm();
  const torch::Tensor images = noise({5, 3, 16, 16}, 2) + 1;
  for (const bool frozen : {true, false}) {
    const auto net = model(path, frozen);
    const NamedTensors state = net->state();
    EXPECT_TRUE(state.contains("backbone.norm.running_mean"));
    EXPECT_TRUE(state.contains("backbone.embedding"));  // its own name may be the new layer's
    EXPECT_TRUE(state.contains("embedding.weight"));
    EXPECT_EQ(state.at("backbone.norm.running_mean").abs().max().item<float>(), 0) << "trying it out has moved them";
    net->train();
    const torch::Tensor trained = net->forward(images).detach();
    EXPECT_EQ(state.at("backbone.norm.running_mean").abs().max().item<float>() > 0, !frozen);
    net->eval();
    EXPECT_EQ(net->forward(images).equal(trained), frozen);
  }
}

TEST_F(Scripted, CastsItselfWhereImagesAreBfloat16) {
  const auto net = model(made(kMeans));
  const torch::Tensor images = noise({5, 3, 16, 16}, 2);
  const torch::Tensor single = net->backbone().forward(images), brain = net->backbone().forward(images.to(torch::kBFloat16));
  EXPECT_EQ(brain.scalar_type(), torch::kFloat32);
  EXPECT_LT((single - brain).abs().max().item<double>(), 0.05);
  EXPECT_TRUE(net->backbone().forward(images).equal(single)) << "autocast stays on";
}

TEST_F(Scripted, WhatDoesNotTrainOrFitIsRefusedInOneLine) {
  expect_refused((folder_ / "none.pt").string(), "No such file");
  testing::save(folder_ / "text.pt", "import torch\n");
  expect_refused((folder_ / "text.pt").string(), "not a TorchScript file");
  write_safetensors(folder_ / "state.pt", {{"w", torch::ones({3})}});
  expect_refused((folder_ / "state.pt").string(), "not a TorchScript file");
  expect_refused(made(kMeans, /*trained=*/false), "does not train: requires_grad is false of all its 1 parameters");
  expect_refused(made("  return torch.matmul(x.mean([2, 3]), self.weight.t().detach())\n"),
                 "does not train: no gradient reaches its parameters");
  expect_refused(made("  return x.mean([2, 3])\n"), "does not train: no gradient reaches its parameters");
  expect_refused(made("  return torch.ones([x.size(0), 6]) + self.weight.sum() * 0\n"),
                 "does not train: the gradients of all its parameters are 0");
  expect_refused(made("  return torch.matmul(torch.ones([x.size(0), 3]), self.weight.t())\n"), "gives the same vector of all images");
  torch::jit::Module bare("Net");
  expect_refused(saved(bare, "  return x.mean([2, 3])\n"), "has no parameters");
  expect_refused(made("  return x * self.weight.sum()\n"), "gives [3, 3, 16, 16] of 3 images; it must give [3, D]");
  expect_refused(made("  return torch.matmul(x.mean([0, 2, 3]), self.weight.t())\n"), "gives [6] of 3 images");
  expect_refused(made("  return torch.matmul(x.mean([2, 3]), self.weight.t()).sum(0, keepdim=True)\n"), "gives [1, 6] of 3 images");
  expect_refused(made("  return [torch.matmul(x.mean([2, 3]), self.weight.t())]\n"),
                 "gives a value of type GenericList; it must give one tensor");
  expect_refused(made("  return torch.matmul(x.mean([2, 3]), self.weight.t()).argmax(1, True)\n"), "gives a tensor of type Long");
  expect_refused(made("  return torch.matmul(x.reshape(x.size(0), 3 * 8 * 8), self.weight.t())\n"), "fails on images [3, 3, 16, 16]");
  expect_refused(made("  assert x.size(2) == 32, 'I want 32'\n  return torch.matmul(x.mean([2, 3]), self.weight.t())\n"), "I want 32");
  expect_refused(with_weight(noise({6, 3}, 1).to(torch::kFloat64)), "'weight' is of type Double; parameters must be float32");
  expect_refused(with_weight(noise({6, 3}, 1) / 0), "gives values that are not finite");
  EXPECT_THAT([&] { make_model({.backbone = made(kMeans), .input_size = 4}); },
              ThrowsMessage<InvalidArgument>(HasSubstr("input_size is 4")));
  EXPECT_THAT([&] { make_model({.backbone = made(kMeans), .input_mean = "0.5,0.5"}); },
              ThrowsMessage<InvalidArgument>(HasSubstr("input-mean is '0.5,0.5'; it must be a number, or three")));
  EXPECT_THAT([&] { make_model({.backbone = made(kMeans), .input_deviation = "0"}); },
              ThrowsMessage<InvalidArgument>(HasSubstr("input_deviation is '0'; it must be above 0")));
  EXPECT_THAT([&] { make_model({.backbone = made(kMeans), .input_deviation = "58.4"}); },
              ThrowsMessage<InvalidArgument>(HasSubstr("input_deviation is '58.4'; it must be above 0 and at most 1")));
  EXPECT_THAT([&] { make_model({.backbone = made(kMeans), .input_mean = "123,117,104"}); },
              ThrowsMessage<InvalidArgument>(HasSubstr("input-mean is '123,117,104'; it must be from -1 to 1")));
  EXPECT_THAT([&] { make_model({.backbone = made(kMeans), .pooling = "max"}); },
              ThrowsMessage<InvalidArgument>(HasSubstr("pooling is 'max'")));
}

/// Networks that Python has scripted and traced, and what it makes of the same images.
TEST_F(Scripted, ModulesOfPythonComputeTheSameHereAndOpenThereAgain) {
  const char* const chosen = std::getenv("SMARTMINE_PYTHON");
  const std::string python = chosen == nullptr ? "python3" : chosen;
  if (std::system((python + " -c 'import torch, torchvision, safetensors.torch' >/dev/null 2>&1").c_str()) != 0)
    GTEST_SKIP() << "python3 (or SMARTMINE_PYTHON) has no torchvision with safetensors";
  testing::save(folder_ / "make.py", R"(
import sys, torch, torchvision, safetensors.torch
folder = sys.argv[1] + '/'
torch.manual_seed(1)
net = torchvision.models.resnet18(weights=None).eval()
net.fc = torch.nn.Identity()
images = torch.randn(2, 3, 64, 64)
torch.jit.script(net).save(folder + 'script.pt')
torch.jit.trace(net, images).save(folder + 'trace.pt')
with torch.no_grad(): safetensors.torch.save_file({'images': images, 'features': net(images)}, folder + 'check')
)");
  testing::save(folder_ / "open.py", R"(
import sys, torch, safetensors.torch
folder = sys.argv[1] + '/'
net = torch.jit.load(folder + 'script.pt')
state = safetensors.torch.load_file(folder + 'model.safetensors')
net.load_state_dict({k[9:]: v for k, v in state.items() if k.startswith('backbone.')})
assert state['embedding.weight'].shape == (4, 512)
)");
  const auto run = [&](const char* script) {
    return std::system((python + " '" + (folder_ / script).string() + "' '" + (folder_ / "").string() + "'").c_str());
  };
  ASSERT_EQ(run("make.py"), 0);
  const NamedTensors check = read_safetensors(folder_ / "check");
  for (const char* name : {"script.pt", "trace.pt"}) {
    const auto net = make_model({.backbone = (folder_ / name).string(), .embedding_dimension = 4, .input_size = 64, .frozen_norms = true});
    net->train();  // frozen norms, and a network without dropout: as in evaluation
    EXPECT_EQ(net->trunk_parameters().size(), 60U);
    const torch::Tensor features = net->backbone().forward(check.at("images"));
    EXPECT_LT((features - check.at("features")).abs().max().item<double>(), 1e-4) << name;
    features.sum().backward();
    for (const torch::Tensor& parameter : net->trunk_parameters()) EXPECT_TRUE(parameter.grad().defined());
    if (std::string(name) == "script.pt") write_safetensors(folder_ / "model.safetensors", net->state());
  }
  EXPECT_EQ(run("open.py"), 0);
}

}  // namespace
}  // namespace smartmine
