// Heads of queries, keys and values: which of them attention reads, and their norms
// (docs/spec/modern-encoders.md#grouped).
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "ops/normalization.h"

namespace longformer::ops {

/// Head i of the result [heads, n, d] is head heads[i] of x [G, n, d]: keys that a group of heads
/// shares, or some of several projections.
Tensor take_heads(const Context& context, const Tensor& x, std::span<const Index> heads);

/// Row i of head h of the result [H, m, d] is row rows[h·m + i] of that head of x [H, n, d]: keys
/// that each head draws for itself.
Tensor take_head_rows(const Context& context, const Tensor& x,
                      std::shared_ptr<const std::vector<Index>> rows);

/// Every head of row i of the result [n, H·d] is the mean of those rows r of x [m, H·d] whose
/// places[h·m + r] is i, and zero without any; −1 is the place of rows that count nowhere.
Tensor mean_head_rows(const Context& context, const Tensor& x,
                      std::shared_ptr<const std::vector<Index>> places, Index heads, Index n);

/// Head heads[p][i] of the result [n, H·d] is head i of parts[p] [n, G·d]: results of heads that
/// attended apart. Every head of the result is in one part.
Tensor join_heads(const Context& context, std::span<const Tensor> parts,
                  std::span<const std::vector<Index>> heads, Index head_size);

/// Norm of every row of every head of x [H, n, d].
Tensor norm_heads(const Context& context, const Tensor& x, const LayerNorm& norm);

}  // namespace longformer::ops
