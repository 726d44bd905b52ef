// Attention of Reformer (arXiv 2001.04451; docs/spec/other-attentions.md#h3) as ops, and its
// hashes.
#pragma once

#include <functional>
#include <memory>
#include <span>

#include "kernels/attention/hash_buckets.h"
#include "kernels/attention/sorted_chunks.h"
#include "ops/attention_probabilities.h"
#include "ops/context.h"

namespace longformer::ops {

using kernels::HashRotations;
using kernels::SortedChunks;

/// Head-major inputs [H, n, d] and [H, m, d]; the result is token-major [n, H·d].
Tensor chunk_attention(const Context& context, std::shared_ptr<const SortedChunks> spec,
                       const Tensor& query, const Tensor& key, const Tensor& value);

/// Hands over the probabilities of the given heads as attention_probabilities does, all columns of
/// them. `dense` has the same documents, whose tokens see everything; of a key that a query sees in
/// several rounds the probabilities are added.
void chunk_probabilities(const Context& context, const AttentionSpec& dense,
                         const SortedChunks& spec, const ProbabilityInputs& in,
                         std::span<const Index> heads,
                         const std::function<void(const HeadProbabilities&)>& observe);

}  // namespace longformer::ops
