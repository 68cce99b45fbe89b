#include "smartmine/model/new_layer.h"

#include <ATen/ops/linalg_eigh.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "smartmine/core/error.h"

namespace smartmine {
namespace {

// Beside the differences of class means, those of all images count so little: they decide only where class means are all alike.
constexpr double kShareOfAll = 0.01;

struct Centred {
  torch::Tensor mean, rows;
  double squared_length;  // of the features, mean over the images
};

Centred centred(const torch::Tensor& features, std::int64_t dimension) {
  if (dimension < 1 || dimension > features.size(1))
    throw InvalidArgument(fmt::format("embedding_dimension is {}; a layer computed from {} features has from 1 to {}", dimension,
                                      features.size(1), features.size(1)));
  const torch::Tensor rows = features.detach().to(torch::kCPU, torch::kFloat64).contiguous();
  const double squared_length = rows.pow(2).sum(1).mean().item<double>();
  if (!std::isfinite(squared_length)) throw InvalidArgument("the features of some training images are not finite numbers");
  const torch::Tensor mean = rows.mean(0);
  const torch::Tensor apart = rows - mean;
  if (!(apart.pow(2).sum(1).mean().item<double>() > 1e-12 * squared_length))
    throw InvalidArgument("the features of all training images are alike, so a layer can't be computed from them");
  return {mean, apart, squared_length};
}

torch::Tensor covariance(const torch::Tensor& rows) { return rows.t().matmul(rows) / rows.size(0); }

// The eigenvectors of the largest eigenvalues, in columns, the largest first. A vector and its opposite are as good; the one whose largest
// entry is positive is taken.
torch::Tensor leading(const torch::Tensor& symmetric, std::int64_t count) {
  const torch::Tensor vectors = std::get<1>(at::linalg_eigh(symmetric)).flip(1).narrow(1, 0, count);
  const torch::Tensor largest = vectors.gather(0, vectors.abs().argmax(0, /*keepdim=*/true));
  return vectors * torch::where(largest < 0, -torch::ones_like(largest), torch::ones_like(largest));
}

// `projection` is [features, dimension].
LayerValues layer(const Centred& features, const torch::Tensor& projection) {
  const double length = features.rows.matmul(projection).pow(2).sum(1).mean().item<double>();
  const double random_length = features.squared_length * static_cast<double>(projection.size(1)) / static_cast<double>(projection.size(0));
  const torch::Tensor weight = projection.t().contiguous() * std::sqrt(random_length / length);
  return {weight, -weight.matmul(features.mean)};
}

}  // namespace

LayerValues principal_components(const torch::Tensor& features, std::int64_t dimension) {
  const Centred data = centred(features, dimension);
  const torch::Tensor directions = leading(covariance(data.rows), dimension);
  const torch::Tensor deviations = data.rows.matmul(directions).pow(2).mean(0).sqrt();
  return layer(data, directions / deviations.clamp_min(1e-6 * deviations.max()).sqrt());
}

LayerValues discriminants(const torch::Tensor& features, std::span<const std::int64_t> labels, std::int64_t dimension) {
  const Centred data = centred(features, dimension);
  if (static_cast<std::int64_t>(labels.size()) != data.rows.size(0))
    throw InvalidArgument(fmt::format("labels are {}; features are of {} images", labels.size(), data.rows.size(0)));
  std::map<std::int64_t, std::vector<std::int64_t>> classes;
  for (std::size_t i = 0; i < labels.size(); ++i) classes[labels[i]].push_back(static_cast<std::int64_t>(i));
  torch::Tensor means = torch::zeros_like(data.rows);  // every image's class's
  for (const auto& [label, images] : classes) {
    const torch::Tensor index = torch::tensor(images);
    means.index_copy_(0, index, data.rows.index_select(0, index).mean(0, /*keepdim=*/true).expand({index.size(0), data.rows.size(1)}));
  }
  const auto [spreads, axes] = at::linalg_eigh(covariance(data.rows - means));
  torch::Tensor added = spreads.mean();
  if (!(added.item<double>() > 0)) added = torch::ones({}, torch::kFloat64);  // every class is a single point: nothing to measure by
  const torch::Tensor measure = axes * (spreads.clamp_min(0) + added).rsqrt();
  const torch::Tensor scatter = covariance(means.matmul(measure)) + kShareOfAll * covariance(data.rows.matmul(measure));
  return layer(data, measure.matmul(leading(scatter, dimension)));
}

}  // namespace smartmine
