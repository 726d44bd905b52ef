// Positions: those that count from the query (docs/spec/language-models.md#d2, #g1), and those that
// are added to tokens, or to queries and keys (docs/spec/language-models.md#k).
#pragma once

#include <span>

#include "ops/context.h"

namespace longformer::ops {

/// Row i is that of the distance or position δ = (begin + i)·step: sines of δ·10000^(−2t/D), then
/// their cosines, [count, D] of the dtype of the context. D is even.
Tensor sinusoids(const Context& context, Index count, Index width, Index begin = 0, Index step = 1);

/// x [n, w] or [H, n, w] with row rows[i] of the table, [P, w] or [H, P, w], added to row i.
Tensor add_table_rows(const Context& context, const Tensor& x, const Tensor& table,
                      std::span<const Index> rows);

/// From x [H, S·m, d] the rows section·m … section·m + m − 1 of each head, [H, m, d]; one section
/// per head.
Tensor head_sections(const Context& context, const Tensor& x, Index m,
                     std::span<const Index> sections);

}  // namespace longformer::ops
