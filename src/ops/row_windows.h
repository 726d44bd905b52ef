// Several rows of a sequence become one (docs/spec/language-models.md#g2-compression).
#pragma once

#include "kernels/row_windows.h"
#include "ops/context.h"

namespace longformer::ops {

/// From x [n·count, D] to [n, D], or [n, D·count] for features. Only features have a
/// backward pass.
Tensor row_windows(const Context& context, const Tensor& x, Index count, kernels::RowWindow kind);

}  // namespace longformer::ops
