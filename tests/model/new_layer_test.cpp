#include "smartmine/model/new_layer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <limits>
#include <vector>

#include "smartmine/core/error.h"
#include "smartmine/model/backbone.h"
#include "smartmine/model/embedding_model.h"

namespace smartmine {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr std::int64_t kImages = 600, kFeatures = 8;

std::vector<std::int64_t> labels_of(std::int64_t classes) {
  std::vector<std::int64_t> labels(kImages);
  for (std::int64_t i = 0; i < kImages; ++i) labels[static_cast<std::size_t>(i)] = 100 - i % classes;
  return labels;
}

// Noise of deviation 1 about (5, 5, ...); more of it, 4, in feature 0, and less, 0.1, in feature 3, where classes 0.4 apart differ.
torch::Tensor features_of(const std::vector<std::int64_t>& labels) {
  torch::Tensor features = torch::empty({kImages, kFeatures}, torch::kFloat32);
  Random random(3);
  fill_normal(features, 1, random);
  features.select(1, 0).mul_(4);
  features.select(1, 3).mul_(0.1);
  features.select(1, 3).add_(0.4 * torch::tensor(labels).to(torch::kFloat32));
  return features.add_(5);
}

torch::Tensor through(const LayerValues& layer, const torch::Tensor& features) {
  return features.to(torch::kFloat64).matmul(layer.weight.t()) + layer.bias;
}

// How far the first output looks along a feature, from 0 to 1.
double along(const LayerValues& layer, std::int64_t feature) {
  const torch::Tensor row = layer.weight[0];
  return (row[feature].abs() / row.norm()).item<double>();
}

TEST(NewLayer, ComponentsLookWhereFeaturesVaryMost) {
  const torch::Tensor features = features_of(labels_of(3));
  const LayerValues layer = principal_components(features, 3);
  EXPECT_EQ(layer.weight.sizes(), (std::vector<std::int64_t>{3, kFeatures}));
  EXPECT_GT(along(layer, 0), 0.99);
  const torch::Tensor embedded = through(layer, features);
  const torch::Tensor covariance = embedded.t().matmul(embedded) / kImages;
  EXPECT_LT((covariance - torch::diag(covariance.diag())).abs().max().item<double>(), 1e-9);  // components do not go together
  // Each is divided by the square root of its deviation, so variances are to each other as deviations were.
  const double first = features.select(1, 0).std(false).item<double>();
  EXPECT_NEAR(covariance[0][0].item<double>() / covariance[1][1].item<double>(), first, 0.2);  // the second has a deviation of about 1
}

// Fewer images than dimensions: some directions are in none of them, and other images must not be all of those.
TEST(NewLayer, MakesNoMoreOfDirectionsThatTrainingImagesLack) {
  const std::vector<std::int64_t> labels = labels_of(3);
  const torch::Tensor features = features_of(labels), few = features.narrow(0, 0, 5), others = features.narrow(0, 100, 200);
  for (const LayerValues& layer : {principal_components(few, kFeatures), discriminants(few, std::span(labels).first(5), kFeatures)}) {
    const torch::Tensor norms = layer.weight.norm(2, 1);
    EXPECT_LT((norms.max() / norms.min()).item<double>(), 20);
    const torch::Tensor energy = through(layer, others).pow(2).mean(0);
    EXPECT_GT((energy.narrow(0, 0, 4).sum() / energy.sum()).item<double>(), 0.05);
  }
}

TEST(NewLayer, DiscriminantsLookWhereClassesDiffer) {
  const std::vector<std::int64_t> labels = labels_of(3);
  const LayerValues layer = discriminants(features_of(labels), labels, 3);
  EXPECT_GT(along(layer, 3), 0.95);
}

TEST(NewLayer, DiscriminantsGoOnBeyondTheClasses) {
  const std::vector<std::int64_t> labels = labels_of(3);
  const torch::Tensor features = features_of(labels);
  const LayerValues layer = discriminants(features, labels, kFeatures);
  EXPECT_GT(along(layer, 3), 0.95);
  const auto ranks = std::get<1>(torch::linalg_svd(layer.weight, false));
  EXPECT_GT((ranks.min() / ranks.max()).item<double>(), 1e-3);  // none is there twice
}

TEST(NewLayer, BothAreCentredAndAsLongAsALayerDrawnAtRandom) {
  const std::vector<std::int64_t> labels = labels_of(5);
  const torch::Tensor features = features_of(labels);
  const double expected = features.pow(2).sum(1).mean().item<double>() * 4 / kFeatures;
  for (const LayerValues& layer : {principal_components(features, 4), discriminants(features, labels, 4)}) {
    const torch::Tensor embedded = through(layer, features);
    EXPECT_LT(embedded.mean(0).abs().max().item<double>(), 1e-5);
    EXPECT_NEAR(embedded.pow(2).sum(1).mean().item<double>(), expected, 1e-6 * expected);
  }
}

TEST(NewLayer, TheSameFeaturesGiveTheSameLayerAndOtherLabelsOfTheSameClassesToo) {
  std::vector<std::int64_t> labels = labels_of(5);
  const torch::Tensor features = features_of(labels);
  const LayerValues first = discriminants(features, labels, 4), again = discriminants(features.clone(), labels, 4);
  EXPECT_TRUE(first.weight.equal(again.weight));
  EXPECT_TRUE(first.bias.equal(again.bias));
  for (std::int64_t& label : labels) label += 1000;
  EXPECT_TRUE(first.weight.equal(discriminants(features, labels, 4).weight));
}

TEST(NewLayer, TakesClassesOfASinglePointAndFeaturesThatAreAlwaysZero) {
  std::vector<std::int64_t> labels(kImages);
  for (std::int64_t i = 0; i < kImages; ++i) labels[static_cast<std::size_t>(i)] = i;
  torch::Tensor features = features_of(labels_of(3));
  features.select(1, 7).zero_();
  EXPECT_TRUE(discriminants(features, labels, kFeatures).weight.isfinite().all().item<bool>());
  EXPECT_TRUE(principal_components(features, kFeatures).weight.isfinite().all().item<bool>());
}

TEST(NewLayer, RefusesWhatNoLayerCanBeMadeOf) {
  const std::vector<std::int64_t> labels = labels_of(3);
  torch::Tensor features = features_of(labels);
  EXPECT_THAT([&] { principal_components(features, 9); },
              ThrowsMessage<InvalidArgument>(HasSubstr("embedding_dim is 9; a layer computed from 8 features has from 1 to 8")));
  EXPECT_THAT([&] { discriminants(features, std::vector<std::int64_t>(5), 4); }, ThrowsMessage<InvalidArgument>(HasSubstr("labels are 5")));
  EXPECT_THAT([&] { principal_components(torch::ones({5, 4}), 2); }, ThrowsMessage<InvalidArgument>(HasSubstr("are alike")));
  features[3][4] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT([&] { discriminants(features, labels, 4); }, ThrowsMessage<InvalidArgument>(HasSubstr("not finite")));
  const auto model = make_model({.embedding_dimension = 5});
  EXPECT_THAT(
      [&] {
        model->set_new_layer({torch::zeros({5, 3}), torch::zeros({5})});
      },
      ThrowsMessage<InvalidArgument>(HasSubstr("of another shape")));
}

}  // namespace
}  // namespace smartmine
