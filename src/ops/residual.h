// The end of attention in layers that normalise first: what it computes is added to the residual
// stream (docs/spec/language-models.md#d1). The norm before it is ops::layer_norm.
#pragma once

#include "ops/linear.h"

namespace longformer::ops {

/// residual + dropout(dense(x)).
Tensor linear_add(const Context& context, const Tensor& x, const Linear& dense,
                  const Tensor& residual, const Dropout& dropout = {});

/// x + residual.
Tensor add(const Context& context, const Tensor& x, const Tensor& residual);

}  // namespace longformer::ops
