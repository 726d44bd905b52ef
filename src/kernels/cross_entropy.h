// Softmax and cross-entropy of one row of logits (docs/spec/README.md#conventions).
#pragma once

#include "core/dtype.h"

namespace longformer::kernels {

/// Target of a row of logits.
struct RowTarget {
  Index label = 0;
  /// Part of the target that is spread evenly over all classes.
  double smoothing = 0;
};

/// −Σ target·log softmax(logits) of `count` fp32 logits. Unless scale is 0 the logits become
/// scale times their gradient.
double softmax_cross_entropy(float* logits, Index count, const RowTarget& target, double scale);

/// ln of the softmax of `count` fp32 logits, in place; −∞ stays.
void log_softmax(float* logits, Index count);

}  // namespace longformer::kernels
