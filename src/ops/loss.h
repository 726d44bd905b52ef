// Losses (docs/spec/encoder.md#a6, docs/spec/tasks.md#t0). With a tape in the context they put
// their gradient into place at once: Tape::backward follows.
//
// A loss is a sum over what counts; the gradient is that of `scale` times the sum, so a mean over
// several micro-batches is the caller's choice of scale.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/losses.h"
#include "ops/linear.h"

namespace longformer::ops {

using kernels::kIgnored;
using kernels::LossOptions;
using kernels::LossSum;
using kernels::RowChoice;

/// Cross-entropy of each row of logits [n, C] fp32 with its label.
LossSum cross_entropy(const Context& context, const Tensor& logits,
                      std::span<const std::int32_t> labels, const LossOptions& options);

/// Cross-entropy of the logits that a dense layer makes of x [n, D], in blocks of rows: [n, C] is
/// never in memory, neither forward nor backward.
LossSum linear_cross_entropy(const Context& context, const Tensor& x, const Linear& decoder,
                             std::span<const std::int32_t> labels, const LossOptions& options);

/// Binary cross-entropy of every logit with its target; each counts.
LossSum binary_cross_entropy(const Context& context, const Tensor& logits,
                             std::span<const float> targets, const LossOptions& options);

/// Squared difference of every logit and its target; each counts.
LossSum squared_error(const Context& context, const Tensor& logits, std::span<const float> targets,
                      const LossOptions& options);

/// Mean of (x − target)², [1] fp32: a value whose gradient the caller gives. The target is
/// constant; both have one shape and dtype.
Tensor mean_square_difference(const Context& context, const Tensor& x, const Tensor& target);
/// The number of such a value.
double number_of(const Tensor& value);

/// Logits [n, outputs] fp32, less an amount in the rows of the ranges.
Tensor lowered_rows(const Context& context, const Tensor& logits,
                    std::span<const kernels::RowRange> ranges, float amount);

/// −log of the probability that a softmax down a column of logits [n, outputs], over the rows of
/// each choice, gives to its right rows together: cross-entropy for one right row, the OR-loss of
/// Clark and Gardner for several. label_smoothing takes the rows of a choice as the classes.
LossSum row_cross_entropy(const Context& context, const Tensor& logits, Index column,
                          std::span<const RowChoice> choices, const LossOptions& options);

}  // namespace longformer::ops
