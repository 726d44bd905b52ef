// The ops of encoders on a device, for the ops of the same names: each of these asks once whether
// its tensors lie on a device. There is no training on a device, so that nothing is recorded.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "kernels/opencl/products.h"
#include "kernels/opencl/rows.h"
#include "ops/attention.h"
#include "ops/embedding.h"
#include "ops/feed_forward.h"
#include "ops/global_attention.h"
#include "ops/rotary.h"

namespace longformer::ops::on_device {

/// Several dense layers as one: weights below each other, and their biases; empty for none.
struct Dense {
  kernels::opencl::Matrix matrix;
  Tensor bias;
};
std::shared_ptr<const Dense> dense_of(std::span<const Tensor> weights,
                                      std::span<const Tensor> biases);

/// x on the device of the layer, where it may be already.
Tensor linear(const Tensor& x, const Linear& dense);
std::vector<Tensor> project_heads(const Tensor& x, const Linear& projections, Index heads,
                                  Index head_size);
/// norm(dense(x) + residual) and dense(x) + residual.
Tensor linear_add_norm(const Tensor& x, const Linear& dense, const Tensor& residual,
                       const LayerNorm& norm);
Tensor linear_add(const Tensor& x, const Linear& dense, const Tensor& residual);
Tensor add(const Tensor& x, const Tensor& residual);
Tensor layer_norm(const Tensor& x, const LayerNorm& norm);
/// norm(down(up(x)) + residual), or without the norm.
Tensor feed_forward(const Tensor& x, const FeedForward& block, const Tensor& residual,
                    const LayerNorm* norm);

Tensor embed(const EmbeddingTables& tables, const EmbeddingRows& rows);
Tensor select_rows(const Tensor& x, std::span<const Index> rows);
Tensor joined_rows(std::span<const Tensor> parts);
Tensor fold_rows(const Tensor& x, std::span<const RowRange> ranges, kernels::opencl::Fold how);
/// To the memory of the host.
void copy_rows(const Tensor& x, std::span<const RowRange> ranges, Tensor& to);
Tensor lowered_rows(const Tensor& x, std::span<const RowRange> ranges, float amount);
Tensor unit_rows(const Tensor& x);
Tensor take_heads(const Tensor& x, std::span<const Index> heads);
Tensor rotate(const Tensor& x, const std::shared_ptr<const Rotation>& rotation);

Tensor attention_over(const Tensor& query, std::span<const KeyGroup> groups,
                      std::span<const EdgeGroup> edges);
void global_attention(const AttentionSpec& spec, const GlobalProjections& projections,
                      const Tensor& x, Tensor& attended);

}  // namespace longformer::ops::on_device
