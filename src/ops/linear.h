// Dense layers, alone and fused with what follows them in a transformer layer (spec.md A.5).
//
// n rows (tokens of all documents of a batch), in/out features, H heads, d head size.
#pragma once

#include <vector>

#include "kernels/gemm.h"
#include "ops/context.h"

namespace longformer::ops {

using kernels::PackedLinear;

struct LayerNorm {
  Tensor weight, bias;
  float epsilon = 0;
};

/// y = activation(x·Wᵀ + b), [n, out] in `output` dtype.
Tensor linear(const Context& context, const Tensor& x, const PackedLinear& dense, DType output);

/// LayerNorm(x), row by row.
Tensor layer_norm(const Context& context, const Tensor& x, const LayerNorm& norm);

/// LayerNorm(dense(x) + residual): the end of the attention block.
Tensor linear_add_norm(const Context& context, const Tensor& x, const PackedLinear& dense,
                       const Tensor& residual, const LayerNorm& norm);

/// LayerNorm(down(up(x)) + x): the feed-forward block; `up` carries the activation. The wide
/// intermediate exists only for one row block per thread.
Tensor feed_forward_add_norm(const Context& context, const Tensor& x, const PackedLinear& up,
                             const PackedLinear& down, const LayerNorm& norm);

/// The stacked projections of x (query, key, value, …), each [H, n, d]: head-major, so that the
/// keys of a head are contiguous for attention.
std::vector<Tensor> project_heads(const Context& context, const Tensor& x,
                                  const PackedLinear& projections, Index heads, Index head_size);

}  // namespace longformer::ops
