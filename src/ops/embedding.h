// Token embeddings (docs/spec/encoder.md#a3) and the ways out of a hidden state: rows and pooling.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/rows.h"
#include "ops/context.h"
#include "ops/normalization.h"

namespace longformer::ops {

/// words [V, D], positions [P, D], types [T, D] in any floating dtype; an empty table adds nothing.
struct EmbeddingTables {
  Tensor words, positions, types;
  /// Without a weight the sums are the embeddings.
  LayerNorm norm;
  /// Rows of words are multiplied by it.
  float word_scale = 1;
  /// Rows of words and positions that stand for padding and get no gradient; −1 is none.
  Index word_padding = -1;
  Index position_padding = -1;
};
inline bool wants_gradient(const EmbeddingTables& tables) {
  return wants_gradient(tables.words) || wants_gradient(tables.positions) ||
         wants_gradient(tables.types) || wants_gradient(tables.norm);
}

/// One element per row; every number is a valid row of its table.
struct EmbeddingRows {
  std::span<const std::int32_t> words, positions, types;
  /// [n, D] fp32: takes the place of the rows of the word table, whose numbers then mean nothing. A
  /// gradient goes to it as to a parameter, padding included. Empty: none is given.
  Tensor given = {};
};

/// dropout(LayerNorm(scale · word + position + type)), [n, D], or without the norm.
Tensor embed(const Context& context, const EmbeddingTables& tables, const EmbeddingRows& rows,
             const Dropout& dropout = {});

/// dropout(scale · table[id]), [n, D], for fp32 tables without norm
/// (docs/spec/language-models.md#d1).
Tensor embed_scaled(const Context& context, const Tensor& table, std::span<const std::int32_t> ids,
                    float scale, const Dropout& dropout = {});

/// The rows of all parts [n_i, D] behind each other.
Tensor joined_rows(const Context& context, std::span<const Tensor> parts);

/// The given rows of x, in this order.
Tensor select_rows(const Context& context, const Tensor& x, std::span<const Index> rows);

using kernels::larger;
using kernels::RowRange;

/// Copies the rows of each range of x, one range after another, to `to`: as many rows of the same
/// dtype, in any memory. For serving: no gradient comes back.
void copy_rows(const Tensor& x, std::span<const RowRange> ranges, Tensor to);

/// Sum over the rows of each range, [ranges, D] fp32; an empty range gives zeros.
Tensor sum_rows(const Context& context, const Tensor& x, std::span<const RowRange> ranges);

/// Divisor of a sum of rows: their number, or its square root.
enum class RowDivisor { count, root };

/// Mean over the rows of each range, none of which is empty, [ranges, D] fp32.
Tensor mean_rows(const Context& context, const Tensor& x, std::span<const RowRange> ranges,
                 RowDivisor divisor = RowDivisor::count);

/// Largest value of each column over the rows of each range, [ranges, D] fp32; an empty range gives
/// −∞. The gradient goes to the first row that has it, as with max over a dimension in PyTorch.
Tensor max_rows(const Context& context, const Tensor& x, std::span<const RowRange> ranges);

}  // namespace longformer::ops
