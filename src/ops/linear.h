// Dense layers (docs/spec/encoder.md#a5).
//
// n rows (tokens of all documents of a batch), in/out features, H heads, d head size.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "kernels/packed_linear.h"
#include "ops/gradients.h"

namespace longformer::ops {

using kernels::Activation;

namespace on_device {
struct Dense;
}

struct LinearOptions {
  /// Compute dtype: that of x, and of the weights when they are multiplied.
  DType dtype = DType::f32;
  std::optional<Activation> activation = std::nullopt;
  /// Keep the tensors and multiply them as they are, so that an optimizer may change them; else
  /// they are packed once for this machine and may be released.
  bool trainable = false;
  /// Slabs of a layer that is packed.
  kernels::LinearSlabs slabs = {};
  /// A layer that is packed multiplies 8-bit whole numbers.
  bool int8 = false;
};

/// Addition of an adapter to a layer that keeps its weights: scale · B·A·dropout(x) (LoRA, arXiv
/// 2106.09685).
struct LowRank {
  /// [r, in] and [out, r], fp32; empty where nothing is added.
  Tensor a = {}, b = {};
  float scale = 1;
  /// Rate and place (Context::dropout) at which numbers of x are dropped on this way.
  double dropout = 0;
  std::uint64_t place = 0;

  bool empty() const { return a.empty(); }
};

/// y = activation(x·Wᵀ + b). Several matrices given together are stacked along `out`.
class Linear {
 public:
  /// weights [out, in]; biases has one tensor [out] for each, or is empty. fp32 when trainable. On
  /// a device the layer is laid there, in fp32.
  Linear(std::span<const Tensor> weights, std::span<const Tensor> biases,
         const LinearOptions& options);

  /// Adds to the products of a trainable layer; one for each weight.
  void adapt(std::vector<LowRank> additions) { low_rank_ = std::move(additions); }
  /// A packed layer with the same weights in memory, with additions to its products, one for each
  /// weight, and with other biases unless these are empty.
  Linear adapted(std::span<const LowRank> additions, std::span<const Tensor> biases) const;

  Index in_features() const { return in_; }
  Index out_features() const { return out_; }
  DType dtype() const { return options_.dtype; }
  const std::optional<Activation>& activation() const { return options_.activation; }

  /// Null on the CPU.
  const on_device::Dense* on_device() const { return dense_.get(); }

  /// Null when trainable, and on a device.
  const kernels::PackedLinear* packed() const { return packed_.get(); }
  /// Weights and biases of a trainable layer; none when packed.
  std::span<const Tensor> weights() const { return weights_; }
  std::span<const Tensor> biases() const { return biases_; }
  /// Addition to the product of a weight; null for none.
  const LowRank* low_rank(std::size_t index) const {
    return low_rank_.empty() || low_rank_[index].empty() ? nullptr : &low_rank_[index];
  }
  /// The weight as it is multiplied: itself, or its copy in bf16, made again when it has changed.
  const Tensor& operand(std::size_t index) const;
  /// One weight of a trainable layer with its bias, packed again when it has changed; null where
  /// that does not pay for so many rows.
  const kernels::PackedLinear* packed_for(std::size_t index, Index rows) const;

 private:
  LinearOptions options_;
  Index in_ = 0, out_ = 0;
  /// Copies of a layer share it.
  std::shared_ptr<const kernels::PackedLinear> packed_;
  std::shared_ptr<const on_device::Dense> dense_;
  std::vector<Tensor> weights_, biases_;
  std::vector<LowRank> low_rank_;
  /// A weight as it was in some version.
  struct Copy {
    Tensor tensor;
    std::uint64_t version = 0;
  };
  struct PackedCopy {
    std::shared_ptr<kernels::PackedLinear> packed;
    std::uint64_t version = 0;
  };
  mutable std::vector<Copy> copies_;
  mutable std::vector<PackedCopy> packed_copies_;
};

/// Whether a weight, a bias, or what is added to them is trained.
bool wants_gradient(const Linear& dense);

/// For ops that multiply with a layer: throws Error where a gradient would have to go through
/// packed weights.
template <typename... Values>
void refuse_packed(const Context& context, std::string_view op, const Linear& dense,
                   const Values&... values) {
  if (dense.packed() != nullptr) refuse_gradient(context, op, values...);
}

/// [n, out] in `output` dtype.
Tensor linear(const Context& context, const Tensor& x, const Linear& dense, DType output);

/// Whether a product sends gradients to its weights, or to what is multiplied with them alone.
enum class WeightsAre { trained, constant };

/// The stacked projections of x (query, key, value, …), each [H, n, d]: head-major, so that the
/// keys of a head are contiguous for attention.
std::vector<Tensor> project_heads(const Context& context, const Tensor& x,
                                  const Linear& projections, Index heads, Index head_size,
                                  WeightsAre weights = WeightsAre::trained);

/// For ops that fuse a trainable layer with what follows: activation(x), and from the gradient of
/// that to the gradient of x, in place.
Tensor activated(const Context& context, Activation activation, const Tensor& x);
void activation_backward(const Context& context, Activation activation, const Tensor& x,
                         Tensor& gradient);
/// x·Wᵀ + b without the activation. The products of several weights are matrices [n, out] one after
/// the other, here and in the gradient.
Tensor multiply(const Context& context, const Tensor& x, const Linear& dense, DType output);
/// Its backward pass: from the gradient [n, out], in dense.dtype(), to those of weights, biases and
/// x.
void multiply_backward(const Context& context, const Tensor& x, const Linear& dense,
                       const Tensor& gradient, WeightsAre weights = WeightsAre::trained);

/// W + scale·B·A in fp32; in place, of a W that is fp32.
Tensor merged(const Tensor& weight, const LowRank& addition);
void merge_into(Tensor& weight, const LowRank& addition);
/// Adapted weight for ops that multiply with parameters themselves: sends gradients to A and B
/// alone.
Tensor adapted_weight(const Context& context, const Tensor& weight, const LowRank& addition);

}  // namespace longformer::ops
