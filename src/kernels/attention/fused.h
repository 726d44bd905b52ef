// The backend of the product: attention with an online softmax over tiles, so that scores are never
// stored (docs/spec/performance.md#p5).
#pragma once

#include "kernels/attention/attention.h"

namespace longformer::kernels {

/// Like attention(), for a checked spec and fp32 or bf16 tensors of the right shapes.
void attention_fused(const AttentionSpec& spec, const AttentionArguments& in);

}  // namespace longformer::kernels
