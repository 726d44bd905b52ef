// Spans that heads learn (Adaptive Attention Span, arXiv 1905.07799;
// docs/spec/other-attentions.md#h4).
//
// H heads, d head size, S the longest span.
#pragma once

#include <vector>

#include "kernels/span_masks.h"
#include "ops/context.h"

namespace longformer::ops {

using kernels::RowResize;
using kernels::SpanRamp;

/// For each head of z [H] fp32 how many tokens before its own one it sees.
std::vector<Index> span_counts(const Tensor& spans, const SpanRamp& ramp);

/// z·S of each head.
std::vector<double> span_lengths(const Tensor& spans, const SpanRamp& ramp);

/// Relative keys [H, count, d + 1] from the parameters z [H] and e [S, d], fp32: e_x, and beside it
/// √(d + 1)·ln m(x). Heads that see less than `count` get none in its place.
Tensor span_keys(const Context& context, const Tensor& spans, const Tensor& distances,
                 const SpanRamp& ramp, Index count);

/// factor · mean z, [1] fp32.
Tensor span_loss(const Context& context, const Tensor& spans, float factor);

/// Rows of x, times a factor, become shorter, or longer by zeros; the result has the given shape.
Tensor resized_rows(const Context& context, const Tensor& x, const RowResize& resize,
                    const Shape& shape);

}  // namespace longformer::ops
