// A product with a weight as it is stored, not transposed: the transposed convolution whose stride
// is the width of its kernel.
#pragma once

#include "ops/context.h"

namespace longformer::ops {

/// x·W of x [n, in] and W [in, out], fp32: [n, out] fp32.
Tensor expand(const Context& context, const Tensor& x, const Tensor& weight);

}  // namespace longformer::ops
