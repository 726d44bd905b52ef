// Attention of one layer: what every token sees in its window, and the global keys (spec.md A.4).
#pragma once

#include "kernels/attention.h"
#include "ops/context.h"

namespace longformer::ops {

using kernels::AttentionSpec;

/// Head-major inputs [H, n, d]; the result is token-major [n, H·d].
Tensor attention(const Context& context, const AttentionSpec& spec, const Tensor& query,
                 const Tensor& key, const Tensor& value);

}  // namespace longformer::ops
