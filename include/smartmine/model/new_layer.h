#pragma once

#include <torch/types.h>

#include <cstdint>
#include <span>

namespace smartmine {

/// What a fully connected layer is made of: weight [dimension, features] and bias [dimension].
struct LayerValues {
  torch::Tensor weight, bias;
};

// Starts for the new layer that are computed from the features of the training images, [N, features], instead of drawn. Both take the mean
// of the features away, and are scaled so that embeddings are as long on the whole as a layer drawn at random would make them. In float64
// on the CPU; the same features give the same layer. Both throw InvalidArgument for a dimension beyond the number of features, and for
// features that are not finite or all alike.

/// The directions in which features vary most (principal components), each divided by the square root of its deviation, so that the first
/// do not drown the others. Directions in which they hardly vary are not made more of than others.
LayerValues principal_components(const torch::Tensor& features, std::int64_t dimension);

/// The directions that tell classes apart best (linear discriminants): where class means differ most, measured by how much images of one
/// class differ. The covariance within classes has its own mean added to all directions, so that no direction counts for being rare alone.
/// Dimensions beyond the number of classes go on with the directions in which images vary most by that measure.
LayerValues discriminants(const torch::Tensor& features, std::span<const std::int64_t> labels, std::int64_t dimension);

}  // namespace smartmine
