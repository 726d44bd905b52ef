// Token embeddings (spec.md A.3) and the ways out of a hidden state: rows and pooling.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "ops/context.h"
#include "ops/normalization.h"

namespace longformer::ops {

/// words [V, D], positions [P, D], types [T, D] in any floating dtype.
struct EmbeddingTables {
  Tensor words, positions, types;
  LayerNorm norm;
  /// Rows of words and positions that stand for padding and get no gradient; −1 is none.
  Index word_padding = -1;
  Index position_padding = -1;
};

/// One element per row; every number is a valid row of its table.
struct EmbeddingRows {
  std::span<const std::int32_t> words, positions, types;
};

/// dropout(LayerNorm(word + position + type)), [n, D].
Tensor embed(const Context& context, const EmbeddingTables& tables, const EmbeddingRows& rows,
             const Dropout& dropout = {});

/// dropout(scale · table[id]), [n, D], for fp32 tables without norm (spec.md D.1).
Tensor embed_scaled(const Context& context, const Tensor& table, std::span<const std::int32_t> ids,
                    float scale, const Dropout& dropout = {});

/// The given rows of x, in this order.
Tensor select_rows(const Context& context, const Tensor& x, std::span<const Index> rows);

/// Half-open range of rows that becomes one vector.
struct RowRange {
  Index begin = 0;
  Index end = 0;
};

/// Sum over the rows of each range, [ranges, D] fp32; an empty range gives zeros.
Tensor sum_rows(const Context& context, const Tensor& x, std::span<const RowRange> ranges);

/// The larger number; NaN when one of them is.
inline float larger(float a, float b) { return std::isnan(a) || b <= a ? a : b; }

/// Largest value of each column over the rows of each range, [ranges, D] fp32.
Tensor max_rows(const Context& context, const Tensor& x, std::span<const RowRange> ranges);

}  // namespace longformer::ops
