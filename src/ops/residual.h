// The blocks of layers that normalise first: what they compute is added to the residual stream
// (docs/spec/language-models.md#d1). The norm before them is ops::layer_norm.
#pragma once

#include "ops/linear.h"
#include "ops/normalization.h"

namespace longformer::ops {

/// residual + dropout(dense(x)).
Tensor linear_add(const Context& context, const Tensor& x, const Linear& dense,
                  const Tensor& residual, const Dropout& dropout = {});

/// residual + dropout(down(dropout(up(x)))).
Tensor feed_forward_add(const Context& context, const Tensor& x, const FeedForward& block,
                        const Tensor& residual, const FeedForwardDropout& dropout = {});

}  // namespace longformer::ops
