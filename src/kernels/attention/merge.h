// One softmax over keys that were attended to in parts.
#pragma once

#include <span>

#include "core/tensor.h"

namespace longformer::kernels {

/// Result of attention() over some of the keys.
struct AttentionPart {
  /// [n, H·d]
  Tensor out;
  /// [H, n] fp32
  Tensor logsumexp;
};

/// Writes what attention over the keys of all parts together gives, and its logsumexp (−∞, and a
/// row of zeros, for a query that sees no key in any part). The tensors have the shapes and dtypes
/// of those of the parts.
void merge_attention(std::span<const AttentionPart> parts, Tensor& out, Tensor& logsumexp,
                     int threads);

}  // namespace longformer::kernels
