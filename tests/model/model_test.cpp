#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdlib>
#include <filesystem>
#include <set>

#include "smartmine/core/error.h"
#include "smartmine/core/mapped_file.h"
#include "smartmine/core/npy.h"
#include "smartmine/core/vector_files.h"
#include "smartmine/model/embed.h"
#include "smartmine/model/embedding_model.h"
#include "smartmine/model/googlenet.h"
#include "smartmine/model/small_convnet.h"
#include "smartmine/model/weights.h"

namespace smartmine {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

torch::Tensor noise(torch::IntArrayRef shape, std::uint64_t seed, double deviation = 1) {
  torch::Tensor tensor = torch::empty(shape);
  Random random(seed);
  fill_normal(tensor, deviation, random);
  return tensor;
}

double largest_difference(const torch::Tensor& a, const torch::Tensor& b) {
  return (a.to(torch::kFloat64) - b.to(torch::kFloat64)).abs().max().item<double>();
}

TEST(EmbeddingModel, GivesUnitRowsOfAnyDimension) {
  for (const std::int64_t dimension : {1, 64, 300}) {
    const auto model = make_model({.embedding_dimension = dimension});
    const torch::Tensor images = noise({5, 1, 32, 32}, 1);
    const torch::Tensor embedding = model->forward(images);
    EXPECT_EQ(embedding.sizes(), (std::vector<std::int64_t>{5, dimension}));
    EXPECT_LT(largest_difference(embedding.norm(2, 1), torch::ones({5})), 1e-6);
    const torch::Tensor raw = model->raw(images);
    EXPECT_LT(largest_difference(raw / raw.norm(2, 1, true), embedding), 1e-6);
    EXPECT_GT(largest_difference(raw.norm(2, 1), torch::ones({5})), 1e-3);
  }
}

TEST(EmbeddingModel, StartsTheSameFromASeedAndOtherwiseFromAnother) {
  const NamedTensors first = make_model({.seed = 4})->state();
  const NamedTensors same = make_model({.seed = 4})->state();
  const NamedTensors other = make_model({.seed = 5})->state();
  for (const auto& [name, tensor] : first) EXPECT_TRUE(tensor.equal(same.at(name))) << name;
  EXPECT_FALSE(first.at("embedding.weight").equal(other.at("embedding.weight")));
  EXPECT_FALSE(first.at("conv1.weight").equal(other.at("conv1.weight")));
}

TEST(EmbeddingModel, SplitsAllParametersBetweenTrunkAndNewLayer) {
  const auto model = make_model({.backbone = "googlenet"});
  EXPECT_EQ(model->trunk_parameters().size(), 114U);
  EXPECT_EQ(model->new_layer_parameters().size(), 2U);
  EXPECT_EQ(model->parameters().size(), 116U);
}

TEST(EmbeddingModel, DropsTheSameFeaturesForTheSameSeedAndNoneInEvaluation) {
  const auto model = make_model({.dropout = 0.5});
  const torch::Tensor images = noise({4, 1, 32, 32}, 2);
  const auto pass = [&](std::uint64_t seed) {
    model->seed_dropout(seed);
    return model->forward(images).detach();
  };
  const torch::Tensor first = pass(7);
  torch::rand({100});  // somebody else's draws change nothing
  EXPECT_TRUE(first.equal(pass(7)));
  EXPECT_GT(largest_difference(first, pass(8)), 1e-3);
  model->eval();
  EXPECT_TRUE(pass(7).equal(pass(8)));
}

TEST(EmbeddingModel, AnImagesEmbeddingDoesNotDependOnItsBatchInEvaluation) {
  const auto model = make_model({});
  const torch::Tensor images = noise({6, 1, 32, 32}, 3);
  model->eval();
  const torch::Tensor untrained = model->forward(images);
  model->train();
  model->forward(images);  // moves the running averages
  model->eval();
  const torch::Tensor all = model->forward(images);
  EXPECT_GT(largest_difference(all, untrained), 1e-3) << "the running averages have no part in it";
  EXPECT_LT(largest_difference(all.narrow(0, 2, 1), model->forward(images.narrow(0, 2, 1))), 1e-5);
  EXPECT_TRUE(torch::equal(all, model->forward(images))) << "evaluating moves the running averages";
}

TEST(EmbeddingModel, RunningAveragesAreSavedAndLoadedWithTheWeights) {
  const auto model = make_model({});
  const torch::Tensor images = noise({6, 1, 32, 32}, 3);
  model->train();
  model->forward(images);
  model->eval();
  const auto other = make_model({.seed = 2});
  load_into(*other, model->state());
  other->eval();
  EXPECT_TRUE(torch::equal(model->forward(images), other->forward(images)));
}

TEST(EmbeddingModel, ComputesInTheTypeOfTheImages) {
  for (const char* name : {"small", "googlenet"}) {
    const auto model = make_model({.backbone = name});
    model->eval();
    const InputFormat& input = model->input();
    // GoogLeNet is slow in float64 on a CPU; half its side does.
    const std::int64_t side = input.size > 100 ? 113 : input.size;
    const torch::Tensor images = noise({2, input.channels, side, side}, 3, input.size > 100 ? 60 : 1);
    torch::NoGradGuard no_grad;
    const torch::Tensor single = model->backbone().forward(images);
    const torch::Tensor brain = model->backbone().forward(images.to(torch::kBFloat16));
    EXPECT_EQ(brain.scalar_type(), torch::kFloat32);
    const double scale = single.abs().max().item<double>();
    EXPECT_LT(largest_difference(single, brain), 0.1 * scale) << name;
    EXPECT_GT(largest_difference(single, brain), 0) << name;
  }
}

TEST(GoogLeNets, PoolTheirLastLayerAsAsked) {
  const auto features = [](const char* pooling, std::int64_t side) {
    const auto model = make_model({.backbone = "googlenet", .pooling = pooling});
    model->eval();
    const torch::NoGradGuard no_grad;
    return model->backbone().forward(noise({2, 3, side, side}, 3, 60));
  };
  // At this size the last layer is one pixel, so that all kinds see the same; at the next it has four.
  EXPECT_TRUE(features("max", 32).equal(features("average", 32)));
  const torch::Tensor average = features("average", 64), most = features("max", 64);
  EXPECT_EQ(most.sizes(), (std::vector<std::int64_t>{2, 1024}));
  EXPECT_TRUE((most >= average).all().item<bool>());
  EXPECT_GT(largest_difference(most, average), 1e-3);
  EXPECT_LT(largest_difference(features("both", 64), most + average), 1e-5 * most.max().item<double>());
}

TEST(GoogLeNets, TakeImagesOfOtherSizes) {
  struct Sizes {
    std::int64_t asked, seen, scaled;
  };
  for (const Sizes sizes : {Sizes{0, 227, 256}, {160, 160, 256}, {224, 224, 256}, {227, 227, 256}, {256, 256, 288}, {448, 448, 504}}) {
    const auto model = make_model({.backbone = "googlenet", .input_size = sizes.asked});
    EXPECT_EQ(model->input().size, sizes.seen);
    EXPECT_EQ(model->input().resize, sizes.scaled);
  }
  const auto model = make_model({.backbone = "googlenet", .input_size = 160}), own = make_model({.backbone = "googlenet"});
  model->eval();
  own->eval();
  const torch::NoGradGuard no_grad;
  const torch::Tensor small = noise({1, 3, 160, 160}, 3, 60), large = noise({1, 3, 199, 199}, 3, 60);
  EXPECT_TRUE(model->forward(small).equal(own->forward(small)));  // the size asked for says nothing about the weights
  EXPECT_LT(largest_difference(model->forward(large).norm(2, 1), torch::ones({1})), 1e-5);
}

TEST(EmbeddingModel, KeepsItsValuesWhenLaidOutChannelsLast) {
  const auto model = make_model({});
  const torch::Tensor images = noise({3, 1, 32, 32}, 5);
  const torch::Tensor before = model->forward(images);
  model->use_channels_last();
  EXPECT_FALSE(model->state().at("conv2.weight").is_contiguous());
  EXPECT_LT(largest_difference(before, model->forward(images.contiguous(torch::MemoryFormat::ChannelsLast))), 1e-5);
}

TEST(EmbeddingModel, EveryParameterOfASmallNetworkGetsAGradient) {
  const auto model = make_model({.input_size = 20, .channels = 3});
  const torch::Tensor target = noise({4, 64}, 9);
  (model->forward(noise({4, 3, 20, 20}, 8)) - target).square().sum().backward();
  for (const auto& parameter : model->named_parameters()) {
    ASSERT_TRUE(parameter.value().grad().defined()) << parameter.key();
    EXPECT_GT(parameter.value().grad().abs().sum().item<double>(), 0) << parameter.key();
  }
}

TEST(EmbeddingModel, NamesBadOptions) {
  const auto made = [](ModelOptions options) { return [options] { make_model(options); }; };
  EXPECT_THAT(made({.backbone = "resnet"}),
              ThrowsMessage<InvalidArgument>(AllOf(HasSubstr("'resnet'"), HasSubstr("googlenet, resnet18, resnet50, small"))));
  EXPECT_THAT(made({.embedding_dimension = 0}), ThrowsMessage<InvalidArgument>(HasSubstr("embedding_dimension is 0")));
  EXPECT_THAT(made({.dropout = 1}), ThrowsMessage<InvalidArgument>(HasSubstr("dropout is 1")));
  EXPECT_THAT(made({.dropout = std::nan("")}), ThrowsMessage<InvalidArgument>(HasSubstr("dropout is nan")));
  EXPECT_THAT(made({.backbone = "googlenet", .pooling = "min"}),
              ThrowsMessage<InvalidArgument>(HasSubstr("pooling is 'min'; it must be one of average, max, both")));
  EXPECT_THAT(made({.pooling = "max"}), ThrowsMessage<InvalidArgument>(HasSubstr("pooling is 'max'; small does not pool")));
  EXPECT_THAT(made({.input_size = 8}), ThrowsMessage<InvalidArgument>(HasSubstr("input_size is 8")));
  EXPECT_THAT(made({.channels = 2}), ThrowsMessage<InvalidArgument>(HasSubstr("channels is 2")));
  for (const std::int64_t size : {64, 159, 449})
    EXPECT_THAT(made({.backbone = "googlenet", .input_size = size}),
                ThrowsMessage<InvalidArgument>(HasSubstr("input_size is " + std::to_string(size) + "; googlenet takes 160 to 448")));
}

TEST(Embed, ViewsATensorAsRowsWithoutCopying) {
  const torch::Tensor tensor = noise({3, 4}, 1);
  const Rows rows = rows_of(tensor);
  EXPECT_EQ(rows.size(), 3U);
  EXPECT_EQ(rows.dimension(), 4U);
  EXPECT_EQ(rows.data(), tensor.data_ptr<float>());
  EXPECT_EQ(rows[2][1], tensor[2][1].item<float>());
  EXPECT_EQ(embeddings_of(tensor).rows().data(), tensor.data_ptr<float>());
}

TEST(Embed, RefusesTensorsThatAreNoRows) {
  const torch::Tensor tensor = noise({3, 4}, 1);
  EXPECT_THAT([&] { rows_of(tensor.t()); }, ThrowsMessage<InvalidArgument>(HasSubstr("not contiguous")));
  EXPECT_THAT([&] { rows_of(tensor.to(torch::kFloat64)); }, ThrowsMessage<InvalidArgument>(HasSubstr("Double")));
  EXPECT_THAT([&] { rows_of(tensor[0]); }, ThrowsMessage<InvalidArgument>(HasSubstr("1 dimensions")));
  EXPECT_THAT([&] { rows_of(torch::Tensor()); }, ThrowsMessage<InvalidArgument>(HasSubstr("undefined")));
}

TEST(LocalResponseNorm, FollowsCaffesFormulaChannelByChannel) {
  const torch::Tensor x = noise({1, 7, 2, 2}, 4, 200);
  const torch::Tensor y = local_response_norm(x);
  for (std::int64_t channel = 0; channel < 7; ++channel) {
    double sum = 0;
    for (std::int64_t other = std::max<std::int64_t>(0, channel - 2); other <= std::min<std::int64_t>(6, channel + 2); ++other)
      sum += std::pow(x[0][other][1][0].item<double>(), 2);
    const double expected = x[0][channel][1][0].item<double>() / std::pow(1 + 1e-4 / 5 * sum, 0.75);
    EXPECT_NEAR(y[0][channel][1][0].item<double>(), expected, 1e-4) << channel;
  }
}

TEST(LocalResponseNorm, HasTheGradientOfTorchsOwn) {
  const torch::Tensor weights = noise({2, 9, 3, 3}, 5).to(torch::kFloat64);
  const auto gradient = [&](auto&& norm) {
    const torch::Tensor x = noise({2, 9, 3, 3}, 6, 150).to(torch::kFloat64).requires_grad_();
    (norm(x) * weights).sum().backward();
    return x.grad();
  };
  const torch::Tensor own = gradient([](const torch::Tensor& x) { return local_response_norm(x); });
  const torch::Tensor oracle = gradient([](const torch::Tensor& x) {
    return torch::nn::functional::local_response_norm(x,
                                                      torch::nn::functional::LocalResponseNormFuncOptions(5).alpha(1e-4).beta(0.75).k(1));
  });
  EXPECT_LT(largest_difference(own, oracle), 1e-12);
}

TEST(GoogLeNet, HasTheSizesOfTheOriginalAt227) {
  GoogLeNet network(1);
  network.eval();
  torch::NoGradGuard no_grad;
  EXPECT_EQ(network.forward(noise({1, 3, 227, 227}, 1, 50)).sizes(), (std::vector<std::int64_t>{1, 1024}));
  std::int64_t parameters = 0;
  for (const torch::Tensor& parameter : network.parameters()) parameters += parameter.numel();
  EXPECT_EQ(parameters, 5973552);  // what the published model has without its classifier
  EXPECT_TRUE(network.input().bgr);
}

/// A folder of published weights, named by an environment variable; tests that need it are skipped without.
std::filesystem::path weights_folder() {
  const char* const folder = std::getenv("SMARTMINE_WEIGHTS_DIR");
  return folder == nullptr ? std::filesystem::path() : std::filesystem::path(folder);
}

torch::Tensor read_array(const std::filesystem::path& path) {
  const MappedFile file(path);
  const NpyHeader header = parse_npy_header(file.bytes(), path.string());
  std::vector<std::int64_t> shape(header.shape.begin(), header.shape.end());
  torch::Tensor tensor = torch::empty(shape);
  std::memcpy(tensor.data_ptr(), file.bytes().data() + header.data_offset, header.values * sizeof(float));
  return tensor;
}

TEST(GoogLeNet, AgreesWithAnIndependentComputationOfThePublishedWeights) {
  const auto folder = weights_folder();
  if (folder.empty())
    GTEST_SKIP() << "SMARTMINE_WEIGHTS_DIR is not set; it names a folder with bvlc_googlenet.safetensors and googlenet_check_*.npy";
  const auto model = make_model({.backbone = "googlenet"});
  const NamedTensors tensors = read_weights(folder / "bvlc_googlenet.safetensors");
  EXPECT_EQ(tensors.size(), 116U);
  load_into(*model, tensors, {.new_layer_may_be_missing = true});
  model->eval();
  torch::NoGradGuard no_grad;
  const torch::Tensor features = model->backbone().forward(read_array(folder / "googlenet_check_input.npy"));
  const torch::Tensor expected = read_array(folder / "googlenet_check_pool5.npy");
  const double difference = largest_difference(features, expected);
  RecordProperty("largest_difference", std::to_string(difference));
  EXPECT_LT(difference, 1e-3);
  EXPECT_GT(expected.abs().max().item<double>(), 0.1);
}

}  // namespace
}  // namespace smartmine
