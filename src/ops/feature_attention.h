// Attention as products of features (Performer; docs/spec/low-rank-and-kernels.md#f).
#pragma once

#include <span>

#include "kernels/features/feature_attention.h"
#include "ops/context.h"

namespace longformer::ops {

using kernels::FeatureAttentionSpec;

/// Head-major inputs [H, n, d]; the result is token-major [n, H·d]. Directions get no gradient.
/// With sums (kernels::FeatureAttentionArguments), which move on, there is no backward pass.
Tensor feature_attention(const Context& context, const FeatureAttentionSpec& spec,
                         std::span<const Tensor> query_key_value, const Tensor& directions,
                         Tensor* sums = nullptr);

}  // namespace longformer::ops
