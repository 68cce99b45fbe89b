#include "smartmine/model/resnet.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdlib>
#include <string>

#include "core/made_files.h"
#include "smartmine/core/error.h"
#include "smartmine/model/embedding_model.h"
#include "smartmine/model/new_layer.h"
#include "smartmine/model/weights.h"

namespace smartmine {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

torch::Tensor noise(torch::IntArrayRef shape, std::uint64_t seed) {
  torch::Tensor tensor = torch::empty(shape);
  Random random(seed);
  fill_normal(tensor, 1, random);
  return tensor;
}

double largest_difference(const torch::Tensor& a, const torch::Tensor& b) {
  return (a.to(torch::kFloat64) - b.to(torch::kFloat64)).abs().max().item<double>();
}

/// Averages as training leaves them, not those of a fresh network, which scale and shift nothing.
void stir_norms(torch::nn::Module& module) {
  std::uint64_t seed = 50;
  for (const auto& buffer : module.named_buffers()) {
    const torch::Tensor values = noise(buffer.value().sizes(), ++seed) * 0.2;
    torch::Tensor(buffer.value()).copy_(buffer.key().ends_with("running_var") ? values.exp() : values);
  }
}

TEST(ResNet, HasTheParametersAndBuffersOfTorchvisions) {
  struct Known {
    std::int64_t layers, features, parameters;
    std::size_t tensors, buffers;
  };
  // torchvision counts 11,689,512 and 25,557,032, of which its classifiers are 513,000 and 2,049,000.
  for (const Known known : {Known{18, 512, 11176512, 60, 40}, Known{50, 2048, 23508032, 159, 106}}) {
    ResNet network({.layers = known.layers});
    EXPECT_EQ(network.feature_dimension(), known.features);
    std::int64_t parameters = 0;
    for (const torch::Tensor& parameter : network.parameters()) parameters += parameter.numel();
    EXPECT_EQ(parameters, known.parameters);
    EXPECT_EQ(network.parameters().size(), known.tensors);
    EXPECT_EQ(network.buffers().size(), known.buffers);
    const auto names = network.named_parameters();
    for (const char* name : {"conv1.weight", "bn1.bias", "layer1.0.conv2.weight", "layer4.1.bn2.weight", "layer2.0.downsample.1.weight"})
      EXPECT_TRUE(names.contains(name)) << name;
    EXPECT_TRUE(network.named_buffers().contains("layer2.0.downsample.1.running_var"));
  }
}

TEST(ResNet, TakesPixelsAsTorchvisionDoes) {
  const auto model = make_model({.backbone = "resnet18"});
  const InputFormat& input = model->input();
  EXPECT_EQ(input.size, 224);
  EXPECT_EQ(input.resize, 256);
  EXPECT_FALSE(input.bgr);
  for (std::size_t c = 0; c < 3; ++c)
    EXPECT_NEAR((200 - input.mean[c]) * input.scale[c], (200 / 255.0 - kImageNetMean[c]) / kImageNetDeviation[c], 1e-5);
  const auto other = make_model({.backbone = "resnet18", .input_mean = "0.5", .input_deviation = "0.5,0.25,1"});
  EXPECT_NEAR((255 - other->input().mean[1]) * other->input().scale[1], 2, 1e-5);
}

TEST(ResNet, FrozenNormsComputeTheSameInTrainingAndStayAsTheyAre) {
  ResNet network({.layers = 18, .frozen_norms = true});
  stir_norms(network);
  const torch::Tensor images = noise({2, 3, 64, 64}, 1);
  network.eval();
  const torch::Tensor evaluated = network.forward(images);
  const torch::Tensor mean = network.named_buffers()["layer1.0.bn1.running_mean"].clone();
  network.train();
  EXPECT_TRUE(network.forward(images).equal(evaluated));
  EXPECT_TRUE(network.named_buffers()["layer1.0.bn1.running_mean"].equal(mean));
}

TEST(ResNet, NormsOfBatchesMoveTheirAveragesTowardsTheBatch) {
  ResNet network({.layers = 18});
  const torch::Tensor images = noise({4, 3, 64, 64}, 1);
  network.train();
  const torch::Tensor trained = network.forward(images);
  const torch::Tensor mean = network.named_buffers()["bn1.running_mean"];
  const torch::Tensor sums = torch::conv2d(images, network.named_parameters()["conv1.weight"], {}, 2, 3);
  EXPECT_LT(largest_difference(mean, 0.1 * sums.mean({0, 2, 3})), 1e-5);
  network.eval();
  EXPECT_GT(largest_difference(network.forward(images), trained), 1e-3);
}

TEST(ResNet, FoldedNormsAreTheNormsThemselves) {
  ResNet network({.layers = 18});
  stir_norms(network);
  network.eval();
  const torch::Tensor images = noise({2, 3, 64, 64}, 2);
  // The first block by torch's own operations.
  auto parameters = network.named_parameters();
  auto buffers = network.named_buffers();
  const auto layer = [&](const torch::Tensor& x, const std::string& convolution, const std::string& norm, std::int64_t stride,
                         std::int64_t padding) {
    return torch::batch_norm(torch::conv2d(x, parameters[convolution + ".weight"], {}, stride, padding), parameters[norm + ".weight"],
                             parameters[norm + ".bias"], buffers[norm + ".running_mean"], buffers[norm + ".running_var"], false, 0.1, 1e-5,
                             false);
  };
  torch::Tensor x = torch::max_pool2d(layer(images, "conv1", "bn1", 2, 3).relu(), 3, 2, 1);
  for (int stage = 1; stage <= 4; ++stage)
    for (int i = 0; i < 2; ++i) {
      const std::string block = "layer" + std::to_string(stage) + "." + std::to_string(i);
      const std::int64_t stride = stage > 1 && i == 0 ? 2 : 1;
      torch::Tensor y = layer(x, block + ".conv1", block + ".bn1", stride, 1).relu();
      y = layer(y, block + ".conv2", block + ".bn2", 1, 1);
      x = (y + (stride == 2 ? layer(x, block + ".downsample.0", block + ".downsample.1", 2, 0) : x)).relu();
    }
  const torch::Tensor expected = x.mean({2, 3});
  EXPECT_LT(largest_difference(network.forward(images), expected), 1e-4 * expected.abs().max().item<double>());
  const auto gradient = [&](const torch::Tensor& features) {
    network.zero_grad();
    features.square().sum().backward();
    return parameters["layer3.1.bn1.weight"].grad().clone();
  };
  const torch::Tensor own = gradient(network.forward(images)), oracle = gradient(expected);
  EXPECT_LT(largest_difference(own, oracle), 1e-3 * oracle.abs().max().item<double>());
}

TEST(ResNet, EveryParameterGetsAGradientWithEitherKindOfNorm) {
  for (const bool frozen : {false, true}) {
    const auto model = make_model({.backbone = "resnet50", .embedding_dimension = 8, .frozen_norms = frozen});
    const torch::Tensor target = noise({2, 8}, 9);
    (model->forward(noise({2, 3, 64, 64}, 8)) - target).square().sum().backward();
    for (const auto& parameter : model->named_parameters()) {
      ASSERT_TRUE(parameter.value().grad().defined()) << parameter.key();
      EXPECT_GT(parameter.value().grad().abs().sum().item<double>(), 0) << parameter.key();
    }
  }
}

TEST(ResNet, ComputesInBfloat16WithParametersInFloat32) {
  for (const bool frozen : {false, true}) {
    ResNet network({.layers = 18, .frozen_norms = frozen});
    const torch::Tensor images = noise({4, 3, 64, 64}, 3);
    const torch::NoGradGuard no_grad;  // some builds of LibTorch have no gradients of it that run on every CPU
    const torch::Tensor single = network.forward(images), brain = network.forward(images.to(torch::kBFloat16));
    EXPECT_EQ(brain.scalar_type(), torch::kFloat32);
    EXPECT_LT(largest_difference(single, brain), 0.1 * single.abs().max().item<double>());
    EXPECT_GT(largest_difference(single, brain), 0);
  }
}

TEST(ResNet, TrainsInBfloat16OnAGpu) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "needs a CUDA device";
  for (const bool frozen : {false, true}) {
    const auto model = make_model({.backbone = "resnet18", .frozen_norms = frozen});
    const torch::Tensor images = noise({4, 3, 64, 64}, 3);
    const auto gradient = [&](const torch::Tensor& x) {
      model->zero_grad();
      model->backbone().forward(x).sum().backward();
      return model->state().at("conv1.weight").grad().cpu();
    };
    const torch::Tensor single = gradient(images);
    model->to(torch::kCUDA);
    model->use_channels_last();
    const torch::Tensor brain = gradient(images.to(torch::kCUDA, torch::kBFloat16).contiguous(torch::MemoryFormat::ChannelsLast));
    EXPECT_EQ(brain.scalar_type(), torch::kFloat32);
    EXPECT_GT((single * brain).sum().item<double>() / (single.norm() * brain.norm()).item<double>(), 0.9);
  }
}

