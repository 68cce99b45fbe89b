#include "smartmine/model/new_layer.h"

#include <ATen/ops/linalg_eigh.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <vector>

#include "smartmine/core/error.h"

namespace smartmine {
namespace {

constexpr std::int64_t kPiece = 4096;  // rows at a time in float64
// Directions that vary less than this share of the first count as if they varied so much: what training images lack, others may have.
constexpr double kLeastDeviation = 0.03;
// Beside the differences of class means, those of all images count so little: they decide only where class means are all alike.
constexpr double kShareOfAll = 0.01;

// Of the features of all images, in float64.
struct Moments {
  torch::Tensor mean, covariance;
  double squared_length = 0;  // mean over the images
};

Moments moments_of(const torch::Tensor& features, std::int64_t dimension) {
  const std::int64_t count = features.size(0), width = features.size(1);
  if (dimension < 1 || dimension > width)
    throw InvalidArgument(fmt::format("embedding_dim is {}; a layer computed from {} features has from 1 to {}", dimension, width, width));
  Moments all{torch::zeros({width}, torch::kFloat64), torch::zeros({width, width}, torch::kFloat64)};
  for (std::int64_t begin = 0; begin < count; begin += kPiece) {
    const torch::Tensor rows = features.narrow(0, begin, std::min(kPiece, count - begin)).detach().to(torch::kCPU, torch::kFloat64);
    all.mean += rows.sum(0) / count;
    all.covariance += rows.t().matmul(rows) / count;
  }
  all.squared_length = all.covariance.trace().item<double>();
  if (!std::isfinite(all.squared_length)) throw InvalidArgument("the features of some training images are not finite numbers");
  all.covariance -= torch::outer(all.mean, all.mean);
  if (!(all.covariance.trace().item<double>() > 1e-12 * all.squared_length))
    throw InvalidArgument("the features of all training images are alike, so no layer can be computed from them");
  return all;
}

// How much class means differ: their covariance, every image counting for its class.
torch::Tensor between_classes(const torch::Tensor& features, std::span<const std::int64_t> labels, const torch::Tensor& mean) {
  std::unordered_map<std::int64_t, std::int64_t> numbers;
  std::vector<std::int64_t> classes;
  for (const std::int64_t label : labels)
    classes.push_back(numbers.emplace(label, static_cast<std::int64_t>(numbers.size())).first->second);
  const torch::Tensor index = torch::tensor(classes);
  const auto count = static_cast<std::int64_t>(numbers.size());
  torch::Tensor means = torch::zeros({count, features.size(1)}, torch::kFloat64);
  for (std::int64_t begin = 0; begin < features.size(0); begin += kPiece) {
    const std::int64_t size = std::min(kPiece, features.size(0) - begin);
    means.index_add_(0, index.narrow(0, begin, size), features.narrow(0, begin, size).detach().to(torch::kCPU, torch::kFloat64));
  }
  const torch::Tensor sizes = torch::bincount(index, {}, count).to(torch::kFloat64).unsqueeze(1);
  means = means / sizes - mean;
  return means.t().matmul(means * sizes) / features.size(0);
}

// What a projection makes of a covariance.
torch::Tensor projected(const torch::Tensor& covariance, const torch::Tensor& projection) {
  return projection.t().matmul(covariance).matmul(projection);
}

// The eigenvectors of the largest eigenvalues, in columns, the largest first. A vector and its opposite are as good; the one whose largest
// entry is positive is taken.
torch::Tensor leading(const torch::Tensor& symmetric, std::int64_t count) {
  const torch::Tensor vectors = std::get<1>(at::linalg_eigh(symmetric)).flip(1).narrow(1, 0, count);
  const torch::Tensor largest = vectors.gather(0, vectors.abs().argmax(0, /*keepdim=*/true));
  return vectors * torch::where(largest < 0, -torch::ones_like(largest), torch::ones_like(largest));
}

// `projection` is [features, dimension].
LayerValues layer(const Moments& all, const torch::Tensor& projection) {
  const double length = projected(all.covariance, projection).trace().item<double>();
  const double random_length = all.squared_length * static_cast<double>(projection.size(1)) / static_cast<double>(projection.size(0));
  const torch::Tensor weight = projection.t().contiguous() * std::sqrt(random_length / length);
  return {weight, -weight.matmul(all.mean)};
}

}  // namespace

LayerValues principal_components(const torch::Tensor& features, std::int64_t dimension) {
  const Moments all = moments_of(features, dimension);
  const torch::Tensor directions = leading(all.covariance, dimension);
  const torch::Tensor deviations = projected(all.covariance, directions).diag().clamp_min(0).sqrt();
  return layer(all, directions / deviations.clamp_min(kLeastDeviation * deviations.max().item<double>()).sqrt());
}

LayerValues discriminants(const torch::Tensor& features, std::span<const std::int64_t> labels, std::int64_t dimension) {
  const Moments all = moments_of(features, dimension);
  if (static_cast<std::int64_t>(labels.size()) != features.size(0))
    throw InvalidArgument(fmt::format("labels are {}; features are of {} images", labels.size(), features.size(0)));
  const torch::Tensor between = between_classes(features, labels, all.mean);
  const auto [spreads, axes] = at::linalg_eigh(all.covariance - between);  // within classes
  double added = spreads.mean().item<double>();
  if (!(added > 1e-12 * all.squared_length)) added = 1;  // every class is a single point: nothing to measure by
  const torch::Tensor measure = axes * (spreads.clamp_min(0) + added).rsqrt();
  const torch::Tensor scatter = projected(between + kShareOfAll * all.covariance, measure);
  return layer(all, measure.matmul(leading(scatter, dimension)));
}

}  // namespace smartmine
