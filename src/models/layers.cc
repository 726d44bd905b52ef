#include "models/layers.h"

#include <array>
#include <cmath>
#include <vector>

namespace longformer::models {
namespace {

ops::Linear stacked(const LayerSource& source, std::span<const Tensor> matrices,
                    std::span<const Tensor> biases, const LinearParts& parts) {
  ops::Linear dense(matrices, biases,
                    {.dtype = parts.dtype.value_or(source.dtype),
                     .activation = parts.activation,
                     .trainable = source.weights.keeps_tensors(),
                     .slabs = parts.slabs});
  for (const Tensor& matrix : matrices) source.weights.release(matrix);
  return dense;
}

}  // namespace

ops::Linear linear(const LayerSource& source, const std::string& name, LinearShape shape,
                   const LinearParts& parts) {
  const std::array matrix = {source.weights.get(name + ".weight", {shape.out, shape.in},
                                                Init::normal(source.initializer_range))};
  std::vector<Tensor> bias;
  if (parts.has_bias) {
    const std::string usual = name + ".bias";
    bias.push_back(source.weights.get(parts.bias_name.empty() ? usual : parts.bias_name,
                                      {shape.out}, Init::constant(parts.bias_value)));
  }
  return stacked(source, matrix, bias, parts);
}

ops::Linear convolution(const LayerSource& source, const std::string& name, LinearShape shape,
                        Index taps, std::optional<ops::Activation> activation) {
  const auto inputs = static_cast<double>(shape.in * taps);
  const Tensor weight = source.weights.get(name + ".weight", {shape.out, shape.in, taps},
                                           Init::normal(1 / std::sqrt(inputs)));
  // A view with the gradient of the parameter itself.
  Tensor matrix = weight.reshaped({shape.out, shape.in * taps});
  matrix.set_gradient(weight.gradient());
  return stacked(source, {&matrix, 1}, {}, {.activation = activation});
}

ops::Linear stacked_linear(const LayerSource& source, std::span<const std::string> names,
                           LinearShape shape) {
  std::vector<Tensor> matrices, biases;
  for (const std::string& name : names) {
    matrices.push_back(source.weights.get(name + ".weight", {shape.out, shape.in},
                                          Init::normal(source.initializer_range)));
    biases.push_back(source.weights.get(name + ".bias", {shape.out}, Init::zeros()));
  }
  return stacked(source, matrices, biases, {});
}

ops::LayerNorm layer_norm(const LayerSource& source, const std::string& name, Index width) {
  return {
      .weight = source.weights.get_fp32(name + ".weight", {width}, Init::gains(source.gain_range)),
      .bias = source.weights.get_fp32(name + ".bias", {width}, Init::zeros()),
      .epsilon = static_cast<float>(source.layer_norm_eps)};
}

Tensor embedding(const LayerSource& source, const std::string& name, LinearShape shape,
                 Index padding) {
  return source.weights.get(name, {shape.out, shape.in},
                            Init::normal(source.initializer_range, padding));
}

}  // namespace longformer::models
