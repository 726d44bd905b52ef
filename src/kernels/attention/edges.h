// Attention along the edges of a graph: a list says which keys each query sees (ETC, arXiv
// 2004.08483; docs/spec/other-attentions.md#edges).
//
// H heads, d head size, n queries, m keys, L labels.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/random.h"
#include "core/tensor.h"

namespace longformer::kernels {

/// Query i sees the keys key[begin[i]] … key[begin[i + 1] − 1]. A key that comes twice counts
/// twice.
struct EdgeRows {
  /// n + 1 numbers that ascend from 0.
  std::vector<Index> begin = {0};
  std::vector<std::int32_t> key;
  /// A row of the tables of labels for each edge; empty where edges have none.
  std::vector<std::int32_t> label = {};

  Index queries() const { return static_cast<Index>(begin.size()) - 1; }
  Index edges() const { return static_cast<Index>(key.size()); }
};

/// Throws Error unless the list fits so many queries, keys and labels.
void check(const EdgeRows& rows, Index queries, Index keys, Index labels);

struct EdgeAttention {
  Index heads = 0, head_size = 0;
  /// Scores are multiplied with it, but not biases of labels.
  float scale = 1;
  /// Never null where it runs.
  std::shared_ptr<const EdgeRows> rows;
  /// The mask depends on its seed, the head, the query row and the place of the edge in this row;
  /// it is none that a key of another part of the softmax has (AttentionPattern::dropout).
  Dropout dropout = {};
};

/// Tables of labels, of which each may be absent: with l the label of an edge from query i to key
/// j, its score is scale · q_i · (k_j + a_l) + b_l. Edges need labels exactly when there is a
/// table.
struct EdgeLabels {
  const Tensor* keys = nullptr;    ///< a [H, L, d] fp32
  const Tensor* biases = nullptr;  ///< b [H, L] fp32

  Index count() const {
    return keys != nullptr ? keys->dimension(1) : biases != nullptr ? biases->dimension(1) : 0;
  }
};

struct EdgeArguments {
  /// [H, n, d], and twice [H, m, d]; fp32 or bf16.
  const Tensor& query;
  const Tensor& key;
  const Tensor& value;
  EdgeLabels labels = {};
  /// [n, H·d] of the same dtype; a row of zeros where a query has no edge.
  Tensor& out;
  /// [H, n] fp32: natural logarithm of the softmax denominator; −∞ where a query has no edge.
  Tensor& logsumexp;
  int threads = 1;
};

/// Throws Error where the list, the tables and the tensors do not fit each other.
void edge_attention(const EdgeAttention& spec, const EdgeArguments& in);

/// out and logsumexp are those of the whole softmax, of which the edges may be a part.
struct EdgeBackwardArguments {
  const Tensor& query;
  const Tensor& key;
  const Tensor& value;
  EdgeLabels labels = {};
  const Tensor& out;
  const Tensor& logsumexp;
  /// [n, H·d]. The row of `out` is not used where a row of it is zero.
  const Tensor& out_gradient;
  /// In the shapes and dtypes of the inputs, written whole.
  Tensor& query_gradient;
  Tensor& key_gradient;
  Tensor& value_gradient;
  /// Null where nobody wants it.
  Tensor* label_key_gradient = nullptr;
  Tensor* label_bias_gradient = nullptr;
  int threads = 1;
};

/// Sums are in fp32, and the same whatever the number of threads.
void edge_attention_backward(const EdgeAttention& spec, const EdgeBackwardArguments& in);

/// Useful work of a pass in FLOP; the backward pass has two and a half times as much. `labels` is
/// the number of keys of labels.
double edge_attention_flops(const EdgeAttention& spec, Index labels);

}  // namespace longformer::kernels