TEST(ResNet, PoolsAndTakesSizesAsAsked) {
  const auto features = [](const char* pooling) {
    const auto model = make_model({.backbone = "resnet18", .input_size = 96, .pooling = pooling});
    model->eval();
    const torch::NoGradGuard no_grad;
    return model->backbone().forward(noise({2, 3, 96, 96}, 3));
  };
  const torch::Tensor average = features("average"), most = features("max");
  EXPECT_TRUE((most >= average).all().item<bool>());
  EXPECT_LT(largest_difference(features("both"), most + average), 1e-5 * most.max().item<double>());
  for (const std::int64_t size : {63, 449})
    EXPECT_THAT([&] { make_model({.backbone = "resnet50", .input_size = size}); },
                ThrowsMessage<InvalidArgument>(HasSubstr("input_size is " + std::to_string(size) + "; resnet50 takes 64 to 448")));
  EXPECT_THAT([] { make_model({.backbone = "resnet18", .channels = 1}); },
              ThrowsMessage<InvalidArgument>(HasSubstr("channels is 1; resnet18 takes 3 only")));
}

TEST(ResNet, TheNewLayerStartsFromItsFeatures) {
  const torch::Tensor features = noise({80, 512}, 4);
  const LayerValues values = principal_components(features, 16);
  const auto model = make_model({.backbone = "resnet18", .embedding_dimension = 16});
  model->set_new_layer(values);
  EXPECT_TRUE(model->state().at("embedding.weight").equal(values.weight.to(torch::kFloat32)));
}

