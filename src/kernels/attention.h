// Attention described as data, and the backends that execute it (design.md §4, paper §3.1 and
// Figure 1). One call is one layer.
//
// Dimensions: H heads, d head size, nq queries, nk keys, r reach, g global keys.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/random.h"
#include "core/tensor.h"

namespace longformer::kernels {

/// A reach that covers every key.
inline constexpr Index kUnlimitedReach = std::numeric_limits<Index>::max() / 4;

/// What one head sees: the query at position i sees the keys i + s·dilation with
/// −reach_left ≤ s ≤ reach_right. Dilation 1 means adjacent keys.
struct HeadPattern {
  Index reach_left = 0;
  Index reach_right = 0;
  Index dilation = 1;
};

/// One document of a ragged batch. Its queries and keys are consecutive rows; nothing is attended
/// across documents. The query ranges of the documents follow each other from row 0 on.
struct AttentionDocument {
  Index query_begin = 0;
  Index query_count = 0;
  Index key_begin = 0;
  Index key_count = 0;
  /// Position of the first query on the axis on which the first key of the document is 0.
  Index query_offset = 0;
};

/// What the rows of a batch are, whatever a layer makes of them. A forward pass builds them once;
/// all layers and their backward passes share them.
struct AttentionRows {
  std::vector<AttentionDocument> documents;
  /// Queries and keys are the same rows: a masked row is masked as a query too. Every document then
  /// has equal ranges of both and no query offset.
  bool self_attention = false;
  /// Key rows that every query of the same document sees; ascending, without masked ones.
  std::vector<Index> global_keys;
  /// One byte per key row, 0 = masked; empty when nothing is masked.
  std::vector<std::uint8_t> key_mask;

  Index query_count() const;
  Index key_count() const;
};

/// Rows of self-attention: document i has the rows starts[i] … starts[i + 1] − 1.
AttentionRows self_attention_rows(std::span<const Index> starts);

/// The rows as what the layers of a pass and their backward passes share.
std::shared_ptr<const AttentionRows> shared(AttentionRows rows);

/// How the queries at global positions are computed.
enum class GlobalQueries {
  /// Like every other query: own window and the global keys. (The Longformer layer overwrites these
  /// rows with the result of the global projections.)
  windowed,
  /// They see every key of their document, in every head.
  see_everything,
};

/// How the heads of one layer attend, whatever the rows are.
struct AttentionPattern {
  Index head_size = 0;
  std::vector<HeadPattern> heads;
  bool causal = false;
  GlobalQueries global_queries = GlobalQueries::windowed;
  /// Scores have a term of RelativePositions. Needs reach_right 0 in every head and no global keys.
  bool relative_positions = false;
  /// Dropout of the probabilities. The mask depends on its seed, the head, the query row and the
  /// key row alone (dropout_row), so that a backward pass finds the same one.
  Dropout dropout = {};
};

/// A pattern on rows: all that a backend needs to know. A key is visible to a query when it lies in
/// its document, is not masked, and is either in the window of the head or a global key; with
/// `causal` no key after the query is visible at all. Each visible key counts once. A query that
/// sees no key, and a query whose own row is masked in self-attention, gets a row of zeros.
struct AttentionSpec : AttentionPattern {
  /// Never null in a spec that runs.
  std::shared_ptr<const AttentionRows> rows;
};

/// The dropout masks of one query: its columns are key rows.
inline DropoutRow dropout_row(const Dropout& dropout, Index head, Index query_row) {
  return dropout.row((static_cast<std::uint64_t>(head) << 40) +
                     static_cast<std::uint64_t>(query_row));
}

/// Positions as in Transformer-XL (spec.md D.2, G.1): with t the dilation steps from key j back to
/// query i, the score is ((q_i + u)·k_j + (q_i + v)·r_t) / √d.
struct RelativePositions {
  const Tensor& content_bias;   ///< u [H, d] fp32
  const Tensor& position_bias;  ///< v [H, d] fp32
  /// r [H, m, d] of the dtype of the queries; row t belongs to the distance t · dilation of its
  /// head. m is above every t that occurs.
  const Tensor& keys;
};

/// Self-attention over one document of n rows where every head has the same pattern.
AttentionSpec self_attention(Index n, Index heads, Index head_size, HeadPattern pattern);

/// Throws Error unless the spec is consistent in itself (ranges, equal ones where self-attention is
/// said, sorted globals, mask size, reaches ≥ 0, dilation ≥ 1).
void check(const AttentionSpec& spec);

/// Inputs are head-major, [H, n, d], fp32 or bf16 (all three alike); scores are scaled by 1/√d
/// here. out is token-major [nq, H·d] of the same dtype.
struct AttentionArguments {
  const Tensor& query;
  const Tensor& key;
  const Tensor& value;
  Tensor& out;
  /// Natural logarithm of each softmax denominator (with its maximum), [H, nq] fp32, −∞ for a query
  /// that sees no key; may be null.
  Tensor* logsumexp = nullptr;
  int threads = 1;
  /// Given exactly when the spec has relative positions.
  const RelativePositions* relative = nullptr;
};

struct RelativeGradients {
  Tensor& content_bias;   ///< [H, d] fp32
  Tensor& position_bias;  ///< [H, d] fp32
  Tensor& keys;           ///< [H, m, d] of the dtype of the queries
};

/// The inputs and results of a forward pass, the gradient of its output, and where the gradients of
/// its inputs go: shapes and dtypes are those of the inputs, what was there is overwritten.
struct AttentionBackwardArguments {
  const Tensor& query;
  const Tensor& key;
  const Tensor& value;
  const Tensor& out;
  const Tensor& logsumexp;
  /// [nq, H·d]. Rows of zeros, such as those of global queries whose output the layer has
  /// overwritten, cost next to nothing; their row of `out` is not used.
  const Tensor& out_gradient;
  Tensor& query_gradient;
  Tensor& key_gradient;
  Tensor& value_gradient;
  const RelativePositions* relative = nullptr;
  /// Null exactly when `relative` is.
  const RelativeGradients* relative_gradients = nullptr;
  int threads = 1;
};

/// `loop` goes diagonal by diagonal, `chunks` by overlapping blocks of twice the reach, `fused`
/// keeps an online softmax over tiles, `full` materialises all nq·nk scores of a head.
enum class AttentionBackend { loop, chunks, fused, full };

std::string_view name_of(AttentionBackend backend);
/// Parses loop, chunks, fused or full. Throws Error for anything else.
AttentionBackend attention_backend(const std::string& name);

/// Why the backend cannot run the spec; nothing when it can.
std::optional<std::string> why_not(AttentionBackend backend, const AttentionSpec& spec);

/// Runs the backend. Throws Error with the reason of why_not, or when shapes and dtypes disagree
/// with the spec.
void attention(AttentionBackend backend, const AttentionSpec& spec, const AttentionArguments& in);

/// The gradients of attention, whatever backend ran forward. Probabilities are computed again, tile
/// by tile; sums are in fp32. The same bits every time for the same number of threads. Throws Error
/// when shapes and dtypes disagree with the spec.
void attention_backward(const AttentionSpec& spec, const AttentionBackwardArguments& in);

/// Exact number of visible query–key pairs, summed over the heads: 4·d times it is the useful work
/// of a forward pass in FLOP.
double visible_pairs(const AttentionSpec& spec);

}  // namespace longformer::kernels
