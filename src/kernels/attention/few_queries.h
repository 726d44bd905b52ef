// Attention of a model that writes token by token: few queries against many keys, which are read
// in place and once. Fused attention would pack them in each call, and fill a tile of queries with
// one or four of them: a step of LED-base behind 4,096 tokens took 18.1 ms instead of 14.7, one of
// a language model of 12 × 512 with relative positions behind 4,096 characters
// 91 ms instead of 18, in windows of 512 14 ms instead of 3.
//
// Dimensions: H heads, d head size, R queries.
#pragma once

#include <cstdint>
#include <span>

#include "core/tensor.h"
#include "kernels/attention/attention.h"

namespace longformer::kernels {

/// Some queries that follow each other and see the same keys.
struct KeySource {
  Index query_begin = 0, query_count = 0;
  /// [H, rows, d], of which rows key_begin … key_begin + key_count − 1 count.
  const Tensor* keys = nullptr;
  const Tensor* values = nullptr;
  Index key_begin = 0, key_count = 0;
  /// One byte for each key that counts, 0 = masked; null when none is.
  const std::uint8_t* visible = nullptr;
};

/// query is [H, R, d], fp32 or bf16 as all keys and values; out is token-major [R, H·d] of the same
/// dtype. Every query belongs to one source. A row of out does not depend on others. A query
/// without a visible key gets zeros.
void attend_few_queries(const Tensor& query, std::span<const KeySource> sources, Tensor& out,
                        int threads);

/// Whether a document of a causal pattern has so few queries that fused attention leaves them to
/// the function below: with dropout, biases or keys of distances, masks, global keys and places it
/// has none.
bool has_few_queries(const AttentionSpec& spec, const AttentionDocument& document);

/// One query of one head, and the keys that it sees, oldest first.
struct WindowTask {
  Index head = 0, row = 0;
  Index first_key = 0, dilation = 1, count = 0;
  /// Dilation steps from the query back to the first key.
  Index first_steps = 0;
};

/// Writes the rows of the documents with few queries, as attention() would; a row does not depend
/// on others. The spec and the arguments have been checked.
void attend_few_queries(const AttentionSpec& spec, const AttentionArguments& in);

}  // namespace longformer::kernels
