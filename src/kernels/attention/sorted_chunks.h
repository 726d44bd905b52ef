// Attention over chunks of tokens that lie in a chosen order (Reformer, arXiv 2001.04451;
// docs/spec/other-attentions.md#h3): sorted by their hashes, once for each round of hashing,
// or as they come. A query sees the keys of its chunk and of some before and behind it.
//
// H heads, d head size, C tokens of a chunk.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/random.h"
#include "core/tensor.h"
#include "kernels/attention/spec.h"

namespace longformer::kernels {

/// The places of one document. Chunks of all rounds follow each other in a circle: those before the
/// first of a round are the last of the round before, those before the first of all the last of
/// all, and those behind the last of all the first.
struct ChunkedDocument {
  AttentionDocument rows;
  Index rounds = 1;
  /// Places of a round, a multiple of the chunk.
  Index places = 0;
  Index chunk = 1, before = 0, after = 0;
  /// Key at every place, or −1 for a place without one: [1, rounds, places], or [H, rounds, places]
  /// where each head has an order of its own. A key has one place in a round; those from
  /// rows.query_offset on are queries too.
  std::vector<std::int32_t> order = {};
  /// 1 for a key that is seen, 0 for a masked one; empty where all are.
  std::vector<std::uint8_t> visible = {};

  bool is_visible(Index key) const {
    return visible.empty() || visible[static_cast<std::size_t>(key)] != 0;
  }
  bool by_head() const { return std::ssize(order) > rounds * places; }
};

struct SortedChunks {
  Index heads = 0, head_size = 0;
  /// Scores are multiplied with it.
  float scale = 1;
  /// A query sees itself; else only where it sees no other key in any round.
  bool sees_itself = true;
  /// Keys behind a query are not seen.
  bool causal = true;
  Dropout dropout = {};
  std::vector<ChunkedDocument> documents;
};

struct SortedChunksArguments {
  /// [H, n, d] and [H, m, d], fp32 or bf16.
  const Tensor& query;
  const Tensor& key;
  const Tensor& value;
  /// [n, H·d] of the same dtype.
  Tensor& out;
  /// [H, n] fp32; −∞ for a query that sees but itself, against the rule.
  Tensor& logsumexp;
  int threads = 1;
};

/// One softmax over the keys of all rounds, in which a key counts as often as it is seen: that is
/// the sum over rounds with softmax weights of their logsumexp.
void sorted_chunks(const SortedChunks& spec, const SortedChunksArguments& in);

struct SortedChunksBackwardArguments {
  const Tensor& query;
  const Tensor& key;
  const Tensor& value;
  const Tensor& out;
  const Tensor& logsumexp;
  /// [n, H·d]
  const Tensor& out_gradient;
  /// [H, n, d] and [H, m, d], written whole.
  Tensor& query_gradient;
  Tensor& key_gradient;
  Tensor& value_gradient;
  int threads = 1;
};

void sorted_chunks_backward(const SortedChunks& spec, const SortedChunksBackwardArguments& in);

/// How often the queries of a head see each key of a document, [queries, keys]. A query that sees
/// none has once seen itself.
std::vector<std::uint16_t> times_seen(const SortedChunks& spec, Index document, Index head);

/// Useful work of a pass in FLOP, without sorting; the backward pass has two and a half times as
/// much.
double sorted_chunks_flops(const SortedChunks& spec);

}  // namespace longformer::kernels
