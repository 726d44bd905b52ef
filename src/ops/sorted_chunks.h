// Attention of Reformer (arXiv 2001.04451; docs/spec/other-attentions.md#h3) as ops, and its
// hashes.
#pragma once

#include <memory>

#include "kernels/attention/hash_buckets.h"
#include "kernels/attention/sorted_chunks.h"
#include "ops/context.h"

namespace longformer::ops {

using kernels::HashRotations;
using kernels::SortedChunks;

/// Head-major inputs [H, n, d] and [H, m, d]; the result is token-major [n, H·d].
Tensor chunk_attention(const Context& context, std::shared_ptr<const SortedChunks> spec,
                       const Tensor& query, const Tensor& key, const Tensor& value);

}  // namespace longformer::ops