TEST(ResNet, RefusesWeightsOfAnotherNamingBoth) {
  const auto deep = make_model({.backbone = "resnet50"}), shallow = make_model({.backbone = "resnet18"});
  EXPECT_THAT([&] { load_into(*deep, shallow->state(), {.source = "w.pth"}); },
              ThrowsMessage<IoError>(HasSubstr("w.pth: these are weights of resnet18, not weights of resnet50")));
  EXPECT_THAT([&] { load_into(*shallow, deep->state()); },
              ThrowsMessage<IoError>(HasSubstr("weights of resnet50, not weights of resnet18")));
  EXPECT_THAT([&] { load_into(*shallow, make_model({.backbone = "googlenet"})->state()); },
              ThrowsMessage<IoError>(HasSubstr("weights of googlenet, not weights of resnet18")));
}

TEST(ResNet, NeedsNoCountsOfBatchesAndPassesThemOver) {
  const auto model = make_model({.backbone = "resnet18"});
  NamedTensors published = model->state();
  published.erase("embedding.weight");
  published.erase("embedding.bias");
  EXPECT_FALSE(load_into(*model, published, {.new_layer_may_be_missing = true}));
  published["bn1.num_batches_tracked"] = torch::zeros({}, torch::kInt64);
  published["fc.weight"] = torch::zeros({1000, 512});
  EXPECT_FALSE(load_into(*model, published, {.new_layer_may_be_missing = true}));
}

/// Files of torch.save and of safetensors that Python's own torchvision and timm have written, and what their networks make of an image.
TEST(ResNetOfPython, GivesTheFeaturesOfTorchvisionAndTimm) {
  const char* const chosen = std::getenv("SMARTMINE_PYTHON");
  const std::string python = chosen == nullptr ? "python3" : chosen;
  if (std::system((python + " -c 'import torch, torchvision, safetensors.torch' >/dev/null 2>&1").c_str()) != 0)
    GTEST_SKIP() << "python3 (or SMARTMINE_PYTHON) has no torchvision with safetensors";
  const testing::TemporaryFolder folder;
  testing::save(folder / "make.py", R"(
import sys, torch, torchvision, safetensors.torch
folder = sys.argv[1] + '/'
torch.manual_seed(1)
def stirred(net):
    for name, value in net.named_buffers():
        if name.endswith('running_mean'): value.normal_(0, 0.2)
        if name.endswith('running_var'): value.uniform_(0.5, 2)
    return net.eval()
images = torch.randn(2, 3, 224, 224)
for depth in 18, 50:
    name = f'resnet{depth}'
    net = stirred(getattr(torchvision.models, name)(weights=None))
    torch.save(net.state_dict(), folder + name + '.new')
    torch.save(net.state_dict(), folder + name + '.old', _use_new_zipfile_serialization=False)
    net.fc = torch.nn.Identity()
    with torch.no_grad(): safetensors.torch.save_file({'images': images, 'features': net(images)}, folder + name + '.check')
try:
    import timm
    net = stirred(timm.create_model('resnet50', pretrained=False))
    safetensors.torch.save_file(net.state_dict(), folder + 'timm.new')
    net.reset_classifier(0)
    with torch.no_grad(): safetensors.torch.save_file({'images': images, 'features': net(images)}, folder + 'timm.check')
except ImportError:
    print('timm is not there')
)");
  ASSERT_EQ(std::system((python + " '" + (folder / "make.py").string() + "' '" + (folder / "").string() + "'").c_str()), 0);
  int compared = 0;
  for (const auto& [name, backbone] : {std::pair{"resnet18", "resnet18"}, {"resnet50", "resnet50"}, {"timm", "resnet50"}}) {
    if (!std::filesystem::exists(folder / (std::string(name) + ".check"))) continue;
    const NamedTensors check = read_safetensors(folder / (std::string(name) + ".check"));
    for (const char* ending : {".new", ".old"}) {
      const std::filesystem::path file = folder / (std::string(name) + ending);
      if (!std::filesystem::exists(file)) continue;
      const auto model = make_model({.backbone = backbone});
      load_into(*model, read_weights(file), {.new_layer_may_be_missing = true, .source = file.string()});
      model->eval();
      const torch::NoGradGuard no_grad;
      const double difference = largest_difference(model->backbone().forward(check.at("images")), check.at("features"));
      RecordProperty(name + std::string(ending), std::to_string(difference));
      EXPECT_LT(difference, 1e-4) << file << ", of at most " << check.at("features").max().item<float>();
      ++compared;
    }
  }
  EXPECT_GE(compared, 4);
}

}  // namespace
}  // namespace smartmine
