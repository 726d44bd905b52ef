#include "models/layers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <utility>
#include <vector>

#include "models/shared_layers.h"

namespace longformer::models {
namespace {

/// The parameters of some layers, stacked.
struct Stacked {
  std::vector<Tensor> matrices = {}, biases = {};
  /// Additions of adapters to each part.
  std::vector<ops::LowRank> additions = {};
};

/// Layers of one key have the same numbers in the same form.
std::string key_of(const LayerSource& source, std::span<const std::string> names,
                   const LinearParts& parts) {
  return fmt::format("{}: {} {} {} {} {} {}", source.weights.path(), fmt::join(names, " "),
                     name_of(parts.dtype.value_or(source.dtype)),
                     parts.activation ? static_cast<int>(*parts.activation) : -1, parts.has_bias,
                     parts.slabs.in, parts.slabs.out);
}

/// The place that shares the layers of these names; null for none.
SharedLayers* shared(const LayerSource& source, std::span<const std::string> names) {
  SharedLayers* layers = nullptr;
  if (source.weights.keeps_tensors()) return nullptr;
  for (const std::string& name : names) {
    layers = source.weights.shared(name);
    if (layers == nullptr) return nullptr;
  }
  return layers;
}

ops::Linear stacked(const LayerSource& source, Stacked layers, const LinearParts& parts) {
  ops::Linear dense(layers.matrices, layers.biases,
                    {.dtype = parts.dtype.value_or(source.dtype),
                     .activation = parts.activation,
                     .trainable = source.weights.keeps_tensors(),
                     .slabs = parts.slabs});
  for (const Tensor& matrix : layers.matrices) source.weights.release(matrix);
  if (source.weights.trained_adapter() != nullptr) dense.adapt(std::move(layers.additions));
  return dense;
}

ops::Linear packed_once(const LayerSource& source, std::span<const std::string> names,
                        const Stacked& layers, const LinearParts& parts = {}) {
  const auto pack = [&] { return stacked(source, layers, parts); };
  SharedLayers* together = shared(source, names);
  return together == nullptr ? pack() : together->get(key_of(source, names, parts), pack);
}

}  // namespace

ops::Linear linear(const LayerSource& source, const std::string& name, LinearShape shape,
                   const LinearParts& parts) {
  Stacked layer = {.matrices = {source.weights.get(name + ".weight", {shape.out, shape.in},
                                                   Init::normal(source.initializer_range))},
                   .additions = {source.weights.low_rank(name, shape.out, shape.in)}};
  if (parts.has_bias) {
    const std::string usual = name + ".bias";
    Init init = Init::constant(parts.bias_value);
    init.is_frozen = !parts.trains_bias;
    layer.biases.push_back(
        source.weights.get(parts.bias_name.empty() ? usual : parts.bias_name, {shape.out}, init));
  }
  std::vector<std::string> names = {name};
  if (!parts.bias_name.empty()) names.push_back(parts.bias_name);
  return packed_once(source, names, layer, parts);
}

ops::Linear convolution(const LayerSource& source, const std::string& name, LinearShape shape,
                        Index taps, std::optional<ops::Activation> activation) {
  const auto inputs = static_cast<double>(shape.in * taps);
  const Tensor weight = source.weights.get(name + ".weight", {shape.out, shape.in, taps},
                                           Init::normal(1 / std::sqrt(inputs)));
  // A view with the gradient of the parameter itself.
  Tensor matrix = weight.reshaped({shape.out, shape.in * taps});
  matrix.set_gradient(weight.gradient());
  return stacked(source, {.matrices = {matrix}}, {.activation = activation});
}

ops::Linear stacked_linear(const LayerSource& source, std::span<const std::string> names,
                           LinearShape shape, bool has_bias) {
  Stacked layers;
  for (const std::string& name : names) {
    layers.matrices.push_back(source.weights.get(name + ".weight", {shape.out, shape.in},
                                                 Init::normal(source.initializer_range)));
    layers.additions.push_back(source.weights.low_rank(name, shape.out, shape.in));
    if (!has_bias) continue;
    layers.biases.push_back(source.weights.get(name + ".bias", {shape.out}, Init::zeros()));
  }
  return packed_once(source, names, layers, {.has_bias = has_bias});
}

ops::LayerNorm layer_norm(const LayerSource& source, const std::string& name, Index width) {
  const Init gains = source.gain_offset == 0 ? Init::gains(source.gain_range) : Init::zeros();
  ops::LayerNorm norm = {.weight = source.weights.get_fp32(name + ".weight", {width}, gains),
                         .bias = {},
                         .epsilon = static_cast<float>(source.layer_norm_eps),
                         .centres = source.centres_norms,
                         .gain_offset = static_cast<float>(source.gain_offset)};
  if (source.norm_bias) norm.bias = source.weights.get_fp32(name + ".bias", {width}, Init::zeros());
  return norm;
}

Tensor embedding(const LayerSource& source, const std::string& name, LinearShape shape,
                 Index padding) {
  return source.weights.get(name, {shape.out, shape.in},
                            Init::normal(source.initializer_range, padding));
}

}  // namespace longformer::models
