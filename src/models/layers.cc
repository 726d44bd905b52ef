#include "models/layers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "models/shared_layers.h"

namespace longformer::models {
namespace {

/// Layers of one shape that are stacked: names of the layers and of their biases (none: no bias).
struct LayerNames {
  std::vector<std::string> layers = {}, biases = {};
  LinearShape shape = {};
};

/// The parameters of some layers, stacked.
struct Stacked {
  std::vector<Tensor> matrices = {}, biases = {};
  /// Additions of adapters that are trained, to each part.
  std::vector<ops::LowRank> additions = {};
};

Init bias_of(const LinearParts& parts) {
  Init init = Init::constant(parts.bias_value);
  init.is_frozen = !parts.trains_bias;
  return init;
}

/// Rows of a layer that an adapter adds to by themselves.
struct Module {
  std::string name;
  Index first = 0, rows = 0, all = 0;

  /// A part of a parameter has no gradient.
  Tensor of(const Tensor& tensor) const {
    return rows == all ? tensor : tensor.slice_rows(first, rows);
  }
};

/// The layer itself, unless it is packed and an adapter is trained, which keeps it as it is.
std::vector<Module> adapted_modules(const Weights& weights, const std::string& layer, Index rows) {
  if (weights.trained_adapter() == nullptr) return {{.name = layer, .rows = rows, .all = rows}};
  const std::vector<std::string> names = weights.tensor_names().modules_of(layer);
  const Index own = rows / std::ssize(names);
  std::vector<Module> modules;
  for (const std::string& name : names) {
    modules.push_back({.name = name, .first = own * std::ssize(modules), .rows = own, .all = rows});
  }
  return modules;
}

Stacked read(const LayerSource& source, const Weights& weights, const LayerNames& names,
             const LinearParts& parts) {
  Stacked layers;
  for (std::size_t i = 0; i < names.layers.size(); ++i) {
    const auto& [out, in] = names.shape;
    const Tensor matrix = weights.get(names.layers[i] + ".weight", {out, in},
                                      source.init(names.layers[i], names.shape));
    const Tensor bias =
        names.biases.empty() ? Tensor() : weights.get(names.biases[i], {out}, bias_of(parts));
    for (const Module& module : adapted_modules(weights, names.layers[i], out)) {
      layers.matrices.push_back(module.of(matrix));
      layers.additions.push_back(weights.low_rank(module.name, module.rows, in));
      if (!names.biases.empty()) layers.biases.push_back(module.of(bias));
    }
  }
  return layers;
}

/// Layers of one key have the same numbers in the same form.
std::string key_of(const LayerSource& source, const LayerNames& names, const LinearParts& parts) {
  return fmt::format(
      "{}: {} {} {} {} {} {} {}", source.weights.path(), fmt::join(names.layers, " "),
      fmt::join(names.biases, " "), name_of(parts.dtype.value_or(source.dtype)),
      source.weights.uses_int8(names.layers),
      parts.activation ? static_cast<int>(*parts.activation) : -1, parts.slabs.in, parts.slabs.out);
}

/// The place that shares the layers of these names; null for none. Layers with a bias that only the
/// adapter has are those of this model alone.
SharedLayers* shared(const LayerSource& source, const LayerNames& names) {
  SharedLayers* layers = nullptr;
  if (source.weights.keeps_tensors()) return nullptr;
  for (const std::string& name : names.biases) {
    if (!source.weights.without_adapter().has(name)) return nullptr;
  }
  for (const std::string& name : names.layers) {
    layers = source.weights.shared(name);
    if (layers == nullptr) return nullptr;
  }
  return layers;
}

ops::Linear stacked(const LayerSource& source, Stacked layers, const LinearParts& parts,
                    bool int8 = false) {
  ops::Linear dense(layers.matrices, layers.biases,
                    {.dtype = parts.dtype.value_or(source.dtype),
                     .activation = parts.activation,
                     .trainable = source.weights.keeps_tensors(),
                     .slabs = parts.slabs,
                     .int8 = int8});
  for (const Tensor& matrix : layers.matrices) source.weights.release(matrix);
  if (source.weights.trained_adapter() != nullptr) dense.adapt(std::move(layers.additions));
  return dense;
}

/// A packed layer of several models with what the adapter of this one adds to it.
ops::Linear with_adapter(const LayerSource& source, const LayerNames& names,
                         const LinearParts& parts, const ops::Linear& dense) {
  const Weights& weights = source.weights;
  bool is_changed = false;
  Stacked own;
  for (const std::string& name : names.layers) {
    for (const std::string& module : weights.tensor_names().modules_of(name)) {
      own.additions.push_back(weights.addition(module));
      is_changed = is_changed || !own.additions.back().empty();
    }
  }
  const bool has_biases = std::ranges::any_of(
      names.biases, [&](const std::string& name) { return weights.changes(name); });
  for (const std::string& name : has_biases ? names.biases : std::vector<std::string>()) {
    own.biases.push_back(weights.get(name, {names.shape.out}, bias_of(parts)));
  }
  return is_changed || has_biases ? dense.adapted(own.additions, own.biases) : dense;
}

ops::Linear packed_once(const LayerSource& source, const LayerNames& names,
                        const LinearParts& parts) {
  const auto pack = [&](const Weights& weights) {
    return stacked(source, read(source, weights, names, parts), parts,
                   source.weights.uses_int8(names.layers));
  };
  SharedLayers* together = shared(source, names);
  if (together == nullptr) return pack(source.weights);
  const ops::Linear dense = together->get(key_of(source, names, parts),
                                          [&] { return pack(source.weights.without_adapter()); });
  return with_adapter(source, names, parts, dense);
}

}  // namespace

Index slabs_between(const LayerSource& source, const std::string& up, const std::string& down,
                    Index inner) {
  const std::array<std::string, 1> first = {up}, second = {down};
  const bool int8 = source.weights.uses_int8(first) || source.weights.uses_int8(second);
  return int8 ? 1 : kernels::feed_forward_slabs(inner, source.dtype);
}

ops::Linear linear(const LayerSource& source, const std::string& name, LinearShape shape,
                   const LinearParts& parts) {
  LayerNames names = {.layers = {name}, .shape = shape};
  if (parts.has_bias) {
    names.biases.push_back(parts.bias_name.empty() ? name + ".bias" : parts.bias_name);
  }
  return packed_once(source, names, parts);
}

ops::Linear shared_linear(const LayerSource& source, std::span<const std::string> tensors,
                          const std::function<ops::Linear()>& pack) {
  const Weights& weights = source.weights;
  const bool is_changed = std::ranges::any_of(
      tensors, [&](const std::string& tensor) { return weights.changes(tensor); });
  SharedLayers* together =
      weights.keeps_tensors() || is_changed ? nullptr : weights.shared(tensors[0]);
  if (together == nullptr) return pack();
  return together->get(
      fmt::format("{}: {} {}", weights.path(), fmt::join(tensors, " "), name_of(source.dtype)),
      pack);
}

AddedMatrix matrix_fp32(const LayerSource& source, const std::string& name, LinearShape shape) {
  const Weights& weights = source.weights;
  const auto read = [&](const Weights& from) {
    return from.get_fp32(name + ".weight", {shape.out, shape.in}, source.init(name, shape));
  };
  SharedLayers* together = weights.keeps_tensors() ? nullptr : weights.shared(name);
  if (together == nullptr) return {.matrix = read(weights)};
  return {.matrix = together->matrix(fmt::format("{}: {}", weights.path(), name),
                                     [&] { return read(weights.without_adapter()); }),
          .addition = weights.addition(name)};
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
  LayerNames stack = {.layers = {names.begin(), names.end()}, .shape = shape};
  for (const std::string& name : names) {
    if (has_bias) stack.biases.push_back(name + ".bias");
  }
  return packed_once(source, stack, {});
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
  return source.weights.get(name, {shape.out, shape.in}, source.init(name, shape, padding));
}

}  // namespace longformer::models
