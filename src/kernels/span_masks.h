// Spans that heads learn (Adaptive Attention Span, arXiv 1905.07799;
// docs/spec/other-attentions.md#h4): the soft mask of a key by its distance, as a term of scores.
//
// H heads, d head size, S the longest span, R the ramp. Distance 0 is that of the token before.
#pragma once

#include "core/tensor.h"

namespace longformer::kernels {

struct SpanRamp {
  Index longest = 0;  ///< S
  Index ramp = 0;     ///< R
};

/// m = clamp((z·S − distance) / R + 1, 0, 1) of a head with the span z.
double span_mask(const SpanRamp& ramp, double span, Index distance);

/// Distances 0 … count − 1 have a mask above 0, at most S of them.
Index span_count(const SpanRamp& ramp, double span);

/// From z [H] and e [S, d], both fp32, to keys [H, m, d + 1]: e_x, and √(d + 1)·ln m(x), which is 0
/// where the mask is 0.
void fill_span_keys(const SpanRamp& ramp, const Tensor& spans, const Tensor& distances,
                    Tensor& keys, int threads);

/// From gradients of the keys adds those of z and e, fp32; null for one that nobody wants.
struct SpanKeyGradients {
  Tensor* spans = nullptr;
  Tensor* distances = nullptr;
};
void span_keys_backward(const SpanRamp& ramp, const Tensor& spans, const Tensor& gradient,
                        const SpanKeyGradients& to, int threads);

/// Each row of `from` times the factor to the row of `to`, which is shorter, or longer and gets
/// zeros behind it.
struct RowResize {
  Index from = 0, to = 0;
  float factor = 1;
};
void resize_rows(const RowResize& resize, const Tensor& from, Tensor& to, int threads);

}  // namespace longformer::kernels
