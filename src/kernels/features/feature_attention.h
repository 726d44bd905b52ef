// Attention as products of features (Performer, arXiv 2009.14794;
// docs/spec/low-rank-and-kernels.md#f): what a token sees are sums over the keys, whose size does
// not depend on their number.
//
// n rows, H heads, d head size, m random directions, F features.
#pragma once

#include <memory>

#include "core/tensor.h"
#include "kernels/attention/spec.h"
#include "kernels/features/feature_map.h"

namespace longformer::kernels {

struct FeatureAttentionSpec {
  FeatureMap map;
  Index heads = 0;
  /// Every row sees the rows before it in its document, and itself; else all rows of the document.
  bool causal = false;
  /// Documents of self-attention; masked rows are neither seen nor computed, and become zeros.
  std::shared_ptr<const AttentionRows> rows = nullptr;

  /// Numbers of FeatureAttentionArguments::sums for one head.
  Index sum_size() const;
};

struct FeatureAttentionArguments {
  /// [H, n, d] fp32 or bf16.
  const Tensor& query;
  const Tensor& key;
  const Tensor& value;
  /// Ω, [m, d] or [H, m, d] fp32; empty for a map without directions.
  const Tensor& directions;
  /// [n, H·d] of the same dtype.
  Tensor& out;
  int threads = 1;
  /// For causal attention: what each document has read before, [documents, H, sum_size()] fp32;
  /// it moves on. Null for documents that begin.
  Tensor* sums = nullptr;
};

/// Sums of documents that have read nothing.
Tensor empty_feature_sums(const FeatureAttentionSpec& spec, Index documents);

/// A row that sees nothing becomes zeros. Sums are fp32, whatever the dtype.
void feature_attention(const FeatureAttentionSpec& spec, const FeatureAttentionArguments& in);

struct FeatureAttentionBackwardArguments {
  const Tensor& query;
  const Tensor& key;
  const Tensor& value;
  const Tensor& directions;
  /// Output of feature_attention(), without sums.
  const Tensor& out;
  /// [n, H·d]
  const Tensor& out_gradient;
  /// [H, n, d], written whole.
  Tensor& query_gradient;
  Tensor& key_gradient;
  Tensor& value_gradient;
  int threads = 1;
};

/// Directions and maxima are constants.
void feature_attention_backward(const FeatureAttentionSpec& spec,
                                const FeatureAttentionBackwardArguments& in);

/// Useful work in FLOP: the products with directions, sums and values. The backward pass has twice
/// as much.
double feature_attention_flops(const FeatureAttentionSpec& spec);

}  // namespace longformer::kernels
