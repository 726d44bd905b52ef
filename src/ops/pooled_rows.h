// Layers that pool what they read (docs/spec/other-attentions.md#funnel). ops/embedding.h has the
// ways out of a hidden state, in fp32.
#pragma once

#include <memory>
#include <vector>

#include "kernels/pooled_rows.h"
#include "ops/context.h"

namespace longformer::ops {

using kernels::RowPooling;

/// Each range of rows of x [n, D], none of which is empty, as one row, [ranges, D] of the dtype of
/// x.
Tensor pool_rows(const Context& context, const Tensor& x,
                 std::shared_ptr<const std::vector<kernels::RowRange>> ranges, RowPooling pooling);

}  // namespace longformer::ops
