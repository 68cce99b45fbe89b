#pragma once

#include <torch/types.h>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "smartmine/model/backbone.h"
#include "smartmine/model/layers.h"

namespace smartmine {

/// The first GoogLeNet as Caffe's model zoo has it (BVLC GoogLeNet), layer for layer up to pool5: 1024 features. Caffe's local
/// response normalisation, pools in ceil mode, biases, no batch norm, no auxiliary heads. Parameters have Caffe's names,
/// such as "inception_3a/5x5_reduce.weight".
class GoogLeNet : public Backbone {
 public:
  /// Random weights from `seed`; real ones come from a file (see weights.h). All layers slide over the image and the last one pools what is
  /// there, so that images may be of any size; `input_size`, from 160 to 448, is what input() says. Throws InvalidArgument for others.
  explicit GoogLeNet(std::uint64_t seed, Pooling pooling = Pooling::kAverage, std::int64_t input_size = 227);
  torch::Tensor forward(const torch::Tensor& images) override;
  std::int64_t feature_dimension() const override { return 1024; }
  const InputFormat& input() const override { return input_; }
  std::vector<std::string> left_out() const override;

 private:
  struct Inception {
    Convolution one, three_reduce, three, five_reduce, five, pool;
    torch::Tensor operator()(const torch::Tensor& x) const;
  };
  Convolution add_convolution(const std::string& name, std::int64_t in, std::int64_t out, std::int64_t kernel, std::int64_t stride,
                              Random& random);
  Inception add_inception(const std::string& name, std::int64_t in, const std::array<std::int64_t, 6>& out, Random& random);

  InputFormat input_;
  Pooling pooling_;
  Convolution conv1_, conv2_reduce_, conv2_;
  std::vector<Inception> inceptions_;
};

}  // namespace smartmine
